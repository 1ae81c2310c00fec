"""The bars test: data whose hidden causes are known, so that recovery can be counted."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Bars(NamedTuple):
    """Bars data together with the truth that generated it.

    Attributes
    ----------
    X : ndarray of shape (N, D)
        Data points, D = size².
    components : ndarray of shape (H, D)
        The bars, H = 2·size: first the horizontal ones from the top, then the vertical ones from the left.
    states : ndarray of shape (N, H)
        Which bars are present in each data point, 0.0 or 1.0.
    """

    X: np.ndarray
    components: np.ndarray
    states: np.ndarray


def bar_components(size: int = 5, pixel_value: float = 10.0, signed: bool = False) -> np.ndarray:
    """Generating fields of the bars test: each row and each column of a size × size grid.

    Parameters
    ----------
    size : int, default=5
        Side length of the grid.
    pixel_value : float, default=10.0
        Value of the pixels of a bar; all other pixels are zero.
    signed : bool, default=False
        Make every second bar negative: `size` of the 2·size bars, horizontal and vertical ones among them.

    Returns
    -------
    ndarray of shape (2 * size, size ** 2)
        Horizontal bars from the top, then vertical bars from the left.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, got {size}. Give the side length of the grid in pixels.")
    lines = np.eye(size)
    point = np.ones((1, size))
    components = pixel_value * np.vstack([np.kron(lines, point), np.kron(point, lines)])
    if signed:
        components[1::2] *= -1.0
    return components


def make_bars(
    n_samples: int = 500,
    size: int = 5,
    *,
    probability: ArrayLike | None = None,
    pixel_value: float = 10.0,
    noise: float = 2.0,
    signed: bool = False,
    random_state: int | np.random.Generator | None = None,
) -> Bars:
    """Draw data points of the linear bars test.

        s_h ~ Bernoulli(π_h),   y ~ N(W s, noise² I)                                [ET, Sections 4.1.1 and 4.3.1]

    Parameters
    ----------
    n_samples : int, default=500
        Number N of data points.
    size : int, default=5
        Side length of the grid: D = size² pixels and H = 2·size bars.
    probability : float or array-like of shape (H,), default=None
        Probability of each bar to be present. None means 2/H: two bars per data point on average.
    pixel_value : float, default=10.0
        Value of the pixels of a bar.
    noise : float, default=2.0
        Standard deviation of the pixel noise; 0 gives noiseless data.
    signed : bool, default=False
        Make every second bar negative.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    Bars
        The data with the components and states behind them.
    """
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}. Ask for one data point or more.")
    if not noise >= 0.0:
        raise ValueError(f"noise must be a standard deviation ≥ 0, got {noise}. Use noise=0 for noiseless data.")
    components = bar_components(size, pixel_value, signed)
    rng = np.random.default_rng(random_state)
    activation = _activation(probability, len(components))
    states = (rng.random((n_samples, len(components))) < activation).astype(np.float64)
    X = states @ components + noise * rng.standard_normal((n_samples, size**2))
    return Bars(X, components, states)


def _activation(probability: ArrayLike | None, n_bars: int) -> np.ndarray:
    """π_h of every bar, (H,)."""
    activation = np.asarray(2.0 / n_bars if probability is None else probability, dtype=np.float64)
    if activation.shape not in {(), (n_bars,)}:
        raise ValueError(
            f"probability must be one number or an array of shape ({n_bars},), got shape {activation.shape}. "
            "Give one probability per bar: the horizontal bars first, then the vertical ones."
        )
    if not np.all((activation >= 0.0) & (activation <= 1.0)):
        raise ValueError(
            f"probability must lie in [0, 1], got values from {activation.min():.3g} to {activation.max():.3g}. "
            "For k bars per data point on average use k / (2 * size)."
        )
    return np.broadcast_to(activation, (n_bars,))
