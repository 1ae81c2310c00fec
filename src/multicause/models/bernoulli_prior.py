"""The prior of all binary models, s_h ~ Bernoulli(pi_h), and its truncation to at most gamma active causes."""

import numpy as np
from scipy.special import logit

RAREST = 1e-6  # smallest activation probability: keeps log-odds finite, and lets a cause come back


def log_prior(activation: np.ndarray, states: np.ndarray) -> np.ndarray:
    """sum_h s_h log pi_h + (1 - s_h) log(1 - pi_h), over the last axis of `states`."""
    return states @ logit(activation) + np.log1p(-activation).sum()


def count_distribution(activation: np.ndarray, largest: int) -> np.ndarray:
    """p(|s| = g) for g = 0..largest: the Poisson-binomial distribution, one cause at a time."""
    p = np.zeros(largest + 1)
    p[0] = 1.0
    for pi in activation:
        p[1:] = (1.0 - pi) * p[1:] + pi * p[:-1]
        p[0] *= 1.0 - pi
    return p


def probability_of_at_most(activation: np.ndarray, max_active: int) -> float:
    """p(|s| <= gamma): the expected share of the data that a truncated model can explain (ET eq. 23)."""
    return float(count_distribution(activation, max_active).sum())


def truncated_activation_means(activation: np.ndarray, max_active: int) -> np.ndarray:
    """E[s_h | |s| <= gamma] = pi_h p(|s without h| <= gamma - 1) / p(|s| <= gamma)."""
    values, where = np.unique(activation, return_inverse=True)
    others = np.empty(len(values))
    for i, pi in enumerate(values):
        rest = np.delete(activation, np.flatnonzero(activation == pi)[0])
        others[i] = probability_of_at_most(rest, max_active - 1)
    return activation * others[where] / probability_of_at_most(activation, max_active)


def new_activation(
    old: np.ndarray, s: np.ndarray, weight: float, shared: bool = False, truncated_at: int | None = None
) -> np.ndarray:
    """pi = sum_n <s>_n / N; with `truncated_at` = gamma the fixed point of the prior truncated to |s| <= gamma."""
    mean = s / weight
    if shared:
        mean = np.full_like(mean, mean.mean())
    if truncated_at is not None:
        mean = old * mean / truncated_activation_means(old, truncated_at)
    return np.clip(mean, RAREST, 1.0 - RAREST)
