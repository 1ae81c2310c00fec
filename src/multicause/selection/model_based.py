"""Candidates by a model's own selection function S_h(y)."""

import numpy as np


def top_candidates(scores: np.ndarray, n_candidates: int) -> np.ndarray:
    """The columns of the `n_candidates` largest scores of each row, in rising order; among equals the first wins.

    Scores count as equal when they round to the same float32: rounding errors must not choose between twins.
    """
    best_first = np.argsort(-scores.astype(np.float32), axis=1, kind="stable")
    return np.sort(best_first[:, :n_candidates], axis=1).astype(np.int32)
