"""Experiments as values: rows with settings, tasks, published figures and verdicts; and the one runner of them all."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from multicause.experiments.provenance import made_with
from multicause.metrics import bootstrap_interval, wilson_interval

ET = "Expectation Truncation (Lücke & Eggert, 2010)"
GSC14 = "Spike-and-Slab Sparse Coding (Sheikh, Shelton & Lücke, 2014)"
GPS = "GP-select (Shelton, Gasthaus, Dai, Lücke & Gretton, 2017)"
MCA08 = "Maximal Causes (Lücke & Sahani, 2008)"
PSICA = "Probabilistic Sequential ICA (Welling, Zemel & Hinton, 2004)"
OURS = "(ours"  # in the title of a row that is not the paper's to the letter: "(ours)" or "(ours: what differs)"
OTHER_DATA = "(ours: other data)"  # where nothing differs but the data, which are not at hand
STANDS_IN = "factored in place of MTMKL)"  # ends the title of a row whose rival is not the paper's
PAPERS_EM: Mapping[str, Any] = {"selection": "model-based", "monotone": False}  # which our defaults go beyond
REPORTED_SEEDS = range(100)  # settings are tuned on seeds 1000-1999, results reported on these


# ---- what a paper reports, what was measured, and whether the one meets the other ----


class Verdict(Enum):
    """How a measured figure stands to the published one."""

    MET = "met"  # the estimate is at least as good
    WITHIN_NOISE = "within noise"  # it is not, but the published value is in its 95 % interval, of as many trials
    SHORT = "short"


class Estimate(NamedTuple):
    """A mean and the ends of its 95 % interval, which are the mean itself where there is no interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Published:
    """What a paper reports, and the rule by which an estimate meets it; None: there is nothing to meet.

    `value` is the figure itself, where an interval may hold it without reaching it.
    """

    text: str = "-"
    met: Callable[[Estimate], Any] | None = None
    value: float | None = None

    def verdict(self, estimate: Estimate) -> Verdict | None:
        if self.met is None:
            return None
        if self.met(estimate):
            return Verdict.MET
        held = self.value is not None and estimate.low <= self.value <= estimate.high
        return Verdict.WITHIN_NOISE if held else Verdict.SHORT


NO_FIGURE = Published()


def at_least(value: float, text: str = "") -> Published:
    """More is better."""
    return Published(text or f"{value}", lambda estimate: estimate.mean >= value, value)


def reliability(share: float) -> Published:
    """A share of successful trials."""
    return at_least(share, f"{share:.0%}")


def more_than(share: float) -> Published:
    """A share of successful trials of which the paper gives a bound."""
    return Published(f"> {share:.0%}", lambda estimate: estimate.mean > share, share)


def error(value: float, digits: int = 2) -> Published:
    """Less is better; the paper rounds."""
    return Published(f"{value:.{digits}f}", lambda estimate: estimate.mean <= value + 0.5 * 10.0**-digits, value)


def below(value: float) -> Published:
    """Less is better: a bound."""
    return Published(f"< {value:g}", lambda estimate: estimate.mean < value, value)


@dataclass(frozen=True)
class Finding:
    """One measured number beside the published one; without a `verdict` where the paper gives no figure to meet."""

    setting: str
    measure: str
    published: str
    measured: float
    interval: tuple[float, float] | None = None
    verdict: Verdict | None = None
    trials: tuple[int, int] | None = None  # that were run, and that the paper has

    @property
    def ours(self) -> bool:
        """Whether the setting is our own; all others follow the paper to the letter."""
        return OURS in self.setting

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": None if self.verdict is None else self.verdict.value}


def finding(setting: str, measure: str, values: Any, published: Published = NO_FIGURE, spread: bool = True) -> Finding:
    """The mean of one value per trial, with its interval if `spread` is told; without values nothing is met."""
    if len(values) == 0:
        return Finding(setting, measure, published.text, float("nan"), None, Verdict.SHORT)
    mean, interval = float(np.mean(values)), interval_of(values) if spread else None
    verdict = published.verdict(Estimate(mean, *(interval or (mean, mean))))
    return Finding(setting, measure, published.text, mean, interval, verdict)


def interval_of(values: Any) -> tuple[float, float] | None:
    """95 % interval of a mean: Wilson's for successes, the bootstrap's for numbers, none for a single number."""
    if np.asarray(values).dtype == bool:
        return wilson_interval(int(np.sum(values)), len(values))
    return bootstrap_interval(values) if len(values) > 1 else None


@dataclass(frozen=True)
class Check:
    """A number that is measured in each trial of a row, and what the paper reports of it."""

    measure: str
    value: Callable[[Any], Any]  # of a trial: a number, or whether it succeeded; None: the trial does not count
    published: Published = NO_FIGURE
    label: str = "{}"  # of the finding, given the row's title
    spread: bool = True

    def __call__(self, title: str, trials: Sequence[Any]) -> Finding:
        values = [value for trial in trials if (value := self.value(trial)) is not None]
        return finding(self.label.format(title), self.measure, values, self.published, self.spread)


# ---- experiments, and how they are run ----


@dataclass(frozen=True)
class Options:
    """How to run an experiment."""

    trials: int | None = None  # None: as many as the paper
    jobs: int | None = None  # processes; None: one per core
    quick: bool = False  # a small version, to see that it runs
    full: bool = False  # the paper's size, and rows that take long
    components: int | None = None  # where an experiment leaves the choice; None: the paper's first
    report: Callable[[str], None] = print  # told how far the experiment is

    def seeds(self, row: "Row") -> range:
        trials = self.trials
        if trials is None:
            wanted = max(row.wanted_trials if self.full else 1, row.n_trials or 1)
            trials = min(wanted, 2) if self.quick else wanted
        if not 1 <= trials <= len(REPORTED_SEEDS):
            raise ValueError(
                f"trials must be from 1 to {len(REPORTED_SEEDS)}, the seeds kept for reports. Got {trials}."
            )
        return REPORTED_SEEDS[:trials]


@dataclass(frozen=True)
class Row:
    """A line of a table: the task, the setting it is tried with, and the checks that compare with the paper.

    A trial is task(seed, **setting). With `n_trials` they run in parallel processes, of one thread each; without, there
    is one, in this process, which may use all cores. Where the paper has another number, `published_trials` says so; a
    row that `takes_long` is run only at the paper's size.
    """

    title: str
    task: Callable[..., Any]
    setting: Mapping[str, Any]
    checks: Sequence[Callable[[str, list], Finding]] = ()
    n_trials: int | None = None
    published_trials: int | None = None
    takes_long: bool = False

    @property
    def ours(self) -> bool:
        return OURS in self.title

    @property
    def follows_paper(self) -> bool:
        """Whether the settings are the paper's, if perhaps not the data."""
        return not self.ours or OTHER_DATA in self.title

    @property
    def wanted_trials(self) -> int:
        """As many as the paper has."""
        return self.published_trials or self.n_trials or 1


class Outcome(NamedTuple):
    """A row that was run."""

    row: Row
    trials: list[Any]
    findings: list[Finding]


@dataclass
class Result:
    """What an experiment found."""

    name: str
    rows: list[Finding]
    figure: Any = None  # matplotlib Figure
    seconds: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rows = [row.to_json() for row in self.rows]
        seconds = round(self.seconds, 2)
        return {
            "experiment": self.name, "seconds": seconds, "made_with": made_with(), "rows": rows, "details": self.details
        }  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """A published experiment.

    `rows` is a table, or a function that makes it. In the small version `quick` replaces values in the settings of the
    table, or the function's arguments; at the paper's size `full` does.
    """

    name: str
    title: str
    paper: str
    rows: Sequence[Row] | Callable[..., Iterable[Row]]
    figure: Callable[[list[Outcome]], Any]
    quick: Mapping[str, Any] = field(default_factory=dict)
    kept: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)  # of each trial, for the details
    compare: Callable[[list[Outcome]], list[Finding]] | None = None  # finds what a row's own checks cannot
    takes: Sequence[str] = ()  # options that are handed to the function: "components", "jobs"
    needs_data: bool = False  # files in the folder that MULTICAUSE_DATA names
    full: Mapping[str, Any] = field(default_factory=dict)

    def run(self, options: Options) -> Result:
        start = time.perf_counter()
        outcomes = [run_row(row, options) for row in self.table(options)]
        result = self.concluded(outcomes, options)
        return replace(result, figure=self.figure(outcomes), seconds=time.perf_counter() - start)

    def concluded(self, outcomes: list[Outcome], options: Options) -> Result:
        """What rows that were run show, one by one and beside each other."""
        findings = [each for outcome in outcomes for each in outcome.findings]
        if self.compare is not None:
            findings += self.compare(outcomes)
        name = self.name if options.components is None else f"{self.name} --components {options.components}"
        return Result(name, findings, details={row.title: self._details(trials) for row, trials, _ in outcomes})

    def table(self, options: Options) -> Iterable[Row]:
        """The rows to be run."""
        if options.components is not None and "components" not in self.takes:
            raise ValueError(
                f"{self.name} has its own number of components. Leave out components={options.components}."
            )
        sizes = dict(self.quick) if options.quick else dict(self.full) if options.full else {}
        sizes |= {name: getattr(options, name) for name in self.takes}
        rows = self.rows(**sizes) if callable(self.rows) else changed(self.rows, **sizes)
        return (row for row in rows if options.full or not row.takes_long)

    def _details(self, trials: list[Any]) -> dict[str, Any]:
        return {
            "trials": len(trials),
            **{name: [value(trial) for trial in trials] for name, value in self.kept.items()},
        }


def changed(rows: Iterable[Row], **changes: Any) -> list[Row]:
    """Rows with other settings, under the same titles."""
    return [replace(row, setting={**row.setting, **changes}) for row in rows]


def run_row(row: Row, options: Options) -> Outcome:
    """All trials of a row, and what they show."""
    if row.n_trials is None:
        options.report(f"{row.title}: begins")
        trials = [row.task(REPORTED_SEEDS[0], **row.setting)]
    else:
        trials = run_trials(row, options.seeds(row), options)
    outcome = judged(row, trials)
    for found in outcome.findings:
        options.report(f"{found.setting}: {found.measure} {found.measured:.4g}")
    return outcome


def judged(row: Row, trials: list[Any]) -> Outcome:
    """A row with what its trials show."""
    findings = [of_trials(check(row.title, trials), len(trials), row.wanted_trials) for check in row.checks]
    return Outcome(row, trials, findings)


def of_trials(found: Finding, n_trials: int, wanted: int) -> Finding:
    """Fewer trials than the paper's have wider intervals: these excuse nothing."""
    noisy = found.verdict is Verdict.WITHIN_NOISE and n_trials < wanted
    return replace(found, verdict=Verdict.SHORT if noisy else found.verdict, trials=(n_trials, wanted))


def fit_quietly(estimator: Any, X: np.ndarray) -> Any:
    """The fit without a warning: one that has not converged is judged by its results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X)


def run_trials(row: Row, seeds: Sequence[int], options: Options) -> list[Any]:
    """One trial for each seed, in parallel processes, in order."""
    from joblib import Parallel, delayed

    jobs = -1 if options.jobs is None else options.jobs
    tasks = (delayed(row.task)(seed, **row.setting) for seed in seeds)
    results: Iterator[Any] = Parallel(n_jobs=jobs, return_as="generator")(tasks)
    finished = []
    for number, result in enumerate(results, start=1):
        finished.append(result)
        if number % 10 == 0 or number == len(seeds):
            options.report(f"{row.title}: {number} of {len(seeds)} trials")
    return finished
