"""A start that is worth something: latents grown from what the others leave unexplained, before EM sees all data.

All is done on a bounded sample of the rows, with few candidates. Each round puts several latents at once where data
points are badly explained, in the place of those that are missed least, or of pairs that depend on each other where the
model says that they do not; a few EM steps follow, and the round stands if the free energy rose.

Rows are drawn along a random direction through the data, not by their numbers: neither their order matters, nor whether
a row has a weight of two or is given twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.learning.initialisation.rows import draw_rows, evenly, sample_rows
from multicause.learning.stopping import GainBelow
from multicause.models.additions import Additions, additions_to
from multicause.models.base import combine
from multicause.models.dictionary_model import inverse_norms
from multicause.models.priors import RAREST
from multicause.posteriors.base import EStepResult
from multicause.posteriors.truncated import TruncatedPosterior

_LARGEST_LOSS = 1e-16  # probability without a latent, at the least: what a data point says of its loss is bounded
_LEAST_ROWS_PER_LATENT = 3  # in fewer rows there is nothing to be found
_WEAK = 0.25  # of the median loss: a latent that is missed so little is worth a try without
_WELL_EXPLAINED = 0.9  # of the average of what is left of a row: below it, it is not looked at
_HARDLY_USED = 10.0 * RAREST
_ALIKE = 0.95  # cosine of two components beyond which they are one
_GROUP = 4  # latents at most that depend on each other
_REST = 1e-3  # gain of the free energy per data point below which the search is at rest
_BEYOND_CHANCE = 5.0  # standard errors of what is left of a latent's rows
_DEPENDENT = 4.0  # standard deviations of a count of pairs beyond which they are no chance


@dataclass(frozen=True)
class Search:
    """How long to look, and at how much.

    Parameters
    ----------
    n_rounds : int
        Most rounds of a search.
    n_rounds_in_all : int
        After so many rounds no other search begins.
    n_steps : int
        EM steps of each.
    patience : int
        Rounds in a row without success after which the search ends.
    least_rows, rows_per_latent : int
        Size of the sample.
    """

    n_rounds: int = 20
    n_rounds_in_all: int = 40
    n_steps: int = 6
    patience: int = 5
    least_rows: int = 5000
    rows_per_latent: int = 50
    largest_move: float = 0.34  # share of the latents, once all of them are in
    least_gain: float = 2e-3  # of all that was gained before, or of a nat per data point, for a round to be a success
    n_refits: int = 3  # of proposals
    proposals_per_latent: float = 2.0
    n_last_steps: int = 50  # EM steps with all candidates, at most
    worth: float = 0.5  # gain of a proposal over the loss of what it replaces, at the least

    def __call__(self, em: Any, rng: np.random.Generator) -> Any:
        """First parameters for a fit to all data."""
        model, additions = em.model, additions_to(em.model)
        drawn = model.init_params(em.moments, rng)
        if additions is None:
            return drawn
        n_rows = max(self.least_rows, self.rows_per_latent * model.n_components)
        X, weights, n_distinct = sample_rows(em, n_rows, rng)
        if n_distinct < _LEAST_ROWS_PER_LATENT * model.n_components:
            return drawn
        weights = weights * (min(n_distinct, len(X)) / weights.sum())  # counts of rows, whatever their unit
        posterior = TruncatedPosterior(
            min(additions.n_candidates, model.n_components),
            min(additions.max_active, em.posterior.max_active, model.n_components),
            em.posterior.singletons,
            greedy=em.posterior.greedy and additions.greedy,
        )
        executor = em.executor if em.executor.is_here else InProcess()
        local = LocalEM(additions.learner, posterior, executor, executor.split(X, model.n_components, weights=weights))
        sample = Sample(X, weights, np.arange(len(X)))
        found = self._believed(partial(_Searching, self, local, additions, sample, rng), additions.nothing(drawn))
        idle = found.activation <= _HARDLY_USED  # nothing was found for them: EM may yet find a use
        components = np.where(idle[:, None], drawn.components, additions.lifted(found.components))
        as_it_learns = replace(local, model=model, posterior=replace(em.posterior, monotone=False))
        return as_it_learns.best_of_steps(found._replace(components=components), self.n_last_steps)

    def _believed(self, begin: "Callable[[], _Searching]", nothing: Any) -> Any:
        """The best of several searches.

        One is believed in which no latent's rows are worse explained than by chance, or two that end alike: there are
        many ways to go astray.
        """
        ends: list[Found] = []
        while sum(end.n_rounds for end in ends) < self.n_rounds_in_all:
            ends.append(begin().run(nothing))
            best = max(ends, key=lambda end: end.free_energy)
            alike = sum(end.free_energy >= best.free_energy - best.noticed for end in ends)
            if alike > 1 or best.is_content:
                break
        return best.params


class Sample(NamedTuple):
    """The rows that a search looks at, in their order along a random direction."""

    X: np.ndarray
    weights: np.ndarray
    rows: np.ndarray  # their numbers in the larger sample


def few_of(sample: Sample, n: int | None) -> Sample:
    """n of the rows; all, if there are no more."""
    if n is None or len(sample.X) <= n:
        return sample
    rows = evenly(sample.weights, n)
    return Sample(sample.X[rows], np.full(n, sample.weights.sum() / n), rows)


class Standing(NamedTuple):
    """Parameters, and the E-step at them."""

    params: Any
    e_step: EStepResult


class Found(NamedTuple):
    """The end of a search."""

    params: Any
    free_energy: float  # of all data
    noticed: float  # by how much another one must be better to be another one
    n_rounds: int
    is_content: bool  # no latent's rows are worse explained than by chance


class Proposals(NamedTuple):
    """Latents to be added, the best first, and what each adds to the free energy of all data beside those before it."""

    latents: Any
    gains: np.ndarray


@dataclass(frozen=True)
class LocalEM:
    """Plain EM on the sample."""

    model: Any
    posterior: TruncatedPosterior
    executor: InProcess
    chunks: Sequence[Chunk]

    def e_step(self, params: Any) -> Standing:
        prepared = self.posterior.prepare(self.model, params)
        return Standing(params, self.executor.map_reduce(prepared.statistics, self.chunks, combine, prepared.together))

    def steps(self, standing: Standing, n_steps: int) -> Standing:
        for _ in range(n_steps):
            standing = self.e_step(self.model.m_step(standing.params, standing.e_step.statistics))
        return standing

    def best_of_steps(self, params: Any, n_steps: int) -> Any:
        """The parameters with the largest free energy on the way to rest, on which it may fall."""
        standing = best = self.e_step(params)
        weight = sum(chunk.row_weights().sum() for chunk in self.chunks)
        at_rest = GainBelow(_REST)
        for _ in range(n_steps):
            if at_rest(standing.e_step.free_energy / weight):
                break
            standing = self.steps(standing, 1)
            best = max(best, standing, key=lambda one: one.e_step.free_energy)
        return best.params

    def ask(self, params: Any, question: str) -> np.ndarray:
        prepared = self.posterior.prepare(self.model, params)
        return np.concatenate(list(self.executor.map(getattr(prepared, question), self.chunks)))


class _Searching:
    """One search, as far as it has come."""

    def __init__(self, settings: Search, em: LocalEM, additions: Additions, sample: Sample, rng: np.random.Generator):
        self.settings, self.em, self.additions, self.sample, self.rng = settings, em, additions, sample, rng
        self.few = few_of(sample, additions.most_rows)
        self.H = em.model.n_components
        self.most = self.H  # latents that a round may move
        self.turn = 0
        self.tried: set[tuple[int, ...]] = set()  # what was moved since the last success

    def run(self, params: Any) -> Found:
        """The best parameters on the way from these."""
        best, failures, at_rest = self.em.e_step(params), 0, False
        first, weight = best.e_step.free_energy, self.sample.weights.sum()
        n_rounds = 0
        while n_rounds < self.settings.n_rounds:
            n_rounds += 1
            trial = self._round(best)
            enough = self.settings.least_gain * max(best.e_step.free_energy - first, weight)
            gain = -np.inf if trial is None else trial.e_step.free_energy - best.e_step.free_energy
            best = trial if trial is not None and gain > 0.0 else best
            if gain > enough:
                failures, at_rest, self.most = 0, False, max(int(np.ceil(self.settings.largest_move * self.H)), 1)
                self.tried.clear()
                continue
            failures += 1
            if not at_rest:  # what looks misplaced may only be on its way
                polished = self.em.steps(best, self.settings.n_steps)
                at_rest = polished.e_step.free_energy - best.e_step.free_energy < enough
                best = max(best, polished, key=lambda standing: standing.e_step.free_energy)
            elif trial is None or failures > self.settings.patience:
                break
        return Found(best.params, best.e_step.free_energy, enough, n_rounds, self._is_content(best.params))

    def _is_content(self, params: Any) -> bool:
        means, _, mean = self._explained(params)
        return self._beyond_chance(means, mean).size == 0

    def _beyond_chance(self, means: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Latents whose data points are explained worse than others, the worst first."""
        unexplained, weights = self._unexplained(mean), self.sample.weights
        misfit, average = self._misfit(means, mean), np.average(unexplained, weights=weights)
        relative = unexplained / max(average, np.finfo(float).tiny)  # whose squares are numbers in any unit of the data
        spread = average * np.sqrt(np.average(np.square(relative - 1.0), weights=weights))
        chance = average + _BEYOND_CHANCE * spread / np.sqrt(np.maximum(weights @ means, 1.0))
        worst = np.argsort(-misfit, kind="stable")
        return worst[misfit[worst] > chance[worst]]

    def _explained(self, params: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Posterior means of the latents and of their coefficients, and what they explain of each row."""
        means = self.em.ask(params, "means")
        codes = self.em.ask(params, "codes") if self.additions.has_coefficients else means
        return means, codes, self._mean(params, means, codes)

    def _unexplained(self, mean: np.ndarray) -> np.ndarray:
        """What is left of each row, squared."""
        X = self.sample.X
        return np.square(np.where(np.isnan(X), 0.0, X - mean)).sum(axis=1)

    def _round(self, best: Standing) -> Standing | None:
        """The parameters with some latents moved, after a few EM steps; None where nothing is worth moving."""
        means, codes, mean = self._explained(best.params)
        losses = self._losses(best.params, means)
        weakest = np.argsort(losses, kind="stable")
        proposals = self._proposals(best.params, mean, self.most)
        worth = proposals.gains > self.settings.worth * losses[weakest[: len(proposals.gains)]]
        moved = weakest[: int(np.argmin(np.append(worth, False)))]
        if moved.size == 0 or tuple(moved) in self.tried:
            moved = self._suspects(best.params, means, mean, losses)
            kept = np.isin(np.arange(self.H), moved, invert=True)
            mean = self._mean(best.params, means * kept, codes * kept)
            proposals = self._proposals(best.params, mean, len(moved), kept)
        moved = moved[: len(proposals.gains)]
        if moved.size == 0:
            return None
        self.tried.add(tuple(moved))
        start = self.additions.put(best.params, moved, _some(proposals.latents, slice(0, moved.size)))
        self.most = max(moved.size // 2, 1)
        return self.em.steps(self.em.e_step(start), self.settings.n_steps)

    def _losses(self, params: Any, means: np.ndarray) -> np.ndarray:
        """What the free energy loses without each latent, all else the same, (H,)."""
        with_it = -(self.sample.weights @ np.log(np.maximum(1.0 - means, _LARGEST_LOSS)))
        return np.maximum(with_it + self.sample.weights.sum() * np.log1p(-params.activation), 0.0)

    def _mean(self, params: Any, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """What is explained of each row; what is missing counts as explained."""
        return self.em.model.superpose(params, self.additions.states(means, codes))

    def _suspects(self, params: Any, means: np.ndarray, mean: np.ndarray, losses: np.ndarray) -> np.ndarray:
        """Latents to look for anew, all at once, where no single one is worth moving: of three kinds."""
        self.turn += 1
        weakest = int(np.argmin(losses))
        is_weak = losses[weakest] < _WEAK * np.median(losses)
        ill_fitting = self._ill_fitting(means, mean, weakest) if is_weak else np.zeros(0, dtype=int)
        if ill_fitting.size and self.turn % 2:
            return ill_fitting
        dependent = self._dependent(means)
        if dependent.size or ill_fitting.size:
            return dependent if dependent.size else ill_fitting
        return self._neighbours(params.components, means, mean)

    def _neighbours(self, components: np.ndarray, means: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The next one of those whose data points are explained worst, and the components that are most like it."""
        unit = inverse_norms(components)[:, None] * components
        for h in self._beyond_chance(means, mean):
            group = np.argsort(-np.abs(unit @ unit[h]), kind="stable")[:_GROUP]
            if tuple(sorted(group)) not in self.tried:
                self.tried.add(tuple(sorted(group)))
                return group
        return np.zeros(0, dtype=int)

    def _dependent(self, means: np.ndarray) -> np.ndarray:
        """Groups that are active together far more or less often than by chance."""
        weights = self.sample.weights
        together = means.T @ (weights[:, None] * means)
        alone = weights @ means
        expected = np.outer(alone, alone) / max(weights.sum(), 1e-300)
        surprise = np.abs(together - expected) / np.sqrt(np.maximum(expected, 1.0))
        rows, columns = np.triu_indices(self.H, 1)
        np.fill_diagonal(surprise, 0.0)
        moved: list[int] = []
        for pair in np.argsort(-surprise[rows, columns], kind="stable"):
            i, j = int(rows[pair]), int(columns[pair])
            if surprise[i, j] < _DEPENDENT or len(moved) >= max(self.most, 2):
                break
            if (i, j) not in self.tried and i not in moved and j not in moved:
                self.tried.add((i, j))
                related = np.maximum(surprise[i], surprise[j])
                others = [int(h) for h in np.argsort(-related, kind="stable")[: _GROUP + 2] if related[h] > _DEPENDENT]
                moved += [i, j, *(h for h in others if h not in (i, j, *moved))][:_GROUP]
        return np.array(moved, dtype=int)

    def _ill_fitting(self, means: np.ndarray, mean: np.ndarray, weakest: int) -> np.ndarray:
        """The weakest latent, and the next one of those whose data points are explained worst: it may stand for two."""
        for h in np.argsort(-self._misfit(means, mean), kind="stable"):
            if h != weakest and (weakest, int(h)) not in self.tried:
                return np.array([weakest, h])
        return np.zeros(0, dtype=int)

    def _misfit(self, means: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """What is left of the data points that use each latent, on average, (H,)."""
        weights = self.sample.weights
        return ((weights * self._unexplained(mean)) @ means) / np.maximum(weights @ means, 1.0)

    def _proposals(self, params: Any, mean: np.ndarray, n: int, beside: np.ndarray | None = None) -> Proposals:
        """At most n latents that explain what is badly explained: each refitted to what is left, the best chosen.

        Those like a latent that stays, among `beside`, are left out: it is there, but was no candidate.
        """
        if n == 0:
            return Proposals(None, np.zeros(0))
        X, weights, rows = self.few
        mean = mean[rows]
        Y = np.where(np.isnan(X), mean, X)
        unexplained = np.square(Y - mean).sum(axis=1)
        average = (weights @ unexplained) / weights.sum()
        mass = weights * np.maximum(unexplained / max(average, 1e-300) - _WELL_EXPLAINED, 0.0)
        n_drawn = max(int(n * self.settings.proposals_per_latent), self.H, 8)
        drawn = draw_rows(mass if mass.any() else weights, n_drawn, self.rng)
        latents = self.additions.seeds(params, Y, mean, smoothed(Y - mean, weights, mass, drawn, 2 * self.H), drawn)
        for _ in range(self.settings.n_refits):
            use = expit(self.additions.gains(params, Y, mean, latents) + logit(latents.activation)) * weights[:, None]
            activation = np.clip(use.sum(axis=0) / weights.sum(), RAREST, 0.5)
            latents = self.additions.refit(params, Y, mean, latents, use)._replace(activation=activation)
        odds = self.additions.gains(params, Y, mean, latents) + logit(latents.activation)
        gains = np.logaddexp(0.0, odds) + np.log1p(-latents.activation)
        known = (params.activation > _HARDLY_USED) & (True if beside is None else beside)
        gains[:, _are_alike(latents.components, params.components[known])] = 0.0
        chosen, added = choose_beside_each_other(gains, weights, n)
        return Proposals(_some(latents, chosen), added)


def choose_beside_each_other(gains: np.ndarray, weights: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """At most n columns, each with the largest sum over rows of what it adds to the best of those before it.

    A sum only falls as others are chosen, so that most of them need not be computed again.
    """
    columns = np.ascontiguousarray(gains.T)
    sums, known = np.maximum(columns, 0.0) @ weights, np.zeros(len(columns), dtype=int)
    best = np.zeros(len(gains))
    chosen: list[int] = []
    added: list[float] = []
    while len(chosen) < n:
        c = int(np.argmax(sums))
        if sums[c] <= 0.0:
            break
        if known[c] < len(chosen):
            sums[c], known[c] = np.maximum(columns[c] - best, 0.0) @ weights, len(chosen)
            continue
        chosen.append(c)
        added.append(sums[c])
        best, sums[c] = np.maximum(best, columns[c]), -1.0
    return np.array(chosen, dtype=int), np.array(added)


def _are_alike(components: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each component points where a known one does."""
    if not len(known):
        return np.zeros(len(components), dtype=bool)
    unit, others = (inverse_norms(W)[:, None] * W for W in (components, known))
    return np.abs(unit @ others.T).max(axis=1) > _ALIKE


def smoothed(residuals: np.ndarray, weights: np.ndarray, mass: np.ndarray, rows: np.ndarray, most: int) -> np.ndarray:
    """What is left of some rows, as far as it lies in directions in which badly explained rows vary beyond their noise.

    What is left of a single row is mostly noise where there are many dimensions.
    """
    total = mass.sum()
    if total <= 0.0:
        return residuals[rows]
    covariance = (residuals * (mass / total)[:, None]).T @ residuals
    values, directions = np.linalg.eigh(covariance)
    n_effective = total**2 / np.divide(mass**2, weights, out=np.zeros_like(mass), where=weights > 0.0).sum()
    noise = max(np.median(values), 1e-9 * values[-1])
    edge = noise * (1.0 + np.sqrt(residuals.shape[1] / n_effective)) ** 2
    n_kept = min(max(int((values > edge).sum()), 2), most)
    basis = directions[:, -n_kept:]
    return (residuals[rows] @ basis) @ basis.T


def _some(latents: Any, which: Any) -> Any:
    """The components and activations of some latents."""
    return latents._replace(components=latents.components[which], activation=latents.activation[which])
