"""Speed of UPoE beside FastICA and Picard, in one run: data of 50 mixed sources."""

import statistics
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA

from multicause.estimators import UPoE
from multicause.experiments.timing import seconds_of
from multicause.models.experts import HyperbolicSecant

SECANT = HyperbolicSecant(1.0, fixed=("inverse_scale",))  # the density behind Picard's tanh
MOST = 1.5  # times the seconds of the others

Measured = tuple[str, str, str, bool | None]  # what, its value, what is wanted, whether it is met


def ratios(quick: bool) -> list[Measured]:
    """Times of UPoE over those of the others, and the likelihoods reached."""
    n_samples, n_features, n_components, n_repeats = (3_000, 6, 3, 2) if quick else (50_000, 50, 20, 5)
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(n_samples, n_features)) @ rng.normal(size=(n_features, n_features))
    size = f"N={n_samples:,}, D={n_features}"
    lines = [_against_fastica(X, n_components, size, n_repeats)]
    try:
        from picard import picard
    except ImportError:
        lines.append(("parallel / Picard", "python-picard is not installed", f"<= {MOST}", None))
    else:
        lines += _against_picard(picard, X, size, n_repeats)
    return [(what, value, wanted, None if quick else met) for what, value, wanted, met in lines]


def _against_fastica(X: np.ndarray, n_components: int, size: str, n_repeats: int) -> Measured:
    ours = UPoE(n_components, algorithm="pursuit", random_state=0)
    theirs = FastICA(n_components, algorithm="deflation", whiten="unit-variance", random_state=0)
    seconds = _alternating(lambda: ours.fit(X), lambda: theirs.fit(X), n_repeats)
    return _ratio(f"pursuit / FastICA(deflation), {n_components} components, {size}", *seconds)


def _ratio(what: str, ours: float, theirs: float) -> Measured:
    return what, f"{ours / theirs:.2f} ({ours:.2f} s / {theirs:.2f} s)", f"<= {MOST}", ours / theirs <= MOST


def _against_picard(picard: Callable, X: np.ndarray, size: str, n_repeats: int) -> list[Measured]:
    """The same density, and the likelihood that both end with; then Student-t experts, which have more to learn."""
    ours = UPoE(X.shape[1], algorithm="parallel", expert=SECANT, random_state=0)
    student = UPoE(X.shape[1], algorithm="parallel", random_state=0)
    kept: dict[str, Any] = {}

    def run_picard() -> None:
        kept["whitening"], kept["W"], _ = picard(X.T, ortho=False, extended=False, random_state=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, their_seconds = _alternating(lambda: ours.fit(X), run_picard, n_repeats)
        student_seconds = seconds_of(lambda: student.fit(X))
    behind = log_likelihood(kept["W"] @ kept["whitening"], X) - ours.score(X)
    with_student = f"{student_seconds / their_seconds:.2f}, {student.score(X) - ours.score(X):+.3f} nats"
    return [
        _ratio(f"parallel / Picard, the same density, {size}", seconds, their_seconds),
        ("by how much Picard's likelihood is larger, nats", f"{behind:.1e}", "<= 1e-6", behind <= 1e-6),
        (f"parallel with Student-t experts / Picard, {size}", with_student, "-", None),
    ]


def log_likelihood(unmixing: np.ndarray, X: np.ndarray) -> float:
    """Mean log-likelihood of square ICA with sources of density 1 / (pi cosh z)."""
    Z = (X - X.mean(axis=0)) @ unmixing.T
    return float(np.linalg.slogdet(unmixing)[1] + SECANT.log_density(Z).sum(axis=1).mean())


def _alternating(ours: Callable[[], Any], theirs: Callable[[], Any], n_repeats: int) -> tuple[float, float]:
    """Median seconds of both, taken in turns after a first round that is not counted."""
    rounds = [(seconds_of(ours), seconds_of(theirs)) for _ in range(n_repeats + 1)][1:]
    mine, other = zip(*rounds, strict=True)
    return statistics.median(mine), statistics.median(other)
