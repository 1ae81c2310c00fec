"""Selection scores, and the best candidates by them."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.missing import observed_overlap
from multicause.backends.numba_cpu.vector_math import take_logs


@njit(inline="always")
def _offer(value, h, best, which, filled):
    """Insert cause h among the best, in falling order of their scores; returns how many there are now."""
    n_candidates = best.size
    if filled == n_candidates and value <= best[n_candidates - 1]:
        return filled
    i = min(filled, n_candidates - 1)
    while i > 0 and value > best[i - 1]:
        best[i] = best[i - 1]
        which[i] = which[i - 1]
        i -= 1
    best[i] = value
    which[i] = h
    return min(filled + 1, n_candidates)


@njit(inline="always")
def _write_rising(which, target):
    """Copy a few causes in rising order, by insertion: NumPy's sort would take as long as finding them."""
    for i in range(which.size):
        h = which[i]
        j = i
        while j > 0 and target[j - 1] > h:
            target[j] = target[j - 1]
            j -= 1
        target[j] = h


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
        filled = 0
        for h in range(n_columns):
            filled = _offer(np.float32((scores[n, h] - shift[h]) * scale[h]), h, best, which, filled)
        _write_rising(which, chosen[n])
    return chosen


@njit(cache=True, nogil=True)
def top_singletons(linear, shift, inverse, constant, n_candidates):
    """The same for the scores constant + (linear + shift)^2 inverse / 2; the last two are (1, H) or (N, H)."""
    n_rows, n_columns = linear.shape
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    best = np.empty(n_candidates, dtype=np.float32)
    which = np.empty(n_candidates, dtype=np.int32)
    for n in range(n_rows):
        row = n if len(inverse) > 1 else 0
        filled = 0
        for h in range(n_columns):
            c = linear[n, h] + shift[h]
            filled = _offer(np.float32(constant[row, h] + 0.5 * c * c * inverse[row, h]), h, best, which, filled)
        _write_rising(which, chosen[n])
    return chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def pursue(problem, n_candidates):
    """Spike-and-slab causes one by one: each raises log p(y | s) most, strengths being independent.

    Choosing a cause eliminates it from K = I + G and c = b + mu (see `schur_walk`) for all that remain: column k of the
    Cholesky factor of K belongs to the k-th choice. What cause h would add is (c_h^2 / K_hh - log K_hh - mu_h^2) / 2.
    """
    linear, inverse = problem.linear, problem.inverse
    n_rows, n_causes = linear.shape
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    which = np.empty(n_candidates, dtype=np.int32)
    factor = np.empty((n_candidates, n_causes))
    c, diagonal, score, free = np.empty(n_causes), np.empty(n_causes), np.empty(n_causes), np.empty(n_causes)
    for n in range(n_rows):
        row = n if len(inverse) > 1 else 0
        for h in range(n_causes):
            c[h] = linear[n, h] + problem.shift[h]
            diagonal[h] = 1.0 / inverse[row, h]
            free[h] = -0.5 * problem.slab_mean[h] * problem.slab_mean[h]
        for k in range(n_candidates):
            which[k] = _most_gained(c, diagonal, free, score)
            free[which[k]] = -np.inf
            if k + 1 < n_candidates:
                _overlaps(problem, n, which[k], factor[k])
                _eliminate(which[k], factor[: k + 1], c, diagonal)
        _write_rising(which, chosen[n])
    return chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _most_gained(c, diagonal, free, score):
    """The first cause of the largest score, rounded to float32: rounding errors must not choose between twins."""
    score[:] = diagonal
    take_logs(score)
    for h in range(c.size):
        score[h] = free[h] + 0.5 * (c[h] * c[h] / diagonal[h] - score[h])
    best, largest = 0, np.float32(-np.inf)
    for h in range(c.size):
        if np.float32(score[h]) > largest:
            best, largest = h, np.float32(score[h])
    return best


@njit(cache=True, nogil=True)
def _overlaps(problem, n, g, column):
    """column <- K_hg for all causes h but g itself, on the entries that a row shows."""
    if problem.partial.size > 0 and problem.partial[n]:
        for h in range(column.size):
            column[h] = observed_overlap(problem.fields[h], problem.fields[g], problem.observed[n])
    else:
        column[:] = problem.gram[g]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _eliminate(g, factor, c, diagonal):
    """Cause g leaves K and c; the last row of the factor is K_hg, and becomes a column of the Cholesky factor."""
    last = factor.shape[0] - 1
    column = factor[last]
    for k in range(last):
        share = factor[k, g]
        for h in range(c.size):
            column[h] -= share * factor[k, h]
    scale = 1.0 / np.sqrt(diagonal[g])
    gain = scale * c[g]
    for h in range(c.size):
        column[h] *= scale
        c[h] -= gain * column[h]
        diagonal[h] = max(diagonal[h] - column[h] * column[h], 1.0)  # 1 is the least it can be


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
