"""Experts without regard to orthogonality: all at once, or one after the other."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from multicause.learning.experts.descent import Descent, DescentState, Loss, descend, descend_on
from multicause.learning.experts.pursuit import ROUGH, LocalOptimum, Pursuit, Update
from multicause.learning.experts.white_data import WhiteData
from multicause.learning.records import Record, Stopwatch
from multicause.learning.resumed import check_array, check_finite, check_kind, check_whole, refuse
from multicause.learning.stopping import Stop
from multicause.models.experts import Expert
from multicause.models.product_of_experts import ProductParams


def _joined(params: ProductParams, found: LocalOptimum, data: WhiteData) -> tuple[np.ndarray, tuple[Expert, ...]]:
    """All directions in the frame of the data, and all experts, with the one that was found."""
    w = np.zeros(data.n_dimensions)
    w[data.n_found :] = found.direction
    return np.vstack([params.directions @ data.rotation.T, w]), (*params.experts, found.expert)


@dataclass(frozen=True)
class OneByOne(Pursuit):
    """Each expert is found by pursuit, then freed of orthogonality while the earlier ones stay          [SEQ, §5.1]"""

    def _place(self, params: ProductParams, found: LocalOptimum) -> Update:
        data, j = self.data, len(params.experts)
        if data.is_simplex():
            return super()._place(params, found)
        W, experts = _joined(params, found, data)
        loss, only = Loss(data, self.white), slice(j, j + 1)
        first = loss.at(W, experts, only).value
        for number, progress in enumerate(descend(loss, W, experts, only, self.max_iter, self.tol), start=1):
            latest, n_iter = progress, number
        w = latest.point.W[j]
        inside = w @ data.rotation
        self._accept(w[data.n_found :] / np.linalg.norm(w[data.n_found :]))
        params = params._replace(directions=np.vstack([params.directions, inside]), experts=latest.experts)
        gain = first - latest.point.value - found.q
        return Update(params, gain, found.n_iter + n_iter, found.converged and latest.converged)


@dataclass(frozen=True)
class Backfitted(Pursuit):
    """Whenever an expert is found by pursuit, all of them move on from where they were                  [PAR, §5.1]"""

    def _place(self, params: ProductParams, found: LocalOptimum) -> Update:
        data, j = self.data, len(params.experts)
        if data.is_simplex():
            return super()._place(params, found)
        W, experts = _joined(params, found, data)
        loss, everything = Loss(data, self.white), slice(0, j + 1)
        for number, progress in enumerate(descend(loss, W, experts, everything, self.max_iter, self.tol), start=1):
            latest, n_iter = progress, number
        params = params._replace(directions=latest.point.W @ data.rotation, experts=latest.experts)
        self.rotate([params.directions])
        gain = latest.gained - found.q
        return Update(params, gain, found.n_iter + n_iter, found.converged and latest.converged)

    def rotate(self, accepted: Iterable[np.ndarray]) -> None:
        """Turn the data as back-fitting did: towards all directions, again and again."""
        for directions in accepted:
            if directions.ndim == 1:  # of a simplex
                self._accept(directions)
                continue
            for data in (self.data, self.subsample):
                if data is not None:
                    data.turn_towards(directions)

    def _check_accepted(self, direction: np.ndarray, n_before: int) -> None:
        if np.ndim(direction) == 2:
            check_array(direction, (n_before + 1, self.data.n_dimensions), "directions")
        else:
            super()._check_accepted(direction, n_before)


class TogetherState(NamedTuple):
    """From which the descent after a pursuit can go on."""

    begun: Record  # the pursuit's last
    accepted: tuple[np.ndarray, ...]  # of the data
    number: int  # of the last record
    descent: DescentState  # one step further


@dataclass(frozen=True)
class Together(Pursuit):
    """Pursuit first; then all directions and experts move at once                                       [eq. 19-20]"""

    @property
    def n_steps(self) -> int:
        return self.most + self.max_iter

    def steps(
        self, params: ProductParams, rng: np.random.Generator, restart: int = 0, state: Any = None
    ) -> Iterator[Record]:
        """The records of the pursuit, then one for each iteration."""
        if self.data.is_simplex():
            yield from super().steps(params, rng, restart, state)
            return
        if isinstance(state, TogetherState):
            self._check_descent(state)
            self.rotate(state.accepted)
            yield from self._descent(state.begun, state)
            return
        rough = Pursuit(**{**vars(self), "tol": max(self.tol, ROUGH)})  # the rest is done by all of them together
        for record in rough.steps(params, rng, restart, state):
            if not record.final:
                yield record
        yield from self._descent(record) if record.params.experts else [record]

    def _check_descent(self, state: TogetherState) -> None:
        begun, descent = state.begun, state.descent
        check_kind(begun, Record, "a record")
        n_experts = self.check_experts(begun.params, state.accepted, self.most)
        check_finite(begun.free_energy, "a free energy")
        check_whole(begun.number, 0, self.n_steps, "a number of steps")
        check_whole(0 if begun.n_iter is None else begun.n_iter, 0, np.inf, "a number of iterations")
        check_finite(begun.seconds, "a time")
        check_whole(state.number, begun.number, self.n_steps, "a number of steps")
        check_kind(descent, DescentState, "a descent")
        shape = n_experts, self.data.n_dimensions
        check_array(descent.W, shape, "directions")
        if type(descent.experts) is not tuple or len(descent.experts) != n_experts:
            refuse("other experts than directions")
        for expert in descent.experts:
            self._check_expert(expert)
        check_finite(descent.first, "a loss")
        check_whole(descent.iteration, 0, self.max_iter, "a number of iterations")
        check_whole(descent.next_refit, 1, np.inf, "a number of iterations")
        check_kind(descent.converged, bool, "a verdict")
        for pair in descent.memory:
            for change in pair:
                check_array(change, shape, "steps")

    def _descent(self, begun: Record, state: TogetherState | None = None) -> Iterator[Record]:
        """From the pursuit's last record on, or from a state."""
        clock = Stopwatch()
        stop = Stop.ITERATIONS_RAN_OUT
        record = begun._replace(final=False, stop=None) if state is None else None
        number = begun.number if state is None else state.number
        for progress in self._relaxed(begun.params, state):
            if record is not None:
                yield record._replace(state=TogetherState(begun, self.data.accepted, number, progress.state))
            number += 1
            n_iter = (begun.n_iter or 0) + number - begun.number
            learned = begun.params._replace(directions=progress.point.W @ self.data.rotation, experts=progress.experts)
            value, seconds = begun.free_energy + progress.gained, begun.seconds + clock()
            record = Record(number, learned, value, self.data.total, seconds, begun.restart, n_iter=n_iter)
            if progress.converged:
                stop = begun.stop if begun.stop is Stop.NO_MORE_EXPERTS else Stop.CONVERGED
        assert record is not None
        yield record._replace(final=True, stop=stop)

    def _relaxed(self, params: ProductParams, state: TogetherState | None) -> Iterator[Descent]:
        everything, loss = slice(0, len(params.experts)), Loss(self.data, self.white)
        if state is not None:
            return descend_on(loss, state.descent, everything, self.max_iter, self.tol)
        W = params.directions @ self.data.rotation.T
        return descend(loss, W, params.experts, everything, self.max_iter, self.tol)
