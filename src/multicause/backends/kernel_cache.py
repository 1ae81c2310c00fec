"""Compiled kernels on disk: files that are whole or not used at all. Compiling again is always the way out.

Numba's own cache trusts what it reads, fails where it cannot write, and lets two processes that compile at once take
one name for two kernels. Here a file is named after what was compiled, has a digest, and is renamed into place.

Nor do Numba's kernels have the same bits in every process. A kernel comes with copies of all that it calls, optimised
with it; but a copy gives way to the function itself, optimised alone, wherever a process has compiled or loaded that
first. Rounding errors then depend on what was called before. Here a kernel calls its own copies.
"""

import os
import pickle
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import Linkage
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.serialize import dumps

from multicause.backends.compilation import compilation
from multicause.files import atomic_write

ADVICE = "Set MULTICAUSE_CACHE to a folder with room that can be written to; `multicause doctor` shows the one in use."
_DIGEST_SIZE = sha256().digest_size


class KernelFiles(IndexDataCacheFile):
    """One file for each kernel and each signature it was compiled for; there is no index."""

    def __init__(self, folder: Path, name: str):
        super().__init__(str(folder), name, source_stamp=None)  # the folder is named after the sources
        self._folder, self._name = folder, name

    def load(self, key: Any) -> Any:
        """What was saved under the key; None where there is no such file, or it is not whole."""
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        digest, payload = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
        if sha256(payload).digest() != digest:
            return None
        found, compiled = pickle.loads(payload)
        return compiled if found == key else None

    def save(self, key: Any, compiled: Any) -> None:
        payload = dumps((key, compiled))
        atomic_write(self._path(key), sha256(payload).digest() + payload)

    def flush(self) -> None:
        for path in self._folder.glob(f"{self._name}.*.kernel"):
            path.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        digest = sha256(f"{numba.__version__} {key}".encode()).hexdigest()
        return self._folder / f"{self._name}.{digest[:24]}.kernel"


class KernelCache(FunctionCache):
    """Numba's cache of one function, on such files; where they cannot be written, the process goes on without."""

    def __init__(self, py_func: Callable[..., Any]):
        super().__init__(py_func)
        folder = Path(self.cache_path).parent  # Numba's own is named after where the sources lie: a copy compiles anew
        self._cache_file = KernelFiles(folder, self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            compilation.began()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Called by Numba once a kernel is compiled."""
        compilation.ended()
        try:
            super().save_overload(sig, data)
        except OSError as error:
            warn_once(f"A compiled kernel could not be kept in '{self.cache_path}' ({error.strerror or error}).")


class KernelLibrary(JITCodeLibrary):
    """The code of one kernel, in which nothing that another one brings is taken for its own."""

    def _optimize_final_module(self) -> None:
        super()._optimize_final_module()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage is Linkage.linkonce_odr:  # a copy of a callee
                function.linkage = "internal"


class KernelCompiler(Compiler):
    """Numba's compiler, into such a library."""

    def define_pipelines(self) -> Any:
        library = KernelLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        library.enable_object_caching()
        self.state.library = library
        return super().define_pipelines()


def use_kernel_caches(module: Any) -> None:
    """Give every compiled function of a module such a cache, and such a compiler."""
    for function in vars(module).values():
        if isinstance(getattr(function, "_cache", None), FunctionCache) and not isinstance(
            function._cache, KernelCache
        ):
            function._cache = KernelCache(function.py_func)
            function._compiler.pipeline_class = KernelCompiler


def is_writable(folder: Path) -> bool:
    """Whether files can be made in the folder, which is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.probe"
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


_warned = False


def warn_once(what: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        message = f"{what} Kernels are compiled anew in each process, which takes seconds. {ADVICE}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
