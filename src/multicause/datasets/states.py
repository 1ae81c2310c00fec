"""Which causes are present in each data point."""

import numpy as np
from numpy.typing import ArrayLike

SMALLEST_ACCEPTANCE = 1e-3  # fraction of draws with enough causes below which drawing again would take too long


def draw_states(
    n_samples: int,
    n_causes: int,
    probability: ArrayLike | None,
    rng: np.random.Generator,
    min_active: int = 0,
) -> np.ndarray:
    """Independent causes, drawn again where fewer than `min_active` of them are present.

        s_h ~ Bernoulli(π_h)   given   Σ_h s_h ≥ min_active

    Parameters
    ----------
    n_samples : int
        Number N of data points.
    n_causes : int
        Number H of causes.
    probability : float, array-like of shape (H,) or None
        Probability π_h of each cause before rejection. None means 2/H, at most 1.
    rng : numpy.random.Generator
        Source of randomness.
    min_active : int, default=0
        Fewest causes of a data point.

    Returns
    -------
    ndarray of shape (N, H)
        0.0 or 1.0.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}. Ask for one data point or more.")
    activation = _activation(probability, n_causes)
    _check_min_active(min_active, activation)
    states = (rng.random((n_samples, n_causes)) < activation).astype(np.float64)
    while (sparse := np.flatnonzero(states.sum(axis=1) < min_active)).size:
        states[sparse] = rng.random((sparse.size, n_causes)) < activation
    return states


def _activation(probability: ArrayLike | None, n_causes: int) -> np.ndarray:
    """π_h of every cause, (H,)."""
    activation = np.asarray(min(1.0, 2.0 / n_causes) if probability is None else probability, dtype=np.float64)
    if activation.shape not in {(), (n_causes,)}:
        raise ValueError(
            f"probability must be one number or an array of shape ({n_causes},), got shape {activation.shape}. "
            "Give one probability per cause, in the order of the components."
        )
    if not np.all((activation >= 0.0) & (activation <= 1.0)):
        raise ValueError(
            f"probability must lie in [0, 1], got values from {activation.min():.3g} to {activation.max():.3g}. "
            f"For k causes per data point on average use k / {n_causes}."
        )
    return np.broadcast_to(activation, (n_causes,))


def _check_min_active(min_active: int, activation: np.ndarray) -> None:
    if not 0 <= min_active <= activation.size:
        raise ValueError(
            f"min_active must be from 0 to {activation.size}, the number of causes, got {min_active}. "
            "Ask for fewer active causes, or give more components."
        )
    n_active = np.ones(1)  # distribution of Σ_h s_h over the causes so far
    for p in activation:
        n_active = np.convolve(n_active, [1.0 - p, p])
    accepted = n_active[min_active:].sum()
    if accepted < SMALLEST_ACCEPTANCE:
        raise ValueError(
            f"min_active={min_active} needs data points with that many causes, but only a fraction {accepted:.2g} of "
            f"the draws has them (at least {SMALLEST_ACCEPTANCE} is needed). Lower min_active or raise probability."
        )
