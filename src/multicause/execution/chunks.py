"""Cutting data into chunks: they depend on the data alone, never on the number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from multicause.execution.reproducible_matmul import TILE
from multicause.execution.sources import RowSource

_WORK_BYTES = 8 * 2**20  # aim for a chunk's rows and its (rows, H) work array
_MOST_ROWS = 4096  # more would leave cores idle on data of moderate size
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

    def rows(self) -> np.ndarray:
        """The chunk's rows as a contiguous float64 array."""
        return np.ascontiguousarray(self.X[self.start : self.stop], dtype=np.float64)

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
        return self.weights[self.start : self.stop]


@contextmanager
def chunks_of(n_rows: int) -> Iterator[None]:
    """A context in which data are cut into chunks of so many rows, rounded up to whole tiles of 256.

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
    """Cut `X` into chunks of `chunk_size` rows, rounded up to whole tiles; by default a few megabytes of work each."""
    chunk_size = _chosen_size.get() or chunk_size
    if chunk_size is None:
        by_work = _WORK_BYTES // (8 * (n_components + X.shape[1]))
        chunk_size = max(min(by_work, _MOST_ROWS), 2 * n_components)  # at least what makes (H, H) sums worth their sum
    rows = -(-min(chunk_size, max(len(X), 1)) // TILE) * TILE
    return [Chunk(X, start, min(start + rows, len(X)), weights) for start in range(0, len(X), rows)]
