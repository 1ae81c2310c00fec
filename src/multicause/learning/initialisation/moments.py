"""The data's mean and variance, chunk by chunk."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments, combine


class _WeightedSum(NamedTuple):
    weight: float
    observed: np.ndarray  # (D,) weight of the rows in which a feature is observed
    values: np.ndarray  # (D,)


def data_moments(executor: InProcess, chunks: Sequence[Chunk]) -> DataMoments:
    """Of the observed entries; in two passes, so that a large mean does not swallow a small variance."""

    def sum_of(chunk: Chunk, values: np.ndarray) -> _WeightedSum:
        weights, seen = chunk.place(chunk.row_weights()), ~np.isnan(values)
        observed = chunk.fetch(weights @ seen.astype(weights.dtype))
        return _WeightedSum(float(weights.sum()), observed, chunk.fetch(weights @ np.where(seen, values, 0.0)))

    weight, count, total = executor.map_reduce(lambda chunk: sum_of(chunk, chunk.rows()), chunks, combine)
    mean = total / np.maximum(count, 1e-300)

    def squares(chunk: Chunk) -> _WeightedSum:
        return sum_of(chunk, np.square(chunk.rows() - chunk.place(mean)))

    variance = executor.map_reduce(squares, chunks, combine).values / np.maximum(count, 1e-300)
    return DataMoments(weight, mean, variance)
