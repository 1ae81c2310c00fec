"""Reading and writing tables of numbers."""

from __future__ import annotations

import csv
import importlib
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from multicause.files import atomic_write

__all__ = ["AUDIO", "IMAGES", "TABLES", "TableError", "read_table", "write_table"]

TABLES = (".npy", ".npz", ".csv", ".parquet")
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
AUDIO = (".wav", ".flac")

LARGEST_UNPACKED, LARGEST_RATIO = 2**28, 100  # bytes that any file may unpack to; larger files: times their size
_ZIP = b"PK"

Table = tuple[np.ndarray, list[str] | None]
PathLike = str | os.PathLike[str]


class TableError(ValueError):
    """A file that cannot be read as the table, picture or sound it should be."""


def read_table(path: PathLike) -> Table:
    """Read a table of numbers, one data point per row.

    ========== ==========================================================================================
    .npy       one array
    .npz       the array named ``X`` (and names in ``columns``), or the only array
    .csv       numbers between commas; a first line that holds no number, or just counts
               the columns (0, 1, 2, …), is the header. Write ``nan`` for
               a missing value: an empty cell is an error
    .parquet   all columns numeric; needs ``pip install "multicause[tables]"``
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
    path = Path(path)
    readers = {".npy": _read_npy, ".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}
    check_file(path, TABLES)
    array, names = readers[path.suffix.lower()](path)
    X = _as_float_matrix(path, array)
    if names is not None and len(names) != X.shape[1]:
        raise TableError(f"'{path}' has {X.shape[1]} columns of numbers, but {len(names)} column names.")
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


def check_extension(path: Path, known: tuple[str, ...]) -> None:
    """Refuse a file whose name does not end in one of the known extensions."""
    extension = path.suffix.lower()
    if extension in known:
        return
    other = {**dict.fromkeys(TABLES, "table"), **dict.fromkeys(IMAGES, "image"), **dict.fromkeys(AUDIO, "audio")}
    hint = f" Read it with read_{other[extension]}." if extension in other else ""
    raise TableError(f"'{path}' has the extension '{extension}', wanted one of {', '.join(known)}.{hint}")


def check_file(path: Path, known: tuple[str, ...]) -> None:
    """Refuse a file that has another extension, is missing or is empty."""
    check_extension(path, known)
    if not path.is_file():
        raise TableError(f"There is no file '{path}'.")
    if path.stat().st_size == 0:
        raise TableError(f"The file '{path}' is empty.")


def need(module: str, what: str, extra: str) -> Any:
    """A module that an extra installs; without it, the command that does."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: soundfile without its shared library
        raise ImportError(
            f'{what} needs {module}, which is not installed here: pip install "multicause[{extra}]"'
        ) from error


def one_line(error: BaseException) -> str:
    """An error of another library as one line."""
    return " ".join(str(error).split()) or type(error).__name__


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


@contextmanager
def reading(path: Path, kind: str = "") -> Iterator[None]:
    """A context in which a library reads a file: of a damaged one it may raise anything, of which we make one error."""
    try:
        yield
    except TableError:
        raise
    except Exception as error:
        raise TableError(f"'{path}' cannot be read{kind}: {one_line(error):.300}") from error


def refuse_bomb(path: Path, n_bytes: int) -> None:
    """A small file that says it holds much more than it can is damaged, or meant to exhaust the memory."""
    allowed = max(LARGEST_UNPACKED, LARGEST_RATIO * path.stat().st_size)
    if n_bytes > allowed:
        raise TableError(
            f"'{path}' has {path.stat().st_size:,} bytes and says that it unpacks to {n_bytes:,}; {allowed:,} are "
            "allowed. Cut the data into several files, or save them without compression."
        )


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


def _read_csv(path: Path) -> Table:
    skip = 0
    try:
        names, skip = _csv_header(path)
        X = np.loadtxt(path, delimiter=",", skiprows=skip, quotechar='"', comments=None, ndmin=2, encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"'{path}' is not text in UTF-8: {error.reason} at byte {error.start}.") from error
    except TableError:
        raise
    except (ValueError, MemoryError) as error:
        raise _csv_fault(path, skip) or TableError(f"'{path}' cannot be read: {one_line(error):.300}") from error
    return X, names


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each line that is not blank."""
    with open(path, encoding="utf-8-sig", newline="") as handle:
        reader = csv.reader(handle)
        try:
            for cells in reader:
                if cells:
                    yield reader.line_num, cells
        except csv.Error as error:
            raise TableError(f"'{path}' cannot be read: {one_line(error)} in line {reader.line_num}.") from error


def _csv_header(path: Path) -> tuple[list[str] | None, int]:
    """Return the column names, and how many lines they take: (None, 0) when the first line is data."""
    rows = _csv_rows(path)
    line, first = next(rows, (0, []))
    if not first:
        raise TableError(f"The file '{path}' is empty.")
    if any(_is_number(cell) for cell in first) and not _counts_columns(first):
        return None, 0
    if next(rows, None) is None:
        raise TableError(f"'{path}' holds a header, but no row of numbers.")
    for column, name in enumerate(first, start=1):
        if not name.strip():
            raise TableError(
                f"'{path}' has no name for column {column} in its header, line {line}. Name it, "
                "or leave it out if it numbers the rows (pandas: to_csv(index=False))."
            )
    return [name.strip() for name in first], line


def _counts_columns(cells: list[str]) -> bool:
    """Whether a first line merely numbers three or more columns, 0, 1, 2, … or 1, 2, 3, …: a header without names."""
    numbers = [str(i) for i in range(len(cells) + 1)]
    return len(cells) > 2 and [cell.strip() for cell in cells] in (numbers[:-1], numbers[1:])


def _csv_fault(path: Path, skip: int) -> TableError | None:
    """Find the first cell that keeps a CSV file from being a table of numbers."""
    first_line, width = 0, 0
    for line, cells in _csv_rows(path):
        first_line, width = (first_line, width) if width else (line, len(cells))
        if len(cells) != width:
            return TableError(f"'{path}' has {len(cells)} columns in line {line}, but {width} in line {first_line}.")
        for column, cell in enumerate(cells if line > skip else [], start=1):
            if not _is_number(cell):
                what = (
                    f"{cell!r:.80}, which is not a number" if cell.strip() else "nothing: write nan for a missing value"
                )
                return TableError(f"'{path}' has in line {line}, column {column} {what}.")
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # float("1_000") is Python's notation, not a table's


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
    for name in names or []:
        if _is_number(name) or not name.strip():
            raise TableError(f"column_names must not hold {name!r}: in a .csv header it reads as data. Say 'x{name}'.")
    table = array.reshape(len(array), -1)
    table = table.astype(np.int8) if table.dtype == bool else table

    def write(handle: BinaryIO) -> None:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([names] if names else [])
        writer.writerows(row.astype(str) for row in table)  # the shortest text that reads back as the same number
        text.flush()
        text.detach()

    return write


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
