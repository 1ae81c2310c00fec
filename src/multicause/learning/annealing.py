"""Schedules: what each iteration is to do. Typed values, so that a misspelt knob is an error."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Step:
    """The settings of one iteration."""

    number: int
    temperature: float = 1.0
    classification: float = 0.0  # 0: all points teach; 1: only those the truncated model should explain
    parameter_noise: float = 0.0  # standard deviation of what is added to the fields after the M-step

    @property
    def beta(self) -> float:
        return 1.0 / self.temperature


class Schedule(Protocol):
    """A number of iterations, and the settings of each."""

    @property
    def n_steps(self) -> int: ...

    @property
    def anneals(self) -> bool: ...

    def steps(self) -> Iterator[Step]: ...


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
        Standard deviation of the Gaussian noise added to the fields after each M-step until the fields settle.
    """

    initial: float = 13.0
    final: float = 1.0
    hold: float = 0.1
    settle: float = 0.2
    parameter_noise: float = 0.0

    def __post_init__(self) -> None:
        if not self.initial >= self.final >= 1.0:
            raise ValueError(
                "Annealing needs temperatures initial >= final >= 1. "
                f"Got initial={self.initial} and final={self.final} instead."
            )
        if self.hold < 0.0 or self.settle < 0.0 or self.hold + self.settle > 1.0:
            raise ValueError(
                "The shares 'hold' and 'settle' of Annealing must be at least 0 and sum to at most 1. "
                f"Got hold={self.hold} and settle={self.settle} instead."
            )
        if self.parameter_noise < 0.0:
            raise ValueError(
                f"The 'parameter_noise' of Annealing must be at least 0. Got {self.parameter_noise} instead."
            )

    def temperature(self, progress: float) -> float:
        """The temperature after the share `progress` of the iterations."""
        cooling = 1.0 - self.hold - self.settle
        fallen = (progress - self.hold) / cooling if cooling > 0.0 else float(progress >= self.hold)
        return self.initial + (self.final - self.initial) * min(max(fallen, 0.0), 1.0)


@dataclass(frozen=True)
class DataClassification:
    """Only points explained by at most gamma causes teach (ET §2): the others are dropped towards the end.

    Parameters
    ----------
    start : float
        Share of the iterations in which all points teach.
    margin : float
        Share kept, at the end, of the points expected to have at most gamma causes.
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
class Plan:
    """`n_steps` iterations, with or without annealing and data classification."""

    n_steps: int
    annealing: Annealing | None = None
    classification: DataClassification | None = None

    @property
    def anneals(self) -> bool:
        return self.annealing is not None or self.classification is not None

    def steps(self) -> Iterator[Step]:
        for number in range(self.n_steps):
            yield self._step(number, number / max(self.n_steps - 1, 1))

    def _step(self, number: int, progress: float) -> Step:
        temperature, noise, classification = 1.0, 0.0, 0.0
        if self.annealing is not None:
            temperature = self.annealing.temperature(progress)
            settled = progress >= 1.0 - self.annealing.settle
            noise = 0.0 if settled else self.annealing.parameter_noise
        if self.classification is not None:
            classification = self.classification.progress(progress)
        return Step(number, temperature, classification, noise)
