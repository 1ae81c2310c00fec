"""Cutting data into chunks: they depend on the data alone, never on the number of threads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain, pairwise
from numbers import Integral
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np

from multicause.execution.reproducible_matmul import TILE
from multicause.execution.sources import RowSource

_WORK_BYTES = 8 * 2**20  # aim for a chunk's rows and its (rows, H) work array
_MOST_ROWS = 4096  # larger chunks gain nothing
_LEAST_ROWS = 600  # fewer are not worth the Python around their kernels, which threads take in turns
_LEAST_NUMBERS = 51_200  # in a chunk's rows and its work array, likewise
_CHUNKS = 64  # or a multiple, where there are rows enough: any 2, 4, ... 64 threads get equal shares
_PARTS_LEFT = 32  # of the size that parts have somewhere, so many would be left to do from there on
_LEAST_PART = 64  # rows
_PART_NUMBERS = 640  # in the (H, H) and (H, D) sums of a part, for each of its rows: more would cost more than the rows
_LANES = 8  # rows that kernels take at once
_chosen_size: ContextVar[int | None] = ContextVar("chunk_size", default=None)

Kind = TypeVar("Kind")


@dataclass
class Chunk:
    """Rows start..stop of the data, with what is remembered of them until the next iteration.

    Whoever wants to remember something has a class for it; a chunk remembers one value of each class.
    """

    X: np.ndarray | RowSource  # all data; only the chunk's rows are ever read
    start: int
    stop: int
    weights: np.ndarray | None = None  # sample weights of all data
    memory: dict[type, Any] = field(default_factory=dict)
    n_parts: int = 1  # in which threads may take it

    def part_starts(self) -> list[int]:
        """Where its parts begin."""
        n_groups = -(-(self.stop - self.start) // _LANES)
        return [self.start + _LANES * (n_groups * part // self.n_parts) for part in range(self.n_parts)]

    def rows(self) -> np.ndarray:
        """The chunk's rows as a contiguous float64 array."""
        return for_kernels(self.X[self.start : self.stop])

    def place(self, array: Any) -> Any:
        """An array where the rows are: in host memory, unless the chunk is on a device."""
        return array

    def fetch(self, array: Any) -> np.ndarray:
        """An array that was computed from the rows, in host memory."""
        return array

    def remember(self, value: Any) -> None:
        self.memory[type(value)] = value

    def recall(self, kind: type[Kind]) -> Kind | None:
        """The last value of this class that was remembered, if any."""
        return self.memory.get(kind)

    def remembered(self) -> tuple[Any, ...]:
        """All of it, but for what can be made again."""
        return tuple(value for kind, value in self.memory.items() if not getattr(kind, "made_again", False))

    def forget(self) -> None:
        self.memory.clear()

    def row_weights(self) -> np.ndarray:
        if self.weights is None:
            return np.ones(self.stop - self.start)
        return for_kernels(self.weights[self.start : self.stop])


def for_kernels(part: np.ndarray) -> np.ndarray:
    """As kernels are compiled for it: contiguous, float64, and not read-only, which is another type to Numba."""
    part = np.ascontiguousarray(part, dtype=np.float64)
    return part if part.flags.writeable else part.copy()


class Parts(NamedTuple):
    """Chunks, cut into parts."""

    borders: np.ndarray  # (P + 1,) rows of the data where parts begin, and the last one ends
    firsts: np.ndarray  # (K + 1,) the first part of each chunk

    @classmethod
    def of(cls, chunks: Sequence[Chunk]) -> "Parts":
        starts = chain.from_iterable(chunk.part_starts() for chunk in chunks)
        return cls(np.array([*starts, chunks[-1].stop]), np.cumsum([0, *(chunk.n_parts for chunk in chunks)]))

    def within(self) -> "Parts":
        """As rows of the first chunk, and on."""
        return Parts(self.borders - self.borders[0], self.firsts)


def rows_in_memory(chunks: Sequence[Chunk]) -> tuple[np.ndarray, np.ndarray, Parts] | None:
    """All data, the weights of all rows, and the chunks' parts; None where kernels cannot take them so."""
    X, weights = chunks[0].X, chunks[0].weights
    if len(chunks) == 1 or any(chunk.X is not X or chunk.weights is not weights for chunk in chunks):
        return None
    neighbours = all(left.stop == right.start for left, right in pairwise(chunks))
    if not neighbours or not _is_for_kernels(X) or not (weights is None or _is_for_kernels(weights)):
        return None
    return X, np.ones(len(X)) if weights is None else weights, Parts.of(chunks)


def _is_for_kernels(array: Any) -> TypeGuard[np.ndarray]:
    flags = array.flags if type(array) is np.ndarray and array.dtype == np.float64 else None
    return flags is not None and flags.c_contiguous and flags.writeable and flags.aligned


@contextmanager
def chunks_of(n_rows: int) -> Iterator[None]:
    """A context in which data are cut into chunks of so many rows, rounded up to whole tiles of 128.

    Chunks suit the data by themselves; smaller ones need less memory. Results of `transform` and its like do not depend
    on them, and those of `fit` to rounding errors only.
    """
    if not isinstance(n_rows, Integral) or isinstance(n_rows, bool) or n_rows < 1:
        raise ValueError(f"chunks_of needs a number of rows in the range [1, inf). Got {n_rows!r} instead.")
    token = _chosen_size.set(int(n_rows))
    try:
        yield
    finally:
        _chosen_size.reset(token)


def split(
    X: np.ndarray | RowSource, n_components: int, chunk_size: int | None = None, weights: np.ndarray | None = None
) -> list[Chunk]:
    """Cut `X` into chunks of `chunk_size` rows, rounded up to whole tiles; by default into what keeps 64 threads busy.

    The number of chunks is then a power of two, or a multiple of 64; they differ by one tile at most, the large first.
    """
    chunk_size = _chosen_size.get() or chunk_size
    n_tiles = -(-len(X) // TILE)
    if chunk_size is None:
        n_chunks = min(_n_chunks(len(X), n_components, X.shape[1]), max(n_tiles, 1))
        tiles = [n_tiles // n_chunks + (i < n_tiles % n_chunks) for i in range(n_chunks)]
    else:
        size = -(-chunk_size // TILE)
        tiles = [size] * -(-n_tiles // size)
    borders = np.minimum(np.cumsum([0, *tiles]) * TILE, len(X)).tolist()
    return [
        Chunk(X, start, stop, weights, n_parts=_n_parts(start, stop, len(X), n_components, X.shape[1]))
        for start, stop in pairwise(borders)
    ]


def _n_parts(start: int, stop: int, n_rows: int, n_components: int, n_features: int) -> int:
    """Fine ones near the end of the data, where threads that are not equally fast would wait for the last one; but each
    is to be worth its sums. Those of one chunk, or the only one, have nobody to share them with."""
    if stop - start == n_rows:
        return 1
    numbers = n_components * (n_components + n_features)
    rows = max((n_rows - start) // _PARTS_LEFT, numbers // _PART_NUMBERS, _LEAST_PART)
    return max((stop - start) // rows, 1)


def _n_chunks(n_rows: int, n_components: int, n_features: int) -> int:
    width = n_components + n_features
    least = max(_LEAST_ROWS, _LEAST_NUMBERS // width, min(n_components**2 // 256, 2 * n_components))
    most = max(min(_WORK_BYTES // (8 * width), _MOST_ROWS), least)  # the least makes (H, H) sums worth their sum
    if n_rows < _CHUNKS * least:
        return 1 << max(n_rows // least, 1).bit_length() - 1
    return _CHUNKS * -(-n_rows // (_CHUNKS * most))
