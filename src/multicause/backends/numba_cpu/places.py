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
def rank_objects(functions, lower, fraction, placements, starts, offsets, n_ranked):
    """Which components are in each image, best first: n_ranked for the first, down to 1, and 0 for the rest, (n, H).

    Each is the one that scores most, at its best placement, where no earlier one explains the image better than chance.
    """
    n_rows, n_pixels = lower.shape[:2]
    n_components, n_choices = placements.shape[1:]
    ranks = np.zeros((n_rows, n_components))
    free = np.empty(n_pixels, dtype=np.bool_)
    for n in range(n_rows):
        free[:] = True
        for rank in range(n_ranked, 0, -1):
            best, best_h, best_start = -np.inf, -1, -1
            for h in range(n_components):
                if ranks[n, h] > 0.0:
                    continue
                for r in range(n_choices):
                    start, score = starts[placements[n, h, r]], 0.0
                    for a in range(offsets.size):
                        d = start + offsets[a]
                        if free[d]:
                            score += _sum_of_channels(functions[h, a], lower[n, d], fraction[n, d])
                    if score > best:
                        best, best_h, best_start = score, h, start
            ranks[n, best_h] = rank
            for a in range(offsets.size):
                d = best_start + offsets[a]
                if free[d] and _sum_of_channels(functions[best_h, a], lower[n, d], fraction[n, d]) > 0.0:
                    free[d] = False
    return ranks
