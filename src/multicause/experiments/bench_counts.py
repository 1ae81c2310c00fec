"""`multicause bench counts`: ETNMF with Poisson noise beside scikit-learn's NMF with the Kullback-Leibler loss."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln
from sklearn.decomposition import NMF, non_negative_factorization

from multicause.estimators import ETNMF
from multicause.experiments.timing import seconds_of

ALIKE = 0.95  # cosine of a part and the component that is its own
N_HELD_OUT = 1000


class Counts(NamedTuple):
    X: np.ndarray  # (N, D)
    held_out: np.ndarray  # (1000, D)
    parts: np.ndarray  # (H, D)


def sparse_parts(n_samples: int, n_features: int = 256, n_parts: int = 30, seed: int = 0) -> Counts:
    """Counts of parts that are on or off, three at a time on average, each of 12 to 29 features."""
    rng = np.random.default_rng(seed)
    parts = np.zeros((n_parts, n_features))
    for part in parts:
        where = rng.choice(n_features, rng.integers(12, 30), replace=False)
        part[where] = rng.gamma(4.0, 2.0, size=where.size)
    states = rng.random((n_samples + N_HELD_OUT, n_parts)) < 3.0 / n_parts
    X = rng.poisson(0.05 + states @ parts).astype(float)
    return Counts(X[:n_samples], X[n_samples:], parts)


def n_found(components: np.ndarray, parts: np.ndarray) -> int:
    """Parts that have a component of their own."""
    a, b = (W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300) for W in (components, parts))
    cosines = a @ b.T
    return int((cosines[linear_sum_assignment(-cosines)] > ALIKE).sum())


def log_likelihood(X: np.ndarray, rates: np.ndarray) -> float:
    """Mean log-likelihood of counts, per entry."""
    rates = np.maximum(rates, 1e-3)
    return float((X * np.log(rates) - rates - gammaln(X + 1.0)).mean())


def predict_by_nmf(fit: Any, X: np.ndarray) -> np.ndarray:
    """The odd columns, predicted from the even ones."""
    W = fit.components_.astype(X.dtype)
    settings: dict[str, Any] = {"beta_loss": "kullback-leibler", "solver": "mu", "max_iter": 500, "update_H": False}
    codes = non_negative_factorization(X[:, ::2], H=np.ascontiguousarray(W[:, ::2]), n_components=len(W), **settings)[0]
    return codes @ W[:, 1::2]


def predict_by_etnmf(fit: ETNMF, X: np.ndarray) -> np.ndarray:
    """The same; the posterior of the even columns is that of the model of these columns alone."""
    known: dict[str, Any] = {"activation": fit.activation_, "background": fit.background_, "noise": "poisson"}
    even = ETNMF.from_parameters(components=fit.components_[:, ::2], max_active=fit.max_active, **known)
    return fit.background_ + even.predict_proba(X[:, ::2]) @ fit.components_[:, 1::2]


def compare_on_counts(quick: bool = False) -> list[tuple[str, str, str, bool | None]]:
    """Parts found, held-out likelihood and time on counts of 30 sparse parts."""
    data = sparse_parts(500 if quick else 5000)
    H = len(data.parts)
    nmf = NMF(H, beta_loss="kullback-leibler", solver="mu", max_iter=500, random_state=0)
    fits: dict[str, Any] = {"NMF, Kullback-Leibler": nmf}
    wider = {"max_active": 7, "n_candidates": 8}
    for title, settings in (("ETNMF, defaults", {}), ("ETNMF, max_active=7", wider)):
        fits[title] = ETNMF(H, noise="poisson", max_iter=5 if quick else 200, random_state=0, **settings)
    lines: list[tuple[str, str, str, bool | None]] = []
    fits["ETNMF, defaults"].fit(data.X[:300])  # compiled kernels are not the fit's time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, fit in fits.items():
            seconds = seconds_of(partial(fit.fit, data.X))
            predict = predict_by_nmf if fit is nmf else predict_by_etnmf
            held_out = log_likelihood(data.held_out[:, 1::2], predict(fit, data.held_out))
            lines += [
                (f"{title}: parts found of {H}", str(n_found(fit.components_, data.parts)), "-", None),
                (f"{title}: held-out log-likelihood per count", f"{held_out:.4f}", "-", None),
                (f"{title}: seconds", f"{seconds:.1f}", "-", None),
            ]
    return lines
