"""Cutting data into chunks: they depend on the data alone, never on who works on them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multicause.backends.tiles import TILE

_WORK_BYTES = 8 * 2**20  # aim for a chunk's rows and its (rows, H) work array
_MOST_ROWS = 4096  # more would leave cores idle on data of moderate size


@dataclass
class Chunk:
    """Rows start..stop of the data, with what an E-step wants to remember of them until the next iteration."""

    X: np.ndarray  # all data; only the chunk's rows are ever read
    start: int
    stop: int
    weights: np.ndarray | None = None  # sample weights of all data
    memory: dict[str, Any] = field(default_factory=dict)

    def rows(self) -> np.ndarray:
        """The chunk's rows as a contiguous float64 array."""
        return np.ascontiguousarray(self.X[self.start : self.stop], dtype=np.float64)

    def row_weights(self) -> np.ndarray:
        if self.weights is None:
            return np.ones(self.stop - self.start)
        return self.weights[self.start : self.stop]


def split(
    X: np.ndarray, n_components: int, chunk_size: int | None = None, weights: np.ndarray | None = None
) -> list[Chunk]:
    """Cut `X` into chunks of `chunk_size` rows, rounded up to whole tiles; by default a few megabytes of work each."""
    if chunk_size is None:
        by_work = _WORK_BYTES // (8 * (n_components + X.shape[1]))
        chunk_size = max(min(by_work, _MOST_ROWS), 2 * n_components)  # at least what makes (H, H) sums worth their sum
    rows = -(-min(chunk_size, max(len(X), 1)) // TILE) * TILE
    return [Chunk(X, start, min(start + rows, len(X)), weights) for start in range(0, len(X), rows)]
