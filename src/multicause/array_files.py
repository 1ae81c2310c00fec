"""Arrays in HDF5 files, AnnData's among them, and in Zarr stores: read by rows, never held whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from multicause.file_checks import ARRAYS, TableError, need, reading

_HDF5 = (".h5", ".hdf5", ".h5ad")
_PLACE = re.compile(r"(?P<file>.*(?:" + "|".join(re.escape(end) for end in ARRAYS) + r"))(?::(?P<name>.+))?")


def split_place(path: Any) -> tuple[Path, str | None] | None:
    """The file and the array in it that `data.h5:/group/X` names; None where it is no file of arrays."""
    found = _PLACE.fullmatch(str(path))
    return None if found is None else (Path(found["file"]), found["name"])


def open_array(path: Any) -> tuple[Any, list[str] | None]:
    """An array of two dimensions that is still on disk, and the names of its columns, where an AnnData file has them.

    Parameters
    ----------
    path : str or path-like
        A .h5, .hdf5, .h5ad or .zarr file. Where it holds several arrays, X is taken, or what follows a colon:
        ``data.h5:/group/counts``.

    Returns
    -------
    array : dataset of h5py or array of Zarr
        Give it to `fit` as it is: rows are read as they are needed.
    names : list of str or None
        The names of its columns.
    """
    place = split_place(path)
    if place is None:
        raise TableError(f"'{path}' has none of the extensions {', '.join(ARRAYS)}.")
    file, name = place
    if not file.exists():
        raise TableError(f"There is no file '{file}'.")
    with reading(file):
        store = _open(file)
        array = _pick(file, store, name)
    if len(array.shape) != 2 or array.dtype.kind not in "fiub":
        raise TableError(
            f"The array '{array.name}' in '{file}' has shape {array.shape} and type {array.dtype}, wanted numbers with "
            "a row per data point."
        )
    return array, _names(store, array) if file.suffix.lower() == ".h5ad" else None


def _open(file: Path) -> Any:
    if file.suffix.lower() in _HDF5:
        return need("h5py", f"'{file}'", "arrays").File(file, "r")
    return need("zarr", f"'{file}'", "arrays").open(file, mode="r")


def _pick(file: Path, store: Any, name: str | None) -> Any:
    """The array that is asked for, else X, else the only one of two dimensions."""
    if hasattr(store, "shape"):  # a Zarr store that is one array
        return store
    if name is None and "X" in store and hasattr(store["X"], "shape"):
        return store["X"]
    known = _arrays(store)
    if name is None and "X" in store and file.suffix.lower() == ".h5ad":
        raise TableError(f"X in '{file}' is sparse. Write it out: adata.X = adata.X.toarray().")
    if name is None and len(known) == 1:
        return store[known[0]]
    if name is None or name.strip("/") not in known:
        told = ", ".join(known[:20]) or "none of two dimensions"
        asked = "which array to read is not said" if name is None else f"there is no array '{name}'"
        raise TableError(f"In '{file}' {asked}. It holds: {told}. Name one: {file}:{known[0] if known else 'X'}.")
    return store[name.strip("/")]


def _arrays(group: Any, prefix: str = "") -> list[str]:
    """The names of all arrays of two dimensions in a group and those within it."""
    found = []
    for name in sorted(group.keys()):
        item = group[name]
        if not hasattr(item, "shape"):
            found += _arrays(item, f"{prefix}{name}/")
        elif len(item.shape) == 2:
            found.append(f"{prefix}{name}")
    return found


def _names(store: Any, array: Any) -> list[str] | None:
    """AnnData keeps the names of its variables in var, under the name that an attribute tells."""
    variables = store.get("var")
    index = None if variables is None else variables.get(variables.attrs.get("_index", "_index"))
    if index is None or not hasattr(index, "shape") or index.shape != array.shape[1:]:
        return None
    return [name.decode() if isinstance(name, bytes) else str(name) for name in index[...]]
