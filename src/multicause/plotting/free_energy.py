"""The free energy over the iterations of EM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multicause.plotting.axes import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 12  # values that are drawn as points, too


def plot_free_energy(free_energy: Any, ax: Axes | None = None) -> Axes:
    """Draw the free energy per data point, ΣF_n/N, over iterations; of a product of experts its log-likelihood.

    Parameters
    ----------
    free_energy : array-like of shape (n_iter,) or fitted estimator
        The history, or an estimator that holds it in `free_energy_`.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    history = _history(free_energy)
    from matplotlib.ticker import MaxNLocator

    ax = axes_or_new(ax)
    ax.plot(np.arange(history.size), history, marker="o" if history.size <= FEW else None)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    if hasattr(free_energy, "projection_index_"):
        _label_experts(ax, len(free_energy.projection_index_), history.size)
    else:
        ax.set_xlabel("iteration")
        ax.set_ylabel("free energy per data point")
    return ax


def _label_experts(ax: Axes, n_experts: int, n_values: int) -> None:
    """The history of a product of experts: without any, after each one, and after each iteration of all together."""
    ax.set_ylabel("log-likelihood per data point")
    ax.set_xlabel("experts" if n_values <= n_experts + 1 else "experts, then iterations of all together")
    if n_values > n_experts + 1:
        ax.axvline(n_experts, color="0.5", linewidth=0.8, linestyle=":")


def _history(free_energy: Any) -> np.ndarray:
    values = getattr(free_energy, "free_energy_", free_energy)
    try:
        history = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        history = np.empty(())
    if history.ndim != 1 or history.size == 0:
        raise ValueError(
            "free_energy must be a non-empty sequence of numbers, or a fitted estimator with free_energy_, got "
            f"{type(free_energy).__name__} of shape {history.shape}. Fit the estimator first, or pass one number per "
            "iteration."
        )
    return history
