"""What all readers of files refuse, in one kind of error: missing, empty, damaged files, and those of another kind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TABLES = (".npy", ".npz", ".csv", ".parquet")  # that can be written, too
ARRAYS = (".h5", ".hdf5", ".h5ad", ".zarr")  # that are read by rows
IMAGES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
AUDIO = (".wav", ".flac")

PathLike = str | os.PathLike[str]
LARGEST_UNPACKED, LARGEST_RATIO = 2**28, 100  # bytes that any file may unpack to; larger files: times their size


class TableError(ValueError):
    """A file that cannot be read as the table, picture or sound it should be."""


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
