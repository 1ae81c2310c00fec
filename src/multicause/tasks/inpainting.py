"""Images without their gaps."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multicause.tasks.images import PatchModel, as_image, check_known_pixels, check_patch_size, check_value_range, like
from multicause.tasks.patches import Merge, Patches, with_progress

SETTINGS = {"max_iter": 40, "tol": 0.0}


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
    max_patches: int = 100_000,
    value_range: tuple[float, float] | None = None,
    random_state=None,
    verbose: int = 0,
    **settings: Any,
) -> InpaintedImage:
    """Fill the gaps of an image.

    Spike-and-slab sparse coding learns from what is known of the image's patches what they are made of; what is missing
    of a patch does not count. Each missing pixel becomes the mean of the posterior means of the patches that cover it,
    weighted by how much is known of them. A gap that is wider than patches reach is filled from its rim inwards.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        Shades of grey or colours, integers or floating-point numbers of any range. Missing pixels may hold anything.
    mask : array-like of bool of shape (height, width)
        True where a pixel is missing.
    patch_size : int, default=8
        Side length of a patch.
    n_components : int or None, default=None
        Number of causes that patches are made of. None takes 256, fewer for an image of less than 1024 patches.
    subtract_mean : bool, default=True
        Take the mean of each colour off each patch before the model sees it, and put it back in the end.
    max_patches : int, default=100_000
        Most patches that the model learns from, drawn at random; it bounds time and memory.
    value_range : tuple of two floats or None, default=None
        Range that filled pixels are clipped to. None takes that of the type for integers, and does not clip
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
    pixels = as_image(image)
    check_patch_size(pixels, patch_size)
    check_value_range(value_range)
    missing = _check_mask(mask, pixels.shape[:2])
    check_known_pixels(pixels[~missing])
    pixels[missing] = np.nan
    model = PatchModel(pixels.shape[2], subtract_mean)
    settings = {**SETTINGS, "n_components": n_components, "verbose": verbose, **settings}
    patches = Patches(pixels, patch_size)
    model.fit(patches, _well_known(missing, patch_size), max_patches, random_state, **settings)
    while missing.any():
        filled, covered = _fill(model, pixels, patch_size, verbose)
        pixels[missing & covered] = filled[missing & covered]
        missing &= ~covered
    result = like(image, pixels, value_range)
    known = ~np.asarray(mask, dtype=bool)
    result[known] = np.asarray(image)[known]
    return InpaintedImage(result, model.estimator)


def _fill(model: PatchModel, pixels: np.ndarray, patch_size: int, verbose: int) -> tuple[np.ndarray, np.ndarray]:
    """The merge of all patches of which something is known and something missing, and where they lie."""
    patches = Patches(pixels, patch_size)
    merge = Merge(pixels.shape, patch_size)
    for rows in with_progress(patches.bands(), "Inpainting", verbose):
        X = patches.band(rows)
        share = np.isfinite(X).mean(axis=1)
        gaps = (share > 0.0) & (share < 1.0)
        X[gaps] = model.reconstruct(X[gaps]) if gaps.any() else 0.0
        X[~gaps] = 0.0
        merge.add(rows, X, np.where(gaps, share**2, 0.0))
    return merge.mean(), merge.covered


def _well_known(missing: np.ndarray, patch_size: int) -> np.ndarray:
    """Positions of the patches of which at least as much is known as of the average patch."""
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
