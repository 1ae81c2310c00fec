"""The bars test: data whose hidden causes are known, so that recovery can be counted."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multicause.datasets.states import draw_states
from multicause.short_repr import short_repr


class Bars(NamedTuple):
    """Bars data together with the truth that generated it.

    Attributes
    ----------
    X : ndarray of shape (N, D)
        Data points, each a square image row by row.
    components : ndarray of shape (H, D)
        The bars: first the horizontal ones from the top, then the vertical ones from the left.
    states : ndarray of shape (N, H)
        Which bars are present in each data point, 0.0 or 1.0.
    """

    X: np.ndarray
    components: np.ndarray
    states: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)


def bar_components(size: int = 5, pixel_value: float = 10.0, signed: bool = False) -> np.ndarray:
    """Generating components of the bars test: each row and each column of a size × size grid.

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
    components = _across(np.eye(size), pixel_value)
    if signed:
        components[1::2] *= -1.0
    return components


def wide_bar_components(widths: Sequence[int] = (1, 1, 3), pixel_value: float = 10.0) -> np.ndarray:
    """Bars of different widths that lie side by side and fill the grid (MCA, Figure 8B).

    Parameters
    ----------
    widths : sequence of int, default=(1, 1, 3)
        Width of each bar of one orientation, in order; their sum is the side length of the grid.
    pixel_value : float, default=10.0
        Value of the pixels of a bar; all other pixels are zero.

    Returns
    -------
    ndarray of shape (2 * len(widths), sum(widths) ** 2)
        Horizontal bars from the top, then vertical bars from the left.
    """
    if len(widths) < 1 or min(widths) < 1:
        raise ValueError(
            f"widths must hold at least one width, each at least 1, got {tuple(widths)}. "
            "Give the widths of the bars in pixels, such as (1, 1, 3)."
        )
    return _across(np.repeat(np.eye(len(widths)), widths, axis=1), pixel_value)


def overlapping_bar_components(size: int = 9, width: int = 2, pixel_value: float = 10.0) -> np.ndarray:
    """Bars at every position of the grid, so that neighbours share width − 1 lines of pixels (MCA, Figure 8C).

    Parameters
    ----------
    size : int, default=9
        Side length of the grid.
    width : int, default=2
        Width of every bar.
    pixel_value : float, default=10.0
        Value of the pixels of a bar; all other pixels are zero.

    Returns
    -------
    ndarray of shape (2 * (size - width + 1), size ** 2)
        Horizontal bars from the top, then vertical bars from the left.
    """
    return _across(_segments(size, width, "width"), pixel_value)


def short_bar_components(size: int = 3, length: int = 2, pixel_value: float = 10.0) -> np.ndarray:
    """Bars one pixel wide that do not reach across the grid, at every position of it (MCA, Figure 10A).

    Parameters
    ----------
    size : int, default=3
        Side length of the grid.
    length : int, default=2
        Length of every bar.
    pixel_value : float, default=10.0
        Value of the pixels of a bar; all other pixels are zero.

    Returns
    -------
    ndarray of shape (2 * size * (size - length + 1), size ** 2)
        Horizontal bars, row by row; then vertical bars, by the row they begin in.
    """
    lines, segments = np.eye(max(size, 0)), _segments(size, length, "length")
    return pixel_value * np.vstack([np.kron(lines, segments), np.kron(segments, lines)])


def make_bars(
    n_samples: int = 500,
    size: int = 5,
    *,
    probability: ArrayLike | None = None,
    pixel_value: float = 10.0,
    superposition: Literal["linear", "max"] = "linear",
    noise: float | Literal["poisson"] = 2.0,
    signed: bool = False,
    components: ArrayLike | None = None,
    min_active: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> Bars:
    """Draw data points of a bars test.

        s_h ~ Bernoulli(π_h)
        W̄_d(s) = Σ_h s_h W_dh   (linear)      or      W̄_d(s) = max_h s_h W_dh   (max; 0 where no bar is present)
        y_d ~ N(W̄_d, noise²)    (a number)    or      y_d ~ Poisson(W̄_d)        (noise="poisson")

    Linear bars with Gaussian noise are those of ET, Sections 4.1.1 and 4.3.1; maximal bars with Gaussian noise those of
    ET, Section 4.2.1; maximal bars with Poisson noise or none those of MCA, Section 6.

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
    superposition : {"linear", "max"}, default="linear"
        How bars combine where they cross: their values add, or the largest remains.
    noise : float or "poisson", default=2.0
        Standard deviation of Gaussian pixel noise, where 0 gives noiseless data; or "poisson" for counts.
    signed : bool, default=False
        Make every second bar negative.
    components : array-like of shape (H, D), default=None
        Causes to use instead of the rows and columns of a grid; `size`, `pixel_value` and `signed` are then left out.
    min_active : int, default=0
        Fewest bars of a data point: sparser ones are drawn again (MCA, Section 6.8).
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    Bars
        The data with the components and states behind them.
    """
    if components is None:
        causes = bar_components(size, pixel_value, signed)
    else:
        causes = _given_components(components, size, pixel_value, signed)
    _check_rules(causes, superposition, noise)
    rng = np.random.default_rng(random_state)
    states = draw_states(n_samples, len(causes), probability, rng, min_active)
    mean = states @ causes if superposition == "linear" else _maximum(states, causes)
    if noise == "poisson":
        return Bars(rng.poisson(mean).astype(np.float64), causes, states)
    return Bars(mean + noise * rng.standard_normal(mean.shape), causes, states)


def _across(profiles: np.ndarray, pixel_value: float) -> np.ndarray:
    """Bars across the whole grid from their cross-sections, (B, size) → (2B, size²)."""
    point = np.ones((1, profiles.shape[1]))
    return pixel_value * np.vstack([np.kron(profiles, point), np.kron(point, profiles)])


def _segments(size: int, length: int, name: str) -> np.ndarray:
    """Every run of `length` ones among `size` places, (size − length + 1, size)."""
    if not 1 <= length <= size:
        raise ValueError(
            f"{name} must be from 1 to size={size}, got {length}. Give a {name} that fits the grid, or enlarge size."
        )
    start, place = np.ogrid[: size - length + 1, :size]
    return ((place >= start) & (place < start + length)).astype(np.float64)


def _maximum(states: np.ndarray, components: np.ndarray) -> np.ndarray:
    """max_h s_h W_dh of every data point, cause by cause to keep memory at (N, D)."""
    mean = np.zeros((len(states), components.shape[1]))
    for state, component in zip(states.T, components, strict=True):
        np.maximum(mean, np.outer(state, component), out=mean)
    return mean


def _given_components(components: ArrayLike, size: int, pixel_value: float, signed: bool) -> np.ndarray:
    if (size, pixel_value, signed) != (5, 10.0, False):
        raise ValueError(
            "components brings its own grid, values and signs, but size, pixel_value or signed was given as well: "
            f"got size={size}, pixel_value={pixel_value}, signed={signed}. Leave these out, or leave components out."
        )
    causes = np.array(components, dtype=np.float64)
    if causes.ndim != 2 or causes.size == 0 or not np.isfinite(causes).all():
        raise ValueError(
            f"components must be a non-empty array of shape (H, D) with finite values, got shape {causes.shape}"
            f"{'' if np.isfinite(causes).all() else ' with values that are not finite'}. Give one cause per row."
        )
    return causes


def _check_rules(components: np.ndarray, superposition: str, noise: float | str) -> None:
    """Refuse rules that are not known, or that the components do not allow."""
    if superposition not in {"linear", "max"}:
        raise ValueError(
            f"superposition must be 'linear' or 'max', got {superposition!r}. "
            "Use 'linear' where bars add, 'max' where the largest value remains."
        )
    if noise != "poisson" and (isinstance(noise, str) or not 0.0 <= noise < np.inf):
        raise ValueError(
            f"noise must be a standard deviation ≥ 0, got {noise!r}. "
            "Use noise=0 for noiseless data and noise='poisson' for Poisson noise."
        )
    if components.min() < 0.0 and (superposition == "max" or noise == "poisson"):
        rule = "superposition='max'" if superposition == "max" else "noise='poisson'"
        raise ValueError(
            f"{rule} needs bars with values ≥ 0, but the smallest is {components.min():.3g}. "
            "Use signed=False and a positive pixel_value, or superposition='linear' with a number as noise."
        )
