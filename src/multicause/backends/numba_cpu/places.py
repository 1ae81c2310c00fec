"""Functions of pixels' values, summed over components at given places: `multicause.models.pixel_functions` in loops."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_of_channels(function, lower, fraction):
    """g(y_d) of one pixel, all its channels together; function is (F, K)."""
    total = 0.0
    for f in range(lower.size):
        k, t = lower[f], fraction[f]
        total += (1.0 - t) * function[f, k] + t * function[f, k + 1]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def scan(functions, lower, fraction, starts, offsets):
    """The score of each component at each placement, (n, H, P), place by place."""
    table = np.empty((len(lower), len(functions), starts.size))
    for n in range(len(lower)):
        for h in range(len(functions)):
            for x in range(starts.size):
                score = 0.0
                for a in range(offsets.size):
                    d = starts[x] + offsets[a]
                    score += _sum_of_channels(functions[h, a], lower[n, d], fraction[n, d])
                table[n, h, x] = score
    return table


@njit(cache=True, nogil=True, error_model="numpy")
def rank_objects(functions, lower, fraction, images, placements, scene, n_ranked, n_kept):
    """Which components explain each image, and where.

    They are found one by one: the one that scores most, at its best placement, where no earlier one explains the image
    better than chance. n_ranked are found, and more as long as they score better than nothing; of these the ones that
    are missed least are dropped again. Returns H for the first found, H - 1 for the next, and 0 for those dropped or
    not found, (n, H); and the n_kept best placements of each when it was found, (n, H, n_kept), of the rest the first.
    """
    n_rows, n_pixels = lower.shape[:2]
    n_components, n_choices = placements.shape[1:]
    starts, offsets = scene.starts, scene.offsets
    ranks, kept = np.zeros((n_rows, n_components)), placements[:, :, :n_kept].copy()
    free = np.empty(n_pixels, dtype=np.bool_)
    scores = np.empty((n_components, n_choices))
    for n in range(n_rows):
        free[:] = True
        for n_found in range(n_components):
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
            if n_found >= n_ranked and scores[best].max() <= 0.0:
                break
            ranks[n, best] = n_components - n_found
            order = np.argsort(-scores[best], kind="mergesort")
            for r in range(n_kept):
                kept[n, best, r] = placements[n, best, order[r]]
            start = starts[kept[n, best, 0]]
            for a in range(offsets.size):
                d = start + offsets[a]
                if free[d] and _sum_of_channels(functions[best, a], lower[n, d], fraction[n, d]) > 0.0:
                    free[d] = False
        _drop(ranks[n], n_ranked, images[n], scene, starts[kept[n, :, 0]])
    return ranks, kept


@njit(cache=True, nogil=True, error_model="numpy")
def _drop(ranks, n_ranked, image, scene, starts):
    """Set the ranks of all but n_ranked components to 0, one by one that whose absence costs least.

    Each pixel is explained by whatever comes nearest to it: a component that covers it, or the background. That a
    mask seldom shows a pixel counts as distance, too.
    """
    found = np.flatnonzero(ranks)
    if found.size <= n_ranked:
        return
    costs = np.full((found.size + 1, len(image)), np.inf)
    for d in range(len(image)):
        costs[-1, d] = np.sum((image[d] - scene.background) ** 2)
    for i, h in enumerate(found):
        for a in range(scene.offsets.size):
            d = starts[h] + scene.offsets[a]
            rarity = 2.0 / scene.precision * np.log1p(1.0 / scene.masks[h, a])
            costs[i, d] = np.sum((image[d] - scene.components[h, a]) ** 2) + rarity
    for _ in range(found.size - n_ranked):
        missed = np.where(ranks[found] > 0.0, 0.0, np.inf)
        for d in range(len(image)):
            nearest, second = costs[:, d].argmin(), np.inf
            for i in range(found.size + 1):
                if i != nearest:
                    second = min(second, costs[i, d])
            if nearest < found.size:
                missed[nearest] += second - costs[nearest, d]
        least = missed.argmin()
        ranks[found[least]], costs[least] = 0.0, np.inf


@njit(cache=True, nogil=True, error_model="numpy")
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


@njit(cache=True, nogil=True, error_model="numpy")
def project(targets, lower, fraction, starts, offsets, weights, total):
    """Add the features of each window, times what is there, to total[h]; `total` is (H, pixels, F, K)."""
    n_features = 2 * offsets.size * lower.shape[2]
    index, weight = np.empty(n_features, dtype=np.int64), np.empty(n_features)
    flat = total.reshape(len(total), -1)
    for n in range(len(lower)):
        for t in range(targets.starts[n], targets.starts[n + 1]):
            h, x = divmod(targets.latents[t], starts.size)
            _features(lower[n], fraction[n], starts[x], offsets, total.shape[3], index, weight)
            share = weights[n] * targets.values[t]
            for i in range(n_features):
                flat[h, index[i]] += share * weight[i]


@njit(cache=True, nogil=True, error_model="numpy")
def leave_out(scores, targets, lower, fraction, starts, offsets, smoother, n_knots):
    """Replace the score of each window by what the others predict, (f - e <s>) / (1 - e), where something is."""
    n_features = 2 * offsets.size * lower.shape[2]
    index, weight = np.empty(n_features, dtype=np.int64), np.empty(n_features)
    for n in range(len(lower)):
        for t in range(targets.starts[n], targets.starts[n + 1]):
            h, x = divmod(targets.latents[t], starts.size)
            _features(lower[n], fraction[n], starts[x], offsets, n_knots, index, weight)
            leverage = 0.0
            for i in range(n_features):
                row, inner = smoother[index[i]], 0.0
                for j in range(n_features):
                    inner += row[index[j]] * weight[j]
                leverage += weight[i] * inner
            scores[n, h, x] = (scores[n, h, x] - leverage * targets.values[t]) / max(1.0 - leverage, 1e-6)
