"""Kernels for the CPU, compiled by Numba and cached on disk under a name that follows their sources."""

import atexit
import importlib
import os
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import ModuleType

from multicause import interrupts
from multicause.files import user_cache_folder

_HERE = Path(__file__).parent
_loading = Lock()
_loaded: dict[str, ModuleType] = {}


def source_hash() -> str:
    """Hash of every kernel source and of how it is compiled: Numba alone does not notice that a callee in another file
    has changed."""
    digest = sha256()
    for source in [*sorted(_HERE.glob("*.py")), _HERE.parent / "kernel_cache.py"]:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where the compiled kernels of exactly these sources live (below NUMBA_CACHE_DIR where that is set)."""
    from numba.core import config

    base = Path(config.CACHE_DIR) if config.CACHE_DIR else user_cache_folder() / "numba"
    return base / f"multicause-{source_hash()}"


def _begin_in_child() -> None:
    """A thread that was loading a kernel is not there after a fork, and will never be done."""
    global _loading
    _loading = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


def load(name: str) -> ModuleType:
    """Import the kernel module `name`, its functions bound to our cache folder; nothing is compiled before a call."""
    if name in _loaded:
        return _loaded[name]
    with interrupts.held(), _loading:  # an import that broke off could not be done again
        if name not in _loaded:
            from numba.core import config

            from multicause.backends.kernel_cache import use_kernel_caches

            before = config.CACHE_DIR
            config.CACHE_DIR = str(_usable_folder())  # read when a function is decorated
            try:
                module = importlib.import_module(f"{__name__}.{name}")
                for imported in [m for key, m in sys.modules.items() if key.startswith(f"{__name__}.")]:
                    use_kernel_caches(imported)
            finally:
                config.CACHE_DIR = before
            _loaded[name] = module
        return _loaded[name]


@cache
def _usable_folder() -> Path:
    """The cache folder, or one that ends with this process where that cannot be written to."""
    from multicause.backends.kernel_cache import is_writable, warn_once

    folder = cache_folder()
    if is_writable(folder):
        return folder
    warn_once(f"The folder of compiled kernels, '{folder}', cannot be written to.")
    temporary = TemporaryDirectory(prefix="multicause-")
    atexit.register(temporary.cleanup)
    return Path(temporary.name)
