"""Images without their gaps."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter

from multicause.tasks.images import PatchModel, as_image, check_known_pixels, check_patch_size, check_value_range, like
from multicause.tasks.patches import Merge, Patches, with_progress

SETTINGS = {"max_iter": 30, "tol": 0.0}
ENOUGH = 0.2  # share of a Gaussian that must fall on known pixels, relative to the share of known pixels in the image


class InpaintedImage(NamedTuple):
    """What `inpaint_image` returns.

    Attributes
    ----------
    image : ndarray of the shape and type of the image with gaps
        The image without gaps; pixels that were known are as they were.
    estimator : GSC
        The fitted model of the patches.
    """

    image: np.ndarray
    estimator: Any


def inpaint_image(
    image: ArrayLike,
    mask: ArrayLike,
    *,
    patch_size: int = 8,
    n_components: int | None = None,
    subtract_mean: bool = True,
    n_passes: int = 2,
    max_patches: int = 100_000,
    value_range: tuple[float, float] | None = None,
    random_state=None,
    verbose: int = 0,
    **settings: Any,
) -> InpaintedImage:
    """Fill the gaps of an image.

    Spike-and-slab sparse coding learns what the image's patches are made of, half of the iterations from an image with
    interpolated gaps, half from known pixels only: what is missing of a patch does not count. Each missing pixel
    becomes the mean of the posterior means of the patches that cover it, weighted by how much is known of them. A gap
    that is wider than patches reach is filled from its rim inwards.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        Shades of grey or colours, integers or floating-point numbers of any range. Missing pixels may hold anything.
    mask : array-like of bool of shape (height, width)
        True where a pixel is missing.
    patch_size : int, default=8
        Side length of a patch.
    n_components : int or None, default=None
        Number of components that patches are made of. None takes 256, fewer for an image of fewer than 1024 patches.
    subtract_mean : bool, default=True
        Take the mean of each colour off each patch before the model sees it, and put it back in the end.
    n_passes : int, default=2
        How often the gaps are filled. The means that are taken off come from a blurred image in the first pass; in
        the next, from the previous result. Without `subtract_mean` one pass is all.
    max_patches : int, default=100_000
        Most patches that the model learns from, drawn at random; it bounds time and memory.
    value_range : tuple of two floats or None, default=None
        Range that filled pixels are clipped to. None takes the type's range for integers, and does not clip
        floating-point numbers.
    random_state : int, RandomState instance or None, default=None
        Seed of the model's start and of the choice of patches.
    verbose : int, default=0
        1 shows progress on a terminal.
    **settings : dict
        Further constructor arguments of `GSC`, such as `n_candidates`, `max_active`, `max_iter`, `n_jobs`.

    Returns
    -------
    InpaintedImage
        The image, and the fitted model.
    """
    if n_passes < 1:
        raise ValueError(f"n_passes must be at least 1, got {n_passes}. Two serve most images.")
    pixels = as_image(image)
    check_patch_size(pixels, patch_size)
    check_value_range(value_range)
    missing = _check_mask(mask, pixels.shape[:2])
    check_known_pixels(pixels[~missing])
    pixels[missing] = np.nan
    whole = _interpolated(pixels)
    model = PatchModel(pixels.shape[2], subtract_mean)
    settings = {**SETTINGS, "n_components": n_components, "verbose": verbose, **settings}
    patches, guess = Patches(pixels, patch_size), Patches(whole, patch_size)
    model.fit(patches, _well_known(missing, patch_size), max_patches, random_state, guess, **settings)
    for _ in range(n_passes if subtract_mean else 1):
        whole = _filled(model, pixels, whole, patch_size, verbose)
    result = like(image, whole, value_range)
    result[~missing] = np.asarray(image)[~missing]
    return InpaintedImage(result, model.estimator)


def _filled(model: PatchModel, pixels: np.ndarray, guess: np.ndarray, patch_size: int, verbose: int) -> np.ndarray:
    """The image without gaps: where no patch reaches from known pixels, from those that were filled in before."""
    pixels, guess = pixels.copy(), guess.copy()
    missing = np.isnan(pixels[..., 0])
    while missing.any():
        merge = _merged(model, pixels, guess, patch_size, verbose)
        reached = missing & merge.covered
        pixels[reached] = guess[reached] = merge.mean()[reached]
        missing &= ~reached
    return pixels


def _merged(model: PatchModel, pixels: np.ndarray, guess: np.ndarray, patch_size: int, verbose: int) -> Merge:
    """All patches that are partly known and partly missing, weighted by how much is known."""
    patches, guessed = Patches(pixels, patch_size), Patches(guess, patch_size)
    merge = Merge(pixels.shape, patch_size)
    for rows in with_progress(patches.bands(), "Inpainting", verbose):
        X = patches.band(rows)
        share = np.isfinite(X).mean(axis=1)
        gaps = (share > 0.0) & (share < 1.0)
        X[~gaps] = 0.0
        if gaps.any():
            X[gaps] = model.reconstruct(X[gaps], guessed.band(rows)[gaps])
        merge.add(rows, X, np.where(gaps, share**2, 0.0))
    return merge


def _interpolated(pixels: np.ndarray) -> np.ndarray:
    """A first guess: missing pixels are means of known ones nearby, weighted by a Gaussian as narrow as possible."""
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


def _well_known(missing: np.ndarray, patch_size: int) -> np.ndarray:
    """Positions of the patches with at least as many known pixels as the average patch."""
    known = Patches(~missing[..., None], patch_size)
    shares = np.concatenate([known.band(rows).mean(axis=1) for rows in known.bands()])
    return np.flatnonzero(shares >= shares.mean())


def _check_mask(mask: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
    missing = np.array(mask)
    if missing.shape != shape or missing.dtype != bool:
        raise ValueError(
            f"mask must be an array of bool of shape {shape}, as high and as wide as image, got {missing.dtype} of "
            f"shape {missing.shape}. Make it with a comparison, such as mask = image == 0."
        )
    if missing.all():
        raise ValueError("mask must leave some pixels known, but is True everywhere. Is it inverted? Give ~mask.")
    if not missing.any():
        raise ValueError("mask must mark missing pixels, but is False everywhere: there is nothing to fill in.")
    return missing
