"""What every experiment takes and gives: options, rows that compare with the paper, a figure, and parallel trials."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from multicause.metrics import bootstrap_interval, wilson_interval

REPORTED_SEEDS = range(100)  # settings are tuned on seeds 1000-1999, results reported on these


@dataclass(frozen=True)
class Options:
    """How to run an experiment."""

    trials: int | None = None  # None: as many as the paper
    jobs: int | None = None  # processes; None: one per core
    quick: bool = False  # a small version, to see that it runs
    components: int | None = None  # causes learned, where an experiment leaves the choice; None: the paper's first
    report: Callable[[str], None] = print  # told how far the experiment is

    def seeds(self, published_trials: int) -> range:
        trials = (
            self.trials if self.trials is not None else min(published_trials, 4 if self.quick else published_trials)
        )
        if not 1 <= trials <= len(REPORTED_SEEDS):
            raise ValueError(
                f"trials must be from 1 to {len(REPORTED_SEEDS)}, the seeds kept for reports. Got {trials}."
            )
        return REPORTED_SEEDS[:trials]


@dataclass(frozen=True)
class Row:
    """One measured number beside the published one; `met` is None where the paper gives no figure to meet."""

    setting: str
    measure: str
    published: str
    measured: float
    interval: tuple[float, float] | None = None
    met: bool | None = None


@dataclass
class Result:
    """What an experiment found."""

    name: str
    rows: list[Row]
    figure: Any = None  # matplotlib Figure
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rows = [asdict(row) for row in self.rows]
        return {"experiment": self.name, "seconds": round(self.seconds, 2), "rows": rows, "details": self.details}


@dataclass(frozen=True)
class Experiment:
    """A published experiment, and the function that runs it."""

    name: str
    title: str
    paper: str
    measure: Callable[[Options], Result]
    any_components: bool = False  # whether it can be run with another number of causes

    def run(self, options: Options) -> Result:
        if options.components is not None and not self.any_components:
            raise ValueError(
                f"{self.name} has its own number of components. Leave out components={options.components}."
            )
        start = time.perf_counter()
        result = self.measure(options)
        result.seconds = time.perf_counter() - start
        return result


def reliability_row(setting: str, successes: Sequence[bool], published: float) -> Row:
    """Share of successful trials: met if it, or the upper end of its 95 % Wilson interval, reaches the paper's."""
    share = float(np.mean(successes))
    interval = wilson_interval(int(np.sum(successes)), len(successes))
    met = share >= published or interval[1] >= published
    return Row(setting, "reliability", f"{published:.0%}", share, interval, met)


def error_row(setting: str, measure: str, values: Sequence[float], published: float, digits: int = 2) -> Row:
    """A mean error: met if the lower end of its bootstrap interval reaches the paper's, which is rounded."""
    if len(values) == 0:
        return Row(setting, measure, f"{published:.{digits}f}", float("nan"), None, False)
    interval = bootstrap_interval(values)
    met = interval[0] <= published + 0.5 * 10.0**-digits
    return Row(setting, measure, f"{published:.{digits}f}", float(np.mean(values)), interval, met)


def run_trials(task: Callable[[int], Any], seeds: Sequence[int], options: Options, title: str) -> list[Any]:
    """task(seed) for all seeds, in parallel processes, in order; each trial keeps to one thread."""
    from joblib import Parallel, delayed

    jobs = -1 if options.jobs is None else options.jobs
    results: Iterator[Any] = Parallel(n_jobs=jobs, return_as="generator")(delayed(task)(seed) for seed in seeds)
    finished = []
    for number, result in enumerate(results, start=1):
        finished.append(result)
        if number % 10 == 0 or number == len(seeds):
            options.report(f"{title}: {number} of {len(seeds)} trials")
    return finished
