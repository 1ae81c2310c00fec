"""Writing files so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write"]


def atomic_write(path: str | os.PathLike[str], data: bytes | Callable[[BinaryIO], object]) -> None:
    """Replace the content of a file in one step.

    The content goes to a temporary file in the same folder, is flushed to the disk, and then takes the name `path`.
    When anything fails before that, the temporary file is removed and the old file, if any, is left as it was.

    Parameters
    ----------
    path : str or path-like
        The file to write. Its folder must exist. A symbolic link is followed; an existing file keeps its permissions.
        A device or a pipe is written to, not replaced.
    data : bytes or callable
        The content, or a function that writes it to the open binary file it is given.

    Raises
    ------
    FileNotFoundError
        When the folder of `path` does not exist.
    IsADirectoryError
        When `path` is a folder.
    """
    if _is_special(path):
        whole = io.BytesIO()  # whoever writes may ask where it is, or go back: a pipe cannot say
        _write(whole, data)
        with open(path, "wb") as handle:
            handle.write(whole.getbuffer())
        return
    target = Path(os.path.realpath(path))
    _check_target(path, target)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as handle:
            _write(handle, data)
            os.fsync(handle.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _is_special(path: str | os.PathLike[str]) -> bool:
    """Whether there is a device, a pipe or the like, to which one can only write."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write(handle: BinaryIO, data: bytes | Callable[[BinaryIO], object]) -> None:
    if callable(data):
        data(handle)
    else:
        handle.write(data)
    handle.flush()


def _check_target(path: str | os.PathLike[str], target: Path) -> None:
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"Cannot write '{os.fspath(path)}': the folder '{target.parent}' does not exist. Create it first."
        )
    if target.is_dir():
        raise IsADirectoryError(f"Cannot write '{os.fspath(path)}': it is a folder. Give the path of a file.")


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows cannot open a folder, and its rename needs no such call
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def user_cache_folder() -> Path:
    """The folder for what can be made again: compiled kernels, downloads. MULTICAUSE_CACHE moves it."""
    if chosen := os.environ.get("MULTICAUSE_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or _home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = _home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or _home() / ".cache")
    return base / "multicause"


def _home() -> Path:
    """The user's folder; of one whom the system does not know, as in some containers, none that could be written to."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull)
