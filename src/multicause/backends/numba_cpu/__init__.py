"""Kernels for the CPU, compiled by Numba and cached on disk under a name that follows their sources."""

import importlib
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from multicause.files import user_cache_folder

_HERE = Path(__file__).parent


def source_hash() -> str:
    """Hash of every kernel source: Numba alone does not notice that a callee in another file has changed."""
    digest = sha256()
    for source in sorted(_HERE.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where the compiled kernels of exactly these sources live (below NUMBA_CACHE_DIR where that is set)."""
    from numba.core import config

    base = Path(config.CACHE_DIR) if config.CACHE_DIR else user_cache_folder() / "numba"
    return base / f"multicause-{source_hash()}"


def load(name: str) -> ModuleType:
    """Import the kernel module `name`, its functions bound to our cache folder; nothing is compiled before a call."""
    full_name = f"{__name__}.{name}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    from numba.core import config

    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_folder())  # read when a function is decorated
    try:
        return importlib.import_module(full_name)
    finally:
        config.CACHE_DIR = before
