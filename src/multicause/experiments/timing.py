"""Times: problems of a given size, seconds per iteration and per E-step, and how they grow."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from multicause.estimators import GSC, MCA, LinCA
from multicause.execution import Chunk, InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.experiments.callbacks import IterationClock
from multicause.experiments.experiment import PAPERS_EM, fit_quietly
from multicause.models import BinaryLinear, DictionaryParams, MaximalCauses, SpikeSlabLinear, SpikeSlabParams, combine
from multicause.posteriors import TruncatedPosterior

ESTIMATORS: dict[type, Any] = {BinaryLinear: LinCA, MaximalCauses: MCA, SpikeSlabLinear: GSC}


@dataclass(frozen=True)
class Problem:
    """A model and the sizes of its data and truncation."""

    model: type[BinaryLinear] | type[MaximalCauses] | type[SpikeSlabLinear] = BinaryLinear
    n_samples: int = 20_000
    n_features: int = 200
    n_components: int = 200
    n_candidates: int = 10
    max_active: int = 4

    def truncated(self, n_candidates: int, max_active: int) -> "Problem":
        return replace(self, n_candidates=n_candidates, max_active=max_active)

    def __str__(self) -> str:
        sizes = f"N={self.n_samples:,}, D={self.n_features}, H={self.n_components}"
        return f"{sizes}, H'={self.n_candidates}, gamma={self.max_active}"


def seconds_of(task: Callable[[], Any]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def draw(problem: Problem) -> tuple[np.ndarray, Any]:
    """Data with two causes on average, and the parameters that they are drawn from."""
    rng = np.random.default_rng(0)
    shape = (problem.n_components, problem.n_features)
    W = rng.normal(size=shape)
    if problem.model is MaximalCauses:
        W = 5.0 * W**2
    activation = np.full(problem.n_components, 2.0 / problem.n_components)
    params: Any = DictionaryParams(W, activation, 0.25)
    if problem.model is SpikeSlabLinear:
        ones = np.ones(problem.n_components)
        params = SpikeSlabParams(W, activation, 0.0 * ones, ones, 0.25)
    X, _ = problem.model(*shape).sample(params, problem.n_samples, rng)
    return X, params


Start = Callable[[Problem, int], tuple[np.ndarray, Any]]  # data and an estimator, from a problem and max_iter


def random_start(problem: Problem, max_iter: int) -> tuple[np.ndarray, Any]:
    """Data without structure, and an estimator with default settings: posteriors stay flat, as in a fit's beginning."""
    rng, shape = np.random.default_rng(0), (problem.n_samples, problem.n_features)
    X = rng.random(shape) if problem.model is MaximalCauses else rng.normal(size=shape)
    return X, _estimator(problem, max_iter)


def disturbed_start(problem: Problem, max_iter: int) -> tuple[np.ndarray, Any]:
    """Data, and an estimator with default settings that starts from the true parameters disturbed."""
    X, params = draw(problem)
    disturbed = params.components + 0.3 * np.random.default_rng(1).normal(size=params.components.shape)
    components = np.abs(disturbed) if problem.model is MaximalCauses else disturbed
    init = {"components": components, "activation": params.activation, "noise_variance": 1.0}
    return X, _estimator(problem, max_iter, init=init)


def _estimator(problem: Problem, max_iter: int, **settings: Any) -> Any:
    truncation = {"n_candidates": problem.n_candidates, "max_active": problem.max_active}
    settings = {
        **PAPERS_EM,
        **truncation,
        "max_iter": max_iter,
        "tol": 0.0,
        "random_state": 0,
        "start": "random",
        **settings,
    }
    return ESTIMATORS[problem.model](problem.n_components, **settings)


def intervals(estimator: Any, X: np.ndarray) -> np.ndarray:
    """Seconds of each iteration of a fit.

    The first interval holds the set-up, the last two the final E-step and the end of the fit: they are left out.
    """
    clock = IterationClock()
    fit_quietly(estimator.set_callbacks(clock), X)
    return np.diff(clock.marks)[1:-2]


def seconds_per_iteration(problem: Problem, start: Start = disturbed_start) -> float:
    """The median time of one M-step and one E-step."""
    X, estimator = start(problem, 7)
    return float(np.median(intervals(estimator, X)))


def e_step(problem: Problem, params: Any, chunks: Sequence[Chunk], use_kernel: bool = True) -> None:
    """An E-step over all chunks, on all cores."""
    posterior = TruncatedPosterior(problem.n_candidates, problem.max_active, use_kernel=use_kernel)
    prepared = posterior.prepare(problem.model(problem.n_components, problem.n_features), params)
    with InProcess(effective_threads(None)) as executor:
        executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)


def seconds_per_e_step(problem: Problem, n_repeats: int = 5) -> float:
    """The median time of the E-step alone, after a first one that compiles."""
    X, params = draw(problem)
    chunks = split(X, problem.n_components)
    return float(np.median([seconds_of(lambda: e_step(problem, params, chunks)) for _ in range(n_repeats + 1)][1:]))


def loglog_slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """Least-squares slope of log y against log x, with its 95 % interval."""
    from scipy.stats import linregress, t

    fit = linregress(np.log(x), np.log(y))
    half = float(t.ppf(0.975, len(x) - 2) * fit.stderr)
    return float(fit.slope), (float(fit.slope) - half, float(fit.slope) + half)
