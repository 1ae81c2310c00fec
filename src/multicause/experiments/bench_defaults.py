"""`multicause bench defaults`: what plain calls find, `LinCA(n_components=20, random_state=0).fit(X)` and its like.

Data of each model itself; fits are told the number of components and a seed, nothing else. Beside them the same fits
from the papers' random starts, `start="random"`, and the free energy of the parameters that generated the data.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits, load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from multicause.datasets import bar_components
from multicause.estimators import ETNMF, GSC, MCA, LinCA

FOUND = 0.95  # correlation of a cause and the component that is its own
N_SEEDS, N_QUICK = 20, 2
LONGEST, DEEPEST, LEAST_FOUND = 5.0, -0.1, 0.9  # what is wanted of time, free energy, and the share of good fits

STARTS = ("search", "random")

Components = Callable[[np.random.Generator], np.ndarray]


class Task(NamedTuple):
    """Data of known causes: two active on average."""

    name: str
    estimator: Any
    components: Components
    n_samples: int
    noise: float


class Trial(NamedTuple):
    """One fit by default, beside one from a random start; free energies are relative to the truth's."""

    found: float  # share of the causes
    free_energy: float
    seconds: float
    found_from_random: float
    free_energy_from_random: float
    seconds_from_random: float
    kept_from_truth: float  # share of the causes that EM keeps which starts from them


def fields(n: int, n_features: int, nonnegative: bool, rng: np.random.Generator) -> np.ndarray:
    """Components without structure."""
    drawn = rng.standard_normal((n, n_features))
    return np.abs(drawn) if nonnegative else drawn


def bars(size: int, signed: bool, rng: np.random.Generator) -> np.ndarray:
    return bar_components(size, 1.0, signed)


def strokes(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Straight strokes of a soft pen, across each other but not upon each other."""
    pixels = np.stack(np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5, indexing="ij"), -1).reshape(-1, 2)
    drawn: list[np.ndarray] = []
    while len(drawn) < n:
        middle, angle, length = rng.random(2) * size, rng.random() * np.pi, rng.uniform(0.4, 0.9) * size
        along = np.linspace(-0.5, 0.5, 60)[:, None] * length * np.array([np.cos(angle), np.sin(angle)])
        distance = np.linalg.norm(pixels[:, None] - (middle + along), axis=2).min(axis=1)
        stroke = np.clip(1.2 - distance, 0.0, 1.0)
        if stroke.sum() > 3.0 and all(_cosine(stroke, other) < 0.8 for other in drawn):
            drawn.append(stroke)
    return np.array(drawn)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


TASKS = [
    Task("LinCA, 10 signed bars", LinCA, partial(bars, 5, True), 2000, 0.3),
    Task("LinCA, 20 bars", LinCA, partial(bars, 10, False), 2000, 0.3),
    Task("LinCA, 40 bars", LinCA, partial(bars, 20, False), 3000, 0.3),
    Task("LinCA, random fields, H = 20", LinCA, partial(fields, 20, 25, False), 2000, 0.4),
    Task("LinCA, random fields, H = 50", LinCA, partial(fields, 50, 50, False), 3000, 0.4),
    Task("LinCA, random fields, H = 100", LinCA, partial(fields, 100, 100, False), 5000, 0.4),
    Task("LinCA, random fields, H = 2 D = 50", LinCA, partial(fields, 50, 25, False), 3000, 0.25),
    Task("LinCA, 25 strokes", LinCA, partial(strokes, 25, 10), 3000, 0.2),
    Task("ETNMF, 20 bars", ETNMF, partial(bars, 10, False), 2000, 0.3),
    Task("ETNMF, 40 bars", ETNMF, partial(bars, 20, False), 3000, 0.3),
    Task("ETNMF, 25 strokes", ETNMF, partial(strokes, 25, 10), 3000, 0.2),
    Task("ETNMF, random fields, H = 50", ETNMF, partial(fields, 50, 50, True), 3000, 0.3),
    Task("GSC, 20 signed bars", GSC, partial(bars, 10, True), 2000, 0.2),
    Task("GSC, random fields, H = 20", GSC, partial(fields, 20, 25, False), 2000, 0.3),
    Task("GSC, random fields, H = 50", GSC, partial(fields, 50, 50, False), 3000, 0.3),
    Task("GSC, random fields, H = 100", GSC, partial(fields, 100, 100, False), 5000, 0.3),
    Task("GSC, random fields, H = 2 D = 50", GSC, partial(fields, 50, 25, False), 3000, 0.2),
    Task("GSC, 25 strokes", GSC, partial(strokes, 25, 10), 3000, 0.1),
    Task("MCA, 10 bars", MCA, partial(bars, 5, False), 1000, 0.2),
    Task("MCA, 20 bars", MCA, partial(bars, 10, False), 2000, 0.2),
    Task("MCA, random fields, H = 20", MCA, partial(fields, 20, 25, True), 2000, 0.2),
    Task("MCA, random fields, H = 50", MCA, partial(fields, 50, 50, True), 3000, 0.2),
    Task("MCA, 25 strokes", MCA, partial(strokes, 25, 10), 3000, 0.15),
    Task("MCA, 40 bars", MCA, partial(bars, 20, False), 3000, 0.2),
]


def run_trial(task: Task, seed: int) -> Trial:
    """Fits of one thread, in seconds of its processor."""
    rng = np.random.default_rng([seed, 22])
    causes = task.components(rng)
    settings = {"allow_negative": True} if task.estimator is ETNMF else {}
    truth = {
        "components": causes,
        "activation": np.full(len(causes), 2.0 / len(causes)),
        "noise_variance": task.noise**2,
    }
    if task.estimator is GSC:
        truth |= {"slab_mean": np.zeros(len(causes)), "slab_covariance": np.ones(len(causes))}
    generating = task.estimator.from_parameters(**truth, n_jobs=1, **settings)
    X = generating.sample(task.n_samples, random_state=seed)[0]
    common = {"random_state": seed, "n_jobs": 1, **settings}
    judged = [_judge(task.estimator(len(causes), **common, **own), X, causes) for own in ({}, {"start": "random"})]
    kept = _judge(task.estimator(len(causes), init=truth, max_iter=50, **common), X, causes)[0]
    score = generating.score(X)
    (found, free_energy, seconds), (other, other_free_energy, other_seconds) = judged
    return Trial(found, free_energy - score, seconds, other, other_free_energy - score, other_seconds, kept)


def _judge(estimator: Any, X: np.ndarray, causes: np.ndarray) -> tuple[float, float, float]:
    """Share of the causes found, free energy, and seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        estimator.fit(X)
        seconds = time.process_time() - begun
    return share_found(estimator.components_, causes), estimator.score(X), seconds


def share_found(components: np.ndarray, causes: np.ndarray) -> float:
    """Causes with a component of their own, up to its sign and length."""
    a, b = (W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300) for W in (components, causes))
    cosines = np.abs(a @ b.T)
    return float((cosines[linear_sum_assignment(-cosines)] > FOUND).mean())


def plain_calls(quick: bool = False) -> list[tuple[str, str, str, bool | None]]:
    """All tasks, a line each; trials in parallel processes."""
    seeds = range(N_QUICK if quick else N_SEEDS)
    tasks = [task for task in TASKS if not quick or task.n_samples <= 2000]
    wanted = f"all found >= {LEAST_FOUND:.0%}, F >= {DEEPEST}, <= {LONGEST:.0f}x"
    trials = Parallel(n_jobs=-1)(delayed(run_trial)(task, seed) for task in tasks for seed in seeds)
    per_task = [trials[i : i + len(seeds)] for i in range(0, len(trials), len(seeds))]
    lines = [(task.name, _said(mine), wanted, _is_met(mine)) for task, mine in zip(tasks, per_task, strict=True)]
    return lines + ([] if quick else real_data())


def _said(trials: list[Trial]) -> str:
    mean = Trial(*np.mean(trials, axis=0))
    n_good, n_before = (sum(getattr(t, name) == 1.0 for t in trials) for name in ("found", "found_from_random"))
    lowest = min(trial.free_energy for trial in trials)
    return (
        f"all found {n_good}/{len(trials)} ({mean.found:.3f}), F - truth's >= {lowest:.2f}, {mean.seconds:.1f} s; "
        f"from random {n_before}/{len(trials)} ({mean.found_from_random:.3f}), {mean.free_energy_from_random:.2f}, "
        f"{mean.seconds_from_random:.1f} s; ratio {_ratio(trials):.1f}"
    )


def _ratio(trials: list[Trial]) -> float:
    return sum(t.seconds for t in trials) / sum(t.seconds_from_random for t in trials)


def _is_met(trials: list[Trial]) -> bool | None:
    """None where the truth is no maximum that EM keeps."""
    if np.mean([trial.kept_from_truth == 1.0 for trial in trials]) < LEAST_FOUND:
        return None
    good = np.mean([trial.found == 1.0 for trial in trials])
    deepest = min(trial.free_energy for trial in trials)
    return bool(good >= LEAST_FOUND and deepest >= DEEPEST and _ratio(trials) <= LONGEST)


def real_data() -> list[tuple[str, str, str, bool | None]]:
    """Free energies and seconds on digits and on patches of a photograph, by default and from a random start."""
    digits = load_digits().data / 16.0
    picture = load_sample_image("china.jpg").mean(axis=2) / 255.0
    patches = extract_patches_2d(picture, (8, 8), max_patches=5000, random_state=0).reshape(-1, 64)
    patches -= patches.mean(axis=1, keepdims=True)
    data: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "digits": (digits, {"LinCA": LinCA, "ETNMF": ETNMF, "MCA": MCA}),
        "patches": (patches, {"LinCA": LinCA, "GSC": GSC}),
    }
    lines: list[tuple[str, str, str, bool | None]] = []
    for name, (X, kinds) in data.items():
        fits = Parallel(n_jobs=-1)(delayed(_fit_real)(kind, X, start) for kind in kinds.values() for start in STARTS)
        for kind, (F, seconds), (before, seconds_before) in zip(kinds, fits[::2], fits[1::2], strict=True):
            said = f"F = {F:.2f}, {seconds:.1f} s; from random {before:.2f}, {seconds_before:.1f} s"
            met = before + DEEPEST <= F and seconds <= LONGEST * seconds_before
            lines.append((f"{kind}, {name}, H = 50", said, "F no less, <= 5x", met))
    return lines


def _fit_real(kind: Any, X: np.ndarray, start: str) -> tuple[float, float]:
    fit = kind(50, start=start, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        fit.fit(X)
        return fit.score(X), time.process_time() - begun
