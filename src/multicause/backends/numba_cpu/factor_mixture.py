"""Mixtures of probabilistic principal components: densities by few directions, and data without their noise."""

import numpy as np
from numba import njit


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
    directions of c."""
    for n in range(values.shape[0]):
        for c in range(values.shape[1]):
            along = 0.0
            for j in range(starts[c], starts[c + 1]):
                place = places[n, j] - offsets[j]
                along += place * place
            values[n, c] = -0.5 * (values[n, c] * precisions[c] - along)


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
