"""How close an image is to the one it should be."""

import importlib

import numpy as np
from numpy.typing import ArrayLike

WINDOW = 7  # side length of the windows that scikit-image compares by default


def psnr(image: ArrayLike, reference: ArrayLike, *, peak: float = 255.0) -> float:
    """Peak signal-to-noise ratio in decibels.

        PSNR = 10 log10(peak² / mean (image − reference)²)

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, colours)
        The image to judge, such as a denoised one.
    reference : array-like of the shape of `image`
        The image it should be.
    peak : float, default=255.0
        Largest possible value: 255 for 8-bit images, 1.0 for images that fill [0, 1].

    Returns
    -------
    float
        The ratio in dB; infinity where the images are equal.
    """
    x, y = _two_images(image, reference, peak)
    error = float(np.mean((x - y) ** 2))
    return float(20.0 * np.log10(peak) - 10.0 * np.log10(error)) if error > 0.0 else float("inf")


def ssim(image: ArrayLike, reference: ArrayLike, *, peak: float = 255.0) -> float:
    """Structural similarity, as scikit-image measures it: means, variances and covariance in windows of 7 × 7 pixels.

    Needs ``pip install "multicause[image]"``.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, colours)
        The image to judge, such as a denoised one.
    reference : array-like of the shape of `image`
        The image it should be.
    peak : float, default=255.0
        Largest possible value: 255 for 8-bit images, 1.0 for images that fill [0, 1].

    Returns
    -------
    float
        Mean over all windows and colours, at most 1; 1 where the images are equal.
    """
    x, y = _two_images(image, reference, peak)
    if min(x.shape[:2]) < WINDOW:
        raise ValueError(
            f"image must be at least {WINDOW} × {WINDOW} pixels for ssim, got {x.shape[0]} × {x.shape[1]}. "
            "Compare images as small as that by psnr."
        )
    try:
        measures = importlib.import_module("skimage.metrics")
    except ImportError as error:
        raise ImportError(
            'ssim needs scikit-image, which is not installed here: pip install "multicause[image]"'
        ) from error
    return float(measures.structural_similarity(x, y, data_range=peak, channel_axis=2 if x.ndim == 3 else None))


def _two_images(image: ArrayLike, reference: ArrayLike, peak: float) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(image, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if x.shape != y.shape or x.ndim not in (2, 3) or x.size == 0:
        raise ValueError(
            "image and reference must both have one shape (height, width) or (height, width, colours), "
            f"got {x.shape} and {y.shape}. Crop or convert one of them."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("image and reference must be finite, but hold NaN or infinity. Fill missing pixels in first.")
    if not 0.0 < peak < np.inf:
        raise ValueError(f"peak must be above 0 and finite, got {peak}. Use 255 for 8-bit images.")
    return x, y
