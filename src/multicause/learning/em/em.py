"""Expectation maximisation, written once: a generator of records."""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.learning.em.schedules import Change, Plan, Schedule, Step
from multicause.learning.not_finite import NotFinite
from multicause.learning.records import Record, Stopwatch
from multicause.learning.resumed import check_alike, check_finite, check_kept, check_kind, check_whole, refuse
from multicause.learning.stopping import GainBelow, NoNewBest, StoppingRule
from multicause.models.base import DataMoments, Perturbable, RedrawsUnused, calling, combine, is_users_own
from multicause.models.priors import probability_of_at_most
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior
from multicause.selection.base import Selection, Selector

MOST_HALVINGS = 6  # of an M-step that went too far


class EMState(NamedTuple):
    """All that the steps after a record follow from, but for the position of the random numbers."""

    number: int  # of steps done
    params: Any  # after their M-steps
    changes: tuple[float | None, ...]  # of the components, as far as the schedule asked
    last: "LastStep | None"  # which the next one must rise above
    remembered: Any  # of each chunk, as a tuple; a function that fetches it, until it is settled
    selector: Any  # where one learns
    kept: Any = None  # which states the posterior keeps, where that can change

    def settled(self) -> "EMState":
        """With all that chunks remembered then."""
        return self._replace(remembered=self.remembered()) if callable(self.remembered) else self


class LastStep(NamedTuple):
    """An E-step: its parameters, its settings, and the free energy of all data."""

    params: Any
    step: Step
    free_energy: float


class Started(NamedTuple):
    """Where a fit begins."""

    params: Any
    posterior: Any  # to learn with: the start may have seen what the data need


@dataclass(frozen=True)
class EM:
    """For each step of the plan, sum the E-step over the chunks, then let the model do its M-step.

    With `monotone` an M-step after which the free energy is smaller is halved: those of fixed-point models go uphill,
    but may go too far.
    """

    model: Any
    posterior: Posterior
    plan: Schedule
    executor: InProcess
    chunks: Sequence[Chunk]
    moments: DataMoments
    monotone: bool = False

    @property
    def n_steps(self) -> int:
        return self.plan.n_steps

    @property
    def kept(self) -> Any:
        """Which states the posterior keeps, where it is truncated."""
        return self.posterior.kept

    def stopping_rule(self, tol: float) -> StoppingRule | None:
        """None where the schedule, or a tolerance of 0, runs the fit to its end."""
        if self.plan.anneals or tol == 0.0:
            return None
        selection = self._learned_selection
        return GainBelow(tol) if selection is None else NoNewBest(tol, 2 * selection.update_every)

    @property
    def _learned_selection(self) -> Selection | None:
        """How candidates are learned; None where the model chooses, or where there is nothing to choose."""
        return None if self.posterior.keeps_all(self.model) else self.posterior.selection

    def expectations(self, params: Any) -> EStepResult:
        """The E-step of all chunks, by itself."""
        return self._e_step(params, Step(0), None)

    def maximise(self, params: Any, statistics: Any, rng: np.random.Generator) -> Any:
        """The M-step, by itself."""
        return self._m_step(params, statistics, Step(0), rng)

    def steps(
        self, params: Any, rng: np.random.Generator, restart: int = 0, state: EMState | None = None
    ) -> Iterator[Record]:
        """One record per E-step; a last one, at temperature 1, belongs to the parameters that the fit ends with."""
        if state is None or getattr(state, "kept", None) is None:
            return self._steps(params, rng, restart, state)
        check_kept(state.kept, self.posterior, self.model.n_components)
        as_it_was: Any = self.posterior
        return replace(self, posterior=as_it_was.keeping(state.kept))._steps(params, rng, restart, state)

    def _steps(self, params: Any, rng: np.random.Generator, restart: int, state: EMState | None) -> Iterator[Record]:
        clock, kept = Stopwatch(), self.kept
        selector, learned = self._begin_selection(rng, state), None
        schedule = _Replay(self.plan.steps())
        step, last, number = schedule.first(), None, 0
        if state is not None:
            self._check(state)
            number, params, last = state.number, state.params, state.last
            step, learned = schedule.again(state.changes), self._restore(state, selector)
        while step is not None:
            e_step = self._e_step(params, step, selector)
            if last is not None and self._must_rise(last.step, step):
                again = partial(self._e_step, step=step, selector=selector)
                params, e_step = self._backtrack(last, params, e_step, again)
            if selector is not None:
                learned = selector.learn(step.number)
            last = LastStep(params, step, e_step.free_energy)
            params = self._m_step(params, e_step.statistics, step, rng)
            if np.isfinite(e_step.free_energy):
                check_m_step(self.model, params, step.number)
            number, step = step.number + 1, schedule.advance(partial(component_change, last.params, params))
            n_contributing = float(getattr(e_step.statistics, "weight", self.moments.weight))
            yield Record(
                last.step.number, last.params, last.free_energy / self.moments.weight, n_contributing, clock(), restart,
                last.step.temperature, selection_function=learned, kept=kept,
                state=self._state(number, params, schedule.changes, last, selector),
                comparable=self._is_comparable(last.step),
            )  # fmt: skip
        end = self._final(params, learned)
        if last is not None and self._must_rise(last.step, Step(number)):
            params, end = self._backtrack(last, params, end, partial(self._final, learned=learned))
        free_energy, weight = end.free_energy / self.moments.weight, self.moments.weight
        yield Record(
            number, params, free_energy, weight, clock(), restart, final=True, selection_function=learned, kept=kept,
            comparable=self._is_comparable(Step(number)),
        )  # fmt: skip

    def _is_comparable(self, step: Step) -> bool:
        """Whether all points are judged by the model itself, chance has no say in it, nor a schedule that waits."""
        if not isinstance(self.plan, Plan):
            return False
        by_chance = self._learned_selection is not None or self.posterior.is_sampled
        settled = step.temperature == 1.0 and step.parameter_noise == 0.0 and self.plan.classification is None
        return settled and not by_chance

    def _state(
        self, number: int, params: Any, changes: list[float | None], last: LastStep, selector: Selector | None
    ) -> EMState:
        """References only: nothing that they refer to is changed in place."""
        remembered = self.executor.remembered(self.chunks)
        learned = None if selector is None else selector.state()
        last_step = last if self.monotone else None
        return EMState(number, params, tuple(changes), last_step, remembered, learned, self.kept)

    def _check(self, state: EMState) -> None:
        check_kind(state, EMState, "a state")
        check_whole(state.number, 0, self.n_steps, "a number of steps")
        if type(state.changes) is not tuple or len(state.changes) != state.number:
            refuse("changes of other steps")
        for change in state.changes:
            check_finite(0.0 if change is None else change, "a change")
        if state.last is not None:
            check_kind(state.last, LastStep, "a last step")
            check_kind(state.last.step, Step, "a step")
            check_finite(state.last.free_energy, "a free energy")

    def _restore(self, state: EMState, selector: Selector | None) -> Selector | None:
        """What chunks and the selector knew; gives the selection function as learned by then."""
        wanted = self.model.init_params(self.moments, np.random.default_rng(0))
        for params in (state.params, wanted if state.last is None else state.last.params):
            check_alike(params, wanted)
        remembered = state.remembered
        if type(remembered) is not tuple or [type(values) for values in remembered] != [tuple] * len(self.chunks):
            refuse("what other chunks remember")
        n_targets = self.model.n_components * getattr(self.model, "n_placements", 1)
        for chunk, values in zip(self.chunks, remembered, strict=True):
            for value in values:
                if hasattr(value, "fits") and not value.fits(chunk.stop - chunk.start, n_targets):
                    refuse("candidates that do not exist")
        self.executor.restore(self.chunks, state.remembered)
        return None if selector is None else selector.restore(state.selector)

    def _begin_selection(self, rng: np.random.Generator, state: EMState | None) -> Selector | None:
        selection = self._learned_selection
        if selection is None:
            return None
        seed = int(rng.integers(2**63)) if state is None else state.selector.seed
        return selection.begin(self.executor, self.chunks, self.moments, self.model.n_components, seed)

    def _e_step(self, params: Any, step: Step, selector: Selector | None) -> EStepResult:
        """Free energy of all points, and the statistics of those that contribute."""
        prepared = self.posterior.prepare(self.model, params, step.beta, selector)
        if step.classification == 0.0:
            return self.executor.map_reduce(prepared.statistics, self.chunks, combine, prepared.together)
        free_energies = self._free_energies(prepared)
        chunks = self._classified(free_energies, params, step)
        contributing = self.executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)
        return EStepResult(float(free_energies @ self._weights()), contributing.statistics)

    def _m_step(self, params: Any, statistics: Any, step: Step, rng: np.random.Generator) -> Any:
        try:
            with calling(self.model, "m_step"):
                params = self.model.m_step(params, statistics)
        except np.linalg.LinAlgError as error:
            raise NotFinite(
                f"The M-step of {type(self.model).__name__} failed in iteration {step.number}: {error}."
            ) from error
        if isinstance(self.model, RedrawsUnused):
            params = self.model.redraw_unused(params, statistics, self.moments, rng)
        if step.parameter_noise > 0.0 and isinstance(self.model, Perturbable):
            scale = float(np.sqrt(self.moments.variance.mean())) if step.noise_scale is None else step.noise_scale
            params = self.model.perturb(params, step.parameter_noise * scale, rng)
        return params

    def _final(self, params: Any, learned: Selector | None) -> EStepResult:
        """The free energy of all points at temperature 1, after which nothing more is learned."""
        prepared = self.posterior.prepare(self.model, params, 1.0, learned)
        return EStepResult(float(self._free_energies(prepared) @ self._weights()), None)

    def _backtrack(
        self, last: LastStep, params: Any, e_step: EStepResult, repeat: Callable[[Any], EStepResult]
    ) -> tuple[Any, EStepResult]:
        """Parameters nearer to the last ones, as long as the free energy is smaller than it was there."""
        before, free_energy = last.params, last.free_energy
        for halving in range(MOST_HALVINGS + 1):
            if e_step.free_energy >= free_energy - 1e-12 * abs(free_energy):
                break
            half = type(params)(*(0.5 * (a + b) for a, b in zip(before, params, strict=True)))
            params = half if halving < MOST_HALVINGS else before
            e_step = repeat(params)
        return params, e_step

    def _must_rise(self, last: Step, step: Step) -> bool:
        """Whether nothing but the M-step lies between two E-steps."""
        same = last.temperature == step.temperature and last.classification == step.classification == 0.0
        return self.monotone and same and last.parameter_noise == 0.0

    def _classified(self, free_energies: np.ndarray, params: Any, step: Step) -> list[Chunk]:
        """The same chunks, weighted so that only the N_cut points with the largest F_n contribute (ET §2)."""
        classification = self.plan.classification
        assert classification is not None
        explained = probability_of_at_most(params.activation, self.model.prior.truncated_at)
        final_share = classification.margin * explained
        n_cut = self.moments.weight * (1.0 + step.classification * (final_share - 1.0))
        weights = keep_best(free_energies, self._weights(), n_cut)
        return [replace(chunk, weights=weights) for chunk in self.chunks]

    def _free_energies(self, prepared: PreparedPosterior) -> np.ndarray:
        return np.concatenate(list(self.executor.map(prepared.free_energies, self.chunks)))

    def _weights(self) -> np.ndarray:
        return np.concatenate([chunk.row_weights() for chunk in self.chunks])


def check_m_step(model: Any, params: Any, iteration: int) -> None:
    """Kernels must not see parameters that are no numbers, and who wrote the M-step wants to know."""
    broken = [name for name, value in zip(params._fields, params, strict=True) if not _is_finite(value)]
    if broken:
        name = type(model).__name__
        why = f"The data's free energy was finite: look at m_step of {name}, by multicause.testing.check_model."
        what = f"The M-step of {name} gave NaN or infinity for {', '.join(broken)} in iteration {iteration}."
        raise NotFinite(what, why) if is_users_own(model) else NotFinite(what)


def _is_finite(value: Any) -> bool:
    """Whether all of it is; what holds no floating-point numbers is."""
    value = np.asarray(value)
    return value.dtype.kind != "f" or bool(np.isfinite(value).all())


def component_change(before: Any, after: Any) -> float:
    """The largest |W_h new - W_h old| / sum_d |W_hd old| over the latents (MCA eq. 38); 0 for a model without them."""
    if not hasattr(before, "components"):
        return 0.0
    moved = np.linalg.norm(after.components - before.components, axis=1)
    size = np.abs(before.components).sum(axis=1)
    return float(np.max(moved / np.maximum(size, 1e-300)))


class _Replay:
    """A schedule whose way so far can be gone again."""

    def __init__(self, schedule: Generator[Step, Change, None]):
        self._schedule = schedule
        self.changes: list[float | None] = []

    def first(self) -> Step | None:
        return next(self._schedule, None)

    def advance(self, change: Change) -> Step | None:
        """The next step; `change` is only measured where the schedule asks."""
        asked: list[float] = []

        def measured() -> float:
            asked.append(change())
            return asked[0]

        try:
            return self._schedule.send(measured)
        except StopIteration:
            return None
        finally:
            self.changes.append(asked[0] if asked else None)

    def again(self, changes: Sequence[float | None]) -> Step | None:
        """The step that followed these changes."""
        step = None
        for change in changes:
            step = self.advance(partial(float, change or 0.0))
        return step


def keep_best(values: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """The weights of the points with the largest values, up to `total`; the point on the border keeps the rest."""
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    kept = np.empty_like(weights)
    kept[order] = np.clip(total - before, 0.0, weights[order])
    return kept
