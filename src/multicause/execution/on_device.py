"""Chunks on a GPU: a few large ones, one after the other, their rows sent ahead while the one before is worked on."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from multicause.execution.chunks import Chunk, split
from multicause.execution.in_process import InProcess, single_threaded_blas
from multicause.execution.reproducible_matmul import TILE

_WORK_BYTES = 32 * 2**30  # of a chunk's work arrays, at most, and
_WORK_SHARE = 0.25  # of the device's memory, of which others may have some: results must not depend on them
DATA_SHARE = 0.5  # of the memory that is free, for data that stay
_SENT_BYTES = 2**26  # of data that stay, at one time: they may come from a file that memory does not hold
_ARRAYS = 4  # of (rows, D) and of (rows, H) that an E-step has at one time
_OTHER_NUMBERS = 200  # per row


class DeviceData:
    """Rows of a table on the device: all of them where there is room, else two chunks at a time."""

    def __init__(self, X: Any, runtime: Any, share: float):
        self.runtime, self.dtype, self._X = runtime, X.dtype, X
        self._whole: Any = None
        self._coming: dict[tuple[int, int], Future[Any]] = {}
        self._sender: ThreadPoolExecutor | None = None
        if is_on_device(X):
            self._whole = runtime.xp.ascontiguousarray(X)
        elif X.shape[0] * X.shape[1] * self.dtype.itemsize < share * runtime.free_bytes():
            self._whole = self._sent_in_slices()

    def _sent_in_slices(self) -> Any:
        xp, X, n_rows = self.runtime.xp, self._X, max(_SENT_BYTES // (self._X.shape[1] * self.dtype.itemsize), 1)
        whole = xp.empty(X.shape, self.dtype)
        for start in range(0, X.shape[0], n_rows):
            whole[start : start + n_rows] = xp.asarray(np.ascontiguousarray(X[start : start + n_rows]))
        return whole

    @property
    def stays(self) -> bool:
        """Whether all rows are there at once."""
        return self._whole is not None

    def rows(self, start: int, stop: int) -> Any:
        if self._whole is not None:
            return self._whole[start:stop]
        sent = self._coming.pop((start, stop), None)
        return self.runtime.send(self._X[start:stop]).arrived() if sent is None else sent.result().arrived()

    def expect(self, start: int, stop: int) -> None:
        """Begin to send rows that are asked for next."""
        if self._whole is None and (start, stop) not in self._coming:
            self._sender = self._sender or ThreadPoolExecutor(1, thread_name_prefix="multicause-sender")
            self._coming[start, stop] = self._sender.submit(lambda: self.runtime.send(self._X[start:stop]))

    def close(self) -> None:
        if self._sender is not None:
            self._sender.shutdown(wait=True, cancel_futures=True)
        self._coming.clear()
        self._whole = None


@dataclass
class DeviceChunk(Chunk):
    """A chunk whose rows are asked for where the device can work on them."""

    data: Any = field(default=None, repr=False)  # DeviceData, the same of all chunks
    _placed: Any = field(default=None, init=False, repr=False, compare=False)  # its weights, where the rows stay there

    @property
    def runtime(self) -> Any:
        return self.data.runtime

    def rows(self) -> Any:
        """The chunk's rows on the device, in the precision of the data."""
        return self.data.rows(self.start, self.stop)

    def weights_there(self) -> Any:
        """The weights of the rows on the device, in the precision of the data."""
        if self._placed is not None:
            return self._placed
        if self.weights is None:
            weights = self.runtime.xp.ones(self.stop - self.start, self.data.dtype)
        else:
            weights = self.place(self.row_weights()).astype(self.data.dtype, copy=False)
        if self.data.stays:
            self._placed = weights
        return weights

    def place(self, array: Any) -> Any:
        return self.runtime.xp.asarray(array)

    def fetch(self, array: Any) -> np.ndarray:
        return self.runtime.to_host(array)


def _as_it_is(result: Any) -> Any:
    return result


class OnDevice(InProcess):
    """Runs tasks on one GPU. Results have the same bits each time: nothing is added up in an order left to chance.

    Parameters
    ----------
    runtime : Runtime
        The device, as `multicause.backends.cuda` knows it.
    keeps : bool
        Leave answers on the device.
    beside : context manager or None
        Entered with it: what else is to be done on the device.
    data_share : float
        Data stay on the device that need less than this share of its free memory; others are sent in every iteration.
    """

    def __init__(
        self,
        runtime: Any,
        keeps: bool = False,
        beside: AbstractContextManager[Any] | None = None,
        data_share: float = DATA_SHARE,
    ):
        super().__init__(1)
        self._data_share = data_share
        self._beside = nullcontext() if beside is None else beside
        self.runtime, self._keeps = runtime, keeps
        self._data: list[DeviceData] = []

    def __enter__(self) -> "OnDevice":
        self._stack.enter_context(single_threaded_blas)  # an M-step is too small for threads: they would only wait
        self._stack.enter_context(self._beside)
        self._stack.enter_context(self.runtime.errors_translated())
        return self

    def __exit__(self, *exception) -> None:
        try:
            self._stack.__exit__(*exception)
        finally:
            for data in self._data:
                data.close()
            self._data.clear()

    def split(
        self, X: Any, n_components: int, chunk_size: int | None = None, weights: np.ndarray | None = None
    ) -> list[Chunk]:
        with self.runtime.errors_translated():
            data = DeviceData(X, self.runtime, self._data_share)
            self._data.append(data)
            width = _ARRAYS * (X.shape[1] + n_components) + _OTHER_NUMBERS
            budget = min(_WORK_BYTES, _WORK_SHARE * self.runtime.total_bytes())
            n_rows = max(int(budget / (width * data.dtype.itemsize)) // TILE, 1) * TILE
        cut = split(X, n_components, min(n_rows, chunk_size or n_rows), weights)
        return [DeviceChunk(c.X, c.start, c.stop, c.weights, data=data) for c in cut]

    def map(self, task: Callable[[Any], Any], chunks: Sequence[Any]) -> Iterator[Any]:
        yield from self._results(task, chunks, self.runtime.to_host)

    def answers(self, task: Callable[[Any], Any], chunks: Sequence[Any]) -> list[Any]:
        return list(self._results(task, chunks, _as_it_is if self._keeps else self.runtime.to_host))

    def joined(self, task: Callable[[Any], Any], chunks: Sequence[Any]) -> Any:
        return self.runtime.xp.concatenate(list(self._results(task, chunks)))

    def _results(
        self, task: Callable[[Any], Any], chunks: Sequence[Any], fetch: Callable[[Any], Any] = _as_it_is
    ) -> Iterator[Any]:
        for position, chunk in enumerate(chunks):
            with self.runtime.errors_translated():
                self._send_ahead(chunks, position)
                result = fetch(task(chunk))
            yield result

    def map_reduce(
        self,
        task: Callable[[Any], Any],
        chunks: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        together: Callable[[Sequence[Any], int], Any] = lambda chunks, n_threads: None,
    ) -> Any:
        return reduce(combine, self._results(task, chunks))

    def _send_ahead(self, chunks: Sequence[Any], position: int) -> None:
        for chunk in chunks[position : position + 2]:
            if isinstance(chunk, DeviceChunk):
                chunk.data.expect(chunk.start, chunk.stop)


def is_on_device(X: Any) -> bool:
    """Whether an array is in the memory of a GPU, as CuPy's are."""
    return hasattr(X, "__cuda_array_interface__")
