"""Rows drawn from the data by what they hold, never by their numbers.

Neither the order of the rows matters then, nor whether a row has a weight of two or is given twice.
"""

from typing import Any

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.models.base import DataMoments


def sample_rows(em: Any, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows in their order along a random direction, and their weights: all, or n of them where there are more.

    The number of rows that differ, among all data of any weight, comes with them.
    """
    chunks, executor, moments = em.chunks, em.executor, em.moments
    direction = rng.standard_normal(len(moments.mean))
    places = np.concatenate(list(executor.map(lambda chunk: _places(chunk, moments, direction), chunks)))
    weights, order = np.concatenate([chunk.row_weights() for chunk in chunks]), np.argsort(places, kind="stable")
    chosen = order if len(order) <= n else order[evenly(weights[order], n)]
    place = np.argsort(chosen, kind="stable")
    parts = executor.map(lambda chunk: chunk.rows()[chunk.place(_within(chosen[place], chunk))], chunks)
    X = np.empty((len(chosen), len(direction)))
    X[place] = np.concatenate(list(parts))
    n_distinct = len(np.unique(places[weights > 0.0]))
    return X, weights[chosen] if chosen is order else np.full(n, weights.sum() / n), n_distinct


def draw_rows(mass: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows with probabilities proportional to their mass, by where n random heights meet its sum."""
    return _at_heights(mass, rng.random(n))


def evenly(weights: np.ndarray, n: int) -> np.ndarray:
    """n rows at equal distances of the sum of their weights."""
    return _at_heights(weights, (np.arange(n) + 0.5) / n)


def _at_heights(mass: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """The rows in which the sum of the masses reaches these shares of it."""
    reached = np.cumsum(mass)
    heights = np.minimum(heights * reached[-1], np.nextafter(reached[-1], 0.0))
    return np.searchsorted(reached, heights, side="right")


def _within(chosen: np.ndarray, chunk: Chunk) -> np.ndarray:
    return chosen[(chosen >= chunk.start) & (chosen < chunk.stop)] - chunk.start


def _places(chunk: Chunk, moments: DataMoments, direction: np.ndarray) -> np.ndarray:
    """Along a direction in which all dimensions count alike; what is missing is as the mean."""
    spread = np.sqrt(moments.variance)
    unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
    rows, mean, unit, direction = chunk.rows(), *map(chunk.place, (moments.mean, unit, direction))
    return np.einsum("nd,d->n", np.where(np.isnan(rows), 0.0, (rows - mean) * unit), direction)
