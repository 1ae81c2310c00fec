"""Selection scores, and the best candidates by them."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def top_candidates(scores, shift, scale, n_candidates):
    """The columns of the largest (scores[n] - shift) * scale, in rising order; among equals the first wins.

    Scores count as equal when they round to the same float32: rounding errors must not choose between twins.
    """
    n_rows, n_columns = scores.shape
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    best = np.empty(n_candidates, dtype=np.float32)
    which = np.empty(n_candidates, dtype=np.int32)
    for n in range(n_rows):
        best[:] = -np.inf
        which[:] = 0
        filled = 0
        for h in range(n_columns):
            value = np.float32((scores[n, h] - shift[h]) * scale[h])
            if filled == n_candidates and value <= best[n_candidates - 1]:
                continue
            i = min(filled, n_candidates - 1)
            while i > 0 and value > best[i - 1]:
                best[i] = best[i - 1]
                which[i] = which[i - 1]
                i -= 1
            best[i] = value
            which[i] = h
            filled = min(filled + 1, n_candidates)
        chosen[n] = np.sort(which)
    return chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def upper_bound_scores(Y, components, log_activation, precision):
    """log pi_h - sum_{d: W_hd > y_d} (W_hd - y_d)^2 / 2 sigma^2: the bound of ET eq. 28."""
    scores = np.empty((Y.shape[0], components.shape[0]))
    for n in range(Y.shape[0]):
        for h in range(components.shape[0]):
            total = 0.0
            for d in range(Y.shape[1]):
                excess = max(components[h, d] - Y[n, d], 0.0)
                total += excess * excess
            scores[n, h] = log_activation[h] - 0.5 * precision * total
    return scores


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def poisson_upper_bound_scores(Y, components, log_components, log_activation):
    """log pi_h + sum_{d: W_hd > y_d} [y log(W/y) - (W - y)]: the same bound for Poisson noise."""
    scores = np.empty((Y.shape[0], components.shape[0]))
    log_y = np.empty(Y.shape[1])
    for n in range(Y.shape[0]):
        for d in range(Y.shape[1]):
            log_y[d] = np.log(Y[n, d]) if Y[n, d] > 0.0 else 0.0
        for h in range(components.shape[0]):
            total = 0.0
            for d in range(Y.shape[1]):
                excess = components[h, d] - Y[n, d]
                gain = Y[n, d] * (log_components[h, d] - log_y[d]) - excess
                total += gain if excess > 0.0 else 0.0
            scores[n, h] = log_activation[h] + total
    return scores
