"""Priors of the latents: each a small value that models are put together from.

A prior knows its own parameters, which lie in the model's parameters under their names, and how the M-step renews them.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import logit

RAREST = 1e-6  # smallest activation probability: keeps log-odds finite, and lets a latent come back
UNUSED = 1e-12  # a latent that explains less than this share of the data has no say in what is learned of it
SMALLEST_SPREAD = 1e-3  # of a coefficient, relative to its size: beyond it a slab is a spike, and digits cancel
Slab = Literal["diagonal", "full"]
SlabUpdate = Literal["exact", "moments"]


@dataclass(frozen=True)
class BernoulliPrior:
    """s_h ~ Bernoulli(pi_h).

    Parameters
    ----------
    shared : bool
        One pi for all latents instead of one each.
    truncated_at : int or None
        gamma, where only data points of at most gamma latents contribute to the M-step (data classification): pi is
        then the parameter of a prior truncated to |s| <= gamma.
    """

    shared: bool = False
    truncated_at: int | None = None

    def initial(self, n_components: int) -> np.ndarray:
        """pi with which two latents are active on average, (H,)."""
        return np.full(n_components, two_active(n_components))

    def sample(self, params: Any, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return (rng.random((n_samples, len(params.activation))) < params.activation).astype(float)

    def log_density(self, params: Any, states: np.ndarray) -> np.ndarray:
        """log p(s) over the last axis of `states`."""
        return log_prior(params.activation, states)

    def new_activation(self, old: np.ndarray, s: np.ndarray, weight: float) -> np.ndarray:
        """pi = sum_n <s>_n / N; with `truncated_at` the fixed point of the truncated prior."""
        mean = s / weight
        if self.shared:
            mean = np.full_like(mean, mean.mean())
        if self.truncated_at is not None:
            mean = old * mean / truncated_activation_means(old, self.truncated_at)
        return np.clip(mean, RAREST, 1.0 - RAREST)


@dataclass(frozen=True)
class SpikeSlabPrior(BernoulliPrior):
    """s_h ~ Bernoulli(pi_h),   z ~ N(mu, Psi): latents that are on or off, and a coefficient for each.

    Parameters
    ----------
    slab : {"diagonal", "full"}
        Psi: independent or correlated coefficients.
    slab_update : {"exact", "moments"}
        How mu and a full Psi are renewed: by the M-step, from all coefficients, active or not; or by matching the
        moments of the active ones (GSC eq. 8, 9), which may lower the free energy.
    """

    slab: Slab = "diagonal"
    slab_update: SlabUpdate = "exact"

    def sample(self, params: Any, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """x = s*z."""
        states = super().sample(params, n_samples, rng)
        return states * (params.slab_mean + rng.standard_normal(states.shape) @ root(params.slab_covariance))

    def log_density(self, params: Any, states: np.ndarray) -> np.ndarray:
        """log p(s) p(z_h of the active latents) of independent coefficients x = s*z, over the last axis."""
        active = states != 0.0
        squares = np.square(states - params.slab_mean) / params.slab_covariance
        log_slab = -0.5 * (squares + np.log(2.0 * np.pi * params.slab_covariance))
        return log_prior(params.activation, active) + np.where(active, log_slab, 0.0).sum(axis=-1)

    def new_slab(
        self, params: Any, statistics: Any, second: np.ndarray, fixed: frozenset[str]
    ) -> dict[str, np.ndarray]:
        """mu and psi of independent coefficients, from the active ones (GSC eq. 8, 9); `second` is <x^2>, (H,)."""
        used = statistics.s > UNUSED * statistics.weight
        count = np.where(used, statistics.s, 1.0)
        mean = np.where(used, statistics.x / count, params.slab_mean)
        mean = params.slab_mean if "slab_mean" in fixed else mean
        spread = second / count - 2.0 * mean * statistics.x / count + mean**2
        variance = np.where(used, spread, params.slab_covariance)
        floor = SMALLEST_SPREAD**2 * np.maximum(mean**2, variance + mean**2)
        variance = np.maximum(variance, np.maximum(floor, 1e-300))
        return {
            "slab_mean": mean,
            "slab_covariance": params.slab_covariance if "slab_covariance" in fixed else variance,
        }

    def new_correlated_slab(self, params: Any, statistics: Any, fixed: frozenset[str]) -> dict[str, np.ndarray]:
        """mu and Psi of correlated coefficients, from all of them, active or not."""
        if self.slab_update == "moments":
            return self._matched_slab(params, statistics, fixed)
        moved = np.zeros_like(params.slab_mean) if "slab_mean" in fixed else statistics.z / statistics.weight
        mean = params.slab_mean + moved
        if "slab_covariance" in fixed:
            return {"slab_mean": mean, "slab_covariance": params.slab_covariance}
        cross = np.outer(statistics.z / statistics.weight, moved)
        covariance = statistics.zz / statistics.weight - cross - cross.T + np.outer(moved, moved)
        floor = SMALLEST_SPREAD**2 * (np.diag(covariance) + mean**2)
        return {"slab_mean": mean, "slab_covariance": floored_covariance(covariance, floor)}

    def _matched_slab(self, params: Any, statistics: Any, fixed: frozenset[str]) -> dict[str, np.ndarray]:
        """mu = sum <x> / sum <s>,   Psi = sum [<x x^T> - <s s^T> * mu mu^T] / sum <s s^T>, entry by entry.

        Where no data point has both latents active nothing is known, and Psi stays; its eigenvalues are kept positive.
        """
        mean = params.slab_mean
        if "slab_mean" not in fixed:
            used = statistics.s > UNUSED * statistics.weight
            mean = np.where(used, statistics.x / np.where(used, statistics.s, 1.0), mean)
        if "slab_covariance" in fixed:
            return {"slab_mean": mean, "slab_covariance": params.slab_covariance}
        together = statistics.ss > UNUSED * statistics.weight
        matched = statistics.xx / np.where(together, statistics.ss, 1.0) - np.outer(mean, mean)
        covariance = np.where(together, matched, params.slab_covariance)
        floor = SMALLEST_SPREAD**2 * (np.abs(np.diag(covariance)) + mean**2)
        return {"slab_mean": mean, "slab_covariance": floored_covariance(covariance, floor)}


@dataclass(frozen=True)
class OneOfPrior:
    """p(s) = pi_c where s is the c-th unit vector, else 0: exactly one latent is active."""

    def sample(self, params: Any, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        n = len(params.weights)
        return np.eye(n)[rng.choice(n, size=n_samples, p=params.weights / params.weights.sum())]

    def log_density(self, params: Any, states: np.ndarray) -> np.ndarray:
        """log p(s) over the last axis of `states`."""
        one_hot = (states.sum(axis=-1) == 1.0) & (states.max(axis=-1) == 1.0)
        return np.where(one_hot, np.log(params.weights)[states.argmax(axis=-1)], -np.inf)


def two_active(n_components: int) -> float:
    """The activation probability with which two latents are active on average; at most 1/2."""
    return min(2.0 / n_components, 0.5)


def log_prior(activation: np.ndarray, states: np.ndarray) -> np.ndarray:
    """sum_h s_h log pi_h + (1 - s_h) log(1 - pi_h), over the last axis of `states`."""
    return states @ logit(activation) + np.log1p(-activation).sum()


def count_distribution(activation: np.ndarray, largest: int) -> np.ndarray:
    """p(|s| = g) for g = 0..largest: the Poisson-binomial distribution, one latent at a time."""
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


def as_matrix(covariance: np.ndarray) -> np.ndarray:
    return np.diag(covariance) if np.ndim(covariance) == 1 else covariance


def root(covariance: np.ndarray) -> np.ndarray:
    """R with R^T R = covariance: rows of N(0, I) times R have it."""
    return np.linalg.cholesky(as_matrix(covariance)).T


def floored_covariance(covariance: np.ndarray, smallest: np.ndarray) -> np.ndarray:
    """The covariance with no eigenvalue below 1, once each variable is in units of its smallest standard deviation."""
    scale = np.sqrt(np.maximum(smallest, 1e-300))
    values, vectors = np.linalg.eigh((covariance + covariance.T) / (2.0 * np.outer(scale, scale)))
    if values[0] >= 1.0:
        return 0.5 * (covariance + covariance.T)
    return np.outer(scale, scale) * ((vectors * np.maximum(values, 1.0)) @ vectors.T)
