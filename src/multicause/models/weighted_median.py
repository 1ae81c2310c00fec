"""Medians of rows that count for more or less."""

import numpy as np

_ROUNDING = 1e-9  # of the sum of the weights


def weighted_median(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The median of each column, (D,), of what is not NaN, each row as often as its weight says; NaN where none counts.

    Between two values that share the middle it is their mean.
    """
    order = np.argsort(X, axis=0, kind="stable")
    X = np.take_along_axis(X, order, axis=0)
    reached = np.cumsum(np.where(np.isnan(X), 0.0, weights[order]), axis=0)
    half, columns = 0.5 * reached[-1], np.arange(X.shape[1])
    lower, upper = (X[np.argmax(reached >= share * half, axis=0), columns] for share in (1 - _ROUNDING, 1 + _ROUNDING))
    return np.where(half > 0.0, 0.5 * (lower + upper), np.nan)
