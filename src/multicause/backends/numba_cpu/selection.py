"""Selection scores, and the best candidates by them."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.missing import observed_overlap
from multicause.backends.numba_cpu.vector_math import take_logs
from multicause.backends.numba_cpu.without_compiler import silently


@njit(inline="always")
def offer(value, h, best, which, filled):
    """Insert latent h among the best, in falling order of their scores; returns how many there are now."""
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
    """Copy a few latents in rising order, by insertion: NumPy's sort would take as long as finding them."""
    for i in range(which.size):
        h = which[i]
        j = i
        while j > 0 and target[j - 1] > h:
            target[j] = target[j - 1]
            j -= 1
        target[j] = h


@silently(njit(cache=True, nogil=True, error_model="numpy"))
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
            filled = offer(np.float32((scores[n, h] - shift[h]) * scale[h]), h, best, which, filled)
        _write_rising(which, chosen[n])
    return chosen


@silently(njit(cache=True, nogil=True, error_model="numpy"))
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
            filled = offer(np.float32(constant[row, h] + 0.5 * c * c * inverse[row, h]), h, best, which, filled)
        _write_rising(which, chosen[n])
    return chosen


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def select_greedily(problem, n_candidates):
    """Spike-and-slab latents one by one: each raises log p(y | s) most, coefficients being independent.

    Choosing a latent eliminates it from K = I + G and c = b + mu (see `spike_slab_linear`) for all that remain: column
    k of the Cholesky factor of K belongs to the k-th choice. Latent h would add (c_h^2 / K_hh - log K_hh - mu_h^2) / 2.
    """
    linear, inverse = problem.linear, problem.inverse
    n_rows, n_latents = linear.shape
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    which = np.empty(n_candidates, dtype=np.int32)
    factor = np.empty((n_candidates, n_latents))
    c, diagonal, score, free = np.empty(n_latents), np.empty(n_latents), np.empty(n_latents), np.empty(n_latents)
    for n in range(n_rows):
        row = n if len(inverse) > 1 else 0
        for h in range(n_latents):
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


@silently(njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy"))
def _most_gained(c, diagonal, free, score):
    """The first latent of the largest score, rounded to float32: rounding errors must not choose between twins."""
    score[:] = diagonal
    take_logs(score)
    for h in range(c.size):
        score[h] = free[h] + 0.5 * (c[h] * c[h] / diagonal[h] - score[h])
    best, largest = 0, np.float32(-np.inf)
    for h in range(c.size):
        if np.float32(score[h]) > largest:
            best, largest = h, np.float32(score[h])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _overlaps(problem, n, g, column):
    """column <- K_hg for all latents h but g itself, on the entries observed in a row."""
    if problem.partial.size > 0 and problem.partial[n]:
        for h in range(column.size):
            column[h] = observed_overlap(problem.components[h], problem.components[g], problem.observed[n])
    else:
        column[:] = problem.gram[g]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, error_model="numpy")
def _eliminate(g, factor, c, diagonal):
    """Eliminate latent g from K and c; the factor's last row is K_hg, and becomes a column of the Cholesky factor."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def select_binary_greedily(linear, overlaps, n_candidates):
    """Binary latents that add up: first those of a state that grows one by one, as long as its log joint rises.

    The others are judged beside that state: by what they add to it, or by what they gain in the place of one of its
    latents, whichever is more. `binary_linear` says what linear terms a and overlaps G are.
    """
    n_rows, n_latents = linear.shape
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    best = np.empty(n_candidates, dtype=np.float32)
    which, state = np.empty(n_candidates, dtype=np.int32), np.empty(n_candidates, dtype=np.int32)
    gain, score, columns = np.empty(n_latents), np.empty(n_latents), np.empty((n_candidates, n_latents))
    for n in range(n_rows):
        gain[:] = linear[n]
        size = _grow_state(overlaps, n, (gain, score, columns), state)
        for h in range(n_latents):
            score[h] = max(score[h], gain[h])
        for i in range(size):
            loss = gain[state[i]] + columns[i, state[i]]
            for h in range(n_latents):
                score[h] = max(score[h], gain[h] + columns[i, h] - loss)
        filled = 0
        for h in range(n_latents):
            filled = offer(np.float32(score[h]), h, best, which, filled)
        _write_rising(which, chosen[n])
    return chosen


@njit(cache=True, nogil=True, error_model="numpy")
def _grow_state(overlaps, n, work, state):
    """Returns the number of latents in the state; gain <- what each latent adds to it, columns <- overlaps with it.

    The score of those in the state becomes infinite, that of the others minus infinity.
    """
    gain, score, columns = work
    score[:] = -np.inf
    size = 0
    while size < state.size:
        best, largest = 0, np.float32(0.0)
        for h in range(gain.size):
            if np.float32(gain[h]) > largest and score[h] < 0.0:
                best, largest = h, np.float32(gain[h])
        if largest <= 0.0:
            break
        _binary_overlaps(overlaps, n, best, columns[size])
        for h in range(gain.size):
            gain[h] -= columns[size, h]
        state[size], score[best] = best, np.inf
        size += 1
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _binary_overlaps(overlaps, n, g, column):
    """column <- G_hg for all latents h, on the entries observed in a row."""
    if overlaps.partial.size > 0 and overlaps.partial[n]:
        for h in range(column.size):
            column[h] = observed_overlap(overlaps.components[h], overlaps.components[g], overlaps.observed[n])
    else:
        column[:] = overlaps.gram[g]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def upper_bound_scores(Y, alone, natural, partition, saturated, log_activation):
    """log pi_h + sum_{d: W_hd > y_d} [y eta(W) - A(W) - saturated]: the bound of ET eq. 28 for an exponential family.

    `saturated` (N, D) is the same of the mean that explains y best.
    """
    scores = np.empty((Y.shape[0], alone.shape[0]))
    for n in range(Y.shape[0]):
        for h in range(alone.shape[0]):
            total = 0.0
            for d in range(Y.shape[1]):
                gain = Y[n, d] * natural[h, d] - partition[h, d] - saturated[n, d]
                total += gain if alone[h, d] > Y[n, d] else 0.0
            scores[n, h] = log_activation[h] + total
    return scores


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def squared_excess_scores(Y, alone, log_activation):
    """log pi_h - sum_d max(W_hd - y_d, 0)^2 / 2: the same for Gaussian noise of variance one."""
    scores = np.empty((Y.shape[0], alone.shape[0]))
    for n in range(Y.shape[0]):
        for h in range(alone.shape[0]):
            total = 0.0
            for d in range(Y.shape[1]):
                excess = max(alone[h, d] - Y[n, d], 0.0)
                total += excess * excess
            scores[n, h] = log_activation[h] - 0.5 * total
    return scores
