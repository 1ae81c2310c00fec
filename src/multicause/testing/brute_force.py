"""Posteriors by enumerating all 2^H states: the slowest and surest way."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from multicause.models.base import GenerativeModel, heated

MOST_LATENTS = 20


class BruteForce(NamedTuple):
    """A posterior written out in full."""

    states: np.ndarray  # (K, H) every state
    log_joint: np.ndarray  # (N, K)
    kept: np.ndarray  # (N, K) whether the state belongs to K_n
    q: np.ndarray  # (N, K) proportional to p(s, y)^beta over K_n
    free_energy: np.ndarray  # (N,) <log p(s, y)>_q + H(q); the log evidence if all states are kept and beta is 1
    mean: np.ndarray  # (N, H) <s>
    second: np.ndarray  # (N, H, H) <s s^T>


def all_states(n_components: int) -> np.ndarray:
    """Every binary vector of length H, as rows."""
    if n_components > MOST_LATENTS:
        raise ValueError(
            f"Brute force enumerates 2^n_components states, for at most {MOST_LATENTS} components. "
            f"Got {n_components} instead."
        )
    return np.array(list(product((0.0, 1.0), repeat=n_components)))


def brute_force(
    model: GenerativeModel,
    params: Any,
    Y: np.ndarray,
    *,
    candidates: np.ndarray | None = None,
    max_active: int | None = None,
    singletons: bool = False,
    beta: float = 1.0,
) -> BruteForce:
    """The posterior of `model` over all states, or over K_n where `candidates` (N, H') and `max_active` are given.

    Parameters
    ----------
    model : GenerativeModel
        The model; only its log joint is used.
    params : NamedTuple
        The model's parameters.
    Y : ndarray of shape (N, D)
        Data points.
    candidates : ndarray of shape (N, H') or None
        Latents that may be active; None allows all.
    max_active : int or None
        Most latents active at once; None allows any number.
    singletons : bool
        Whether every single latent is kept, candidate or not.
    beta : float
        Inverse temperature.
    """
    states = all_states(model.n_components)
    n_active = states.sum(axis=1)
    kept = np.ones((len(Y), len(states)), dtype=bool)
    if candidates is not None:
        allowed = np.zeros((len(Y), model.n_components))
        np.put_along_axis(allowed, np.asarray(candidates, dtype=np.int64), 1.0, axis=1)
        kept &= (1.0 - allowed) @ states.T == 0.0
    if max_active is not None:
        kept &= n_active <= max_active
    if singletons:
        kept |= n_active == 1.0
    log_joint = heated(model, beta).log_joint(params, Y, states)
    tempered = np.where(kept, beta * log_joint, -np.inf)
    q = np.exp(tempered - logsumexp(tempered, axis=1, keepdims=True))
    entropy = -np.sum(q * np.log(q, out=np.zeros_like(q), where=q > 0.0), axis=1)
    free_energy = np.sum(q * np.where(q > 0.0, log_joint, 0.0), axis=1) + entropy
    second = np.einsum("nk,kh,kg->nhg", q, states, states, optimize=True)
    return BruteForce(states, log_joint, kept, q, free_energy, q @ states, second)
