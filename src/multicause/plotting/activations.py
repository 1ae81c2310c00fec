"""How often each latent is active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multicause.plotting.axes import axes_or_new, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "activation_": "activation probability",
    "weights_": "weight",
    "projection_index_": "gain in nats per data point",
}


def plot_activations(activations: Any, ax: Axes | None = None) -> Axes:
    """Draw how often each latent is active, the most frequent first; bars carry the numbers of their latents.

    Parameters
    ----------
    activations : array-like of shape (H,) or fitted estimator
        The probabilities, or an estimator that holds them in `activation_`. Of a mixture the weights are drawn; of a
        product of experts, how much log-likelihood each expert gained over a Gaussian.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    attribute = next((name for name in LABELS if hasattr(activations, name)), None)
    values = activations if attribute is None else getattr(activations, attribute)
    try:
        heights = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        heights = np.empty((0, 0))
    if heights.ndim != 1 or heights.size == 0 or not np.isfinite(heights).all():
        raise ValueError(
            "activations must be a non-empty sequence of numbers, or a fitted estimator with activation_, got "
            f"{type(activations).__name__}. Fit the estimator first, or pass one number per latent."
        )
    heights = -heights if attribute == "projection_index_" else heights
    order = np.argsort(-heights, kind="stable")
    ax = axes_or_new(ax)
    draw_bars(ax, order, heights[order], LABELS[attribute or "activation_"])
    return ax
