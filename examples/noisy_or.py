"""
A model of your own: noisy-OR
=============================

Binary pixels, each switched on by any of the active latents: latent h switches pixel d on with probability W_hd, ::

    p(y_d = 1 | s) = 1 - prod_h (1 - W_hd)^s_h,   s_h ~ Bernoulli(pi_h)

multicause does not include this model. To train it, write its log joint, the sums over data that the M-step needs, and
the M-step. Which latents to consider for a data point is learned by ``GPSelect``.
"""

from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logit, xlogy

from multicause import TruncatedEM
from multicause.plotting import plot_components
from multicause.selection import GPSelect

# %%
# Parameters and sums
# -------------------
#
# Both are NamedTuples. Sums are added up over chunks of data, in threads or on a cluster.


class Params(NamedTuple):
    components: np.ndarray  # (H, D) W, the probability that a cause switches a pixel on
    activation: np.ndarray  # (H,) pi


class Sums(NamedTuple):
    weight: float
    s: np.ndarray  # (H,) sum_n <s_h>
    fired: np.ndarray  # (H, D) sum_n <s_h W_hd / p(y_d = 1 | s)> y_d: how often cause h switched pixel d on


# %%
# The model
# ---------
#
# ``states`` are rows of zeros and ones, (K, H) or (N, K, H); ``weights`` their posterior probabilities, (N, K).


class NoisyOr:
    def __init__(self, n_components):
        self.n_components = n_components

    def init_params(self, moments, rng):
        noise = rng.uniform(0.5, 1.5, size=(self.n_components, len(moments.mean)))
        return Params(np.clip(moments.mean * noise, 0.01, 0.99), np.full(self.n_components, 2.0 / self.n_components))

    def log_joint(self, params, Y, states):
        p_off = np.exp(states @ np.log1p(-params.components))  # (K, D) or (N, K, D)
        log_prior = states @ logit(params.activation) + np.log1p(-params.activation).sum()
        p_on, y = np.maximum(1.0 - p_off, 1e-9), Y[:, None, :]
        return log_prior + (xlogy(y, p_on) + xlogy(1.0 - y, p_off)).sum(axis=-1)

    def accumulate(self, params, Y, states, weights):
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        p_on = np.maximum(1.0 - np.exp(states @ np.log1p(-params.components)), 1e-9)
        fired = np.einsum("nk,nkh,nkd,nd->hd", weights, states, 1.0 / p_on, Y, optimize=True) * params.components
        return Sums(float(weights.sum()), np.einsum("nk,nkh->h", weights, states), fired)

    def m_step(self, params, sums):
        components = np.clip(sums.fired / np.maximum(sums.s, 1e-9)[:, None], 0.001, 0.999)
        return Params(components, np.clip(sums.s / sums.weight, 1e-4, 0.999))


# %%
# Data to try it on
# -----------------


def noisy_bars(n_samples=1000, size=4, seed=0):
    """Pixels that rows and columns of an image switch on with probability 0.9, two bars on average."""
    rng = np.random.default_rng(seed)
    bars = np.concatenate([np.kron(np.eye(size), np.ones((1, size))), np.kron(np.ones((1, size)), np.eye(size))])
    states = rng.random((n_samples, 2 * size)) < 1.0 / size
    p_off = np.exp(states @ np.log1p(-0.9 * bars))
    return (rng.random(p_off.shape) > p_off).astype(float), bars


# %%
# Train it
# --------
#
# ``multicause.testing.check_model(NoisyOr(8), X)`` checks a model for mistakes beforehand.


def main():
    X, bars = noisy_bars()
    em = TruncatedEM(NoisyOr(8), n_candidates=5, selection=GPSelect(), max_iter=60, tol=0, n_init=3, random_state=0)
    em.fit(X)
    likeness = np.corrcoef(em.params_.components, bars)[:8, 8:].max(axis=0)
    print(f"{(likeness > 0.95).sum()} of {len(bars)} bars found; log-likelihood per image at least {em.score(X):.2f}")
    _, (left, right) = plt.subplots(1, 2, figsize=(8, 2.4), layout="constrained")
    plot_components(X[:16], ax=left, n_columns=8)
    plot_components(em.params_.components, ax=right, n_columns=4)
    left.set_title("data")
    right.set_title("probability that a latent switches a pixel on")
    return likeness


if __name__ == "__main__":
    main()
