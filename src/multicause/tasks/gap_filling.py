"""Gaps of an image: a first guess of what is in them, and which patches know enough to fill them or to learn from."""

import numpy as np
from scipy.interpolate import LinearNDInterpolator
from scipy.ndimage import gaussian_filter, maximum_filter

from multicause.tasks.patches import Patches

ENOUGH = 0.2  # share of a Gaussian that must fall on known pixels, relative to the share of known pixels in the image
MOST_CORNERS = 500_000  # of triangles between known pixels; more take too much time and memory
NEAR_ENOUGH = 0.5  # share of a patch that must be known, relative to the best one, for it to fill a pixel
IN_WIDE_GAPS = 0.8  # the same, where the best patch is almost whole: gaps lie apart, and are filled from their rims
ALMOST_WHOLE = 0.85


def interpolated(pixels: np.ndarray) -> np.ndarray:
    """A first guess: missing pixels are interpolated between known ones, or blurred where those lie to one side."""
    guess, known = _blurred(pixels), np.isfinite(pixels[..., 0])
    rim = np.argwhere(known & maximum_filter(~known, 3))
    if len(rim) < MOST_CORNERS and np.linalg.matrix_rank(rim - rim[0]) == 2:
        between = LinearNDInterpolator(rim, pixels[tuple(rim.T)])(np.argwhere(~known))
        guess[~known] = np.where(np.isfinite(between), between, guess[~known])
    return guess


def _blurred(pixels: np.ndarray) -> np.ndarray:
    """Missing pixels are means of known ones nearby, weighted by a Gaussian as narrow as possible."""
    guess = pixels.copy()
    known = np.isfinite(pixels[..., 0])
    missing, spread = ~known, 1.0
    while missing.any():
        weight = gaussian_filter(known.astype(np.float64), spread)
        total = gaussian_filter(np.where(known[..., None], pixels, 0.0), (spread, spread, 0.0))
        near = missing & (weight > ENOUGH * known.mean())
        guess[near] = total[near] / weight[near, None]
        missing &= ~near
        spread *= 2.0
    return guess


def near_enough(missing: np.ndarray, patch_size: int) -> np.ndarray:
    """Pixels that a patch covers of which much is known, compared to the best patch with a gap."""
    shares = _known_shares(missing, patch_size)
    corners = np.zeros(missing.shape)
    corners[: 1 - patch_size, : 1 - patch_size] = shares.reshape(np.array(missing.shape) + 1 - patch_size)
    best = maximum_filter(corners, patch_size, mode="constant", origin=(patch_size - 1) // 2)
    highest = best[missing].max()
    return best >= (IN_WIDE_GAPS if highest > ALMOST_WHOLE else NEAR_ENOUGH) * highest


def well_known(missing: np.ndarray, patch_size: int) -> np.ndarray:
    """Positions of the patches with at least as many known pixels as the average patch."""
    shares = _known_shares(missing, patch_size)
    return np.flatnonzero(shares >= shares.mean())


def _known_shares(missing: np.ndarray, patch_size: int) -> np.ndarray:
    """The share of known pixels of each patch."""
    known = Patches(~missing[..., None], patch_size)
    return np.concatenate([known.band(rows).mean(axis=1) for rows in known.bands()])
