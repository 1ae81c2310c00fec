"""Data and models as the commands read them, checked against each other."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multicause.cli.parameters import STREAM

if TYPE_CHECKING:
    import numpy as np

MAGIC = {b"\x93NUMPY": ".npy", b"PK": ".npz", b"PAR1": ".parquet"}  # first bytes of what is no text


def read_data(path: Path, estimator: Any) -> tuple[Any, list[str] | None]:
    """Read a table and its column names, where it has them; missing values only where the estimator takes them.

    Arrays in HDF5 and Zarr files stay on disk: what is given reads their rows.
    """
    import numpy as np

    from multicause.array_files import open_array, split_place
    from multicause.execution import row_source
    from multicause.tables import TableError

    if split_place(path) is not None:
        stored, names = open_array(path)
        return row_source(stored), names
    X, names = _read_table(path)
    takes_missing = estimator.__sklearn_tags__().input_tags.allow_nan
    wrong = np.argwhere(np.isinf(X) if takes_missing else ~np.isfinite(X))
    if len(wrong):
        row, column = wrong[0]
        missing = "" if takes_missing or np.isinf(X).any() else " --model gsc and --model linca take missing values;"
        raise TableError(
            f"'{path}' holds {X[row, column]} at row {row}, column {column} (counted from 0), and {len(wrong)} such "
            f"values in all.{missing} fill them in or leave the rows out.".replace(". fill", ". Fill")
        )
    return X, names


def _read_table(path: Path) -> tuple[np.ndarray, list[str] | None]:
    """A table from a file, or from standard input, whose first bytes say what it is."""
    from multicause.tables import TableError, read_table

    if path != STREAM:
        return read_table(path)
    if sys.stdin is None:  # Python has none where it is closed
        raise TableError("Standard input is closed, but the data are to come from there. Give a file, or a pipe.")
    content = sys.stdin.buffer.read()
    ending = next((ending for magic, ending in MAGIC.items() if content.startswith(magic)), ".csv")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"stdin{ending}"
        file.write_bytes(content)
        try:
            return read_table(file)
        except TableError as error:
            raise TableError(str(error).replace(f"'{file}'", "standard input")) from error


def read_data_for(estimator: Any, path: Path) -> Any:
    """Read a table whose columns are those that the estimator was fitted to."""
    X, names = read_data(path, estimator)
    n_features = estimator.n_features_in_
    if X.shape[1] != n_features:
        raise ValueError(f"'{path}' has {X.shape[1]} columns, but the model was fitted to {n_features}.")
    fitted = column_names(estimator)
    if names is not None and fitted is not None and names != fitted:
        column = next(i for i, (name, wanted) in enumerate(zip(names, fitted, strict=True)) if name != wanted)
        raise ValueError(
            f"Column {column} of '{path}' is named {names[column]!r}, but the model was fitted to "
            f"{fitted[column]!r} there. Bring the columns into the order of the fit."
        )
    return X


def column_names(estimator: Any) -> list[str] | None:
    """The names of the columns that the estimator was fitted to, where they had names."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def load(path: Path) -> Any:
    """Read a model file; its columns are checked by `read_data_for`, not by scikit-learn, which wants data frames."""
    from multicause.persistence import load_model

    return load_model(path)
