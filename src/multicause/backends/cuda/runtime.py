"""What kernels run on: arrays of one kind, and a way to launch templates over them."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np

BLOCK = 128  # threads
SCALARS = {np.dtype(np.float64): "double", np.dtype(np.float32): "float"}
INSTALL = "pip install 'multicause[cuda]'"
_LIBRARY = re.compile(r"lib\w+\.so|\.dll", re.IGNORECASE)
_MOST_BLOCKS = 2**31 - 1


class DeviceError(OSError):
    """The device failed, or has not enough memory; nothing on it can be relied upon.

    What a fit had learned by then is its `outcome`, where there is any.
    """

    outcome: Any = None


@contextmanager
def errors_translated() -> Iterator[None]:
    """A context, or a decorator, in which failures of a device are DeviceErrors that say what to do."""
    try:
        yield
    except Exception as error:
        told = _failure(error)
        if told is None:
            raise
        raise DeviceError(told) from error


def _failure(error: Exception) -> str | None:
    """What an error means where it is a device's: told by its class, since CuPy need not be there to ask."""
    kind, package = type(error).__name__, type(error).__module__.partition(".")[0]
    of_a_library = isinstance(error, ImportError) and _LIBRARY.search(str(error)) is not None
    if of_a_library or kind == "DynamicLibNotFoundError":
        return f"A library of CUDA cannot be loaded ({error}). Install it, {INSTALL}, or use device='cpu'."
    if package not in ("cupy", "cupy_backends"):
        return None
    if kind == "OutOfMemoryError" or "out of memory" in str(error):
        return (
            f"The GPU has not enough free memory ({error}). Close what else uses it, ask for fewer components or "
            "candidates, give float32 data, or use device='cpu'."
        )
    if kind in ("CompileException", "NVRTCError"):
        return f"A kernel could not be compiled for the GPU ({error}). Is CUDA whole? {INSTALL}, or use device='cpu'."
    return (
        f"The GPU failed ({error}). Start Python anew; if it happens again, look at `nvidia-smi`, or use device='cpu'."
    )


class Sent(Protocol):
    """Rows on their way to the device."""

    def arrived(self) -> Any: ...  # the rows there, for whatever is asked of the device from now on


class Runtime(ABC):
    """A module of arrays with NumPy's names, and kernels for them."""

    xp: Any
    errors_translated = staticmethod(errors_translated)

    @errors_translated()
    def launch(self, name: str, dtype: Any, sizes: tuple[int, ...], n_groups: int, lanes: int, *arguments: Any) -> None:
        """Run the template `name`<dtype, sizes...> for so many groups of lanes.

        Integers become 32-bit integers and floats the template's own; arrays must have the types that it asks for.
        """
        if n_groups == 0:
            return
        dtype = np.dtype(dtype)
        self._run(_expression(name, dtype, sizes), n_groups * lanes, [_typed(a, dtype) for a in arguments])

    def constant(self, function: Callable[..., np.ndarray], *arguments: Any) -> Any:
        """What a function says, on the device, where it is kept: it must be small, and always the same."""
        key = function, arguments
        if key not in self._constants:
            self._constants[key] = self.xp.asarray(function(*arguments))
        return self._constants[key]

    @cached_property
    def _constants(self) -> dict[Any, Any]:
        return {}

    @abstractmethod
    def _run(self, expression: str, n_threads: int, arguments: list[Any]) -> None: ...

    @errors_translated()
    def eigh(self, matrices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues in rising order, and eigenvectors, of many small symmetric matrices (C, D, D)."""
        values, vectors = self.xp.linalg.eigh(self.xp.asarray(matrices))
        return self.to_host(values), self.to_host(vectors)

    @abstractmethod
    def to_host(self, array: Any) -> np.ndarray: ...

    def read(self, array: Any) -> np.ndarray:
        """A copy of an array that is read again and again, beside the processor."""
        return np.array(self.to_host(array))

    @abstractmethod
    def synchronise(self) -> None:
        """Wait until all is done that was asked of the device."""

    @abstractmethod
    def send(self, rows: np.ndarray) -> "Sent":
        """Begin to copy rows to the device; it may be called in a thread of its own."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that can still be had."""

    @abstractmethod
    def total_bytes(self) -> int:
        """Memory that there is, whoever has it."""


@cache
def _expression(name: str, dtype: np.dtype, sizes: tuple[int, ...]) -> str:
    return f"{name}<{', '.join([SCALARS[dtype], *map(str, sizes)])}>"


def _typed(argument: Any, dtype: np.dtype) -> Any:
    if isinstance(argument, bool | int | np.integer):
        return np.int32(argument)
    return dtype.type(argument) if isinstance(argument, float) else argument


class CudaRuntime(Runtime):
    """A GPU, to which CuPy must be set; templates are compiled by NVRTC, and kept on disk by CuPy."""

    def __init__(self, source: str, device: int):
        import cupy

        self._device = cupy.cuda.Device(device)
        with self._device:
            self.xp, self._sending = cupy, cupy.cuda.Stream(non_blocking=True)
        self._landing: np.ndarray | None = None
        self._reading = Lock()
        self._kernel = cache(lambda expression: _compiled(cupy, source, expression))

    def _run(self, expression: str, n_threads: int, arguments: list[Any]) -> None:
        n_blocks = min(-(-n_threads // BLOCK), _MOST_BLOCKS)
        self._kernel(expression)((n_blocks,), (BLOCK,), tuple(arguments))

    @errors_translated()
    def to_host(self, array: Any) -> np.ndarray:
        return self.xp.asnumpy(array)

    @errors_translated()
    def read(self, array: Any) -> np.ndarray:
        if self._landing is None or self._landing.nbytes < array.nbytes:  # page-locked memory, which is slow to get
            self._landing = np.frombuffer(self.xp.cuda.alloc_pinned_memory(array.nbytes), np.uint8)
        landed = self._landing[: array.nbytes].view(array.dtype).reshape(array.shape)
        with self._reading:
            array.get(out=landed)
            return landed.copy()

    @errors_translated()
    def synchronise(self) -> None:
        self.xp.cuda.get_current_stream().synchronize()

    @errors_translated()
    def send(self, rows: np.ndarray) -> "SentByCuda":
        with self._device:  # which is the first one in a new thread
            return self._send(rows)

    def _send(self, rows: np.ndarray) -> "SentByCuda":
        pinned_bytes = self.xp.cuda.alloc_pinned_memory(rows.nbytes)
        pinned = np.frombuffer(pinned_bytes, rows.dtype, rows.size).reshape(rows.shape)
        pinned[...] = rows
        with self._sending:
            there = self.xp.empty(rows.shape, rows.dtype)
            there.set(pinned, stream=self._sending)
            return SentByCuda(there, self._sending.record(), pinned)

    def free_bytes(self) -> int:
        pool = self.xp.get_default_memory_pool()
        limit, (free, _) = pool.get_limit(), self.xp.cuda.runtime.memGetInfo()
        available = free + pool.free_bytes()
        return available if limit == 0 else min(available, limit - pool.used_bytes())

    def total_bytes(self) -> int:
        limit, (_, total) = self.xp.get_default_memory_pool().get_limit(), self.xp.cuda.runtime.memGetInfo()
        return total if limit == 0 else min(total, limit)


class SentByCuda(NamedTuple):
    """An array, the event of its arrival, and the page-locked memory that it is copied from."""

    array: Any
    event: Any
    pinned: np.ndarray

    def arrived(self) -> Any:
        self.event.synchronize()
        return self.array


def _compiled(cupy: Any, source: str, expression: str) -> Any:
    module = cupy.RawModule(code=source, options=("--std=c++17",), name_expressions=[expression])
    return module.get_function(expression)
