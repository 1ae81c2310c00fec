"""The loop that reads a learner's records: everything that learns step by step is driven by it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from multicause import interrupts
from multicause.backends.cuda import DeviceError
from multicause.learning.not_finite import NotFinite
from multicause.learning.records import Consumer, Record
from multicause.learning.stopping import Stop, StoppingRule, fallen


class Outcome(NamedTuple):
    """The end of a fit: the parameters, the history of free energies per data point, and why it ended."""

    params: Any
    free_energy: np.ndarray  # one value per record, and the best one again where it was not the last: that of `params`
    n_iter: int
    stop: Stop
    selection_function: Any = None  # where one was learned
    kept: Any = None  # which states the posterior keeps, where it is truncated


class Iterate(NamedTuple):
    """The parameters with the largest free energy of all records that are comparable."""

    position: int  # among the records
    params: Any
    free_energy: float


class Progress(NamedTuple):
    """A fit between two records: it can go on from here to the bit."""

    seed: int  # of all restarts
    restart: int
    free_energy: np.ndarray  # one value per record of this restart
    random: dict[str, Any]  # position of the random numbers
    state: Any  # of the learner
    best: Outcome | None = None  # of the earlier restarts
    iterate: Iterate | None = None  # the best of this one


class Learner(Protocol):
    """Anything that learns step by step and leaves a record of each."""

    @property
    def n_steps(self) -> int: ...  # at most

    def stopping_rule(self, tol: float) -> StoppingRule | None: ...  # None: it runs to its end

    def steps(
        self, params: Any, rng: np.random.Generator, restart: int = 0, state: Any = None
    ) -> Iterator[Record]: ...  # from first parameters, or on from the state that a record left


def run(
    learner: Learner,
    params: Any,
    rng: np.random.Generator,
    *,
    tol: float = 0.0,
    consumers: Sequence[Consumer] = (),
    wants_stop: Callable[[Record], bool] = lambda record: False,
    restart: int = 0,
    progress: Progress | None = None,
    keeps_best: bool = True,
) -> Outcome:
    """Read the learner's records until one of them ends the fit; with `progress`, those that were still to come.

    Where the free energy fell, the best parameters are kept or, as in the papers, the last ones all the same.
    """
    converged = learner.stopping_rule(tol)
    last: tuple[Record, int] | None = None  # with the length of its history: the two change at once
    best: Iterate | None = None
    history: list[float] = []
    state = None
    if progress is not None:
        history, state, best = list(progress.free_energy), progress.state, progress.iterate
        rng.bit_generator.state = progress.random
        for free_energy in history:
            _ = converged is not None and converged(free_energy)
    stop = Stop.SCHEDULE_ENDED if converged is None else Stop.ITERATIONS_RAN_OUT
    try:
        steps = learner.steps(params, rng, restart, state)
        while (record := _next(steps)) is not None:
            _check_finite(record)
            best = better_iterate(best, record, len(history))
            history.append(record.free_energy)
            last = record, len(history)
            stop = record.stop or stop
            has_converged = converged is not None and converged(record.free_energy)
            if has_converged:
                record = record._replace(state=None)  # nothing goes on from here: who resumes comes to this end again
            for consumer in consumers:
                consumer(record)
            if has_converged:
                stop = Stop.CONVERGED
                break
            if wants_stop(record):
                stop = Stop.CALLBACK
                break
    except KeyboardInterrupt:
        if last is None:
            raise
        stop = Stop.INTERRUPTED
    except DeviceError as error:
        error.outcome = None if last is None else _outcome(*last, history, Stop.DEVICE_FAILED)
        raise
    assert last is not None
    record, outcome = last[0], _outcome(*last, history, stop)
    return (
        outcome if stop in (Stop.CALLBACK, Stop.INTERRUPTED) else _where_it_fell(outcome, best, record, tol, keeps_best)
    )


def only_begun(learner: Learner, params: Any, rng: np.random.Generator) -> Outcome:
    """The end of a fit that was interrupted while it looked for its start, as far as it had come."""
    record = next(iter(learner.steps(params, rng)))
    return _outcome(record, 1, [record.free_energy], Stop.INTERRUPTED)


def _outcome(record: Record, n_records: int, history: list[float], stop: Stop) -> Outcome:
    n_iter = n_records - 1 if record.n_iter is None else record.n_iter
    return Outcome(record.params, np.array(history[:n_records]), n_iter, stop, record.selection_function, record.kept)


def _next(steps: Iterator[Record]) -> Record | None:
    """The next record; an interrupt rises in here, or waits until it does."""
    with interrupts.raised():
        return next(steps, None)


def better_iterate(best: Iterate | None, record: Record, position: int) -> Iterate | None:
    """The better one of the best so far and the record at a position."""
    if not record.comparable or (best is not None and record.free_energy <= best.free_energy):
        return best
    return Iterate(position, record.params, record.free_energy)


def _where_it_fell(outcome: Outcome, best: Iterate | None, last: Record, tol: float, keeps_best: bool) -> Outcome:
    """Where the last iterate is comparable and noticeably worse than the best: the best, or a word on it."""
    history = outcome.free_energy
    fall = fallen(history[best.position :].tolist(), tol) if best is not None and last.comparable else None
    if best is None or fall is None:
        return outcome
    if not keeps_best:
        return outcome._replace(stop=Stop.ENDED_LOWER)
    return outcome._replace(params=best.params, free_energy=np.append(history, best.free_energy), stop=fall)


def _check_finite(record: Record) -> None:
    if not np.isfinite(record.free_energy):
        raise NotFinite(f"The free energy became {record.free_energy} in iteration {record.number}.")
