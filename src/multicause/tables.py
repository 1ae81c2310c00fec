"""Reading and writing tables of numbers."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from multicause.array_files import open_array, split_place
from multicause.csv_files import check_header, read_csv, write_csv
from multicause.file_checks import (
    AUDIO,
    IMAGES,
    TABLES,
    PathLike,
    TableError,
    check_extension,
    check_file,
    need,
    reading,
    refuse_bomb,
)
from multicause.files import atomic_write

__all__ = ["AUDIO", "IMAGES", "TABLES", "TableError", "read_table", "write_table"]

_ZIP = b"PK"

Table = tuple[np.ndarray, list[str] | None]


def read_table(path: PathLike) -> Table:
    """Read a table of numbers, one data point per row.

    ========== ==========================================================================================
    .npy       one array
    .npz       the array named ``X`` (and names in ``columns``), or the only array
    .csv       numbers between commas, semicolons or tabs; with decimal commas, between one
               of the latter two. A first line that holds no number, or just counts the
               columns (0, 1, 2, …), is the header. ``nan`` and empty cells are missing
               values. A first column without a name that numbers the rows is left out
    .parquet   all columns numeric; needs ``pip install "multicause[tables]"``
    .h5, .h5ad one array, ``X`` or ``file.h5:/group/name``; .hdf5 and .zarr are the same. Needs
               ``pip install "multicause[arrays]"``
    ========== ==========================================================================================

    Parameters
    ----------
    path : str or path-like
        The file; its extension says how to read it.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        float32 when the file holds float32, else float64. A one-dimensional array is one column.
    feature_names : list of str or None
        The names of the columns, where the file has them.

    Raises
    ------
    TableError
        When the file is missing, empty, damaged or not a table of numbers.
    """
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": read_csv, ".parquet": _read_parquet}
    if split_place(path) is not None:
        stored, names = open_array(path)
        array = np.asarray(stored[...])
    else:
        path = Path(path)
        check_file(path, TABLES)
        array, names = readers[path.suffix.lower()](path)
    X = _as_float_matrix(Path(path), array)
    if names is not None and len(names) != X.shape[1]:
        hint = " If these are decimal commas, put semicolons between the numbers." if X.shape[1] > len(names) else ""
        raise TableError(f"'{path}' has {X.shape[1]} columns of numbers, but {len(names)} column names.{hint}")
    return X, names


def write_table(path: PathLike, array: np.ndarray, column_names: Sequence[str] | None = None) -> None:
    """Write a table of numbers; a table of the same name is replaced in one step.

    Parameters
    ----------
    path : str or path-like
        The file; its extension (.npy, .npz, .csv or .parquet) says how to write it.
    array : ndarray of shape (n_samples, n_columns) or (n_samples,)
        Numbers or booleans. Every format keeps them to the last bit.
    column_names : sequence of str, optional
        A name per column. A .npy file has no place for them: there they are left out. A .parquet file cannot do
        without: there the default is x0, x1, ...

    Raises
    ------
    TableError
        When the extension is not known, or `array` and `column_names` do not make a table.
    """
    path = Path(path)
    writers = {".npy": _npy_writer, ".npz": _npz_writer, ".csv": _csv_writer, ".parquet": _parquet_writer}
    check_extension(path, TABLES)
    array = np.asarray(array)
    _check_numeric(f"The array for '{path}'", array)
    names = None if column_names is None else [str(name) for name in column_names]
    n_columns = array.shape[1] if array.ndim == 2 else 1
    if names is not None and len(names) != n_columns:
        raise TableError(
            f"column_names must hold a name for each of the {n_columns} columns of array, got {len(names)}."
        )
    atomic_write(path, writers[path.suffix.lower()](array, names))


def _check_numeric(what: str, array: np.ndarray) -> None:
    if array.dtype.kind not in "biuf":
        raise TableError(f"{what} has dtype '{array.dtype}', wanted real numbers. Convert it with array.astype(float).")
    if array.ndim not in (1, 2):
        raise TableError(f"{what} has shape {array.shape}, wanted two dimensions: a row per data point. Reshape it.")


def _as_float_matrix(path: Path, array: np.ndarray) -> np.ndarray:
    _check_numeric(f"The array in '{path}'", array)
    if array.size == 0:
        raise TableError(f"The array in '{path}' is empty: its shape is {array.shape}.")
    dtype = np.float32 if array.dtype.kind == "f" and array.itemsize == 4 else np.float64
    return np.ascontiguousarray(array.reshape(len(array), -1), dtype=dtype)


def _read_array(path: Path, handle: IO[bytes], size: int) -> np.ndarray:
    """An array in NumPy's format, out of `size` bytes, whose header does not lie."""
    major, minor = np.lib.format.read_magic(handle)
    if (major, minor) not in ((1, 0), (2, 0)):
        raise TableError(f"'{path}' cannot be read: version {major}.{minor} of NumPy's format is for other arrays.")
    read_header = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(handle)
    if dtype.hasobject:
        raise TableError(
            f"'{path}' cannot be read: it holds an object array, wanted numbers. Convert it with array.astype(float) "
            "and save it again."
        )
    n_bytes, held = math.prod(shape) * dtype.itemsize, size - handle.tell()
    if min(shape, default=0) < 0 or n_bytes > held:
        raise TableError(
            f"'{path}' cannot be read: its array of shape {shape} takes {n_bytes:,} bytes, but {held:,} are there. "
            "The file is cut short or damaged."
        )
    handle.seek(0)
    return np.lib.format.read_array(handle, allow_pickle=False)


def _starts_with(path: Path, magic: bytes) -> bool:
    with open(path, "rb") as handle:
        return handle.read(len(magic)) == magic


def _read_npy(path: Path) -> Table:
    if _starts_with(path, _ZIP):
        raise TableError(f"'{path}' is a .npz archive by its content. Rename it to end in .npz.")
    if not _starts_with(path, np.lib.format.MAGIC_PREFIX):
        raise TableError(f"'{path}' cannot be read: it is not a NumPy file.")
    with reading(path), open(path, "rb") as handle:
        return _read_array(path, handle, path.stat().st_size), None


def _read_npz(path: Path) -> Table:
    if _starts_with(path, np.lib.format.MAGIC_PREFIX):
        raise TableError(f"'{path}' is a single .npy array by its content. Rename it to end in .npy.")
    if not _starts_with(path, _ZIP):
        raise TableError(f"'{path}' cannot be read: it is not a NumPy file.")
    with reading(path), zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        key = "X" if "X" in names else names[0] if len(names) == 1 else None
        if key is None:
            raise TableError(f"'{path}' holds the arrays {names}: name the one to read 'X', or keep one only.")
        columns = None
        if key == "X" and "columns" in names:
            columns = [str(name) for name in _read_member(path, archive, "columns")]
        return _read_member(path, archive, key), columns


def _read_member(path: Path, archive: zipfile.ZipFile, key: str) -> np.ndarray:
    info = archive.NameToInfo.get(f"{key}.npy") or archive.NameToInfo[key]
    refuse_bomb(path, info.file_size)
    with archive.open(info) as handle:
        return _read_array(path, handle, info.file_size)


def _read_parquet(path: Path) -> Table:
    pandas = need("pandas", f"'{path}'", "tables")
    need("pyarrow", f"'{path}'", "tables")
    parquet = need("pyarrow.parquet", f"'{path}'", "tables")
    with reading(path):
        metadata = parquet.read_metadata(path)
        refuse_bomb(path, 8 * metadata.num_rows * metadata.num_columns)
        frame = pandas.read_parquet(path, engine="pyarrow")
    text = [str(name) for name, dtype in frame.dtypes.items() if not pandas.api.types.is_any_real_numeric_dtype(dtype)]
    text = [name for name in text if not pandas.api.types.is_bool_dtype(frame[name])]
    if text:
        raise TableError(f"'{path}' has columns that are not numbers: {text}. Leave them out or encode them.")
    dtype = np.float32 if all(dtype == np.float32 for dtype in frame.dtypes) else np.float64
    return frame.to_numpy(dtype=dtype), [str(name) for name in frame.columns]


Writer = Callable[[BinaryIO], object]


def _npy_writer(array: np.ndarray, names: list[str] | None) -> Writer:
    return lambda handle: np.save(handle, array, allow_pickle=False)


def _npz_writer(array: np.ndarray, names: list[str] | None) -> Writer:
    arrays = {"X": array} if names is None else {"X": array, "columns": np.array(names, dtype=str)}
    return lambda handle: np.savez(handle, allow_pickle=False, **arrays)


def _csv_writer(array: np.ndarray, names: list[str] | None) -> Writer:
    check_header(names)
    return lambda handle: write_csv(handle, array, names)


def _parquet_writer(array: np.ndarray, names: list[str] | None) -> Writer:
    pandas = need("pandas", "A .parquet file", "tables")
    need("pyarrow", "A .parquet file", "tables")
    table = array.reshape(len(array), -1)
    names = names or [f"x{column}" for column in range(table.shape[1])]
    if len(set(names)) < len(names):
        raise TableError(
            "column_names must not repeat a name in a .parquet file. Write a .csv or .npz file, or rename."
        )
    buffer = io.BytesIO()
    pandas.DataFrame(table, columns=names).to_parquet(buffer, engine="pyarrow", index=False)
    return lambda handle: handle.write(buffer.getbuffer())
