"""Where clusters start: far apart, and in the middle of what is near them.

Rows are drawn along a random direction through the data, not by their numbers, so that neither their order matters nor
whether a row has a weight of two or is given twice.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.on_device import is_on_device
from multicause.execution.reproducible_matmul import tiled_product
from multicause.learning.em.em import EM
from multicause.models.base import combine
from multicause.posteriors.base import EStepResult
from multicause.posteriors.truncated import TruncatedPosterior

_MOST_LLOYD_STEPS, _AT_REST = 10, 1e-9  # of the data's standard deviation: means that move less have settled
_SAME = 1e-12  # of their squared lengths: rows that are nearer to each other than this are one
_SETTLING_STEPS = 3  # of k-means after a mean was moved, before it is judged
_MOST_FAILURES = 10  # of moves in a row
_LEAST_ROWS, _ROWS_PER_CLUSTER = 5000, 100  # among which means are moved
_FEW_BYTES = 2**28  # of rows that are kept as distances need them
_ALIKE = 1e-6  # nats per data point: less does not tell two starts from the same clusters in another order


def best_clusters(em: EM, rng: np.random.Generator, n_starts: int) -> Any:
    """The parameters with the largest free energy of several starts: two clusters in one place never part again."""
    best, largest = None, -np.inf
    weight = _weights(em).sum()
    for _ in range(n_starts):
        params = start_clusters(em, rng, moves=n_starts > 1)
        free_energy = em.expectations(params).free_energy if n_starts > 1 else np.inf
        em.executor.forget(em.chunks)  # its candidates: they are none of the next start's
        if best is None or free_energy > largest + _ALIKE * weight:
            best, largest = params, free_energy
    return best


def start_clusters(em: EM, rng: np.random.Generator, rows_per_cluster: int | None = None, moves: bool = False) -> Any:
    """Parameters of a mixture from a few steps of k-means, after k-means++.

    A step of k-means is an E-step with one candidate among clusters of equal weights and shapes. Where it is told
    `rows_per_cluster`, means are sought in so many rows, drawn at random, and the last step alone sees all. With
    `moves`, means that are of little use are tried elsewhere.
    """
    model: Any = em.model
    some = em if rows_per_cluster is None else _on_some_rows(em, rng, rows_per_cluster * model.n_components)
    settled = _settled(some, _spread_out_rows(some, rng), _MOST_LLOYD_STEPS)
    if moves and model.n_components > 1:
        few = _on_some_rows(em, rng, max(_LEAST_ROWS, _ROWS_PER_CLUSTER * model.n_components))
        settled = _settled(some, _with_moves(few, settled.means, rng), _MOST_LLOYD_STEPS)
    equal = model.equal_clusters(settled.means, em.moments.variance)
    return model.m_step(equal, _nearest(em, model, equal).statistics)


class _Settled(NamedTuple):
    """Means after k-means, and how near rows were to them before its last step."""

    means: np.ndarray
    free_energy: float


def _settled(em: EM, means: np.ndarray, most_steps: int) -> _Settled:
    model = em.model.for_means()
    equal = model.equal_clusters(means, em.moments.variance)
    for _ in range(most_steps):
        equal = equal._replace(means=means)
        e_step = _nearest(em, model, equal)
        before, means = means, model.moved_means(equal, e_step.statistics)
        if (np.abs(means - before) <= _AT_REST * np.sqrt(em.moments.variance)).all():
            break
    return _Settled(means, e_step.free_energy)


def _nearest(em: EM, model: Any, equal: Any) -> EStepResult:
    """The E-step in which rows belong to the nearest of equal clusters."""
    nearest = TruncatedPosterior(1, 1, singletons=False).prepare(model, equal)
    return em.executor.map_reduce(nearest.statistics, em.chunks, combine)


def _with_moves(em: EM, means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Means moved, one at a time, from where they are missed least to rows that are far from all (Fränti 2018).

    A move stands if rows are nearer to their means after a few steps of k-means.
    """
    rows = _Rows(em, rng)
    best = _settled(em, means, _SETTLING_STEPS)
    n_failures = 0
    while n_failures < min(_MOST_FAILURES, len(means)):
        owners, first, second = rows.two_nearest(best.means)
        losses = np.bincount(owners, rows.weights * (second - first), len(means))
        moved = int(np.argsort(losses, kind="stable")[n_failures])
        far, _ = rows.far_one(rows.place(np.where(owners == moved, second, first)), rng)
        means = best.means.copy()
        means[moved] = rows.fetch([far])[0]
        trial = _settled(em, means, _SETTLING_STEPS)
        n_failures += 1
        if trial.free_energy > best.free_energy + _ALIKE * rows.weights.sum():
            best, n_failures = trial, 0
    return best.means


def _on_some_rows(em: EM, rng: np.random.Generator, n_rows: int) -> EM:
    """The same on so many rows, each drawn as often as its weight says; on all where they are no more."""
    if len(weights := _weights(em)) <= n_rows:
        return em
    rows = _Rows(em, rng)
    some = rows.at(np.sort(rows.draw(weights, n_rows, rng)))
    return replace(em, chunks=em.executor.split(some, em.model.n_components))


def _spread_out_rows(em: EM, rng: np.random.Generator) -> np.ndarray:
    """One row per cluster by greedy k-means++ (Arthur and Vassilvitskii 2007): far from the others, but no outlier."""
    rows = _Rows(em, rng)
    chosen = list(rows.draw(rows.weights, 1, rng))
    nearest = rows.distances_to(rows.at(chosen))[:, 0]
    while len(chosen) < em.model.n_components:
        far, nearest = rows.far_one(nearest, rng)
        chosen.append(far)
    return rows.fetch(chosen)


def _weights(em: EM) -> np.ndarray:
    return np.concatenate([chunk.row_weights() for chunk in em.chunks])


class _Standardised:
    """Rows about the data's mean, in the units in which equal clusters as wide as the data are round."""

    def __init__(self, em: EM):
        model: Any = em.model
        nowhere = np.zeros((model.n_components, model.n_features))
        spread = np.sqrt(model.variances(model.equal_clusters(nowhere, em.moments.variance))[0])
        self._unit = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
        self._mean = em.moments.mean
        self._kept: dict[int, Any] | None = None if em.chunks[-1].stop * spread.nbytes > _FEW_BYTES else {}

    def __call__(self, chunk: Chunk, rows: Any) -> Any:
        return (rows - chunk.place(self._mean)) * chunk.place(self._unit)

    def rows_of(self, chunk: Chunk) -> tuple[Any, Any]:
        """A chunk's rows, and their squared lengths."""
        known = None if self._kept is None else self._kept.get(chunk.start)
        if known is None:
            rows = self(chunk, chunk.rows())
            known = rows, np.einsum("nd,nd->n", rows, rows)
            if self._kept is not None:
                self._kept[chunk.start] = known
        return known


class _Rows:
    """All rows, to be drawn from along a random direction, and how far they are from any place.

    What is said of each row stays where the rows are; they are drawn here, since a device adds up in any order.
    """

    def __init__(self, em: EM, rng: np.random.Generator):
        self._em, self._standardised, self.weights = em, _Standardised(em), _weights(em)
        self.place, self._fetch = em.chunks[0].place, em.chunks[0].fetch
        self._weights_there = self.place(self.weights)
        self._order = np.argsort(self._along(rng.standard_normal(em.moments.mean.shape)), kind="stable")

    def _along(self, direction: np.ndarray) -> np.ndarray:
        standardised = self._standardised  # alone: a task may travel

        def places(chunk: Chunk) -> Any:
            return np.einsum("nd,d->n", standardised.rows_of(chunk)[0], chunk.place(direction))

        return self._fetch(self._em.executor.joined(places, self._em.chunks))

    def at(self, numbers: Any) -> Any:
        """Some rows as they were given, where rows are worked on."""
        X = self._em.chunks[0].X
        return self.place(X[self.place(numbers) if is_on_device(X) else numbers])

    def fetch(self, numbers: Any) -> np.ndarray:
        """Some rows as they were given, here."""
        return self._fetch(self.at(numbers)).astype(np.float64)

    def draw(self, mass: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
        """n rows with probabilities proportional to their mass, by where n random heights meet its sum."""
        reached = np.cumsum(mass[self._order])
        heights = np.minimum(rng.random(n) * reached[-1], np.nextafter(reached[-1], 0.0))
        return self._order[np.searchsorted(reached, heights, side="right")]

    def far_one(self, nearest: Any, rng: np.random.Generator) -> tuple[int, Any]:
        """The best of a few rows that are far from all means, and how far all are from the nearest with it."""
        far = self._fetch(self._weights_there * nearest)
        n_trials = 2 + int(np.log(self._em.model.n_components))
        mass = far if far.any() else self.weights  # rows are fewer than clusters: some share
        trials = self.draw(mass, n_trials, rng)
        distances = np.minimum(self.distances_to(self.at(trials)), nearest[:, None])
        best = int((self._weights_there @ distances).argmin())
        return trials[best], distances[:, best]

    def distances_to(self, centres: Any, kept: Callable[[Any], Any] = lambda distances: distances) -> Any:
        """Squared distances of all rows to each centre, (N, K), or what is kept of them."""
        standardised = self._standardised
        centres = standardised(self._em.chunks[0], self.place(centres).astype(np.float64))
        transposed, squares = centres.T.copy(), np.einsum("kd,kd->k", centres, centres)

        def distances(chunk: Chunk) -> Any:
            rows, lengths = standardised.rows_of(chunk)
            lengths = lengths[:, None] + chunk.place(squares)
            squared = lengths - 2.0 * tiled_product(rows, chunk.place(transposed))
            return kept(np.where(squared > _SAME * lengths, squared, 0.0))

        return self._em.executor.joined(distances, self._em.chunks)

    def two_nearest(self, means: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which mean is nearest to each row, its squared distance, and that of the next one, (N,) each."""
        both = self._fetch(self.distances_to(means, _two_smallest))
        return both[:, 0].astype(np.intp), both[:, 1], both[:, 2]


def _two_smallest(distances: Any) -> Any:
    """The number of the smallest of each row, it, and the next one."""
    return np.concatenate([distances.argmin(axis=1)[:, None], np.partition(distances, 1, axis=1)[:, :2]], axis=1)
