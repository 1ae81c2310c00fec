"""`upoe-recovery`: mixed sources recovered, beside FastICA and Picard; sources of two modes, too (ours)."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from multicause.estimators import UPoE
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.metrics import amari_index, bootstrap_interval

N_TRIALS, N_SAMPLES = 20, 10_000
SIZES = (5, 20, 50)
RIVALS = ("FastICA", "FastICA, deflation", "Picard", "Picard, not orthogonal")
SUPER_GAUSSIAN: tuple[Callable[[int, np.random.Generator], np.ndarray], ...] = (
    lambda n, rng: rng.laplace(size=n),
    lambda n, rng: rng.standard_t(5, size=n),
    lambda n, rng: rng.logistic(size=n),
    lambda n, rng: rng.standard_normal(n) * rng.gamma(2.0, size=n),  # loud and quiet
)


def upoe_recovery(options: Options) -> Result:
    n_samples, sizes = (2_000, (5,)) if options.quick else (N_SAMPLES, SIZES)
    rows, details = [], {}
    boxes: dict[str, np.ndarray] = {}
    for size in sizes:
        title = f"{size} super-Gaussian sources"
        task = partial(errors, super_gaussian, ("UPoE, parallel", "UPoE, pursuit", *RIVALS), size, n_samples)
        found = _by_method(run_trials(task, options.seeds(N_TRIALS), options, title))
        rows += [against(title, found, "UPoE, parallel", rival) for rival in RIVALS if rival in found]
        rows.append(against(title, found, "UPoE, pursuit", "FastICA, deflation"))
        details[title] = {"trials": len(found["FastICA"]), **{name: values.tolist() for name, values in found.items()}}
        boxes |= {f"{name} ({size})": values for name, values in found.items()}
    title = "5 sources of two modes"
    methods = ("UPoE, parallel, mixtures", "UPoE, pursuit, mixtures", "UPoE, pursuit", "FastICA", "FastICA, deflation")
    task = partial(errors, bimodal, methods, 5, n_samples)
    found = _by_method(run_trials(task, options.seeds(N_TRIALS), options, title))
    rows.append(against(title, found, "UPoE, parallel, mixtures", "FastICA"))
    rows.append(against(title, found, "UPoE, pursuit, mixtures", "FastICA, deflation"))
    failing = found["UPoE, pursuit"]
    rows.append(
        Row(title, "Amari index, UPoE with a Student-t", "fails", float(failing.mean()), bootstrap_interval(failing),
            bool(failing.mean() > 5.0 * found["UPoE, pursuit, mixtures"].mean()))
    )  # fmt: skip
    details[title] = {"trials": len(failing), **{name: values.tolist() for name, values in found.items()}}
    return Result("upoe-recovery", rows, _figure(boxes), details=details)


def _by_method(trials: list[dict[str, float]]) -> dict[str, np.ndarray]:
    return {name: np.array([trial[name] for trial in trials]) for name in trials[0]}


def against(setting: str, found: dict[str, np.ndarray], ours: str, rival: str) -> Row:
    """Not worse: the 95 % interval of the mean paired difference reaches zero, or lies below it."""
    low, _ = bootstrap_interval(found[ours] - found[rival])
    theirs = f"{rival}: {found[rival].mean():.4f}"
    return Row(
        setting, f"Amari index, {ours}", theirs, float(found[ours].mean()), bootstrap_interval(found[ours]), low <= 0.0
    )


def super_gaussian(n_sources: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    kinds = [SUPER_GAUSSIAN[j % len(SUPER_GAUSSIAN)] for j in range(n_sources)]
    return np.array([kind(n_samples, rng) for kind in kinds]).T


def bimodal(n_sources: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Two narrow modes, one of them at times more frequent than the other."""
    share = np.linspace(0.5, 0.65, n_sources)
    sides = np.where(rng.random((n_samples, n_sources)) < share, 1.0, -1.0)
    return sides + 0.4 * rng.standard_normal((n_samples, n_sources))


def errors(draw: Callable, methods: tuple[str, ...], n_sources: int, n_samples: int, seed: int) -> dict[str, float]:
    """The Amari index of each method that is installed, on one mixture."""
    rng = np.random.default_rng(seed)
    sources = draw(n_sources, n_samples, rng)
    mixing = rng.normal(size=(n_sources, n_sources))
    X = (sources - sources.mean(axis=0)) / sources.std(axis=0) @ mixing
    found = {}
    for name in methods:
        estimator = make(name, n_sources, seed)
        if estimator is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # who has not converged is judged by the result
                found[name] = amari_index(estimator.fit(X).mixing_.T, mixing)
    return found


def make(name: str, n_sources: int, seed: int) -> Any:
    """An estimator with default settings; None where its package is not installed."""
    from sklearn.decomposition import FastICA

    if name.startswith("Picard"):
        try:
            from picard import Picard
        except ImportError:
            return None
        return Picard(ortho=name == "Picard", random_state=seed)
    if name.startswith("FastICA"):
        algorithm = "deflation" if "deflation" in name else "parallel"
        return FastICA(whiten="unit-variance", algorithm=algorithm, max_iter=1000, random_state=seed)
    expert = "student-t-mixture" if "mixtures" in name else "student-t"
    return UPoE(n_sources, algorithm=name.split(", ")[1], expert=expert, random_state=seed)


def _figure(boxes: dict[str, np.ndarray]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.0, 0.9 + 0.24 * len(boxes)), layout="constrained")
    ax.boxplot(list(boxes.values()), orientation="horizontal", tick_labels=list(boxes))
    ax.invert_yaxis()
    ax.set_xlabel("Amari index")
    return figure
