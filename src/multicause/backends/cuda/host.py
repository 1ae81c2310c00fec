"""The same templates compiled for the host, their lanes taken one after the other: for tests, not for speed."""

import ctypes
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from multicause.backends.cuda.runtime import Runtime

_CALL = """
#include <utility>
template <typename... A, size_t... I>
static void pass_on(void (*function)(A...), void** arguments, std::index_sequence<I...>) {
    function(*static_cast<A*>(arguments[I])...);
}
template <typename... A> static void pass_all(void (*function)(A...), void** arguments) {
    pass_on(function, arguments, std::index_sequence_for<A...>{});
}
extern "C" void call(void** arguments) { pass_all(&EXPRESSION, arguments); }
"""


def compiler() -> str | None:
    """A C++ compiler, if there is one."""
    return which("g++") or which("clang++")


class HostRuntime(Runtime):
    """NumPy, and kernels built by the system's compiler into a folder."""

    xp = np

    def __init__(self, source: str, folder: Path):
        self._source, self._folder = source, folder
        self._kernel = cache(self._built)

    def _run(self, expression: str, n_threads: int, arguments: list[Any]) -> None:
        values = [a if isinstance(a, np.generic) else _pointer(a) for a in arguments]
        cells = [ctypes.create_string_buffer(np.asarray(value).tobytes()) for value in values]
        self._kernel(expression)((ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells)))

    def _built(self, expression: str) -> Any:
        text = self._source + _CALL.replace("EXPRESSION", expression)
        library = self._folder / f"{sha256(text.encode()).hexdigest()[:24]}.so"
        if not library.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=self._folder) as folder:  # several processes may build the same one at once
                written, built = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
                written.write_text(text)
                command = [compiler() or "g++", "-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
                subprocess.run([*command, str(written), "-o", str(built)], check=True)
                built.rename(library)
        return ctypes.CDLL(str(library)).call

    def to_host(self, array: Any) -> np.ndarray:
        return np.asarray(array)

    def send(self, rows: np.ndarray) -> "SentByHost":
        return SentByHost(np.ascontiguousarray(rows))

    def synchronise(self) -> None:
        pass

    def free_bytes(self) -> int:
        return self.total_bytes()

    def total_bytes(self) -> int:
        return 2**33


class SentByHost(NamedTuple):
    array: np.ndarray

    def arrived(self) -> np.ndarray:
        return self.array


def _pointer(array: np.ndarray) -> np.uint64:
    assert array.flags.c_contiguous
    return np.uint64(array.ctypes.data)
