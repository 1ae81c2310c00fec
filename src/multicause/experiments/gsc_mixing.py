"""What the experiments on sparse directions share: mixing matrices, fits, curves of Amari indices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from multicause.estimators import GSC
from multicause.experiments.base import Options, Row
from multicause.metrics import amari_index, bootstrap_interval

TRUNCATED, FACTORED = "truncated", "factored"
Indices = Mapping[str, Sequence[float]]  # Amari index of every trial, by method


def orthogonal_bases(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of length one at right angles to each other, uniformly distributed, (n, n)."""
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return Q * np.sign(np.diag(R))


def perturbed_bases(n: int, variance: float, rng: np.random.Generator, length: float = 1.0) -> np.ndarray:
    """Orthogonal bases of a length, plus N(0, variance) on every entry: one row per source."""
    return length * orthogonal_bases(n, rng) + np.sqrt(variance) * rng.standard_normal((n, n))


def fit_directions(X: np.ndarray, seed: int, max_iter: int, tol: float = 0.0, **settings: Any) -> GSC:
    """EM on one thread for as many causes as observed dimensions.

    Strengths start around 0, as sounds and draws of symmetric priors have them, and half a cause is active on average:
    many active ones explain data equally badly in many ways, and EM leaves such a plateau late. From the paper's start
    (footnote 2: pi from 0.05 to 0.95, means and fields N(0, 1)) more fits end in a local optimum.
    """
    n_causes = X.shape[1]
    start: dict[str, Any] = {"slab_mean_init": 0.0, "activation_init": 0.5 / n_causes, **settings}
    return GSC(n_causes, max_iter=max_iter, tol=tol, random_state=seed, n_jobs=1, **start).fit(X)


def unmixing_error(X: np.ndarray, mixing: np.ndarray, seed: int, max_iter: int, **settings: Any) -> float:
    """Amari index of the directions learned from mixtures."""
    return amari_index(fit_directions(X, seed, max_iter, **settings).components_, mixing)


def comparison_rows(title: str, indices: Indices, equal: bool = False) -> list[Row]:
    """The verdict on the truncated posterior, and the indices of all."""
    verdict = verdict_row(title, indices, TRUNCATED, equal)
    return [verdict, *(mean_row(f"{title}, {method}", values, "Amari index") for method, values in indices.items())]


def verdict_row(title: str, indices: Indices, method: str, equal: bool = False, rival: str = FACTORED) -> Row:
    """By how much a factored posterior's index is larger than that of a truncated one, met if surely so.

    Where the paper found both equal, it is met if the truncated one is not surely worse. All posteriors see the same
    data in a trial, so that the interval is of the differences.
    """
    gains = np.subtract(indices[rival], indices[method])
    interval = bootstrap_interval(gains)
    published, met = ("0", interval[1] >= 0.0) if equal else ("> 0", interval[0] > 0.0)
    return Row(title, f"{rival} less {method}", published, float(gains.mean()), interval, bool(met))


def by_method(title: str, trials: Sequence[Mapping[str, float]], options: Options) -> Indices:
    """Trials of all methods as a list per method; their means are reported on the way."""
    indices = {method: [trial[method] for trial in trials] for method in trials[0]}
    options.report(f"{title}: {', '.join(f'{method} {np.mean(v):.4f}' for method, v in indices.items())}")
    return indices


def mean_row(title: str, values: Sequence[float], measure: str, published: str = "-") -> Row:
    """A mean that the paper shows only in a figure."""
    return Row(title, measure, published, float(np.mean(values)), bootstrap_interval(values))


def trial_details(indices: Indices) -> dict[str, Any]:
    return {"trials": len(next(iter(indices.values()))), "Amari index": {name: list(v) for name, v in indices.items()}}


def plot_curves(ax: Any, x: Sequence[float], curves: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Mean of each method against x, with 95 % intervals; curves[method][i] are the trials at x[i]."""
    for name, trials in curves.items():
        means = np.array([np.mean(values) for values in trials])
        ends = np.array([bootstrap_interval(values) for values in trials]).T
        ax.errorbar(x, means, yerr=np.abs(ends - means), fmt="o-", markersize=3.0, capsize=2.0, label=name)
    ax.set_ylabel("Amari index")
    ax.legend(fontsize=8)
