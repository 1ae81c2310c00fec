"""Where pictures are drawn, and bars that stand for latents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LABELLED = 24  # bars that carry the number of their latent


def axes_or_new(ax: Axes | None) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def draw_bars(ax: Axes, latents: np.ndarray, heights: np.ndarray, ylabel: str) -> None:
    """A bar for each latent, in the order given, with its number below where there is room."""
    from matplotlib.ticker import MaxNLocator

    places = np.arange(len(heights))
    ax.bar(places, heights, width=1.0 if len(heights) > 100 else 0.8)
    ax.set_ylabel(ylabel)
    if len(heights) <= MOST_LABELLED:
        ax.set_xticks(places, [str(h) for h in latents])
        ax.tick_params(axis="x", labelsize="small" if len(heights) > 12 else None)
        ax.set_xlabel("latent")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("latent, by rank")
