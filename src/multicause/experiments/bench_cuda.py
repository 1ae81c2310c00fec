"""`multicause bench --device cuda`: E-steps and iterations on a GPU beside its roofline and all cores of the processor.

The bound of an E-step is the larger of two times: the bytes that must go through the device's memory over its measured
bandwidth, and the operations over the measured rates of what does them. Each array of the algorithm counts once for
being written and once for each product or walk that reads it; a state counts one walk.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.datasets import load_sample_image

from multicause.backends import cuda
from multicause.execution import InProcess, OnDevice
from multicause.execution.in_process import effective_threads
from multicause.experiments.bench_threads import GSC, LINCA, MCA, Measured
from multicause.experiments.timing import Problem, Start, disturbed_start, draw, intervals, random_start
from multicause.metrics import psnr
from multicause.models import BinaryLinear, MaximalCauses, SpikeSlabLinear, combine
from multicause.posteriors import TruncatedPosterior
from multicause.tasks import denoise_image

LARGE_LINCA = replace(LINCA, n_samples=390_000)
LARGE_MCA = replace(MCA, n_samples=40_000)
MANY = Problem(SpikeSlabLinear, 10_000_000, 64, 1024, 10, 5)
OF_AN_EXPONENTIAL, OF_A_ROOT = 30, 10  # floating-point operations, in double precision
REPEATS = 11
NOISE, MOST_SECONDS, MOST_DECIBELS = 25.0, 1.0, 0.02  # of a picture that is denoised
BOUNDS = "memory", "arithmetic"


class Peaks(NamedTuple):
    """What the device was seen to do at most, in this run."""

    bytes_per_second: float
    products: dict[str, float]  # floating-point operations per second, by precision
    others: dict[str, float]


class Work(NamedTuple):
    """What an E-step needs at least."""

    n_bytes: float
    products: float
    others: float

    def seconds(self, peaks: Peaks, dtype: str) -> tuple[float, float]:
        """The times that bytes and operations take at the least."""
        operations = self.products / peaks.products[dtype] + self.others / peaks.others[dtype]
        return self.n_bytes / peaks.bytes_per_second, operations

    def share(self, seconds: float, peaks: Peaks, dtype: str) -> tuple[float, str]:
        """The share of the bound that is reached in so many seconds, and what the bound is by."""
        bound, what = max(zip(self.seconds(peaks, dtype), BOUNDS, strict=True))
        return bound / seconds, what

    def beside(self, seconds: float, peaks: Peaks, dtype: str) -> str:
        """That in words, with what was counted."""
        share, what = self.share(seconds, peaks, dtype)
        counted = f"{self.n_bytes / 1e9:.3g} GB, {self.products / 1e9:.3g} GFLOP in products, {self.others / 1e9:.3g}"
        return f"{share:.0%} of the bound by {what} ({counted} in others)"


E_STEPS: dict[str, tuple[Problem, dict[str, float]]] = {  # problems, and most milliseconds by precision
    "GSC": (GSC, {"float64": 4.0, "float32": 2.0}),
    "LinCA": (LARGE_LINCA, {}),
    "MCA": (LARGE_MCA, {}),
}


def greedy_start(problem: Problem, max_iter: int) -> tuple[np.ndarray, Any]:
    """As `disturbed_start`, with the selection that is the default."""
    X, estimator = disturbed_start(problem, max_iter)
    return X, estimator.set_params(selection="greedy")


ITERATIONS: dict[str, tuple[Problem, Start, float]] = {
    "GSC": (GSC, disturbed_start, 8.0),
    "GSC, greedy selection,": (GSC, greedy_start, 8.0),
    "LinCA": (LARGE_LINCA, disturbed_start, 15.0),
    "LinCA, greedy selection,": (LARGE_LINCA, greedy_start, 15.0),
    "MCA": (LARGE_MCA, random_start, 10.0),
}


def compare_devices(quick: bool) -> list[Measured]:
    """Milliseconds of E-steps and iterations on the GPU, the share of the roofline that is reached, and the cores."""
    peaks = measure_peaks(2**24 if quick else 2**28, 1024 if quick else 8192)
    lines = [_peak_line(peaks)]
    for name, (problem, most) in E_STEPS.items():
        for dtype in ("float64", "float32"):
            lines.append(e_step_line(name, _sized(problem, quick), dtype, peaks, None if quick else most.get(dtype)))
    for name, (problem, start, limit) in ITERATIONS.items():
        lines.append(iteration_line(name, _sized(problem, quick), start, None if quick else limit))
    many = replace(MANY, n_samples=20_000) if quick else MANY
    lines += part_lines(replace(many, n_samples=min(many.n_samples, 1_000_000)), peaks)
    lines += [streamed_line(many, stays, peaks, quick) for stays in (True, False)]
    return [*lines, picture_line(64 if quick else 512, not quick)]


def _sized(problem: Problem, quick: bool) -> Problem:
    return replace(problem, n_samples=2_000) if quick else problem


def measure_peaks(n_numbers: int, size: int) -> Peaks:
    """By a copy, by products of square matrices, and by chains of multiplications and additions."""
    xp = cuda.runtime().xp
    source, target = xp.zeros(n_numbers), xp.empty(n_numbers)
    bandwidth = 2.0 * source.nbytes / seconds_on_device(lambda: xp.copyto(target, source), 5)
    kinds = "float64", "float32"
    return Peaks(bandwidth, {k: _rate_of_products(k, size) for k in kinds}, {k: _rate_of_chains(k) for k in kinds})


def _rate_of_products(dtype: str, size: int) -> float:
    matrix = cuda.runtime().xp.random.standard_normal((size, size)).astype(dtype)
    return 2.0 * size**3 / seconds_on_device(lambda: matrix @ matrix, 3)


def _rate_of_chains(dtype: str, n_threads: int = 2**19, n_steps: int = 4096) -> float:
    runtime = cuda.runtime()
    chains = runtime.xp.zeros(n_threads, dtype)
    seconds = seconds_on_device(
        lambda: runtime.launch("chains", dtype, (), n_threads, 1, n_threads, n_steps, chains), 5
    )
    return 16.0 * n_threads * n_steps / seconds


def seconds_on_device(task: Callable[[], Any], n_repeats: int = REPEATS) -> float:
    """The median, after a first time that compiles."""
    runtime, times = cuda.runtime(), []
    for _ in range(n_repeats + 1):
        runtime.synchronise()
        start = time.perf_counter()
        task()
        runtime.synchronise()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))


def work_of(problem: Problem, dtype: str) -> Work:
    """Bytes and operations of one E-step."""
    N, D, H = problem.n_samples, problem.n_features, problem.n_components
    n_candidates, size = problem.n_candidates, np.dtype(dtype).itemsize
    per_state, n_values, n_rows = _per_state(problem), 0, 2
    if problem.model is SpikeSlabLinear:
        n_values, n_rows = 2 + 2 * n_candidates + n_candidates * (n_candidates + 1) // 2, 3
    elif problem.model is BinaryLinear:
        n_values = 2 + n_candidates * (n_candidates + 1) // 2
    elif problem.model is MaximalCauses:
        n_values, n_rows = n_candidates * D, 3  # what candidates share, and the scores
    numbers = 2.0 * D + 2.0 * n_rows * H + 2.0 * n_values
    products = 4.0 * D * H + (4.0 * D * H if problem.model is MaximalCauses else 0.0)
    singles = OF_AN_EXPONENTIAL + 4.0  # at most one of them in a hundred has a weight, but all are looked at
    return Work(N * numbers * size, N * products, N * (per_state + 0.01 * H * singles + 4.0 * H))


def _per_state(problem: Problem) -> float:
    """Operations of all states of a data point, by the latents m that come after a state's last."""
    H, gamma = problem.n_candidates, problem.max_active
    total = down = back = 0.0
    for j in range(H):
        m, n_states = H - 1 - j, sum(comb(j, k) for k in range(gamma))
        if problem.model is SpikeSlabLinear:
            down = OF_A_ROOT + 6 + 4 * m + m * (m + 1)
            back = 4 + 8 * m + 2 * m * m + m * (m + 1) / 2
        elif problem.model is BinaryLinear:
            down, back = 1.0 + m, 3.0 + m * (m + 1) / 2
        else:
            down, back = 6.0 * problem.n_features, 4.0 * problem.n_features
        total += n_states * (down + back + OF_AN_EXPONENTIAL)
    return total


def e_step_line(name: str, problem: Problem, dtype: str, peaks: Peaks, most: float | None) -> Measured:
    X, params = draw(problem)
    here, there = (
        seconds_of_e_step(executor, problem, params, X.astype(dtype), n_repeats)
        for executor, n_repeats in ((InProcess(effective_threads(None)), 3), (OnDevice(cuda.runtime()), REPEATS))
    )
    beside = work_of(problem, dtype).beside(there, peaks, dtype)
    shown = f"{1e3 * there:.2f} ms, {beside}; {_on_cores(here, there)}"
    wanted = "-" if most is None else f"<= {most:g} ms"
    return f"{name} E-step, {dtype} ({problem})", shown, wanted, None if most is None else 1e3 * there <= most


def seconds_of_e_step(executor: InProcess, problem: Problem, params: Any, X: np.ndarray, n_repeats: int) -> float:
    """One E-step of all data, on a GPU or on cores."""
    model = problem.model(problem.n_components, problem.n_features)
    posterior = TruncatedPosterior(problem.n_candidates, problem.max_active)
    with executor:
        chunks = executor.split(X, problem.n_components)

        def e_step() -> Any:
            prepared = posterior.prepare(model, params)
            return executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)

        return seconds_on_device(e_step, n_repeats)


def _on_cores(here: float, there: float) -> str:
    return f"{effective_threads(None)} cores: {1e3 * here:.0f} ms, {here / there:.0f}x"


def iteration_line(name: str, problem: Problem, start: Any, most: float | None) -> Measured:
    """A whole iteration of a fit, and the same on all cores."""
    X, estimator = start(problem, 12)
    estimator.fit(X[:300])  # compiled kernels are not the fit's time
    here = float(np.median(intervals(estimator.set_params(max_iter=5), X)))
    there = float(np.median(intervals(estimator.set_params(device="cuda", max_iter=12), X)))
    shown = f"{1e3 * there:.2f} ms; {_on_cores(here, there)}"
    wanted = "-" if most is None else f"<= {most:g} ms"
    return f"{name} iteration ({problem})", shown, wanted, None if most is None else 1e3 * there <= most


def streamed_line(problem: Problem, stays: bool, peaks: Peaks, quick: bool) -> Measured:
    """An E-step over data that stay on the device, or that are sent anew."""
    rng = np.random.default_rng(0)
    _, params = draw(replace(problem, n_samples=1))
    X = rng.standard_normal((min(problem.n_samples, 100_000), problem.n_features), dtype=np.float32)
    X = np.tile(X, (-(-problem.n_samples // len(X)), 1))[: problem.n_samples]
    model = problem.model(problem.n_components, problem.n_features)
    posterior = TruncatedPosterior(problem.n_candidates, problem.max_active)
    with OnDevice(cuda.runtime(), data_share=0.5 if stays else 0.0) as executor:
        chunks = executor.split(X, problem.n_components)
        seconds = seconds_on_device(
            lambda: executor.map_reduce(posterior.prepare(model, params).statistics, chunks, combine), 1
        )
    work = work_of(problem, "float32")
    share, what = work.share(seconds, peaks, "float32")
    how = "data stay on the device" if stays else f"data are sent in {len(chunks)} chunks"
    shown = f"{seconds:.3f} s, {work.beside(seconds, peaks, 'float32')}"
    met = None if quick or what == "memory" else share >= 0.5
    return f"GSC E-step, float32, {how} ({problem})", shown, ">= 50% where arithmetic", met


def picture_line(side: int, is_judged: bool) -> Measured:
    """A square picture denoised with default settings, after compilation, and how good it is beside the cores'."""
    clean = photograph(side)
    noisy = clean + NOISE * np.random.default_rng(0).normal(size=clean.shape)

    def denoised(device: Literal["cpu", "cuda"]) -> tuple[float, float]:
        results: list[Any] = []
        seconds = seconds_on_device(lambda: results.append(denoise_image(noisy, random_state=0, device=device)), 1)
        return seconds, psnr(results[-1].image, clean)

    (here, of_cores), (there, decibels) = denoised("cpu"), denoised("cuda")
    gain = decibels - of_cores
    shown = f"{there:.2f} s; {_on_cores(here, there)}; {decibels:.2f} dB, {gain:+.4f} dB to the cores'"
    met = there < MOST_SECONDS and abs(gain) <= MOST_DECIBELS if is_judged else None
    return f"denoise_image, {side} x {side}", shown, f"< {MOST_SECONDS:g} s, within {MOST_DECIBELS} dB", met


def photograph(side: int) -> np.ndarray:
    """Shades of grey of a photograph that comes with scikit-learn, mirrored at its lower edge."""
    grey = load_sample_image("china.jpg")[:, :side] @ [0.299, 0.587, 0.114]
    return np.pad(grey, ((0, max(side - len(grey), 0)), (0, 0)), mode="symmetric")[:side]


class PartsOfGSC:
    """The parts of an E-step over one chunk, each of which may be repeated."""

    def __init__(self, problem: Problem, executor: OnDevice):
        self.N, self.D, self.H = problem.n_samples, problem.n_features, problem.n_components
        _, params = draw(replace(problem, n_samples=1))
        X = np.random.default_rng(0).standard_normal((self.N, self.D), dtype=np.float32)
        prepared = TruncatedPosterior(problem.n_candidates, problem.max_active).prepare(
            problem.model(self.H, self.D), params
        )
        chunks: list[Any] = executor.split(X, self.H, self.N)
        self.chunk = chunks[0]
        self.step, self.n_candidates = prepared.at(self.chunk).e_step, problem.n_candidates
        self.weights = self.chunk.weights_there()

    def products(self) -> None:
        self.terms = self.step.terms(self.chunk.rows())

    def selection(self) -> None:
        self.candidates = self.step.select(self.terms, self.n_candidates)

    def states(self) -> None:
        terms = self.terms._replace(linear=self.terms.linear.copy())  # which is used up
        self.moments = self.step.moments(terms, self.candidates, self.weights)

    def sums(self) -> None:
        self.step.sums(self.terms.Y, self.candidates, self.weights, self.moments)


def part_lines(problem: Problem, peaks: Peaks) -> list[Measured]:
    """Where the time of GSC's E-step goes, each part with its own bound, in single precision."""
    lines: list[Measured] = []
    with OnDevice(cuda.runtime()) as executor:
        parts = PartsOfGSC(problem, executor)
        N, D, H, n_candidates = parts.N, parts.D, parts.H, parts.n_candidates
        n_values, of_states = 2 + 2 * n_candidates + n_candidates * (n_candidates + 1) // 2, work_of(problem, "float32")
        copied = 8.0 * N * H / peaks.bytes_per_second  # by `states`, to be repeated
        for name, part, numbers, products, others in (
            ("products", parts.products, D + H, 2.0 * N * D * H, 0.0),
            ("selection", parts.selection, H + n_candidates, 0.0, 4.0 * N * H),
            ("states", parts.states, 3 * H + n_values, 0.0, of_states.others - 4.0 * N * H),
            ("sums", parts.sums, 3 * H + D + n_values, 2.0 * N * D * H, 0.0),
        ):
            seconds = seconds_on_device(part, 3) - (copied if name == "states" else 0.0)
            work = Work(4.0 * N * numbers, products, others)
            shown = f"{1e3 * seconds:.2f} ms, {work.beside(seconds, peaks, 'float32')}"
            lines.append((f"GSC E-step, float32, its {name} (N={N:,}, H={H})", shown, "-", None))
    return lines


def _peak_line(peaks: Peaks) -> Measured:
    rates = [
        f"{dtype}: products {rate / 1e12:.1f}, others {peaks.others[dtype] / 1e12:.1f} TFLOP/s"
        for dtype, rate in peaks.products.items()
    ]
    return "peaks of the device", f"copies {peaks.bytes_per_second / 1e12:.2f} TB/s; {'; '.join(rates)}", "-", None
