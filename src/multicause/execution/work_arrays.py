"""Arrays that a thread keeps from chunk to chunk: the system clears each new page of memory, which takes its time."""

from threading import local

import numpy as np


class _Kept(local):
    """One buffer per name, for each thread; it goes with the thread."""

    def __init__(self) -> None:
        self.buffers: dict[str, np.ndarray] = {}


_kept = _Kept()


def work_array(name: str, shape: tuple[int, int]) -> np.ndarray:
    """An array of floats that holds anything, until the same thread asks for the same name again."""
    size = shape[0] * shape[1]
    buffer = _kept.buffers.get(name)
    if buffer is None or buffer.size < size:
        buffer = _kept.buffers[name] = np.empty(size)
    return buffer[:size].reshape(shape)


def forget_work_arrays() -> None:
    """Give this thread's back."""
    _kept.buffers.clear()
