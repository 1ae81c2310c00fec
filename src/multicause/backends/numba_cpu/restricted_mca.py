"""R-MCA_NN: a network that learns from one pattern after the other (MCA eq. 25, §6.4).

For each pattern y, with I_i and I_ab the log-likelihoods of one and of two active latents at the temperature 1/beta,

    g_i = exp(I_i) / (sum_h exp(I_h) + odds sum_{a<b} exp(I_ab)),     odds = (pi / (1 - pi))^beta
    W_id <- max(W_id + rate g_i y_d + noise_id, floor),     W_i <- C W_i / sum_d W_id
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _log_likelihood(y, first, second, log_first, log_second):
    """I_ab = sum_d y_d log max(W_ad, W_bd) - max(W_ad, W_bd); with a = b, of one latent alone."""
    total = 0.0
    for d in range(len(y)):
        total += y[d] * max(log_first[d], log_second[d]) - max(first[d], second[d])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def responses(y, components, beta, odds):
    """g_i of every latent (MCA eq. 25)."""
    n_latents = len(components)
    logs = np.log(components)
    single = np.empty(n_latents)
    pairs = np.empty(n_latents * (n_latents - 1) // 2)
    largest, k = -np.inf, 0
    for a in range(n_latents):
        single[a] = beta * _log_likelihood(y, components[a], components[a], logs[a], logs[a])
        largest = max(largest, single[a])
        for b in range(a + 1, n_latents):
            pairs[k] = beta * _log_likelihood(y, components[a], components[b], logs[a], logs[b])
            largest = max(largest, pairs[k])
            k += 1
    total = 0.0
    for k in range(len(pairs)):
        total += np.exp(pairs[k] - largest)
    total *= odds
    for a in range(n_latents):
        single[a] = np.exp(single[a] - largest)
        total += single[a]
    return single / total


@njit(cache=True, nogil=True, error_model="numpy")
def present(Y, noise, components, field_sum, floor, rate_beta_odds):
    """Learn from the rows of Y one by one, in place; noise is (N, H, D). All-zero patterns do not contribute."""
    rate, beta, odds = rate_beta_odds
    n_latents, n_features = components.shape
    for n in range(len(Y)):
        y = Y[n]
        if not np.any(y):
            continue
        g = responses(y, components, beta, odds)
        for i in range(n_latents):
            component, total = components[i], 0.0
            for d in range(n_features):
                component[d] = max(component[d] + rate * g[i] * y[d] + noise[n, i, d], floor)
                total += component[d]
            scale = field_sum / total
            for d in range(n_features):
                component[d] = max(component[d] * scale, floor)
