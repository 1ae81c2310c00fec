"""The data's mean and variance, chunk by chunk."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments, combine


class _WeightedSum(NamedTuple):
    weight: float
    values: np.ndarray  # (D,)


def data_moments(executor: InProcess, chunks: Sequence[Chunk]) -> DataMoments:
    """Two passes, so that a large mean does not swallow a small variance."""

    def weighted_sum(chunk: Chunk) -> _WeightedSum:
        weights = chunk.row_weights()
        return _WeightedSum(float(weights.sum()), weights @ chunk.rows())

    weight, total = executor.map_reduce(weighted_sum, chunks, combine)
    mean = total / weight

    def weighted_squares(chunk: Chunk) -> _WeightedSum:
        weights = chunk.row_weights()
        return _WeightedSum(0.0, weights @ np.square(chunk.rows() - mean))

    squares = executor.map_reduce(weighted_squares, chunks, combine).values
    return DataMoments(weight, mean, squares / weight)
