"""Mixtures of probabilistic principal components: densities by few directions, and data without their noise."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.gaussian_mixture import group

ROWS = 32  # of one cluster whose places along its directions are found at once


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def distances(Y, means):
    """|y - mu_c|^2, (N, C)."""
    result = np.empty((len(Y), len(means)))
    for n in range(Y.shape[0]):
        for c in range(means.shape[0]):
            total = 0.0
            for i in range(Y.shape[1]):
                d = Y[n, i] - means[c, i]
                total += d * d
            result[n, c] = total
    return result


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def log_joint(values, places, offsets, starts, precisions):
    """Turn squared distances (N, C) into -1/2 (distance precision_c - sum_j (places_j - offsets_j)^2), j over the
    directions of c. Places are given by tiles of rows, (tiles, directions, rows of a tile)."""
    n_rows, size = values.shape[0], places.shape[2]
    along = np.empty(size, places.dtype)
    for tile in range(places.shape[0]):
        first = tile * size
        for c in range(values.shape[1]):
            along[:] = 0.0
            for j in range(starts[c], starts[c + 1]):
                for m in range(size):
                    place = places[tile, j, m] - offsets[j]
                    along[m] += place * place
            for m in range(min(size, n_rows - first)):
                values[first + m, c] = -0.5 * (values[first + m, c] * precisions[c] - along[m])


@njit(cache=True, nogil=True, error_model="numpy")
def possible(scores, candidates, of_rows, of_clusters):
    """What the candidates of each row have at least, where scores err by (row's + cluster's), and how many clusters may
    have as much; all where scores are no numbers."""
    least, counts = np.full(len(scores), np.inf), np.zeros(len(scores), dtype=np.int64)
    for n in range(len(scores)):
        for c in candidates[n]:
            surely = scores[n, c] - (of_rows[n] + of_clusters[c])
            if surely < least[n]:
                least[n] = surely
            elif surely != surely:
                least[n] = -np.inf
        for c in range(scores.shape[1]):
            counts[n] += not scores[n, c] + (of_rows[n] + of_clusters[c]) < least[n]
    return least, counts


@njit(cache=True, nogil=True, error_model="numpy")
def log_joint_of(Y, candidates, means, scaled, starts, precisions):
    """What `log_joint` gives, of each row's candidates alone, (N, K); -inf where a candidate is below 0.

    `scaled` (directions of all clusters, D) are the directions that places are measured along.
    """
    n_candidates, n_features = candidates.shape[1], Y.shape[1]
    order, firsts = group(candidates, len(means))
    values = np.full(candidates.shape, -np.inf)
    block, lengths = np.zeros((ROWS, n_features)), np.empty(ROWS)
    for c in range(len(means)):
        directions = scaled[starts[c] : starts[c + 1]]
        for first in range(firsts[c], firsts[c + 1], ROWS):
            n_rows = min(ROWS, firsts[c + 1] - first)
            for m in range(n_rows):
                n = order[first + m] // n_candidates
                lengths[m] = 0.0
                for i in range(n_features):
                    block[m, i] = Y[n, i] - means[c, i]
                    lengths[m] += block[m, i] * block[m, i]
            places = np.dot(block, directions.T)  # of equal shape for all rows of a cluster: equal bits
            for m in range(n_rows):
                along = 0.0
                for j in range(places.shape[1]):
                    along += places[m, j] * places[m, j]
                pair = order[first + m]
                values[pair // n_candidates, pair % n_candidates] = -0.5 * (lengths[m] * precisions[c] - along)
    return values


@njit(cache=True, nogil=True, error_model="numpy")
def neighbourhoods(candidates, neighbours):
    """The neighbours (C, G) of each row's candidates (N, K), each once, (N, K G); -1 fills up."""
    n_rows, n_near = len(candidates), neighbours.shape[1]
    result = np.full((n_rows, candidates.shape[1] * n_near), -1, dtype=np.int32)
    last = np.full(len(neighbours), -1, dtype=np.int64)  # row that a cluster was last seen in
    for n in range(n_rows):
        found = 0
        for c in candidates[n]:
            for other in neighbours[c]:
                if last[other] != n:
                    last[other] = n
                    result[n, found] = other
                    found += 1
    return result


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def clean(Y, candidates, q, means, directions, shares, starts, left_over):
    """Means and variances, over the candidates, of mu_c + sum_j share_j (direction_j^T (y - mu_c)) direction_j."""
    n_rows, n_features = Y.shape
    result = np.zeros((n_rows, 2, n_features))
    d, x = np.empty(n_features), np.empty(n_features)
    for n in range(n_rows):
        mean, variance = result[n, 0], result[n, 1]
        for k in range(candidates.shape[1]):
            if q[n, k] == 0.0:
                continue
            c = candidates[n, k]
            for i in range(n_features):
                d[i] = Y[n, i] - means[c, i]
                x[i] = -d[i]  # about y: a large offset would swallow the digits of a small variance
            for j in range(starts[c], starts[c + 1]):
                along = 0.0
                for i in range(n_features):
                    along += directions[j, i] * d[i]
                along *= shares[j]
                for i in range(n_features):
                    x[i] += along * directions[j, i]
            for i in range(n_features):
                mean[i] += q[n, k] * x[i]
                variance[i] += q[n, k] * (x[i] * x[i] + left_over[c, i])
        for i in range(n_features):
            variance[i] = max(variance[i] - mean[i] * mean[i], 0.0)
            mean[i] += Y[n, i]
    return result
