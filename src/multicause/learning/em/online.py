"""Stochastic EM: one batch of data after the other, each seen once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from multicause.learning.em.em import EM
from multicause.models.base import DataMoments, Recentred


class StepSizes(NamedTuple):
    """rho_t = (t + t0)^-kappa: how far the statistics move towards those of batch t; kappa in (0.5, 1] converges."""

    decay: float  # kappa
    offset: float  # t0

    def __call__(self, n_batches: int) -> float:
        """The first batch has nothing before it."""
        return 1.0 if n_batches == 0 else (n_batches + self.offset) ** -self.decay


class Seen(NamedTuple):
    """What is kept of all batches so far."""

    n_batches: int
    moments: DataMoments
    statistics: Mapping[str, Any]  # by their names, per unit of weight; the latest batches count most


class BatchResult(NamedTuple):
    """A batch, learned from."""

    params: Any
    free_energy: float  # of the batch, per data point, at the parameters before it
    seen: Seen
    kept: Any = None  # which states the posterior keeps, where it is truncated


def learn_batch(em: EM, params: Any, seen: Seen | None, sizes: StepSizes, rng: np.random.Generator) -> BatchResult:
    """s <- (1 - rho_t) s + rho_t s_batch, then the M-step of s (Cappé and Moulines 2009).

    `em` is of the batch, with the moments of all data so far.
    """
    found = em.expectations(params)
    weight = float(sum(chunk.row_weights().sum() for chunk in em.chunks))
    statistics, n_batches = _scaled(found.statistics, 1.0 / weight), 0 if seen is None else seen.n_batches
    if seen is not None:
        statistics = _blended(seen.statistics, statistics, sizes(n_batches))
    learned = em.maximise(params, _scaled(statistics, em.moments.weight), rng)
    if isinstance(em.model, Recentred):
        statistics = em.model.recentre(statistics, params, learned)
    seen = Seen(n_batches + 1, em.moments, statistics._asdict())
    return BatchResult(learned, found.free_energy / weight, seen, em.kept)


def pooled(before: DataMoments | None, batch: DataMoments) -> DataMoments:
    """The moments of all data, from those of two parts."""
    if before is None:
        return batch
    total = before.weight + batch.weight
    share = batch.weight / total
    apart = batch.mean - before.mean
    within = (1.0 - share) * before.variance + share * batch.variance
    return DataMoments(total, before.mean + share * apart, within + share * (1.0 - share) * apart**2)


def _scaled(statistics: Any, factor: float) -> Any:
    return type(statistics)(*(factor * value for value in statistics))


def _blended(old: Mapping[str, Any], new: Any, rate: float) -> Any:
    before: list[Any] = [old.get(name) for name in new._fields]
    if any(np.shape(a) != np.shape(b) for a, b in zip(before, new, strict=True)):
        raise ValueError(
            "The batches so far were learned with other settings: what is kept of them does not fit. Set those back, "
            "or start anew with a clone."
        )
    return type(new)(*((1.0 - rate) * a + rate * b for a, b in zip(before, new, strict=True)))
