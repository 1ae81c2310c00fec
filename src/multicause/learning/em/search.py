"""A start that is worth something: latents grown from what the others leave unexplained, before EM sees all data.

All is done on a bounded sample of the rows, with few candidates. Each round puts several latents at once where data
points are badly explained, in the place of those that are missed least, or of pairs that depend on each other where the
model says that they do not; a few EM steps follow, and the round stands if the free energy rose.

Rows are drawn along a random direction through the data, not by their numbers: neither their order matters, nor whether
a row has a weight of two or is given twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from multicause import interrupts
from multicause.execution.in_process import InProcess, executor_here
from multicause.learning.em.em import Started
from multicause.learning.em.local_em import LocalEM, Standing
from multicause.learning.em.proposals import Proposals, are_alike, choose_beside_each_other, smoothed, some_of
from multicause.learning.em.widening import Widening
from multicause.learning.initialisation.rows import draw_rows, evenly, sample_rows
from multicause.models.additions import Additions, additions_to
from multicause.models.dictionary_model import inverse_norms
from multicause.models.priors import RAREST
from multicause.posteriors.truncated import TruncatedPosterior

_WITHOUT = 1e-12  # probability without a latent below which little is left of it but rounding: it counts as
_LARGEST_LOSS = 37.0  # nats, as much as a data point says of a latent at the most
_LEAST_ROWS_PER_LATENT = 3  # in fewer rows there is nothing to be found
_WEAK = 0.25  # of the median loss: a latent that is missed so little is worth a try without
_WELL_EXPLAINED = 0.9  # of the average of what is left of a row: below it, it is not looked at
_HARDLY_USED = 10.0 * RAREST
_OFTEN = 0.4  # activation beyond which a latent may stand for a rare one
_GROUP = 4  # latents at most that depend on each other
_BEYOND_CHANCE = 3.5  # standard errors of what is left of a latent's rows
_NOTICED = 4.0  # least gains of a round: ends that are nearer to each other are one
_SAME = 1e-4  # of what is noticed: a difference of free energies that rounding may make
_ENOUGH_ROWS = 2000  # to tell what is left by chance
_FEW_ROWS, _MANY_TIMES = 1250, 4.0  # of which another search costs little; as many rounds in the smallest samples
_DEPENDENT = 4.0  # standard deviations of a count of pairs beyond which they are no chance


@dataclass(frozen=True)
class Search:
    """How long to look, and at how much.

    Parameters
    ----------
    n_rounds : int
        Most rounds of a search.
    n_rounds_in_all : int
        After so many rounds no other search begins; in small samples, where a round costs little, after more.
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
    least_gain: float = 5e-4  # of all that was gained before, or of a nat per data point, for a round to be a success
    n_refits: int = 3  # of proposals
    proposals_per_latent: float = 2.0
    n_last_steps: int = 50  # EM steps with all candidates, at most
    worth: float = 0.5  # gain of a proposal over the loss of what it replaces, at the least
    forgotten: float = 0.34  # share of the latents that a search from the best so far begins without
    widening: Widening | None = None  # of the truncation, once components are found

    def __call__(self, em: Any, rng: np.random.Generator) -> Started:
        """First parameters for a fit to all data, and the posterior to learn on with."""
        model, additions = em.model, additions_to(em.model)
        drawn = model.init_params(em.moments, rng)
        if additions is None:
            return Started(drawn, em.posterior)
        n_rows = max(self.least_rows, self.rows_per_latent * model.n_components)
        X, weights, n_distinct = sample_rows(em, n_rows, rng)
        if n_distinct < _LEAST_ROWS_PER_LATENT * model.n_components:
            return Started(drawn, em.posterior)
        weights = weights * (min(n_distinct, len(X)) / weights.sum())  # counts of rows, whatever their unit
        sample = Sample(X, weights, np.arange(len(X)))
        with executor_here(em.executor) as executor:
            return self._found(em, executor, additions, drawn, sample, rng)

    def _found(
        self, em: Any, executor: InProcess, additions: Additions, drawn: Any, sample: "Sample", rng: np.random.Generator
    ) -> Started:
        """What the search finds in a sample, and EM makes of it there."""
        model, (X, weights, _) = em.model, sample
        kept = (additions.n_candidates, additions.max_active)
        posterior, judging = (self._keeping(em, additions, *(one or kept)) for one in (kept, additions.judging))
        local = LocalEM(additions.learner, posterior, executor, executor.split(X, model.n_components, weights=weights))
        nothing = additions.at_rest(additions.nothing(drawn), X, weights)
        as_it_learns = replace(local, model=model, posterior=replace(em.posterior, monotone=False))

        def completed(found: Any) -> Any:
            found = additions.turned(found)
            idle = found.activation <= _HARDLY_USED  # nothing was found for them: EM may yet find a use
            components = np.where(idle[:, None], drawn.components, additions.lifted(found.components))
            return found._replace(components=components)

        begin = partial(_Searching, self, local, replace(local, posterior=judging), additions, sample, rng)
        try:
            params = completed(self._believed(begin, nothing, round(weights.sum())))
        except interrupts.Interrupted as interrupted:
            raise interrupts.Interrupted(Started(completed(interrupted.found), em.posterior)) from interrupted
        try:
            return self._learned_on(as_it_learns, params, em.posterior, weights)
        except KeyboardInterrupt as interrupted:
            raise interrupts.Interrupted(Started(params, em.posterior)) from interrupted

    def _learned_on(self, local: "LocalEM", params: Any, posterior: TruncatedPosterior, weights: np.ndarray) -> Started:
        """EM on the sample, as on all data: with more states where many are wanted, before it and after it."""
        for learned_before in (False, True):
            kept = local.posterior.kept
            local = local if self.widening is None else local.widened(self.widening, params, weights)
            if not learned_before or local.posterior.kept != kept:
                params = local.best_of_steps(params, self.n_last_steps)
        return Started(params, posterior.keeping(local.posterior.kept))

    def _keeping(self, em: Any, additions: Additions, n_candidates: int, max_active: int) -> TruncatedPosterior:
        """The posterior of a search, with as many states as these allow and the user does."""
        H, most_active = em.model.n_components, self._most_active(em.posterior)
        return TruncatedPosterior(
            min(n_candidates, H),
            min(max_active, most_active, H),
            em.posterior.singletons,
            greedy=em.posterior.greedy and additions.greedy,
        )

    def _most_active(self, posterior: TruncatedPosterior) -> int:
        """As many as the user allows: rows that want more look as though something was missing."""
        return posterior.n_candidates if self.widening is not None and self.widening.active else posterior.max_active

    def _believed(self, begin: "Callable[[], _Searching]", nothing: Any, n_rows: int) -> Any:
        """The best of several searches: from nothing, and, in turns, from the best so far without some of its latents.

        The latter go further where there are many ways to go astray, but come back to where they went astray before:
        one is believed in which no latent's rows, of many, are worse explained than by chance, or to which two from
        nothing lead; any two where rows are many.
        """
        ends: list[Found] = []
        every = 1 if n_rows >= _ENOUGH_ROWS else 2
        start = nothing
        n_rounds_in_all = self.n_rounds_in_all * min(max((_FEW_ROWS / n_rows) ** 2, 1.0), _MANY_TIMES)
        while sum(end.n_rounds for end in ends) < n_rounds_in_all:
            searching = begin()
            try:
                ends.append(searching.run(start))
            except KeyboardInterrupt as interrupted:
                known = [(end.free_energy, end.params) for end in ends] + searching.so_far
                if not known:
                    raise
                raise interrupts.Interrupted(max(known, key=lambda pair: pair[0])[1]) from interrupted
            best = _best_of(ends)
            alike = sum(end.free_energy >= best.free_energy - best.noticed for end in ends[::every])
            if alike > 1 or best.is_content:
                break
            start = searching.without_some(best.params, nothing) if len(ends) % 2 else nothing
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


class Found(NamedTuple):
    """The end of a search."""

    params: Any
    free_energy: float  # of all data
    noticed: float  # by how much another one must be better to be another one
    n_rounds: int
    is_content: bool  # no latent's rows are worse explained than by chance


def _best_of(ends: list[Found]) -> Found:
    """The first of those with the largest free energy: rounding does not choose among equals."""
    best = max(ends, key=lambda end: end.free_energy)
    return next(end for end in ends if end.free_energy >= best.free_energy - _SAME * best.noticed)


class _Searching:
    """One search, as far as it has come."""

    def __init__(
        self,
        settings: Search,
        em: LocalEM,
        judging: LocalEM,
        additions: Additions,
        sample: Sample,
        rng: np.random.Generator,
    ):
        self.settings, self.em, self.judging = settings, em, judging  # which says what rows have, and what they lack
        self.additions, self.sample, self.rng = additions, sample, rng
        self.few = few_of(sample, additions.most_rows)
        self.H = em.model.n_components
        self.most = self.H  # latents that a round may move
        self.turn = 0
        self.tried: set[tuple[int, ...]] = set()  # what was moved since the last success
        self.so_far: list[tuple[float, Any]] = []  # the best free energy, and the parameters it belongs to

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
            self.so_far = [(best.e_step.free_energy, best.params)]
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
        return Found(best.params, best.e_step.free_energy, _NOTICED * enough, n_rounds, self._is_content(best.params))

    def without_some(self, params: Any, nothing: Any) -> Any:
        """The same parameters without some latents, drawn at random by what they are, not by their numbers."""
        n_forgotten = min(max(int(np.ceil(self.settings.forgotten * self.H)), 2), self.H)
        by_size = np.argsort(np.square(params.components).sum(axis=1), kind="stable")
        places = np.sort(by_size[self.rng.choice(self.H, n_forgotten, replace=False)])
        return self.additions.put(params, places, some_of(nothing, places))

    def _is_content(self, params: Any) -> bool:
        if round(self.sample.weights.sum()) < _ENOUGH_ROWS:
            return False
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
        means = self.judging.ask(params, "means")
        codes = self.judging.ask(params, "codes") if self.additions.has_coefficients else means
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
        params = best.params
        if moved.size == 0 or tuple(moved) in self.tried:
            moved = self._suspects(params, means, mean, losses)
            kept = np.isin(np.arange(self.H), moved, invert=True)
            if self._often_on(params)[moved].any():  # the intercept may have followed them
                params = self.additions.at_rest(params, self.sample.X, self.sample.weights, means * kept, codes * kept)
            mean = self._mean(params, means * kept, codes * kept)
            proposals = self._proposals(params, mean, len(moved), kept)
        moved = moved[: len(proposals.gains)]
        if moved.size == 0:
            return None
        self.tried.add(tuple(moved))
        start = self.additions.put(params, moved, some_of(proposals.latents, slice(0, moved.size)))
        self.most = max(moved.size // 2, 1)
        return self.em.steps(self.em.e_step(start), self.settings.n_steps)

    def _losses(self, params: Any, means: np.ndarray) -> np.ndarray:
        """What the free energy loses without each latent, all else the same, (H,)."""
        without = 1.0 - means
        lost = np.where(without < _WITHOUT, _LARGEST_LOSS, -np.log(np.maximum(without, _WITHOUT)))
        with_it = self.sample.weights @ lost
        return np.maximum(with_it + self.sample.weights.sum() * np.log1p(-params.activation), 0.0)

    def _mean(self, params: Any, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """What is explained of each row; what is missing counts as explained."""
        return self.em.model.superpose(params, self.additions.states(means, codes))

    def _suspects(self, params: Any, means: np.ndarray, mean: np.ndarray, losses: np.ndarray) -> np.ndarray:
        """Latents to look for anew, all at once, where no single one is worth moving: of four kinds."""
        often_on = np.flatnonzero(self._often_on(params))
        if often_on.size and tuple(often_on) not in self.tried:
            self.tried.add(tuple(often_on))
            return often_on
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

    def _often_on(self, params: Any) -> np.ndarray:
        """Whether a latent is on so often that it may stand for a rare one, (H,)."""
        return (params.activation > _OFTEN) & self.additions.may_stay_on

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
        gains[:, are_alike(latents.components, params.components[known])] = 0.0
        chosen, added = choose_beside_each_other(gains, weights, n)
        return Proposals(some_of(latents, chosen), added)
