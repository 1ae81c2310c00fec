"""Spike-and-slab latents taken one at a time: coordinate ascent of a factored posterior.

q(s, z) = prod_h q(s_h, z_h); active coefficients are N(m_h, v_h), active with probability lambda_h. In units of the
slab's standard deviations and of the noise, with residual r = y - sum_h lambda_h m_h W_h:

    v_h = 1 / (1 + |W_h|^2),   m_h = v_h (mu_h + W_h^T r + |W_h|^2 lambda_h m_h)
    logit lambda_h = logit pi_h + log(v_h) / 2 + m_h^2 / 2 v_h - mu_h^2 / 2
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def ascend(Y, observed, components, slab_mean, log_odds, probability, mean, n_sweeps, tol):
    """Update `probability` and `mean` (N, H) in place, up to n_sweeps times over all latents, until none moves by tol.

    Y (N, D) is white, with 0 for missing entries; observed is (N, D), or (0, 0) where all entries are there.
    Returns the evidence lower bound of each row, relative to the log density of y in the empty state.
    """
    n_rows, n_latents = probability.shape
    bound = np.empty(n_rows)
    square = np.empty(n_latents)
    for h in range(n_latents):
        square[h] = _dot(components[h], components[h])
    masked = observed.shape[0] > 0
    seen = np.empty_like(components)
    seen[:] = components
    residual = np.empty(Y.shape[1])
    for n in range(n_rows):
        if masked:
            for h in range(n_latents):
                for d in range(residual.size):
                    seen[h, d] = components[h, d] * observed[n, d]
                square[h] = _dot(seen[h], seen[h])
        residual[:] = Y[n]
        for h in range(n_latents):
            residual -= probability[n, h] * mean[n, h] * seen[h]
        for _ in range(n_sweeps):
            if _sweep(residual, seen, square, slab_mean, log_odds, probability[n], mean[n]) < tol:
                break
        bound[n] = _bound(Y[n], residual, square, slab_mean, log_odds, probability[n], mean[n])
    return bound


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(residual, components, square, slab_mean, log_odds, probability, mean):
    """One update of every latent; returns the largest change of a code lambda_h m_h."""
    largest = 0.0
    for h in range(probability.size):
        old = probability[h] * mean[h]
        variance = 1.0 / (1.0 + square[h])
        m = variance * (slab_mean[h] + _dot(components[h], residual) + square[h] * old)
        x = log_odds[h] + 0.5 * np.log(variance) + 0.5 * m * m / variance - 0.5 * slab_mean[h] ** 2
        p = 1.0 / (1.0 + np.exp(-x)) if x > -700.0 else 0.0
        change = p * m - old
        mean[h] = m
        probability[h] = p
        if change != 0.0:
            for d in range(residual.size):
                residual[d] -= change * components[h, d]
        largest = max(largest, abs(change))
    return largest


@njit(cache=True, nogil=True, error_model="numpy")
def _bound(y, residual, square, slab_mean, log_odds, probability, mean):
    """E_q[log p(y, s, z) - log q] - log p(y, s = 0)."""
    total = 0.5 * (_dot(y, y) - _dot(residual, residual))
    for h in range(probability.size):
        p, m = probability[h], mean[h]
        variance = 1.0 / (1.0 + square[h])
        total -= 0.5 * square[h] * p * (variance + (1.0 - p) * m * m)
        divergence = 0.5 * (variance + (m - slab_mean[h]) ** 2 - 1.0 - np.log(variance))
        total += p * (log_odds[h] - divergence)
        if p > 0.0:
            total -= p * np.log(p)
        if p < 1.0:
            total -= (1.0 - p) * np.log1p(-p)
    return total
