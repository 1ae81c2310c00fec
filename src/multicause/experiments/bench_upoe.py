"""Speed of UPoE beside FastICA and Picard, in one run: data of 50 mixed sources."""

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from multicause.estimators import UPoE
from multicause.models.experts import HyperbolicSecant

N_SAMPLES, N_FEATURES, N_COMPONENTS, N_REPEATS = 50_000, 50, 20, 5
SECANT = HyperbolicSecant(1.0, fixed=("inverse_scale",))  # the density behind Picard's tanh

Measured = tuple[str, str, str, bool | None]  # what, its value, what is wanted, whether it is met


def ratios(quick: bool) -> list[Measured]:
    """Times of UPoE over those of its rivals, and the likelihoods reached."""
    n_samples, n_features, n_components = (3_000, 6, 3) if quick else (N_SAMPLES, N_FEATURES, N_COMPONENTS)
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(n_samples, n_features)) @ rng.normal(size=(n_features, n_features))
    size = f"N={n_samples:,}, D={n_features}"
    n_repeats = 2 if quick else N_REPEATS
    lines = [_against_fastica(X, n_components, size, n_repeats)]
    try:
        import picard  # noqa: F401
    except ImportError:
        lines.append(("parallel / Picard", "python-picard is not installed", "<= 1.5", None))
    else:
        lines += _against_picard(X, size, n_repeats)
    return [(what, value, wanted, None if quick else met) for what, value, wanted, met in lines]


def _against_fastica(X: np.ndarray, n_components: int, size: str, n_repeats: int) -> Measured:
    from sklearn.decomposition import FastICA

    ours = UPoE(n_components, random_state=0)
    theirs = FastICA(n_components, algorithm="deflation", whiten="unit-variance", random_state=0)
    seconds = _alternating(lambda: ours.fit(X), lambda: theirs.fit(X), n_repeats)
    ratio = seconds[0] / seconds[1]
    what = f"pursuit / FastICA(deflation), {n_components} components, {size}"
    return what, f"{ratio:.2f} ({seconds[0]:.2f} s / {seconds[1]:.2f} s)", "<= 1.5", ratio <= 1.5


def _against_picard(X: np.ndarray, size: str, n_repeats: int) -> list[Measured]:
    """The same density, and the likelihood that both end with; then Student-t experts, which have more to learn."""
    from picard import picard

    ours = UPoE(X.shape[1], algorithm="parallel", expert=SECANT, random_state=0)
    student = UPoE(X.shape[1], algorithm="parallel", random_state=0)
    kept: dict[str, Any] = {}

    def run_picard() -> None:
        kept["whitening"], kept["W"], _ = picard(X.T, ortho=False, extended=False, random_state=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = _alternating(lambda: ours.fit(X), run_picard, n_repeats)
        begin = time.perf_counter()
        student.fit(X)
        student_seconds = time.perf_counter() - begin
    behind = log_likelihood(kept["W"] @ kept["whitening"], X) - ours.score(X)
    ratio = seconds[0] / seconds[1]
    return [
        (
            f"parallel / Picard, the same density, {size}",
            f"{ratio:.2f} ({seconds[0]:.2f} s / {seconds[1]:.2f} s)",
            "<= 1.5",
            ratio <= 1.5,
        ),
        ("by how much Picard's likelihood is larger, nats", f"{behind:.1e}", "<= 1e-6", behind <= 1e-6),
        (
            f"parallel with Student-t experts / Picard, {size}",
            f"{student_seconds / seconds[1]:.2f}, {student.score(X) - ours.score(X):+.3f} nats",
            "-",
            None,
        ),
    ]


def log_likelihood(unmixing: np.ndarray, X: np.ndarray) -> float:
    """Mean log-likelihood of square ICA with sources of density 1 / (pi cosh z)."""
    Z = (X - X.mean(axis=0)) @ unmixing.T
    return float(np.linalg.slogdet(unmixing)[1] + SECANT.log_density(Z).sum(axis=1).mean())


def _alternating(ours: Callable, theirs: Callable, n_repeats: int) -> tuple[float, float]:
    """Median seconds of both, taken in turns after a first round that is not counted."""
    seconds: tuple[list[float], list[float]] = ([], [])
    for repeat in range(n_repeats + 1):
        for task, spent in zip((ours, theirs), seconds, strict=True):
            begin = time.perf_counter()
            task()
            if repeat:
                spent.append(time.perf_counter() - begin)
    return statistics.median(seconds[0]), statistics.median(seconds[1])
