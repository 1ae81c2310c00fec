"""Projection pursuit: one expert after the other, each in the direction that is told best from a Gaussian one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multicause.learning.experts.white_data import WhiteData
from multicause.learning.records import Record, Stopwatch
from multicause.learning.resumed import (
    check_alike,
    check_array,
    check_finite,
    check_kind,
    check_unit,
    check_whole,
    refuse,
)
from multicause.learning.stopping import Stop
from multicause.models.experts import Expert
from multicause.models.product_of_experts import ProductParams, Whitening
from multicause.models.student_t_fit import LOG_2PI

ROUGH = 1e-3  # nats: once a step gains less, the expert's shape is fitted jointly with the direction
SUFFICIENT = 1e-4  # share of the gain promised by the slope that a step must keep
MOST_HALVINGS = 30
PATIENCE = 3  # further searches before it is said that no expert helps
SURE = 1.5  # standard errors: with 2, hundreds of held-out points cannot show what a Laplace source gains


def enough_points(n_dimensions: int) -> int:
    """Data points that tell the directions of so many dimensions apart, more or less."""
    return max(10_000, 25 * n_dimensions)


class LocalOptimum(NamedTuple):
    """A local minimum of the projection index."""

    direction: np.ndarray  # unit vector in the coordinates not found yet
    expert: Expert
    q: float  # the projection index
    n_iter: int
    converged: bool


class Update(NamedTuple):
    """A model with one expert more."""

    params: ProductParams
    gain: float  # of the mean log-likelihood
    n_iter: int
    converged: bool


class PursuitState(NamedTuple):
    """From which a pursuit can go on, given the position of the random numbers."""

    params: ProductParams
    free_energy: float
    n_iter: int  # so far, searches in vain included
    converged: bool  # each search so far
    accepted: tuple[np.ndarray, ...]  # of the data
    found: LocalOptimum | None = None  # which is to be placed next


class _Point(NamedTuple):
    """Where the search stands: a unit vector, its projections, the expert, and the projection index."""

    w: np.ndarray
    z: np.ndarray
    expert: Expert
    q: float


def projection_index(expert: Expert, z: np.ndarray, weights: np.ndarray) -> float:
    """Q = <E(z) - z^2 / 2> + log Z - log(2 pi) / 2                                                     [eq. 26]"""
    return float(weights @ (expert.energy(z) - 0.5 * z * z)) + expert.log_normaliser() - 0.5 * LOG_2PI


def find_direction(
    data: WhiteData, expert: Expert, start: np.ndarray, max_iter: int, tol: float, adapting: bool = False
) -> LocalOptimum:
    """Minimise Q over unit vectors and the expert's parameters, from `start`                           [eq. 27-29]

    Each iteration minimises along a great circle, by a Newton step with the curvature along that circle: on white data
    whose directions are alike in curvature it is FastICA's step, and like it converges in a few iterations. The step
    is shortened until Q falls, which keeps it from the maxima of Q; conjugate directions speed up the search where
    curvatures differ. The search starts with the expert as given, which says what to look for, and fits its shape as
    soon as the direction is roughly found, or from the beginning if `adapting`.
    """
    w = start / np.linalg.norm(start)
    z = data.project(w)
    here = _Point(w, z, expert, projection_index(expert, z, data.weights))
    heading, last_tangent = None, None
    for iteration in range(1, max_iter + 1):
        terms = here.expert.terms(here.z)
        gradient = data.pull(terms.derivative - here.z)
        radial = float(here.w @ gradient)
        tangent = gradient - radial * here.w
        heading = _conjugate(tangent, last_tangent, heading)
        length = float(np.linalg.norm(heading))
        if length < 1e-14:  # a stationary point; nothing but the expert can move
            fitted = _refit(here, data, 50)
            return LocalOptimum(fitted.w, fitted.expert, fitted.q, iteration, True)
        u = heading / length
        p = data.project(u)
        curvature = float(data.weights @ ((terms.second_derivative - 1.0) * p * p)) - radial
        slope = float(tangent @ u)
        moved, angle = _along_circle(here, u, p, slope, float(np.arctan2(-slope, abs(curvature))), data.weights)
        heading, last_tangent = length * (np.cos(angle) * u - np.sin(angle) * here.w), tangent
        after = _refit(moved, data, 1) if adapting else moved
        gain = here.q - after.q
        here = after
        if gain < (tol if adapting else max(ROUGH, tol)):
            if adapting:
                fitted = _refit(here, data, 50)
                if here.q - fitted.q < tol:
                    return LocalOptimum(fitted.w, fitted.expert, fitted.q, iteration, True)
                here = fitted
            else:
                here, adapting, heading, last_tangent = _refit(here, data, 10), True, None, None
    return LocalOptimum(here.w, here.expert, here.q, max_iter, False)


def _conjugate(tangent: np.ndarray, last: np.ndarray | None, heading: np.ndarray | None) -> np.ndarray:
    """The direction of steepest descent, bent towards the last one (Polak and Ribiere), as long as it descends."""
    if last is None or heading is None:
        return -tangent
    bend = max(0.0, float(tangent @ (tangent - last)) / max(float(last @ last), 1e-300))
    bent = -tangent + bend * heading
    return bent if float(bent @ tangent) < -0.1 * float(tangent @ tangent) else -tangent


def _along_circle(
    here: _Point, u: np.ndarray, p: np.ndarray, slope: float, angle: float, weights: np.ndarray
) -> tuple[_Point, float]:
    """The point at `angle` on the circle through w and u, or nearer where Q does not fall; projections are linear."""
    for _ in range(MOST_HALVINGS):
        z = np.cos(angle) * here.z + np.sin(angle) * p
        index = projection_index(here.expert, z, weights)
        if index <= here.q + SUFFICIENT * angle * slope:
            w = np.cos(angle) * here.w + np.sin(angle) * u
            return _Point(w / np.linalg.norm(w), z, here.expert, index), angle
        angle *= 0.4
    return here, 0.0


def _refit(here: _Point, data: WhiteData, n_steps: int) -> _Point:
    """The same direction with a fitted expert, unless that is worse."""
    expert = here.expert.fit(here.z, data.weights, n_steps)
    q = projection_index(expert, here.z, data.weights)
    return here._replace(expert=expert, q=q) if q < here.q else here


@dataclass(frozen=True)
class Pursuit:
    """Experts one after the other, in orthogonal directions, until there are enough or none helps any more.

    None helps where all directions that were found have an index of 0 or more (§3.3). With `held_out` data, and without
    a number of experts, the index must be negative there, too, by 1.5 standard errors.
    """

    data: WhiteData
    whitening: Whitening
    frame: np.ndarray  # (K, D) in which the first directions are drawn
    expert: Expert
    n_components: int | None
    n_init: int = 1
    max_iter: int = 200
    tol: float = 1e-6
    white: bool = True  # whether <x x^T> is the identity
    held_out: WhiteData | None = None  # that an expert must prove itself on
    subsample: WhiteData | None = None  # some of the data, in which searches begin

    @property
    def most(self) -> int:
        return self.data.n_dimensions if self.n_components is None else self.n_components

    @property
    def n_steps(self) -> int:
        return self.most

    def stopping_rule(self, tol: float) -> None:
        """Each search has its own."""

    def steps(
        self,
        params: ProductParams,
        rng: np.random.Generator,
        restart: int = 0,
        state: PursuitState | None = None,
    ) -> Iterator[Record]:
        """One record before the first expert and one after each."""
        clock = Stopwatch()
        stop = Stop.EXPERTS_FOUND
        if state is None:
            state = PursuitState(params, gaussian_log_likelihood(self.data, self.whitening), 0, True, ())
        else:
            self._check(state)
            self.rotate(state.accepted)
            state = self._placed(state)
        record = self._record(state, clock(), restart)
        while len(state.params.experts) < self.most:
            found, worth_it, spent = self._next(rng)
            state = state._replace(n_iter=state.n_iter + spent, found=found)
            if not worth_it:
                stop = Stop.NO_MORE_EXPERTS
                break
            yield record._replace(state=state)
            state = self._placed(state)
            record = self._record(state, clock(), restart)
        stop = stop if state.converged else Stop.ITERATIONS_RAN_OUT
        yield record._replace(n_iter=state.n_iter, final=True, stop=stop)

    def _check(self, state: PursuitState) -> None:
        """Of a file, before anything is turned by it."""
        check_kind(state, PursuitState, "a state")
        n_found = self.check_experts(state.params, state.accepted, self.most - 1)
        check_finite(state.free_energy, "a free energy")
        check_whole(state.n_iter, 0, np.inf, "a number of iterations")
        check_kind(state.converged, bool, "a verdict")
        found = state.found
        check_kind(found, LocalOptimum, "an optimum")
        assert found is not None
        check_unit(found.direction, self.data.n_dimensions - n_found, "a direction")
        self._check_expert(found.expert)
        check_finite(found.q, "a projection index")
        check_whole(found.n_iter, 0, np.inf, "a number of iterations")
        check_kind(found.converged, bool, "a verdict")

    def check_experts(self, params: ProductParams, accepted: tuple[np.ndarray, ...], most: int) -> int:
        """Those found so far, and the directions that led to them; gives their number."""
        check_kind(params, ProductParams, "parameters")
        check_alike(params.whitening, self.whitening)
        if not all(np.array_equal(a, b) for a, b in zip(params.whitening, self.whitening, strict=True)):
            refuse("the whitening of other data")
        if type(params.experts) is not tuple or len(params.experts) > most:
            refuse("more experts than there can be")
        n_found, n_dimensions = len(params.experts), self.data.n_dimensions
        check_array(params.directions, (n_found, n_dimensions), "directions")
        for expert in params.experts:
            self._check_expert(expert)
        if type(accepted) is not tuple or len(accepted) != n_found:
            refuse("other directions than experts")
        for i, direction in enumerate(accepted):
            self._check_accepted(direction, i)
        return n_found

    def _check_accepted(self, direction: np.ndarray, n_before: int) -> None:
        check_unit(direction, self.data.n_dimensions - n_before, "a direction")

    def _check_expert(self, expert: Expert) -> None:
        check_kind(expert, type(self.expert), "an expert")
        if not np.isfinite(expert.log_normaliser()):
            refuse(f"an expert without a density, {expert!r:.60}")

    def rotate(self, accepted: Iterable[np.ndarray]) -> None:
        """Turn fresh data into the coordinates that these directions led to."""
        for direction in accepted:
            self._accept(direction)

    def _placed(self, state: PursuitState) -> PursuitState:
        """With the expert that was found."""
        assert state.found is not None
        update = self._place(state.params, state.found)
        return PursuitState(
            update.params,
            state.free_energy + update.gain,
            state.n_iter + update.n_iter,
            state.converged and update.converged,
            self.data.accepted,
        )

    def _record(self, state: PursuitState, seconds: float, restart: int) -> Record:
        number = len(state.params.experts)
        total = self.data.total
        return Record(number, state.params, state.free_energy, total, seconds, restart, n_iter=state.n_iter)

    def _next(self, rng: np.random.Generator) -> tuple[LocalOptimum, bool, int]:
        """The next expert, whether it helps, and the iterations spent on searches that were in vain.

        One search may end in a poor minimum of the index: only after some of them none is taken to help any more.
        """
        found, spent = self._best_of_starts(rng), 0
        for _ in range(PATIENCE):
            if self._is_worth_it(found):
                return found, True, spent
            spent += found.n_iter
            found = self._best_of_starts(rng)
        return found, self._is_worth_it(found), spent + found.n_iter

    def _place(self, params: ProductParams, found: LocalOptimum) -> Update:
        """The direction becomes one of the coordinates; the likelihood rises by -Q."""
        directions = np.vstack([params.directions, self._accept(found.direction)])
        params = params._replace(directions=directions, experts=(*params.experts, found.expert))
        return Update(params, -found.q, found.n_iter, found.converged)

    def _accept(self, direction: np.ndarray) -> np.ndarray:
        if self.subsample is not None:
            self.subsample.accept(direction)
        return self.data.accept(direction)

    def _best_of_starts(self, rng: np.random.Generator) -> LocalOptimum:
        starts = [self.frame @ rng.standard_normal(self.frame.shape[1]) for _ in range(self.n_init)]
        return min((self._search(self.data.remaining(start)) for start in starts), key=lambda found: found.q)

    def _search(self, start: np.ndarray) -> LocalOptimum:
        """Some of the data points show the way, all of them the place."""
        if self.subsample is None:
            return find_direction(self.data, self.expert, start, self.max_iter, self.tol)
        rough = find_direction(self.subsample, self.expert, start, self.max_iter, max(self.tol, 0.1 * ROUGH))
        found = find_direction(self.data, rough.expert, rough.direction, self.max_iter, self.tol, adapting=True)
        return found._replace(n_iter=found.n_iter + rough.n_iter)

    def _is_worth_it(self, found: LocalOptimum) -> bool:
        if not found.q < 0.0 or self.held_out is None or self.n_components is not None:
            return found.q < 0.0
        direction = found.direction @ self.data.rotation[self.data.n_found :]
        z, weights = self.held_out.project(direction), self.held_out.weights
        index = projection_index(found.expert, z, weights)
        each = found.expert.energy(z) - 0.5 * z * z
        apart = each - weights @ each
        largest = max(float(np.abs(apart).max()), 1e-300)  # whose square may be beyond all numbers
        error = largest * np.sqrt(float(weights @ (apart / largest) ** 2) * float(weights @ weights))
        return index < -SURE * error


def gaussian_log_likelihood(data: WhiteData, whitening: Whitening) -> float:
    """Mean log p(y) of the model without experts."""
    squares = [np.einsum("kn,kn->n", block, block) for block in data.blocks]
    mean_square = float(data.weights @ np.concatenate(squares))
    return whitening.log_determinant - 0.5 * mean_square - 0.5 * data.n_dimensions * LOG_2PI
