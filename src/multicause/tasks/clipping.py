"""Where a picture's values are clipped: noise cannot be measured there, since what went beyond the range is lost.

What is clipped piles up at an end of the range, many times as many pixels as at the next values. Where the range ends
is seen from the data: raw files and floating-point pictures have ends of their own.
"""

import numpy as np
from scipy.ndimage import uniform_filter

_FEWEST, _LEAST_SHARE = 16, 1e-3  # pixels in a pile, and their share of the picture: fewer do not matter
_NEXT_VALUES, _TIMES_AS_MANY = 3, 2.0
_SURROUNDINGS = 16  # side length, in pixels
_TOLERATED = (0.01, 0.02, 0.05, 0.1)  # shares of clipped pixels: of 0.01, normal noise loses 1 % of its deviation
_ENOUGH_PATCHES, _ENOUGH = 600, 0.02  # their number, and their share of all


def clipped_share(pixels: np.ndarray) -> np.ndarray | None:
    """The share of its colours that each pixel (height, width, colours) has clipped; None where nothing is clipped."""
    share = np.zeros(pixels.shape[:2])
    for colour in np.moveaxis(pixels, 2, 0):
        for end in (colour.min(), colour.max()):
            if is_pile(colour, end):
                share += (colour == end) / pixels.shape[2]
    return share if share.any() else None


def is_pile(values: np.ndarray, end: float) -> bool:
    """Whether far more values are at this end of their range than at the values next to it."""
    n_there = np.count_nonzero(values == end)
    if n_there < max(_FEWEST, _LEAST_SHARE * values.size):
        return False
    _, counts = np.unique(np.abs(values - end), return_counts=True)
    return bool(n_there > _TIMES_AS_MANY * counts[1 : 1 + _NEXT_VALUES].max(initial=0))


def unclipped_patches(shape: tuple[int, ...], size: int, clipped: np.ndarray | None) -> np.ndarray:
    """The positions, counted row by row, of the patches with the fewest clipped pixels about them; or of all.

    The surroundings decide, not the patch alone: patches that happen to hold no clipped pixel have too little noise.
    Where nearly everything is clipped, all patches remain: the edges of letters on white paper are no noise.
    """
    n_rows, n_columns = shape[0] - size + 1, shape[1] - size + 1
    positions = np.arange(n_rows * n_columns)
    if clipped is None:
        return positions
    middle, half = uniform_filter(clipped, _SURROUNDINGS), size // 2
    share = middle[half : half + n_rows, half : half + n_columns].ravel()
    for tolerated in _TOLERATED:
        some = positions[share <= tolerated]
        if len(some) >= max(_ENOUGH_PATCHES, _ENOUGH * len(positions)):
            return some
    return positions
