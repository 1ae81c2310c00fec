"""The free energy over the iterations of EM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_free_energy(free_energy: Any, ax: Axes | None = None) -> Axes:
    """Draw the free energy per data point, ΣF_n/N, over iterations.

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
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    ax.plot(np.arange(history.size), history, marker="o" if history.size == 1 else None)
    ax.set_xlabel("iteration")
    ax.set_ylabel("free energy per data point")
    return ax


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
