"""Where the real data lies: a folder named by the environment variable MULTICAUSE_DATA."""

import os
from pathlib import Path

VARIABLE = "MULTICAUSE_DATA"


class DatasetNotFound(FileNotFoundError):
    """A data file is wanted that is not on this machine."""


def data_folder() -> Path | None:
    """Folder that MULTICAUSE_DATA names, or None where the variable is unset or empty.

    Returns
    -------
    pathlib.Path or None
        The folder as named, whether it exists or not.
    """
    named = os.environ.get(VARIABLE, "")
    return Path(named).expanduser() if named else None


def locate(name: str) -> Path:
    """Path of one data file.

    Parameters
    ----------
    name : str
        Path inside the data folder, with forward slashes, such as "mnist/mnist_t10k.npz".

    Returns
    -------
    pathlib.Path
        An existing file.

    Raises
    ------
    DatasetNotFound
        Where MULTICAUSE_DATA is not set, or its folder does not hold the file.
    """
    folder = data_folder()
    if folder is None:
        raise DatasetNotFound(
            f"The data file {name!r} was asked for, but the environment variable {VARIABLE} is not set. "
            f"Set {VARIABLE} to the folder that holds {name!r}."
        )
    path = folder / name
    if not path.is_file():
        raise DatasetNotFound(
            f"The data file {name!r} was asked for, but {VARIABLE}={str(folder)!r} does not hold it. "
            f"Put the file there, or set {VARIABLE} to the folder that holds {name!r}."
        )
    return path
