"""Learned components, all in one picture."""

from __future__ import annotations

from math import ceil, isqrt, sqrt
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from multicause.plotting.axes import axes_or_new

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP_COLOUR = {True: "0.55", False: "#6f8fb0"}  # between tiles: in neither of the two colour maps


def plot_components(
    components: Any,
    shape: tuple[int, ...] | None = None,
    n_columns: int | None = None,
    ax: Axes | None = None,
    symmetric: bool | None = None,
    scale: Literal["individual", "shared"] = "individual",
) -> Axes:
    """Draw all components side by side: as images, or as waveforms where they are not images.

    Parameters
    ----------
    components : array-like of shape (H, D) or fitted estimator
        The components, or an estimator that holds them in `components_`.
    shape : tuple of int, default=None
        (height, width) of each component, drawn as an image, or (D,), drawn as a waveform. None takes D to be a
        square image, and a waveform where D is not a square.
    n_columns : int, default=None
        Components per row. None makes the arrangement about square.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.
    symmetric : bool, default=None
        Whether zero is in the middle: a diverging colour map, or a zero line in the middle of each waveform.
        False draws from the smaller of zero and the minimum up, in greys. None is symmetric if any value is negative.
    scale : {"individual", "shared"}, default="individual"
        Whether each component fills the range on its own, or all share one range so that their amplitudes compare.

    Returns
    -------
    matplotlib Axes
        The axes drawn on.
    """
    W = _component_array(components)
    form = _component_shape(shape, W.shape[1])
    if scale not in ("individual", "shared"):
        raise ValueError(f"scale must be 'individual' or 'shared', got {scale!r}. Choose one of the two.")
    if n_columns is not None and n_columns < 1:
        raise ValueError(f"n_columns must be at least 1, got {n_columns}. Leave it out for a square arrangement.")
    columns = ceil(sqrt(len(W))) if n_columns is None else n_columns
    signed = bool((W < 0.0).any()) if symmetric is None else symmetric
    levels = _levels(W, signed, shared=scale == "shared")
    ax = axes_or_new(ax)
    if len(form) == 2:
        _draw_images(ax, levels.reshape(-1, *form), columns, signed)
    else:
        _draw_waveforms(ax, levels, columns, signed)
    ax.set_axis_off()
    return ax


def _component_array(components: Any) -> np.ndarray:
    """Components as (H, D), from an estimator or an array."""
    values = getattr(components, "components_", components)
    try:
        W = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        W = np.empty(())
    if W.ndim != 2 or W.size == 0 or not np.isfinite(W).all():
        raise ValueError(
            "components must be a non-empty 2-D array of finite numbers, or a fitted estimator with components_, got "
            f"{type(components).__name__} of shape {W.shape}. Fit the estimator first, or pass one row per component."
        )
    return W


def _component_shape(shape: tuple[int, ...] | None, n_features: int) -> tuple[int, ...]:
    """(height, width) for images, (D,) for waveforms."""
    if shape is None:
        side = isqrt(n_features)
        return (side, side) if side**2 == n_features else (n_features,)
    form = tuple(shape)
    if len(form) not in (1, 2) or min(form) < 1 or int(np.prod(form)) != n_features:
        raise ValueError(
            f"shape must be (height, width) or (D,) with a product of {n_features}, the number of features, "
            f"got {form}. Leave it out to have it guessed."
        )
    return form


def _levels(W: np.ndarray, signed: bool, shared: bool) -> np.ndarray:
    """Components brought to [−1, 1] around zero if signed, else to [0, 1] from min(0, smallest value) up."""
    axis = None if shared else 1
    floor = np.zeros((1, 1)) if signed else np.minimum(W.min(axis=axis, keepdims=True), 0.0)
    height = np.abs(W - floor).max(axis=axis, keepdims=True)
    return (W - floor) / np.where(height > 0.0, height, 1.0)


def _draw_images(ax: Axes, tiles: np.ndarray, columns: int, signed: bool) -> None:
    """One image of all tiles (H, height, width), with a pixel between them."""
    import matplotlib

    n_tiles, height, width = tiles.shape
    rows = ceil(n_tiles / columns)
    canvas = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1), np.nan)
    for i, tile in enumerate(tiles):
        top, left = (i // columns) * (height + 1) + 1, (i % columns) * (width + 1) + 1
        canvas[top : top + height, left : left + width] = tile
    colours = matplotlib.colormaps["RdBu_r" if signed else "gray"].with_extremes(bad=GAP_COLOUR[signed])
    ax.imshow(canvas, cmap=colours, vmin=-1.0 if signed else 0.0, vmax=1.0, interpolation="nearest")


def _draw_waveforms(ax: Axes, waves: np.ndarray, columns: int, signed: bool) -> None:
    """One line per wave (H, D), each in a cell of width and height 1."""
    from matplotlib.collections import LineCollection

    rows = ceil(len(waves) / columns)
    inside = np.linspace(0.06, 0.94, waves.shape[1])
    row, column = np.divmod(np.arange(len(waves)), columns)
    base = rows - 1.0 - row + (0.5 if signed else 0.06)  # height of level 0, (H,)
    reach = 0.44 if signed else 0.88
    x = column[:, None] + inside
    y = base[:, None] + reach * waves
    zero = [[(c + inside[0], b), (c + inside[-1], b)] for c, b in zip(column, base, strict=True)]
    ax.add_collection(LineCollection(zero, colors="0.8", linewidths=0.5))
    ax.add_collection(LineCollection(list(np.stack([x, y], axis=-1)), colors="C0", linewidths=0.8))
    ax.set_xlim(0.0, columns)
    ax.set_ylim(0.0, rows)
