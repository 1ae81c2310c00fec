"""`upoe-recovery`: mixed sources recovered, beside FastICA and Picard; sources of two modes, too (ours)."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA

from multicause.estimators import UPoE
from multicause.experiments.experiment import PSICA, Check, Experiment, Finding, Published, Row, finding
from multicause.experiments.figures import intervals
from multicause.experiments.gsc_mixing import INDEX, KEPT
from multicause.metrics import amari_index

FAST, DEFLATION = "FastICA", "FastICA, deflation"
RIVALS = (FAST, DEFLATION, *(("Picard", "Picard, not orthogonal") if find_spec("picard") else ()))
PARALLEL, PURSUIT = "UPoE, parallel", "UPoE, pursuit"
PARALLEL_MIXTURES, PURSUIT_MIXTURES = "UPoE, parallel, mixtures", "UPoE, pursuit, mixtures"
Trials = list[dict[str, float]]  # Amari index of each method on one mixture
SUPER_GAUSSIAN: tuple[Callable[[int, np.random.Generator], np.ndarray], ...] = (
    lambda n, rng: rng.laplace(size=n),
    lambda n, rng: rng.standard_t(5, size=n),
    lambda n, rng: rng.logistic(size=n),
    lambda n, rng: rng.standard_normal(n) * rng.gamma(2.0, size=n),  # loud and quiet
)


def super_gaussian(n_sources: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    kinds = [SUPER_GAUSSIAN[j % len(SUPER_GAUSSIAN)] for j in range(n_sources)]
    return np.array([kind(n_samples, rng) for kind in kinds]).T


def bimodal(n_sources: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Two narrow modes, one of them at times more frequent than the other."""
    share = np.linspace(0.5, 0.65, n_sources)
    sides = np.where(rng.random((n_samples, n_sources)) < share, 1.0, -1.0)
    return sides + 0.4 * rng.standard_normal((n_samples, n_sources))


def errors(seed: int, draw: Callable, methods: tuple[str, ...], n_sources: int, n_samples: int) -> dict[str, float]:
    """The Amari index of each method on one mixture."""
    rng = np.random.default_rng(seed)
    sources = draw(n_sources, n_samples, rng)
    mixing = rng.normal(size=(n_sources, n_sources))
    X = (sources - sources.mean(axis=0)) / sources.std(axis=0) @ mixing
    found = {}
    for name in methods:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that has not converged is judged by its result
            found[name] = index_of(make(name, n_sources, seed).fit(X).mixing_.T, mixing)
    return found


def index_of(found: np.ndarray, mixing: np.ndarray) -> float:
    """The Amari index; 1 where directions are missing, since no expert was found for them."""
    return amari_index(found, mixing) if len(found) == len(mixing) else 1.0


def make(name: str, n_sources: int, seed: int) -> Any:
    """An estimator with default settings."""
    if name.startswith("Picard"):
        from picard import Picard

        return Picard(ortho=name == "Picard", random_state=seed)
    if name.startswith("FastICA"):
        algorithm = "deflation" if name == DEFLATION else "parallel"
        return FastICA(whiten="unit-variance", algorithm=algorithm, max_iter=1000, random_state=seed)
    expert = "student-t-mixture" if "mixtures" in name else "student-t"
    return UPoE(n_sources, algorithm=name.split(", ")[1], expert=expert, random_state=seed)


def against(ours: str, rival: str, title: str, trials: Trials) -> Finding:
    """Not worse, by the mean paired difference."""
    not_worse = Published(met=lambda difference: difference.mean <= 0.0, value=0.0)
    verdict = finding(title, INDEX, [trial[ours] - trial[rival] for trial in trials], not_worse).verdict
    theirs = np.mean([trial[rival] for trial in trials])
    index = Check(f"{INDEX}, {ours}", itemgetter(ours), Published(f"{rival}: {theirs:.4f}"))(title, trials)
    return replace(index, verdict=verdict)


def student_fails(title: str, trials: Trials) -> Finding:
    """A Student-t has one mode."""
    mixtures = np.mean([trial[PURSUIT_MIXTURES] for trial in trials])
    fails = Published("fails", lambda index: index.mean > 5.0 * mixtures)
    return Check(f"{INDEX}, UPoE with a Student-t", itemgetter(PURSUIT), fails)(title, trials)


def _rows(sizes: tuple[int, ...] = (5, 20, 50), n_samples: int = 10_000) -> Iterator[Row]:
    checks: list[Any] = [*(partial(against, PARALLEL, rival) for rival in RIVALS), partial(against, PURSUIT, DEFLATION)]
    setting = {"draw": super_gaussian, "methods": (PARALLEL, PURSUIT, *RIVALS), "n_samples": n_samples}
    for size in sizes:
        title, n_trials = f"{size} super-Gaussian sources (ours)", 20 if size <= 20 else 8
        yield Row(title, errors, {**setting, "n_sources": size}, checks, n_trials)
    methods = (PARALLEL_MIXTURES, PURSUIT_MIXTURES, PURSUIT, FAST, DEFLATION)
    checks = [partial(against, PARALLEL_MIXTURES, FAST), partial(against, PURSUIT_MIXTURES, DEFLATION), student_fails]
    setting = {"draw": bimodal, "methods": methods, "n_samples": n_samples, "n_sources": 5}
    yield Row("5 sources of two modes (ours)", errors, setting, checks, n_trials=20)


TITLE = "Mixed sources, beside FastICA and Picard"
_QUICK = {"sizes": (5,), "n_samples": 2_000}
EXPERIMENTS = [Experiment("upoe-recovery", TITLE, PSICA, _rows, intervals, _QUICK, KEPT)]
