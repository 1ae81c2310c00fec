"""Schedules: what each iteration is to do. Typed values, so that a misspelt knob is an error."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import ClassVar, Protocol

Change = Callable[[], float]  # of the components in the last M-step, relative to their size
LARGEST_TEMPERATURE = 1e6  # beyond it all explanations are alike anyway


@dataclass(frozen=True)
class Step:
    """The settings of one iteration."""

    number: int
    temperature: float = 1.0
    classification: float = 0.0  # 0: all points contribute; 1: only those the truncated model should explain
    parameter_noise: float = 0.0  # standard deviation of what is added to the components after the M-step,
    noise_scale: float | None = None  # in units of this; None: in units of the data's own standard deviation

    @property
    def beta(self) -> float:
        return 1.0 / self.temperature


class Schedule(Protocol):
    """A number of iterations, and the settings of each."""

    @property
    def n_steps(self) -> int: ...

    @property
    def anneals(self) -> bool: ...

    @property
    def classification(self) -> "DataClassification | None": ...

    def steps(self) -> Generator[Step, Change, None]:
        """One step at a time; how to measure each M-step's change is sent back (`change = yield step`)."""
        ...


@dataclass(frozen=True)
class DataClassification:
    """Only points explained by at most gamma active latents contribute (ET §2): the others are dropped towards the end.

    Parameters
    ----------
    start : float
        Share of the iterations in which all points contribute.
    margin : float
        Share kept, at the end, of the points expected to have at most gamma active latents.
    """

    start: float = 2.0 / 3.0
    margin: float = 0.9

    def __post_init__(self) -> None:
        if not (0.0 <= self.start < 1.0 and 0.0 < self.margin <= 1.0):
            raise ValueError(
                "DataClassification needs 0 <= start < 1 and 0 < margin <= 1. "
                f"Got start={self.start} and margin={self.margin} instead."
            )

    def progress(self, share_done: float) -> float:
        return max(share_done - self.start, 0.0) / (1.0 - self.start)


@dataclass(frozen=True)
class Annealing:
    """The cooling schedule of Expectation Truncation (ET Figure 4B), stretched to any number of iterations.

    The temperature stays at `initial` for the share `hold` of the iterations, falls linearly to `final`, and stays
    there for the share `settle`.

    Parameters
    ----------
    initial, final : float
        First and last temperature; 1 is the model itself.
    hold, settle : float
        Shares of the iterations at the first and at the last temperature.
    parameter_noise : float
        Standard deviation of the Gaussian noise added to the components after each M-step, in units of `noise_scale`.
    noise_scale : float or None
        None is the standard deviation of the data, so that settings do not depend on their unit; 1 is the data's unit.
    noise_share : float or None
        Share of the iterations with that noise; 1 adds it in all iterations, as in the paper. None stops it when the
        share `settle` begins, so that the components converge.
    classification : DataClassification or None
        Drop points that need more than gamma active latents towards the end. `Annealing(1.0, classification=...)` does
        so at a constant temperature.
    """

    initial: float = 13.0
    final: float = 1.0
    hold: float = 0.1
    settle: float = 0.2
    parameter_noise: float = 0.0
    noise_share: float | None = None
    classification: DataClassification | None = None
    noise_scale: float | None = None

    @classmethod
    def of(cls, value: "Annealing | float | None") -> "Annealing | None":
        """A schedule, or the one that starts at the given temperature; None stays None."""
        return value if value is None or isinstance(value, Annealing) else cls(float(value))

    def __post_init__(self) -> None:
        if not LARGEST_TEMPERATURE >= self.initial >= self.final >= 1.0:
            raise ValueError(
                "Annealing needs temperatures initial >= final >= 1. "
                f"Got initial={self.initial} and final={self.final} instead."
            )
        if not (self.hold >= 0.0 and self.settle >= 0.0 and self.hold + self.settle <= 1.0):
            raise ValueError(
                "The shares 'hold' and 'settle' of Annealing must be at least 0 and sum to at most 1. "
                f"Got hold={self.hold} and settle={self.settle} instead."
            )
        if self.noise_share is not None and not 0.0 <= self.noise_share <= 1.0:
            raise ValueError(f"The 'noise_share' of Annealing must be between 0 and 1. Got {self.noise_share} instead.")
        _check_noise(self)

    def noise(self, progress: float) -> float:
        """The parameter noise after the share `progress` of the iterations."""
        end = 1.0 - self.settle if self.noise_share is None else self.noise_share
        return self.parameter_noise if progress < end or end == 1.0 else 0.0

    def temperature(self, progress: float) -> float:
        """The temperature after the share `progress` of the iterations."""
        cooling = 1.0 - self.hold - self.settle
        fallen = (progress - self.hold) / cooling if cooling > 0.0 else float(progress >= self.hold)
        return self.initial + (self.final - self.initial) * min(max(fallen, 0.0), 1.0)


@dataclass(frozen=True)
class Plan:
    """`n_steps` iterations, with or without annealing."""

    n_steps: int
    annealing: Annealing | None = None

    @property
    def anneals(self) -> bool:
        return self.annealing is not None

    @property
    def classification(self) -> DataClassification | None:
        return None if self.annealing is None else self.annealing.classification

    def steps(self) -> Generator[Step, Change, None]:
        for number in range(self.n_steps):
            yield self._step(number, number / max(self.n_steps - 1, 1))

    def _step(self, number: int, progress: float) -> Step:
        temperature, noise, classification = 1.0, 0.0, 0.0
        if self.annealing is not None:
            temperature = self.annealing.temperature(progress)
            noise = self.annealing.noise(progress)
        if self.classification is not None:
            classification = self.classification.progress(progress)
        scale = None if self.annealing is None else self.annealing.noise_scale
        return Step(number, temperature, classification, noise, scale)


@dataclass(frozen=True)
class ConditionalCooling:
    """The cooling of Maximal Causes (MCA Appendix E.2): the temperature falls only once the components have converged.

    Parameters
    ----------
    initial, final : float
        First and last temperature.
    n_cooling_steps : int
        Steps from the first to the last temperature.
    n_hold_steps : int
        Iterations at the first temperature.
    threshold : float
        Components have converged when each changes by less than this, relative to its sum (eq. 38).
    patience : int
        Converged iterations in a row, at the last temperature, after which the fit ends.
    n_steps : int
        Most iterations.
    parameter_noise : float
        Standard deviation of the Gaussian noise added to the components after each M-step above the last temperature,
        in units of `noise_scale`. A little separates components that became equal at high temperatures; with too much
        they never converge.
    noise_scale : float or None
        None is the standard deviation of the data; 1 is the data's unit.
    """

    initial: float
    final: float = 1.5
    n_cooling_steps: int = 50
    n_hold_steps: int = 10
    threshold: float = 2.5e-3
    patience: int = 20
    n_steps: int = 1000
    parameter_noise: float = 0.0
    noise_scale: float | None = None

    anneals: ClassVar[bool] = True
    classification: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not self.initial >= self.final >= 1.0:
            raise ValueError(
                "ConditionalCooling needs temperatures initial >= final >= 1. "
                f"Got initial={self.initial} and final={self.final} instead."
            )
        if self.threshold <= 0.0 or min(self.n_cooling_steps, self.patience, self.n_steps) < 1 or self.n_hold_steps < 0:
            raise ValueError(
                f"ConditionalCooling needs a positive threshold and positive numbers of steps. Got {self}."
            )
        _check_noise(self)

    def steps(self) -> Generator[Step, Change, None]:
        temperature, n_converged = self.initial, 0
        fall = (self.initial - self.final) / self.n_cooling_steps
        for number in range(self.n_steps):
            hot = temperature > self.final
            noise = self.parameter_noise if hot else 0.0
            change = yield Step(number, temperature, parameter_noise=noise, noise_scale=self.noise_scale)
            converged = change() < self.threshold
            if hot:
                if converged and number + 1 >= self.n_hold_steps:
                    temperature = max(temperature - fall, self.final)
            else:
                n_converged = n_converged + 1 if converged else 0
                if n_converged == self.patience:
                    return


def _check_noise(schedule: Annealing | ConditionalCooling) -> None:
    noise = schedule.parameter_noise
    if not 0.0 <= noise < float("inf"):
        raise ValueError(f"The 'parameter_noise' of {type(schedule).__name__} must be at least 0. Got {noise} instead.")
    scale = schedule.noise_scale
    if scale is not None and not 0.0 < scale < float("inf"):
        raise ValueError(
            f"The 'noise_scale' of {type(schedule).__name__} must be above 0, or None. Got {scale} instead."
        )
