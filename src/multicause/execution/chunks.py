"""Cutting data into chunks: they depend on the data alone, never on who works on them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from multicause.backends.tiles import TILE

_WORK_BYTES = 16 * 2**20  # aim for the (rows, H) work array of one chunk


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
        chunk_size = max(_WORK_BYTES // (8 * n_components) // 4, 2 * n_components)
    rows = -(-min(chunk_size, max(len(X), 1)) // TILE) * TILE
    return [Chunk(X, start, min(start + rows, len(X)), weights) for start in range(0, len(X), rows)]
