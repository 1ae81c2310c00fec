"""Gaussians seen through noise and gaps: what is observed of a row says which one it is from, and what is missing."""

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def most_likely(X, observed, candidates, log_weights, means, covariances, noise_variance):
    """The candidate with the largest log π_c + log N(x_o; μ_o, Σ_oo + σ² I) of each row, (N,)."""
    n_rows, n_features = X.shape
    best = np.empty(n_rows, np.int64)
    factor, rest = np.empty((n_features, n_features)), np.empty(n_features)
    for n in range(n_rows):
        seen = np.flatnonzero(observed[n])
        highest = -np.inf
        best[n] = candidates[n, 0]
        for k in range(candidates.shape[1]):
            c = candidates[n, k]
            value = log_weights[c] + _log_density(X[n], seen, means[c], covariances[c], noise_variance, factor, rest)
            if value > highest:
                highest, best[n] = value, c
    return best


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def _log_density(x, seen, mean, covariance, noise_variance, factor, rest):
    """log N(x_o; μ_o, Σ_oo + σ² I) but for a constant of the row, by Cholesky's factor, row by row."""
    value = 0.0
    for a in range(seen.size):
        i = seen[a]
        rest_a = x[i] - mean[i]
        for b in range(a):
            total = covariance[i, seen[b]]
            for k in range(b):
                total -= factor[a, k] * factor[b, k]
            factor[a, b] = total / factor[b, b]
            rest_a -= factor[a, b] * rest[b]
        pivot = covariance[i, i] + noise_variance
        for k in range(a):
            pivot -= factor[a, k] * factor[a, k]
        factor[a, a] = np.sqrt(pivot)
        rest[a] = rest_a / factor[a, a]
        value -= 0.5 * (rest[a] * rest[a] + np.log(pivot))
    return value


@njit(cache=True, nogil=True, error_model="numpy", fastmath=FAST)
def posteriors(X, observed, mean, covariance, noise_variance, with_moments):
    """Posterior means and variances of rows of one Gaussian, (N, D) each, and the sum of what the data take off Σ.

    With L Lᵀ = Σ_oo + σ² I and B = L⁻¹ Σ_o:, the posterior has the mean μ + Bᵀ L⁻¹ (x_o − μ_o) and the covariance
    Σ − Bᵀ B. The third result is Σ_n B_nᵀ B_n, (D, D), zero where it is not wanted.
    """
    n_rows, n_features = X.shape
    expected, variance = np.empty((n_rows, n_features)), np.empty((n_rows, n_features))
    taken = np.zeros((n_features, n_features))
    factor = np.empty((n_features, n_features))
    for n in range(n_rows):
        seen = np.flatnonzero(observed[n])
        B = np.empty((seen.size, n_features))
        rest = np.empty(seen.size)
        for d in range(n_features):
            expected[n, d], variance[n, d] = mean[d], covariance[d, d]
        for a in range(seen.size):
            i = seen[a]
            rest[a] = X[n, i] - mean[i]
            for d in range(n_features):
                B[a, d] = covariance[i, d]
            for b in range(a):
                total = covariance[i, seen[b]]
                for k in range(b):
                    total -= factor[a, k] * factor[b, k]
                share = total / factor[b, b]
                factor[a, b] = share
                rest[a] -= share * rest[b]
                for d in range(n_features):
                    B[a, d] -= share * B[b, d]
            pivot = covariance[i, i] + noise_variance
            for k in range(a):
                pivot -= factor[a, k] * factor[a, k]
            factor[a, a] = np.sqrt(pivot)
            inverse = 1.0 / factor[a, a]
            rest[a] *= inverse
            for d in range(n_features):
                B[a, d] *= inverse
                expected[n, d] += B[a, d] * rest[a]
                variance[n, d] -= B[a, d] * B[a, d]
        if with_moments and seen.size > 0:
            taken += np.dot(B.T, B)
    return expected, variance, taken
