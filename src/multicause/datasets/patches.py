"""Patches of images, and the picture of grass that maximal causes were first learned from."""

from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from multicause.datasets.registry import locate
from multicause.media import read_image

SEGMENT = 500  # side length of the part of the picture that is used; half of it after scaling down


def image_patches(
    image: ArrayLike,
    size: int = 10,
    n_patches: int = 5000,
    *,
    scale: float | None = None,
    random_state: int | np.random.Generator | None = None,
) -> np.ndarray:
    """Square patches from random positions of an image, each position drawn independently.

    Parameters
    ----------
    image : array-like of shape (height, width)
        Grey values.
    size : int, default=10
        Side length of a patch: D = size² pixels.
    n_patches : int, default=5000
        Number N of patches.
    scale : float, default=None
        Scale the image linearly so that it fills [0, scale] before patches are taken; None keeps its values.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    ndarray of shape (N, D)
        Patches, row by row.
    """
    pixels = _grey(image)
    if not 1 <= size <= min(pixels.shape):
        raise ValueError(
            f"size must be from 1 to {min(pixels.shape)}, the shorter side of the image, got {size}. "
            "Take smaller patches or a larger image."
        )
    if n_patches < 1:
        raise ValueError(f"n_patches must be at least 1, got {n_patches}. Ask for one patch or more.")
    if scale is not None:
        pixels = _fill(pixels, scale)
    rng = np.random.default_rng(random_state)
    rows, columns = (rng.integers(side - size + 1, size=n_patches) for side in pixels.shape)
    return sliding_window_view(pixels, (size, size))[rows, columns].reshape(n_patches, -1)


def load_grass(
    corner: Literal["lower left", "lower right", "upper left", "upper right"] = "lower left",
    scale: float = 10.0,
) -> np.ndarray:
    """Picture of grass, light intensity on a linear scale (MCA, Appendix E.5; ET, Section 4.2.2).

    Reads "van-hateren/tvlearn_grass_imc_u16.png" in the folder that the environment variable MULTICAUSE_DATA names.
    A corner of 500 × 500 pixels is cut out, each 2 × 2 pixels become their mean, and the result is scaled linearly to
    fill [0, scale].

    Parameters
    ----------
    corner : {"lower left", "lower right", "upper left", "upper right"}, default="lower left"
        Where to cut. The papers take the lower left corner of their picture; in this one daisies bloom there, while
        the upper right shows blades of grass, about as bright on average as the papers describe.
    scale : float, default=10.0
        Largest value of the result.

    Returns
    -------
    ndarray of shape (250, 250)
        Grey values from 0 to `scale`.
    """
    corners = {f"{v} {h}": (v, h) for v in ("lower", "upper") for h in ("left", "right")}
    if corner not in corners:
        raise ValueError(f"corner must be one of {list(corners)}, got {corner!r}. Name the part of the picture to cut.")
    vertical, horizontal = corners[corner]
    pixels = read_image(locate("van-hateren/tvlearn_grass_imc_u16.png"))
    rows = slice(SEGMENT) if vertical == "upper" else slice(-SEGMENT, None)
    columns = slice(SEGMENT) if horizontal == "left" else slice(-SEGMENT, None)
    half = SEGMENT // 2
    return _fill(pixels[rows, columns].reshape(half, 2, half, 2).mean(axis=(1, 3)), scale)


def _grey(image: ArrayLike) -> np.ndarray:
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim != 2 or pixels.size == 0 or not np.isfinite(pixels).all():
        raise ValueError(
            f"image must be a non-empty array of shape (height, width) with finite values, got shape {pixels.shape}"
            f"{'' if np.isfinite(pixels).all() else ' with values that are not finite'}. "
            "Give grey values; of a colour image take the mean over the colours first."
        )
    return pixels


def _fill(pixels: np.ndarray, scale: float) -> np.ndarray:
    """Pixels scaled linearly to fill [0, scale]."""
    if not 0.0 < scale < np.inf:
        raise ValueError(f"scale must be above 0 and finite, got {scale}. Give the largest value, such as 10.0.")
    darkest, brightest = pixels.min(), pixels.max()
    if darkest == brightest:
        raise ValueError(
            f"scale={scale} needs an image with at least two grey values, but every pixel is {darkest:.3g}. "
            "Use another image, or scale=None to keep its values."
        )
    return scale * (pixels - darkest) / (brightest - darkest)
