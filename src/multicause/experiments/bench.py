"""`multicause bench`: speed as ratios and fitted exponents, measured in one run on this machine."""

import time
import tracemalloc
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.execution import InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.experiments.bench_counts import compare_on_counts
from multicause.experiments.bench_cuda import compare_devices
from multicause.experiments.bench_defaults import plain_calls
from multicause.experiments.bench_threads import GSC, LINCA, MCA, compare_threads
from multicause.experiments.bench_upoe import ratios
from multicause.experiments.timing import (
    Problem,
    disturbed_start,
    draw,
    e_step,
    loglog_slope,
    random_start,
    seconds_of,
    seconds_per_e_step,
    seconds_per_iteration,
)
from multicause.models import DataMoments, combine
from multicause.posteriors import TruncatedPosterior
from multicause.selection import GPSelect
from multicause.selection.gp_select import MOST_PIVOTS

QUICK_SAMPLES = 2_000


class Line(NamedTuple):
    """What was measured, its value, what is wanted of it, and whether it is."""

    what: str
    value: str
    wanted: str
    met: bool | None


class Wanted(NamedTuple):
    megabytes: int = 300
    most_components: int = 2048  # up to which the growth with H is measured
    naive_points: int = 128  # for which the definition is timed


def linca(quick: bool = False) -> list[Line]:
    """LinCA at the size of the paper's speech experiment."""
    return _measure(LINCA, Wanted(), quick)


def mca(quick: bool = False) -> list[Line]:
    """MCA at the size of the paper's grass experiment, with a quarter of its patches."""
    return _measure(MCA, Wanted(), quick)


def gsc(quick: bool = False) -> list[Line]:
    """GSC at the size of the paper's denoising experiment."""
    seconds = seconds_per_e_step(replace(GSC, n_samples=QUICK_SAMPLES) if quick else GSC)
    line = Line("seconds per E-step", f"{seconds:.3f}", "-", None)
    return [line, *_measure(GSC, Wanted(500, 4096, 4), quick)]


def gp_select(quick: bool = False) -> list[Line]:
    """Learned selection beside the E-step that it serves, for LinCA at the size of the paper's speech experiment."""
    problem = Problem(n_samples=QUICK_SAMPLES) if quick else Problem()
    selecting, e_step_alone, held = seconds_of_selection(problem)
    ratio, size = selecting / e_step_alone, f"N={problem.n_samples:,}, H={problem.n_components}"
    width = held / (8 * problem.n_samples * MOST_PIVOTS)
    return [
        Line(f"seconds per E-step ({size})", f"{e_step_alone:.3f}", "-", None),
        Line("learned selection over the E-step", f"{ratio:.2f}x", "<= 1x", None if quick else ratio <= 1.0),
        Line("its memory in units of N x rank", f"{width:.1f}", "a few", None if quick else width < 5.0),
    ]


def upoe(quick: bool = False) -> list[Line]:
    """UPoE beside FastICA and Picard."""
    return [Line(*line) for line in ratios(quick)]


def counts(quick: bool = False) -> list[Line]:
    """Poisson sums beside scikit-learn's NMF with the Kullback-Leibler loss."""
    return [Line(*line) for line in compare_on_counts(quick)]


def defaults(quick: bool = False) -> list[Line]:
    """What plain calls find, beside fits from random starts and the truth."""
    return [Line(*line) for line in plain_calls(quick)]


def threads(quick: bool = False) -> list[Line]:
    """Efficiency of the threads at hand."""
    return [Line(*line) for line in compare_threads(quick)]


def on_cuda(quick: bool = False) -> list[Line]:
    """E-steps and iterations on a GPU, beside its roofline and all cores."""
    return [Line(*line) for line in compare_devices(quick)]


ON_DEVICES = {"cuda": on_cuda}
BENCHMARKS = {
    "linca": linca,
    "mca": mca,
    "gsc": gsc,
    "threads": threads,
    "gp-select": gp_select,
    "upoe": upoe,
    "counts": counts,
    "defaults": defaults,
}


def _measure(problem: Problem, wanted: Wanted, quick: bool) -> list[Line]:
    """Time per iteration, its growth with N and H, the ratio to the definition, and memory."""
    if quick:
        problem = replace(problem, n_samples=QUICK_SAMPLES)
    first, iteration = seconds_per_iteration(problem, random_start), seconds_per_iteration(problem)
    ratio = naive_seconds_per_point(problem, wanted.naive_points) * problem.n_samples / iteration
    samples = (2_000, 4_000) if quick else tuple(problem.n_samples * k // 2 for k in (1, 2, 4, 8))
    components = [64 * 2**k for k in range(2 if quick else int(np.log2(wanted.most_components // 64)) + 1)]
    in_n = loglog_slope(samples, [seconds_per_iteration(replace(problem, n_samples=n)) for n in samples])
    few = replace(problem, n_samples=min(problem.n_samples, 20_000))
    in_h = loglog_slope(components, [seconds_per_iteration(replace(few, n_components=h)) for h in components])
    return [
        Line(f"seconds per EM iteration, the first ({problem})", f"{first:.3f}", "-", None),
        Line("seconds per EM iteration, late ones near the truth", f"{iteration:.3f}", "-", None),
        Line("speed over log_joint, state by state", f"{ratio:.0f}x", ">= 50x", ratio >= 50.0),
        Line("exponent of time in N", _shown(in_n), "1", None if quick else in_n[1][0] <= 1.0),
        Line(f"exponent of time in H, 64 to {components[-1]}", _shown(in_h), "<= 1", None if quick else in_h[0] <= 1.0),
        *(_memory(replace(problem, n_samples=n), wanted.megabytes) for n in (samples[0], samples[-1])),
    ]


def _memory(problem: Problem, most: int) -> Line:
    peak = peak_megabytes(problem)
    return Line(f"peak memory beyond the data, N={problem.n_samples:,}", f"{peak:.0f} MB", f"< {most} MB", peak < most)


def _shown(slope: tuple[float, tuple[float, float]]) -> str:
    value, (low, high) = slope
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def naive_seconds_per_point(problem: Problem, n_points: int) -> float:
    """The same E-step from `log_joint` and `accumulate`, for a few points, on all cores."""
    few = replace(problem, n_samples=n_points)
    X, params = draw(few)
    rows = 16 if n_points > 16 else 2  # the definition holds (rows, states, D) at once
    chunks = [split(X[start : start + rows], 1)[0] for start in range(0, n_points, rows)]
    return seconds_of(lambda: e_step(few, params, chunks, use_kernel=False)) / n_points


def peak_megabytes(problem: Problem) -> float:
    """Peak of what Python and NumPy allocate during a fit, the data excluded."""
    X, estimator = disturbed_start(problem, max_iter=3)
    estimator.fit(X)  # compiled kernels and threads are not the fit's memory
    tracemalloc.start()
    estimator.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def seconds_of_selection(problem: Problem, n_cycles: int = 3) -> tuple[float, float, int]:
    """Seconds per iteration of GPSelect, kernel updates included, and of the E-step; bytes that the selection holds."""
    X, params = draw(problem)
    model, selection = problem.model(problem.n_components, problem.n_features), GPSelect()
    posterior = TruncatedPosterior(problem.n_candidates, problem.max_active, selection=selection)
    chunks, moments = split(X, problem.n_components), DataMoments(float(len(X)), X.mean(axis=0), X.var(axis=0))
    selecting, e_steps = [], []
    unused = partial(np.zeros, dtype=np.int32)  # the model's own selection, which a learned one does not ask
    with InProcess(effective_threads(None)) as executor:
        learning = selection.begin(executor, chunks, moments, problem.n_components, seed=0)
        for iteration in range(n_cycles * selection.update_every + 1):
            start = time.perf_counter()
            for _ in executor.map(lambda chunk: learning.candidates(chunk, problem.n_candidates, unused), chunks):
                pass
            chosen = time.perf_counter()
            executor.map_reduce(posterior.prepare(model, params, 1.0, learning).statistics, chunks, combine)
            ended = time.perf_counter()
            learning.learn(iteration)
            selecting.append(chosen - start + time.perf_counter() - ended)
            e_steps.append(ended - chosen - (chosen - start))
    held = sum(_bytes(value) for chunk in chunks for value in chunk.memory.values())
    return float(np.mean(selecting[1:])), float(np.median(e_steps)), held


def _bytes(value: Any) -> int:
    """Of an array, or of all that a tuple holds."""
    return sum(map(_bytes, value)) if isinstance(value, tuple) else getattr(value, "nbytes", 0)
