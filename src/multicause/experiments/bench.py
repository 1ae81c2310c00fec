"""`multicause bench`: speed as ratios and fitted exponents, measured in one run on this machine."""

import time
import tracemalloc
from typing import Any, NamedTuple

import numpy as np

from multicause.execution import InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.experiments.callbacks import IterationClock
from multicause.experiments.et_scaling import loglog_slope
from multicause.models import (
    BinaryLinear,
    DataMoments,
    FieldParams,
    MaximalCauses,
    SpikeSlabLinear,
    SpikeSlabParams,
    combine,
)
from multicause.posteriors import TruncatedPosterior
from multicause.selection import GPSelect
from multicause.selection.gp_select import MOST_PIVOTS


class Line(NamedTuple):
    """What was measured, its value, what is wanted of it, and whether it is."""

    what: str
    value: str
    wanted: str
    met: bool | None


Model = type[BinaryLinear] | type[MaximalCauses] | type[SpikeSlabLinear]


class Setting(NamedTuple):
    model: Model = BinaryLinear
    n_samples: int = 20_000
    n_features: int = 200
    n_components: int = 200
    n_candidates: int = 10
    max_active: int = 4
    most_megabytes: int = 300
    most_causes: int = 2048
    naive_points: int = 128  # of which the definition is timed


def linca(quick: bool = False) -> list[Line]:
    """LinCA at the size of the paper's speech experiment."""
    return _measure(Setting(), 0.15, quick)


def mca(quick: bool = False) -> list[Line]:
    """MCA at the size of the paper's grass experiment, with a quarter of its patches."""
    return _measure(Setting(MaximalCauses, 10_000, 100, 100, 5, 3), 0.25, quick)


def gsc(quick: bool = False) -> list[Line]:
    """GSC at the size of the paper's denoising experiment."""
    setting = Setting(SpikeSlabLinear, 62_001, 64, 256, 10, 8, 500, 4096, 4)
    e_step = seconds_per_e_step(setting._replace(n_samples=2_000) if quick else setting)
    line = Line("seconds per E-step", f"{e_step:.3f}", "<= 1.0 on two cores", None if quick else e_step <= 1.0)
    return [line, *_measure(setting, 1.6, quick)]


def gp_select(quick: bool = False) -> list[Line]:
    """Learned selection beside the E-step that it serves, for LinCA at the size of the paper's speech experiment."""
    setting = Setting(n_samples=2_000) if quick else Setting()
    selecting, e_step, memory = seconds_of_selection(setting)
    ratio, size = selecting / e_step, f"N={setting.n_samples:,}, H={setting.n_components}"
    width = memory * 2**20 / (8 * setting.n_samples * MOST_PIVOTS)
    return [
        Line(f"seconds per E-step ({size})", f"{e_step:.3f}", "-", None),
        Line("learned selection over the E-step", f"{ratio:.2f}x", "<= 1x", None if quick else ratio <= 1.0),
        Line("its memory in units of N x rank", f"{width:.1f}", "a few", None if quick else width < 5.0),
    ]


def seconds_of_selection(setting: Setting, n_cycles: int = 3) -> tuple[float, float, float]:
    """Seconds per iteration of GPSelect, kernel updates included, and of the E-step; megabytes of the selection."""
    X, params = make_problem(setting)
    model, selection = setting.model(setting.n_components, setting.n_features), GPSelect()
    posterior = TruncatedPosterior(setting.n_candidates, setting.max_active, selection=selection)
    chunks, moments = split(X, setting.n_components), DataMoments(float(len(X)), X.mean(axis=0), X.var(axis=0))
    selecting, e_steps = [], []
    with InProcess(effective_threads(None)) as executor:
        learning = selection.begin(executor, chunks, moments, setting.n_components, seed=0)
        for iteration in range(n_cycles * selection.update_every + 1):
            start = time.perf_counter()
            for _ in executor.map(lambda chunk: learning.candidates(chunk, setting.n_candidates), chunks):
                pass
            chosen = time.perf_counter()
            executor.map_reduce(posterior.prepare(model, params, 1.0, learning).statistics, chunks, combine)
            explored = time.perf_counter()
            learning.learn(iteration)
            selecting.append(chosen - start + time.perf_counter() - explored)
            e_steps.append(explored - chosen - (chosen - start))
    memories = [chunk.memory for chunk in chunks]
    held = sum(m["features"].nbytes + m["leverage"].nbytes + sum(a.nbytes for a in m["targets"]) for m in memories)
    return float(np.mean(selecting[1:])), float(np.median(e_steps)), held / 2**20


def _measure(setting: Setting, most_seconds: float, quick: bool) -> list[Line]:
    """Time per iteration, its growth with N and H, the ratio to the definition, and memory."""
    if quick:
        setting = setting._replace(n_samples=2_000)
    iteration = seconds_per_iteration(setting)
    naive = naive_seconds_per_point(setting, setting.naive_points)
    ratio = naive * setting.n_samples / iteration
    samples = (2_000, 4_000) if quick else tuple(setting.n_samples * k // 2 for k in (1, 2, 4, 8))
    causes = [64 * 2**k for k in range(2 if quick else int(np.log2(setting.most_causes // 64)) + 1)]
    in_n = loglog_slope(samples, [seconds_per_iteration(setting._replace(n_samples=n)) for n in samples])
    few = setting._replace(n_samples=min(setting.n_samples, 20_000))
    in_h = loglog_slope(causes, [seconds_per_iteration(few._replace(n_components=h)) for h in causes])
    memory = [peak_megabytes(setting._replace(n_samples=n)) for n in samples[:: len(samples) - 1]]
    size = f"N={setting.n_samples:,}, D={setting.n_features}, H={setting.n_components}, "
    size += f"H'={setting.n_candidates}, gamma={setting.max_active}"
    wanted, memory_wanted = f"<= {most_seconds} on two cores", f"< {setting.most_megabytes} MB"
    return [
        Line(f"seconds per EM iteration ({size})", f"{iteration:.3f}", wanted, iteration <= most_seconds),
        Line("speed over log_joint, state by state", f"{ratio:.0f}x", ">= 50x", ratio >= 50.0),
        Line("exponent of time in N", _slope(in_n), "1", None if quick else in_n[1][0] <= 1.0),
        Line(f"exponent of time in H, 64 to {causes[-1]}", _slope(in_h), "<= 1", None if quick else in_h[0] <= 1.0),
        *(
            Line(f"peak memory beyond the data, N={n:,}", f"{m:.0f} MB", memory_wanted, m < setting.most_megabytes)
            for n, m in zip(samples[:: len(samples) - 1], memory, strict=True)
        ),
    ]


def upoe(quick: bool = False) -> list[Line]:
    """UPoE beside FastICA and Picard."""
    from multicause.experiments.bench_upoe import ratios

    return [Line(*line) for line in ratios(quick)]


BENCHMARKS = {"linca": linca, "mca": mca, "gsc": gsc, "gp-select": gp_select, "upoe": upoe}


def _slope(slope: tuple[float, tuple[float, float]]) -> str:
    value, (low, high) = slope
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def make_problem(setting: Setting) -> tuple[np.ndarray, Any]:
    rng = np.random.default_rng(0)
    shape = (setting.n_components, setting.n_features)
    fields = rng.normal(size=shape)
    if setting.model is MaximalCauses:
        fields = 5.0 * fields**2
    activation = np.full(setting.n_components, 2.0 / setting.n_components)
    params: Any = FieldParams(fields, activation, 0.25)
    if setting.model is SpikeSlabLinear:
        ones = np.ones(setting.n_components)
        params = SpikeSlabParams(fields, activation, 0.0 * ones, ones, 0.25)
    X, _ = setting.model(*shape).sample(params, setting.n_samples, rng)
    return X, params


def fit(setting: Setting, max_iter: int, callback=None):
    """A fit with the default settings, from the true parameters disturbed."""
    from multicause.estimators import GSC, MCA, LinCA

    estimators = {BinaryLinear: LinCA, MaximalCauses: MCA, SpikeSlabLinear: GSC}
    X, params = make_problem(setting)
    rng = np.random.default_rng(1)
    disturbed = params.components + 0.3 * rng.normal(size=params.components.shape)
    estimator = estimators[setting.model](
        setting.n_components,
        n_candidates=setting.n_candidates,
        max_active=setting.max_active,
        components_init=np.abs(disturbed) if setting.model is MaximalCauses else disturbed,
        activation_init=params.activation,
        noise_variance_init=1.0,
        max_iter=max_iter,
        tol=0.0,
        random_state=0,
    )
    if callback is not None:
        estimator.set_callbacks(callback)
    return X, estimator


def seconds_per_iteration(setting: Setting, n_iterations: int = 7) -> float:
    """The median time between two records: one M-step and one E-step, the first one and the last ones left out."""
    marks = [time.perf_counter()]
    X, estimator = fit(setting, n_iterations, IterationClock(marks))
    estimator.fit(X)
    return float(np.median(np.diff(marks)[1:-2]))


def seconds_per_e_step(setting: Setting, n_repeats: int = 5) -> float:
    """The median time of the E-step alone."""
    X, params = make_problem(setting)
    posterior = TruncatedPosterior(setting.n_candidates, setting.max_active)
    model = setting.model(setting.n_components, setting.n_features)
    chunks = split(X, setting.n_components)
    marks = []
    with InProcess(effective_threads(None)) as executor:
        for _ in range(n_repeats + 1):
            marks.append(time.perf_counter())
            executor.map_reduce(posterior.prepare(model, params).statistics, chunks, combine)
    return float(np.median(np.diff(marks)[1:]))


def naive_seconds_per_point(setting: Setting, n_points: int) -> float:
    """The same E-step from `log_joint` and `accumulate`, for a few points, on all cores."""
    X, params = make_problem(setting._replace(n_samples=n_points))
    model = setting.model(setting.n_components, setting.n_features)
    posterior = TruncatedPosterior(setting.n_candidates, setting.max_active, use_kernel=False)
    prepared = posterior.prepare(model, params)
    with InProcess(effective_threads(None)) as executor:
        start = time.perf_counter()
        executor.map_reduce(prepared.statistics, _small_chunks(X), combine)
        return (time.perf_counter() - start) / n_points


def _small_chunks(X: np.ndarray) -> list:
    """Chunks of few rows: the definition holds (rows, states, D) at once."""
    size = 16 if len(X) > 16 else 2
    return [split(X[start : start + size], 1)[0] for start in range(0, len(X), size)]


def peak_megabytes(setting: Setting) -> float:
    """Peak of what Python and NumPy allocate during a fit, the data excluded."""
    X, estimator = fit(setting, 3)
    estimator.fit(X)  # compiled kernels and threads are not the fit's memory
    tracemalloc.start()
    estimator.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20
