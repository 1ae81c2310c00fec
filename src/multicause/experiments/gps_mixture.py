"""`gps-mixture`: clusters on a line, of which each data point may choose among two of three (GPS §5.2, Figure 3).

A linear function of y cannot be largest in the middle, so that a linear kernel never proposes the middle cluster to
the points between the others.
"""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from multicause.estimators import TruncatedGaussianMixture
from multicause.experiments.experiment import GPS, Check, Experiment, Outcome, Published, Row, reliability
from multicause.experiments.figures import Panel, panels
from multicause.selection import GPSelect

# share of the data points in their own cluster; a single cluster's overlap with its neighbours is below 1 %
SUCCESS = 0.97
BEST_OF_5, OPTIMUM = "k-means, best of 5", "optimum"


def clusters_on_a_line(seed: int, n_samples: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Three round clusters whose means lie about on a line through the origin, and the cluster of each point."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=2)
    means = np.array([-6.0, 0.0, 6.0])[:, None] * direction / np.linalg.norm(direction)
    means += rng.normal(scale=0.3, size=means.shape)
    labels = rng.integers(3, size=n_samples)
    return means[labels] + rng.normal(size=(n_samples, 2)), labels


def fit_mixture(
    X: np.ndarray, seed: int, kernel: str, start: str, max_iter: int = 40, n_candidates: int = 2, means: Any = None
) -> TruncatedGaussianMixture:
    """C' of C = 3, by all points' kernel matrix.

    "random" starts at three data points with variances of their own, as the paper does.

    Who starts at the optimum has its candidates, too: drawn at random, they would leave it at once.

    Of single fits from k-means one in twenty-five leaves two clusters in one component.
    """
    given: dict[str, Any] = {"n_init": 5 if start == BEST_OF_5 else 1}
    if start == "random":
        rng = np.random.default_rng([seed, 1])
        precisions = 1.0 / (X.var() * rng.uniform(0.5, 1.5, size=3))
        given = {"n_init": 1, "means_init": X[rng.choice(len(X), 3, replace=False)]}
        given |= {"precisions_init": precisions[:, None, None] * np.eye(2), "weights_init": np.full(3, 1.0 / 3.0)}
    if start == OPTIMUM:
        given = {
            "means_init": means,
            "precisions_init": np.tile(np.eye(2), (3, 1, 1)),
            "weights_init": np.ones(3) / 3.0,
        }
    given |= {"max_iter": max_iter, "tol": 0.0, "random_state": seed, "n_jobs": 1}
    selection = GPSelect(kernel, rank=len(X), tolerance=0.0, first="model-based" if start == OPTIMUM else "random")
    chosen = {"n_candidates": n_candidates, "selection": selection, "reg_covar": 1e-6}
    return TruncatedGaussianMixture(3, **chosen, **given).fit(X)


def share_right(seed: int, kernel: str, start: str, n_candidates: int = 2) -> float:
    """Share of the data points that end in the cluster they were drawn from, whatever its number."""
    X, labels = clusters_on_a_line(seed)
    means = np.array([X[labels == k].mean(axis=0) for k in range(3)])
    found = fit_mixture(X, seed, kernel, start, n_candidates=n_candidates, means=means).predict(X)
    together = np.array([[np.mean((found == c) & (labels == k)) for k in range(3)] for c in range(3)])
    return float(together[linear_sum_assignment(-together)].sum())


def _row(kernel: str, start: str, published: Published, words: str = "", n_candidates: int = 2) -> Row:
    check = Check("reliability", lambda share: share >= SUCCESS, published)
    setting = {"kernel": kernel, "start": start, "n_candidates": n_candidates}
    return Row(f"{kernel}{words}", share_right, setting, [check], n_trials=20)


FAILS = Published("0 %", lambda share: share.mean == 0.0)  # as in the paper
ROWS = [
    _row("rbf", "random", reliability(1.0)),  # exact EM gets stuck, too, where two starts share a cluster
    _row("linear", "random", FAILS),
    _row("rbf", OPTIMUM, reliability(1.0), ", from the optimum, C'=1", 1),
    _row("linear", OPTIMUM, FAILS, ", from the optimum"),
    _row("rbf", "k-means", reliability(1.0), " (ours: k-means)"),
    _row("rbf", BEST_OF_5, reliability(1.0), f" (ours: {BEST_OF_5})"),
    _row("linear", BEST_OF_5, FAILS, f" (ours: {BEST_OF_5})"),
]


def _panel(X: np.ndarray, kernel: str, max_iter: int) -> Panel:
    """The three learned selection functions over the plane."""
    axis = 1.1 * np.abs(X).max() * np.linspace(-1.0, 1.0, 60)
    plane = np.stack(np.meshgrid(axis, -axis), axis=-1).reshape(-1, 2)
    affinities = fit_mixture(X, 0, kernel, BEST_OF_5, max_iter).selection_function_(plane)
    return Panel(f"{kernel}, iteration {max_iter}", affinities.T, (60, 60), 3)


def _figure(outcomes: list[Outcome]) -> Any:
    X, _ = clusters_on_a_line(0)
    return panels([[_panel(X, kernel, n) for n in (1, 5, 40)] for kernel in ("rbf", "linear")], (12.0, 3.6))


_KEPT = {"share of points in their cluster": float}
EXPERIMENTS = [Experiment("gps-mixture", "Clusters by learned selection", GPS, ROWS, _figure, kept=_KEPT)]
