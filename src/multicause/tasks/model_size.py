"""How many components do the data have? Held-out likelihood, and the smallest model that is as good as the best."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, check_cv, cross_val_score

RESTARTS = 10  # of each fit: a small model that misses a cause must not look too small


@dataclass(frozen=True)
class SizeChoice:
    """What `choose_n_components` found.

    Parameters
    ----------
    n_components : int
        The number of components that was chosen.
    estimator : estimator
        Fitted to all data with so many.
    sizes : ndarray of shape (n_sizes,)
        The numbers that were tried.
    scores : ndarray of shape (n_sizes, n_folds)
        Mean log-likelihood of the held-out data points, for each.
    """

    n_components: int
    estimator: Any
    sizes: np.ndarray
    scores: np.ndarray

    @property
    def mean_scores(self) -> np.ndarray:
        return self.scores.mean(axis=1)

    @property
    def standard_errors(self) -> np.ndarray:
        """Of the mean scores."""
        return standard_errors(self.scores)

    def __str__(self) -> str:
        rows = zip(self.sizes, self.mean_scores, self.standard_errors, strict=True)
        lines = [f"{h:12d}  {m:12.4f}  {e:12.4f}{'  <' if h == self.n_components else ''}" for h, m, e in rows]
        return "\n".join([f"{'n_components':>12}  {'held-out':>12}  {'std. error':>12}", *lines])


def choose_n_components(estimator, X, candidates=None, *, cv=5, n_init=RESTARTS):
    """Choose the number of components by held-out likelihood.

    The choice is the smallest number tried whose mean held-out log-likelihood is within one standard error of the best.

    Parameters
    ----------
    estimator : estimator
        An estimator of multicause, or any with `n_components` and `score`. It is cloned, not fitted itself.
    X : array-like of shape (n_samples, n_features)
        The data.
    candidates : sequence of int or None, default=None
        The numbers to try. None doubles the number until the score falls twice, up to twice the number of features,
        and then halves the gap between the last that is too small and the smallest that is good enough.
    cv : int or cross-validation generator, default=5
        The folds; an int shuffles the rows.
    n_init : int, default=10
        Number of starts of each fit, if the estimator has this argument and no larger value of its own.

    Returns
    -------
    choice : SizeChoice
        The number, the estimator fitted to all data with it, and the table of scores.
    """
    X = X if hasattr(X, "shape") else np.asarray(X)
    if isinstance(cv, Integral):
        cv = KFold(int(cv), shuffle=True, random_state=0)
    folds, scores = check_cv(cv), {}

    def sized(n: int) -> Any:
        settings = {"n_components": n}
        if "n_init" in estimator.get_params(deep=False):
            settings["n_init"] = max(int(n_init), estimator.n_init)
        return clone(estimator).set_params(**settings)

    def try_out(n: int) -> None:
        if n not in scores:
            scores[n] = cross_val_score(sized(n), X, cv=folds, error_score="raise")

    if candidates is None:
        _search(try_out, scores, 2 * X.shape[1])
    else:
        for n in _checked(candidates):
            try_out(n)
    sizes = np.array(sorted(scores))
    table = np.array([scores[n] for n in sizes])
    chosen = smallest_within_one_error(sizes, table)
    return SizeChoice(chosen, sized(chosen).fit(X), sizes, table)


def smallest_within_one_error(sizes: np.ndarray, scores: np.ndarray) -> int:
    """The smallest size whose mean score is at most one standard error below the best one's; sizes rise."""
    means, best = scores.mean(axis=1), int(scores.mean(axis=1).argmax())
    enough = means >= means[best] - standard_errors(scores)[best]
    return int(sizes[np.argmax(enough)])


def standard_errors(scores: np.ndarray) -> np.ndarray:
    n_folds = scores.shape[1]
    return scores.std(axis=1, ddof=1) / np.sqrt(n_folds) if n_folds > 1 else np.zeros(len(scores))


def _search(try_out: Any, scores: dict[int, np.ndarray], most: int) -> None:
    """Double until the score falls twice; then halve the gap below the smallest size that is good enough."""
    n, n_falls, best = 1, 0, -np.inf
    while n <= most and n_falls < 2:
        try_out(n)
        mean = float(scores[n].mean())
        n_falls = 0 if mean > best else n_falls + 1
        best, n = max(best, mean), 2 * n
    while True:
        sizes = np.array(sorted(scores))
        chosen = smallest_within_one_error(sizes, np.array([scores[h] for h in sizes]))
        smaller = sizes[sizes < chosen]
        if not smaller.size or chosen - smaller[-1] <= 1:
            return
        try_out(int(chosen + smaller[-1]) // 2)


def _checked(candidates: Sequence[int]) -> list[int]:
    found = list(candidates)
    if not found or not all(isinstance(n, Integral) and not isinstance(n, bool) and n >= 1 for n in found):
        raise ValueError(f"'candidates' must be numbers of components, at least 1. Got {candidates!r} instead.")
    return [int(n) for n in found]
