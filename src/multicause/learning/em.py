"""The EM driver, written once: a generator of records, and the loop that reads it."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.learning.annealing import Schedule, Step
from multicause.learning.records import Consumer, Record, Stopwatch
from multicause.learning.stopping import GainBelow, NoNewBest, Stop
from multicause.models.base import DataMoments, GenerativeModel, Perturbable, RedrawsUnused, combine
from multicause.models.bernoulli_prior import probability_of_at_most
from multicause.posteriors.truncated import Candidates, EStep, PreparedPosterior, TruncatedPosterior
from multicause.selection.gp_select import Affinity, GPSelect


class Outcome(NamedTuple):
    """The end of a fit: the parameters, the history of free energies per data point, and why it ended."""

    params: Any
    free_energy: np.ndarray  # (n_iter + 1,) one value per E-step; the last belongs to `params`
    n_iter: int
    stop: Stop
    affinity: Affinity | None = None  # the selection that was learned along


class Learner(Protocol):
    """Anything that learns step by step and leaves a record of each."""

    @property
    def plan(self) -> Schedule: ...

    def steps(self, params: Any, rng: np.random.Generator, restart: int = 0) -> Iterator[Record]: ...


@dataclass(frozen=True)
class EM:
    """Truncated EM: for each step of the plan, sum the E-step over the chunks, then let the model do its M-step."""

    model: GenerativeModel
    posterior: TruncatedPosterior
    plan: Schedule
    executor: InProcess
    chunks: Sequence[Chunk]
    moments: DataMoments

    def steps(self, params: Any, rng: np.random.Generator, restart: int = 0) -> Iterator[Record]:
        """One record per E-step; a last one, at temperature 1, belongs to the parameters that the fit ends with."""
        clock = Stopwatch()
        selecting, affinity = self._begin_selection(rng), None
        schedule = self.plan.steps()
        step = next(schedule, None)
        number = 0
        while step is not None:
            e_step = self._e_step(params, step, selecting)
            if selecting is not None:
                affinity = selecting.learn(step.number)
            n_taught = float(getattr(e_step.statistics, "weight", self.moments.weight))
            free_energy = e_step.free_energy / self.moments.weight
            yield Record(step, params, free_energy, n_taught, clock(), restart, affinity=affinity)
            before, params = params, self._m_step(params, e_step.statistics, step, rng)
            number = step.number + 1
            step = _advance(schedule, field_change(before, params))
        last = Step(number)
        total = self._free_energies(self.posterior.prepare(self.model, params, 1.0, affinity)) @ self._weights()
        free_energy = total / self.moments.weight
        yield Record(last, params, free_energy, self.moments.weight, clock(), restart, final=True, affinity=affinity)

    def _begin_selection(self, rng: np.random.Generator):
        selection = _learned_selection(self.posterior)
        n_targets = getattr(self.model, "n_targets", self.model.n_components)
        if selection is None or self.posterior.n_candidates == n_targets:
            return None
        return selection.begin(self.executor, self.chunks, self.moments, n_targets, seed=int(rng.integers(2**63)))

    def _e_step(self, params: Any, step: Step, selecting: Candidates | None) -> EStep:
        """Free energy of all points, and the statistics of those that teach."""
        prepared = self.posterior.prepare(self.model, params, step.beta, selecting)
        if step.classification == 0.0:
            return self.executor.map_reduce(prepared.statistics, self.chunks, combine)
        free_energies = self._free_energies(prepared)
        chunks = self._classified(free_energies, params, step)
        taught = self.executor.map_reduce(prepared.statistics, chunks, combine)
        return EStep(float(free_energies @ self._weights()), taught.statistics)

    def _m_step(self, params: Any, statistics: Any, step: Step, rng: np.random.Generator) -> Any:
        params = self.model.m_step(params, statistics, step, rng)
        if isinstance(self.model, RedrawsUnused):
            params = self.model.redraw_unused(params, statistics, self.moments, rng)
        if step.parameter_noise > 0.0 and isinstance(self.model, Perturbable):
            params = self.model.perturb(params, step.parameter_noise, rng)
        return params

    def _classified(self, free_energies: np.ndarray, params: Any, step: Step) -> list[Chunk]:
        """The same chunks, weighted so that only the N_cut points with the largest F_n teach (ET §2)."""
        assert self.plan.classification is not None
        explained = probability_of_at_most(params.activation, self.posterior.max_active)
        final_share = self.plan.classification.margin * explained
        n_cut = self.moments.weight * (1.0 + step.classification * (final_share - 1.0))
        weights = keep_best(free_energies, self._weights(), n_cut)
        return [Chunk(c.X, c.start, c.stop, weights, c.memory) for c in self.chunks]

    def _free_energies(self, prepared: PreparedPosterior) -> np.ndarray:
        return np.concatenate(list(self.executor.map(prepared.free_energies, self.chunks)))

    def _weights(self) -> np.ndarray:
        return np.concatenate([chunk.row_weights() for chunk in self.chunks])


def _learned_selection(posterior: Any) -> GPSelect | None:
    """How the selection is learned; None where the model has its own, or nothing to select from."""
    return getattr(posterior, "selection", None)


def field_change(before: Any, after: Any) -> float:
    """The largest |W_h new - W_h old| / sum_d |W_hd old| over the causes (MCA eq. 38); 0 for a model without fields."""
    if not hasattr(before, "components"):
        return 0.0
    moved = np.linalg.norm(after.components - before.components, axis=1)
    size = np.abs(before.components).sum(axis=1)
    return float(np.max(moved / np.maximum(size, 1e-300)))


def _advance(schedule: Generator[Step, float, None], change: float) -> Step | None:
    try:
        return schedule.send(change)
    except StopIteration:
        return None


def keep_best(values: np.ndarray, weights: np.ndarray, total: float) -> np.ndarray:
    """The weights of the points with the largest values, up to `total`; the point on the border keeps the rest."""
    order = np.argsort(-values, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    kept = np.empty_like(weights)
    kept[order] = np.clip(total - before, 0.0, weights[order])
    return kept


def run(
    em: Learner,
    params: Any,
    rng: np.random.Generator,
    *,
    tol: float = 0.0,
    consumers: Sequence[Consumer] = (),
    wants_stop=lambda record: False,
    restart: int = 0,
) -> Outcome:
    """Read the driver's records until one of them ends the fit. An annealed fit always runs to the end."""
    selection = _learned_selection(getattr(em, "posterior", None))
    converged = GainBelow(tol) if selection is None else NoNewBest(tol, 2 * selection.update_every)
    affinity = None
    history: list[float] = []
    stop = Stop.SCHEDULE_ENDED if em.plan.anneals or tol == 0.0 else Stop.ITERATIONS_RAN_OUT
    try:
        for record in em.steps(params, rng, restart):
            _check_finite(record)
            params, affinity = record.params, record.affinity
            history.append(record.free_energy)
            stop = record.stop or stop
            for consumer in consumers:
                consumer(record)
            if tol > 0.0 and not em.plan.anneals and converged(record.free_energy):
                stop = Stop.CONVERGED
                break
            if wants_stop(record):
                stop = Stop.CALLBACK
                break
    except KeyboardInterrupt:
        if not history:
            raise
        stop = Stop.INTERRUPTED
    return Outcome(params, np.array(history), len(history) - 1, stop, affinity)


def _check_finite(record: Record) -> None:
    if not np.isfinite(record.free_energy):
        raise FloatingPointError(
            f"The free energy became {record.free_energy} in iteration {record.step.number}: the data's values are too "
            "large or too small for the model. Rescale the data, for instance with StandardScaler."
        )
