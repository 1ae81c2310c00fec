"""When to stop, and the reason in words."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Stop(Enum):
    """Why a fit ended; the values are sentences."""

    CONVERGED = "the free-energy gain per data point fell below tol"
    SCHEDULE_ENDED = "the schedule ended: all its iterations were done"
    ITERATIONS_RAN_OUT = "the iterations ran out before the free energy converged: raise max_iter or tol"
    NOT_AT_REST = "the iterations ran out before the components converged: raise max_iter"
    EXPERTS_FOUND = "all the experts that were asked for, or that there is room for, were found"
    NO_MORE_EXPERTS = "no further expert was found that makes the data more likely than a Gaussian does"
    BATCH_LEARNED = "partial_fit learned from one batch; more may follow"
    CALLBACK = "a callback asked to stop"
    INTERRUPTED = "the fit was interrupted; the last completed iteration is kept"
    PARAMETERS_GIVEN = "the parameters were given, not learned"

    def __str__(self) -> str:
        return self.value


class StoppingRule(Protocol):
    """Hears each free energy per data point, and says whether the fit has converged."""

    def __call__(self, free_energy: float) -> bool: ...


@dataclass
class GainBelow:
    """Converged when the free energy per data point rose by less than `tol`, `patience` times in a row."""

    tol: float
    patience: int = 2
    _last: float = field(default=float("-inf"), init=False)
    _small: int = field(default=0, init=False)

    def __call__(self, free_energy: float) -> bool:
        gain = free_energy - self._last
        self._last = free_energy
        self._small = self._small + 1 if gain < self.tol else 0
        return self._small >= self.patience


@dataclass
class NoNewBest:
    """Converged when the free energy has not risen above its best by `tol` for `patience` iterations.

    For fits whose candidates are drawn partly at random: there a gain may be luck, and a loss bad luck.
    """

    tol: float
    patience: int
    _best: float = field(default=float("-inf"), init=False)
    _waited: int = field(default=0, init=False)

    def __call__(self, free_energy: float) -> bool:
        better = free_energy >= self._best + self.tol
        self._waited = 0 if better else self._waited + 1
        self._best = free_energy if better else self._best
        return self._waited >= self.patience
