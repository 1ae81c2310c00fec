"""Functions of pixels' values, summed over components at given places: `multicause.selection.places` in loops."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _sum_of_channels(function, lower, fraction):
    """g(y_d) of one pixel, all its channels together; function is (F, K)."""
    total = 0.0
    for f in range(lower.size):
        k, t = lower[f], fraction[f]
        total += (1.0 - t) * function[f, k] + t * function[f, k + 1]
    return total


@njit(cache=True, nogil=True)
def rank_objects(functions, lower, fraction, placements, starts, offsets, n_ranked, n_kept):
    """Which components are in each image, best first, and where.

    Each is the one that scores most, at its best placement, where no earlier one explains the image better than chance.
    Returns n_ranked for the first, down to 1, and 0 for the rest, (n, H), and the n_kept best of the placements of each
    when it was chosen, (n, H, n_kept); of those never chosen the first.
    """
    n_rows, n_pixels = lower.shape[:2]
    n_components, n_choices = placements.shape[1:]
    ranks, kept = np.zeros((n_rows, n_components)), placements[:, :, :n_kept].copy()
    free = np.empty(n_pixels, dtype=np.bool_)
    scores = np.empty((n_components, n_choices))
    for n in range(n_rows):
        free[:] = True
        for rank in range(n_ranked, 0, -1):
            best = -1
            for h in range(n_components):
                if ranks[n, h] > 0.0:
                    continue
                for r in range(n_choices):
                    start, scores[h, r] = starts[placements[n, h, r]], 0.0
                    for a in range(offsets.size):
                        d = start + offsets[a]
                        if free[d]:
                            scores[h, r] += _sum_of_channels(functions[h, a], lower[n, d], fraction[n, d])
                if best < 0 or scores[h].max() > scores[best].max():
                    best = h
            ranks[n, best] = rank
            order = np.argsort(-scores[best], kind="mergesort")
            for r in range(n_kept):
                kept[n, best, r] = placements[n, best, order[r]]
            start = starts[kept[n, best, 0]]
            for a in range(offsets.size):
                d = start + offsets[a]
                if free[d] and _sum_of_channels(functions[best, a], lower[n, d], fraction[n, d]) > 0.0:
                    free[d] = False
    return ranks, kept


@njit(cache=True, nogil=True)
def _features(lower, fraction, start, offsets, n_knots, index, weight):
    """The features of a window that are not zero: index[i] and weight[i], two for each of its values."""
    F, i = lower.shape[1], 0
    for a in range(offsets.size):
        d = start + offsets[a]
        for f in range(F):
            first = (a * F + f) * n_knots + lower[d, f]
            index[i], weight[i] = first, 1.0 - fraction[d, f]
            index[i + 1], weight[i + 1] = first + 1, fraction[d, f]
            i += 2


@njit(cache=True, nogil=True)
def project(targets, lower, fraction, starts, offsets, weights, total):
    """Add the features of each window, times what is there, to total[h]; `total` is (H, pixels, F, K)."""
    n_features = 2 * offsets.size * lower.shape[2]
    index, weight = np.empty(n_features, dtype=np.int64), np.empty(n_features)
    flat = total.reshape(len(total), -1)
    for n in range(len(lower)):
        for t in range(targets.starts[n], targets.starts[n + 1]):
            h, x = divmod(targets.causes[t], starts.size)
            _features(lower[n], fraction[n], starts[x], offsets, total.shape[3], index, weight)
            share = weights[n] * targets.values[t]
            for i in range(n_features):
                flat[h, index[i]] += share * weight[i]


@njit(cache=True, nogil=True)
def leave_out(scores, targets, lower, fraction, starts, offsets, smoother, n_knots):
    """Replace the score of each window by what the others predict, (f - e <s>) / (1 - e), where something is."""
    n_features = 2 * offsets.size * lower.shape[2]
    index, weight = np.empty(n_features, dtype=np.int64), np.empty(n_features)
    for n in range(len(lower)):
        for t in range(targets.starts[n], targets.starts[n + 1]):
            h, x = divmod(targets.causes[t], starts.size)
            _features(lower[n], fraction[n], starts[x], offsets, n_knots, index, weight)
            leverage = 0.0
            for i in range(n_features):
                row, inner = smoother[index[i]], 0.0
                for j in range(n_features):
                    inner += row[index[j]] * weight[j]
                leverage += weight[i] * inner
            scores[n, h, x] = (scores[n, h, x] - leverage * targets.values[t]) / max(1.0 - leverage, 1e-6)
