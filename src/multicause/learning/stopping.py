"""When to stop, and the reason in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Protocol


class Stop(Enum):
    """Why a fit ended; the values are sentences."""

    CONVERGED = "the free-energy gain per data point fell below tol"
    COMPONENTS_UNUSED = "the free energy converged, but no data point uses some components: see unused_components_"
    FELL = "the free energy fell: the parameters with the largest one are kept"
    OSCILLATES = "the free energy goes up and down: the parameters with the largest one are kept"
    ENDED_LOWER = "the free energy fell: the last parameters are kept, as monotone=False asks for"
    SCHEDULE_ENDED = "the schedule ended: all its iterations were done"
    ITERATIONS_RAN_OUT = "the iterations ran out before the free energy converged: raise max_iter or tol"
    NOT_AT_REST = "the iterations ran out before the components converged: raise max_iter"
    EXPERTS_FOUND = "all the experts that were asked for, or that there is room for, were found"
    NO_MORE_EXPERTS = "no further expert was found that makes the data more likely than a Gaussian does"
    BATCH_LEARNED = "partial_fit learned from one batch; more may follow"
    CALLBACK = "a callback asked to stop"
    INTERRUPTED = "the fit was interrupted; the last completed iteration is kept"
    DEVICE_FAILED = "the GPU failed; the last completed iteration is kept"
    PARAMETERS_GIVEN = "the parameters were given, not learned"

    def __str__(self) -> str:
        return self.value


class StoppingRule(Protocol):
    """Hears each free energy per data point, and says whether the fit has converged."""

    def __call__(self, free_energy: float) -> bool: ...


@dataclass
class GainBelow:
    """Converged when the free energy per data point changed by less than `tol`, `patience` times in a row.

    A free energy that falls, as it may where candidates change, often recovers: it gets `falls` iterations to rise
    above its best.
    """

    tol: float
    patience: int = 2
    falls: int = 5
    _last: float = field(default=float("-inf"), init=False)
    _small: int = field(default=0, init=False)
    _best: float = field(default=float("-inf"), init=False)
    _waited: int = field(default=0, init=False)

    def __call__(self, free_energy: float) -> bool:
        gain, better = free_energy - self._last, free_energy > self._best
        self._last = free_energy
        self._small = self._small + 1 if abs(gain) < self.tol else 0
        self._waited = 0 if better else self._waited + 1
        self._best = free_energy if better else self._best
        return self._small >= self.patience or self._waited >= self.falls


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


def fallen(since_best: Sequence[float], tol: float) -> Stop | None:
    """What to say of free energies that begin with the largest; None where they stay within `tol` of it."""
    best, last = since_best[0], since_best[-1]
    noticed = max(tol, 1e-9 * abs(best))
    if last >= best - noticed:
        return None
    rises = sum(b > a + noticed for a, b in pairwise(since_best))
    return Stop.OSCILLATES if 3 * rises >= len(since_best) - 1 else Stop.FELL
