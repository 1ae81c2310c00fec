"""Images without their noise."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multicause.tasks.camera_noise import DenoisedCounts, check_camera, denoise_counts
from multicause.tasks.images import PatchModel, as_image, check_known_pixels, check_patch_size, check_value_range, like
from multicause.tasks.patches import Merge, Patches, with_progress

SETTINGS = {"max_iter": 40, "tol": 0.0}
GREEDY = {"selection": "greedy"}  # where there are candidates to select


class DenoisedImage(NamedTuple):
    """What `denoise_image` returns.

    Attributes
    ----------
    image : ndarray of the shape and type of the noisy image
        The image without its noise.
    noise_level : float
        Standard deviation of the noise, as it was learned.
    estimator : GSC
        The fitted model of the patches.
    """

    image: np.ndarray
    noise_level: float
    estimator: Any


def denoise_image(
    image: ArrayLike,
    *,
    noise: Literal["gaussian", "poisson", "poisson-gaussian"] = "gaussian",
    gain: float | None = None,
    offset: float | None = None,
    patch_size: int = 8,
    n_components: int | None = None,
    subtract_mean: bool = True,
    weights: Literal["uniform", "sparsity"] = "uniform",
    n_passes: int = 2,
    max_patches: int = 100_000,
    value_range: tuple[float, float] | None = None,
    random_state=None,
    verbose: int = 0,
    **settings: Any,
) -> DenoisedImage | DenoisedCounts:
    """Take noise of unknown level out of an image (GSC, Section 5.5).

    Spike-and-slab sparse coding learns from the noisy image itself what its patches are made of, and how strong the
    noise is. Each pixel of the result is the mean, over all overlapping patches that cover it, of the posterior mean:

        x̂ = Σ_n w_n ⟨W(s⊙z)⟩_n / Σ_n w_n

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        Shades of grey or colours, integers or floating-point numbers of any range.
    noise : {"gaussian", "poisson", "poisson-gaussian"}, default="gaussian"
        Kind of noise: equally strong everywhere, or of photons that were counted, or both, as cameras have it. Counts
        are stabilised by the generalised Anscombe transform, denoised, and led back by its exact unbiased inverse.
    gain : float or None, default=None
        Grey values per photon, for noise of photons. None estimates it from the image.
    offset : float or None, default=None
        Grey value where there is no light, for noise of photons. None estimates it from the image.
    patch_size : int, default=8
        Side length of a patch.
    n_components : int or None, default=None
        Number of components that patches are made of. None takes 256, fewer for an image of fewer than 1024 patches.
    subtract_mean : bool, default=True
        Take the mean of each colour off each patch before the model sees it, and put it back in the end.
    weights : {"uniform", "sparsity"}, default="uniform"
        Weights w_n of the merge: all alike, or 1 / (1 + the expected number of active latents).
    n_passes : int, default=2
        How often the image is merged. The means that are taken off are noisy in the first pass; in the next, they are
        the means of the previous result. Without `subtract_mean` one pass is all.
    max_patches : int, default=100_000
        Most patches that the model learns from, drawn at random; it bounds time and memory. All are denoised.
    value_range : tuple of two floats or None, default=None
        Range that the result is clipped to. None takes the type's range for integers, and does not clip floating-point
        numbers.
    random_state : int, RandomState instance or None, default=None
        Seed of the model's start and of the choice of patches.
    verbose : int, default=0
        1 shows progress on a terminal.
    **settings : dict
        Further constructor arguments of `GSC`, such as `n_candidates`, `max_active`, `max_iter`, `n_jobs`. Candidates
        are selected greedily; `selection="model-based"` judges each latent by itself, as the paper does.

    Returns
    -------
    DenoisedImage or DenoisedCounts
        The image, the learned noise level, and the fitted model; for noise of photons, also the `camera`.
    """
    check_camera(noise, gain, offset, None)
    if noise != "gaussian":

        def gaussian(stabilised: np.ndarray, _: float | None) -> Any:
            return denoise_image(
                stabilised, patch_size=patch_size, n_components=n_components, subtract_mean=subtract_mean,
                weights=weights, n_passes=n_passes, max_patches=max_patches, random_state=random_state,
                verbose=verbose, **settings,
            )  # fmt: skip

        return denoise_counts(image, gaussian, noise=noise, gain=gain, offset=offset, value_range=value_range)
    if weights not in ("uniform", "sparsity"):
        raise ValueError(f"weights must be 'uniform' or 'sparsity', got {weights!r}. Start with 'uniform'.")
    if n_passes < 1:
        raise ValueError(f"n_passes must be at least 1, got {n_passes}. Two serve most images.")
    pixels = as_image(image)
    check_patch_size(pixels, patch_size)
    check_value_range(value_range)
    check_known_pixels(pixels)
    patches = Patches(pixels, patch_size)
    model = PatchModel(pixels.shape[2], subtract_mean)
    selection = GREEDY if settings.get("posterior", "truncated") == "truncated" else {}
    settings = {**SETTINGS, **selection, "n_components": n_components, "verbose": verbose, **settings}
    model.fit(patches, np.arange(len(patches)), max_patches, random_state, **settings)
    clean = _merged(model, pixels, None, patch_size, weights, verbose)
    for _ in range(n_passes - 1 if subtract_mean else 0):
        clean = _merged(model, pixels, clean, patch_size, weights, verbose)
    return DenoisedImage(like(image, clean, value_range), model.noise_level(), model.estimator)


def _merged(
    model: PatchModel, pixels: np.ndarray, guess: np.ndarray | None, patch_size: int, weights: str, verbose: int
) -> np.ndarray:
    """The image merged from denoised patches, whose means are taken from the guess, where there is one."""
    noisy = Patches(pixels, patch_size)
    guessed = None if guess is None else Patches(guess, patch_size)
    merge = Merge(pixels.shape, patch_size)
    for rows in with_progress(noisy.bands(), "Denoising", verbose):
        patches = noisy.band(rows), None if guessed is None else guessed.band(rows)
        sparsity = 1.0 / (1.0 + model.n_active(*patches)) if weights == "sparsity" else np.ones(len(patches[0]))
        merge.add(rows, model.reconstruct(*patches), sparsity)
    return merge.mean()
