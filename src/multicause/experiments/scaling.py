"""`et-scaling`, `gsc-scaling`: time of an iteration against the number of components (ET Figure 13, GSC Figure 10)."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from multicause.estimators import LinCA
from multicause.experiments.experiment import (
    ET,
    GSC14,
    PAPERS_EM,
    Estimate,
    Experiment,
    Finding,
    Outcome,
    Published,
    Row,
)
from multicause.experiments.figures import Point, curves
from multicause.experiments.timing import Problem, intervals, loglog_slope, seconds_per_iteration
from multicause.models import SpikeSlabLinear

TITLE = "Time of an iteration against the number of causes"
N_SAMPLES = 10_000  # of ET: with its 1000 the M-step's H^3 would outweigh the E-step that it plots


def seconds_by_size(seed: int, problem: Problem, measure: Callable[[Problem], float], n_sizes: int) -> dict[int, float]:
    """H doubled from 16 on; the data are the same for all seeds."""
    sizes = [2 ** (4 + doubled) for doubled in range(n_sizes)]
    return {size: measure(replace(problem, n_components=size)) for size in sizes}


def linca_seconds(problem: Problem) -> float:
    """Time of one EM iteration on data of sparse random causes: the best of several, as least disturbed."""
    rng = np.random.default_rng(0)
    states = rng.random((problem.n_samples, problem.n_components)) < 2.0 / problem.n_components
    W = rng.normal(size=(problem.n_components, problem.n_features))
    X = states @ W + 0.5 * rng.normal(size=(problem.n_samples, problem.n_features))
    estimator = LinCA(
        problem.n_components,
        n_candidates=problem.n_candidates,
        max_active=problem.max_active,
        **PAPERS_EM,
        max_iter=8,
        tol=0.0,
        random_state=0,
        init={"components": W, "noise_variance": 0.25},
    )
    return float(np.min(intervals(estimator, X)))


def _slope(published: str, title: str, trials: list[dict[int, float]]) -> Finding:
    slope, interval = loglog_slope(list(trials[0]), list(trials[0].values()))
    linear = Published(published, lambda estimate: estimate.mean <= 1.0, 1.0)
    return Finding(title, "slope on log-log", published, slope, interval, linear.verdict(Estimate(slope, *interval)))


def _row(problem: Problem, measure: Callable[[Problem], float], published: str, n_sizes: int, words: str) -> Row:
    title = f"H'={problem.n_candidates}, gamma={problem.max_active} (ours: {words})"
    setting = {"problem": problem, "measure": measure, "n_sizes": n_sizes}
    return Row(title, seconds_by_size, setting, [partial(_slope, published)])


def _et_rows(n_sizes: int = 8) -> Iterator[Row]:
    for truncation in ((5, 3), (7, 5), (9, 7)):
        problem = Problem(n_samples=N_SAMPLES, n_features=100).truncated(*truncation)
        yield _row(problem, linca_seconds, "at most 1", n_sizes, "measured, where the paper plots a formula")


def _gsc_rows(n_sizes: int = 7, n_samples: int = 20_000) -> Iterator[Row]:
    for truncation in ((5, 5), (10, 5), (10, 8)):
        problem = Problem(SpikeSlabLinear, n_samples, n_features=64).truncated(*truncation)
        yield _row(problem, seconds_per_iteration, "near 1", n_sizes, "sizes that the paper does not give")


def _points(outcome: Outcome) -> Iterator[Point]:
    yield from (Point("", outcome.row.title, size, seconds) for size, seconds in outcome.trials[0].items())


_figure = curves(_points, xlabel="H", ylabel="seconds per iteration", xscale="log", yscale="log")
_KEPT = {"seconds per iteration": dict}
EXPERIMENTS = [
    Experiment("et-scaling", TITLE, ET, _et_rows, _figure, {"n_sizes": 5}, _KEPT),
    Experiment("gsc-scaling", TITLE, GSC14, _gsc_rows, _figure, {"n_sizes": 3, "n_samples": 1_000}, _KEPT),
]
