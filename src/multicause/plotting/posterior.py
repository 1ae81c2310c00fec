"""What a model says of one data point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multicause.plotting.axes import MOST_LABELLED, axes_or_new, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_posterior(estimator: Any, x: Any, ax: Axes | None = None, n_latents: int = MOST_LABELLED) -> Axes:
    """Draw what is in a data point: p(s_h = 1 | x) of its most probable latents, in the order of their numbers.

    Parameters
    ----------
    estimator : fitted estimator
        One with `predict_proba`; of one without, such as `UPoE`, the largest projections are drawn.
    x : array-like of shape (n_features,) or (1, n_features)
        The data point.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.
    n_latents : int, default=24
        Most latents that are drawn.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    row = np.asarray(x)
    if row.ndim < 1 or (row.ndim > 1 and len(row) != 1):
        raise ValueError(
            f"x must be one data point, of shape (n_features,), got shape {row.shape}. Pick a row: X[0], or one image."
        )
    row = row if row.ndim > 1 else row[None]
    ask = getattr(estimator, "predict_proba", None) or getattr(estimator, "transform", None)
    if ask is None:
        raise ValueError(f"estimator must have predict_proba or transform, got {type(estimator).__name__}.")
    values = np.asarray(ask(row), dtype=np.float64)[0]
    strongest = np.sort(np.argsort(-np.abs(values), kind="stable")[:n_latents])
    ax = axes_or_new(ax)
    are_probabilities = hasattr(estimator, "predict_proba")
    draw_bars(ax, strongest, values[strongest], "probability" if are_probabilities else "projection")
    if are_probabilities:
        ax.set_ylim(0.0, 1.05)
    else:
        ax.axhline(0.0, color="0.5", linewidth=0.8)
    return ax
