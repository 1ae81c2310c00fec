"""Images without their noise."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multicause.backends import cuda
from multicause.execution.in_process import single_threaded_blas
from multicause.short_repr import short_repr
from multicause.tasks import mixture_denoising
from multicause.tasks.arguments import check_whole, is_number
from multicause.tasks.camera_noise import DenoisedCounts, check_camera, denoise_counts
from multicause.tasks.devices import task_device
from multicause.tasks.images import PatchModel, as_image, check_known_pixels, check_patch_size, check_value_range, like
from multicause.tasks.patches import Merge, Patches, with_progress

MODELS = ("auto", "mixture", "gsc")
GSC_SETTINGS = {"max_iter": 40, "tol": 0.0}
GSC_PATCH_SIZE = 8
GSC_MAX_PATCHES = 100_000
GREEDY = {"selection": "greedy"}  # where there are candidates to select


class DenoisedImage(NamedTuple):
    """What `denoise_image` returns.

    Attributes
    ----------
    image : ndarray of the shape and type of the noisy image
        The image without its noise.
    noise_level : float
        Standard deviation of the noise: as given, as estimated, or, by model="gsc", as learned.
    estimator : TruncatedGaussianMixture or GSC
        The fitted model of the patches; of the brightness where there are colours. None where there is no noise.
    uncertainty : ndarray of the shape of the image, or None
        Posterior standard deviation of each pixel, in the units of the image; None by model="gsc".
    """

    image: np.ndarray
    noise_level: float
    estimator: Any
    uncertainty: np.ndarray | None = None

    def __repr__(self) -> str:
        return short_repr(self)


def denoise_image(
    image: ArrayLike,
    *,
    model: Literal["auto", "mixture", "gsc"] = "auto",
    noise: Literal["gaussian", "poisson", "poisson-gaussian"] = "gaussian",
    noise_level: float | None = None,
    gain: float | None = None,
    offset: float | None = None,
    patch_size: int | None = None,
    n_components: int | None = None,
    max_patches: int | None = None,
    value_range: tuple[float, float] | None = None,
    random_state=None,
    verbose: int = 0,
    n_jobs: int | None = None,
    device: Literal["cpu", "cuda", "auto"] = "cpu",
    **settings: Any,
) -> DenoisedImage | DenoisedCounts:
    """Remove the noise from an image, with a model learned from the noisy image itself.

    By default there are two passes. A mixture of probabilistic PCAs (Houdard, Bouveyron, Delon 2018) of all overlapping
    patches gives a first result. In this, neighbouring patches that look alike are grouped; the mean and covariance of
    each group denoise the noisy patches at the same positions (Lebrun, Buades, Morel 2013). Each pixel is a weighted
    mean over all patches that cover it,

        x̂ = Σ_n w_n ⟨x⟩_n / Σ_n w_n,   w_n = 1 / (posterior variance + 0.01 σ²)

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        Shades of grey or colours, integers or floating-point numbers of any range.
    model : {"auto", "mixture", "gsc"}, default="auto"
        Model of the patches. "auto" is the mixture, which is faster and better. "gsc" is spike-and-slab sparse coding,
        which also learns the noise level (GSC, Section 5.5).
    noise : {"gaussian", "poisson", "poisson-gaussian"}, default="gaussian"
        Kind of noise: of equal strength everywhere; that of photon counts; or both, as in cameras. The variance of
        counts is stabilised by the generalised Anscombe transform, and its exact unbiased inverse transforms back.
    noise_level : float or None, default=None
        Standard deviation of the noise; of the read noise if noise="poisson-gaussian". None estimates it from the
        smoothest patches.
    gain : float or None, default=None
        Grey values per photon, for counts. None estimates it from the image.
    offset : float or None, default=None
        Grey value without light, for counts. None estimates it from the image.
    patch_size : int or None, default=None
        Side length of a patch. None is 8.
    n_components : int or None, default=None
        Number of clusters, or of components with model="gsc". None is 100 to 200, depending on the size of the image,
        or 256 with model="gsc"; fewer for a small image.
    max_patches : int or None, default=None
        Largest number of patches that the model learns from, drawn at random; it bounds time and memory. All patches
        are denoised. None is 250 000, or 100 000 with model="gsc".
    value_range : tuple of two floats or None, default=None
        Range that the result is clipped to. None is the range of the type for integers, and does not clip
        floating-point numbers.
    random_state : int, RandomState instance or None, default=None
        Seed of the model's start and of the choice of patches.
    verbose : int, default=0
        1 shows progress on a terminal.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: on the CPU, or on an NVIDIA GPU through CuPy; "auto" uses a GPU if there is one and the image
        is large.
    **settings : dict
        Further constructor arguments of `TruncatedGaussianMixture`, such as `max_iter` and `n_candidates`. With
        model="gsc" those of `GSC`, and also `subtract_mean` (True: subtract the mean of each colour from each patch,
        and add it back in the end), `weights` ("uniform", or "sparsity": favour patches with few active latents in the
        mean), and `n_passes` (2: subtract the means of the previous pass in the second one).

    Returns
    -------
    DenoisedImage or DenoisedCounts
        The image, the noise level, the fitted model, and the uncertainty of each pixel; for counts, also the `camera`.
    """
    check_camera(noise, gain, offset, None)
    if noise != "gaussian":

        def gaussian(stabilised: np.ndarray, noise_level: float | None) -> Any:
            return denoise_image(
                stabilised, model=model, noise_level=None if model == "gsc" else noise_level, patch_size=patch_size,
                n_components=n_components, max_patches=max_patches, random_state=random_state, verbose=verbose,
                n_jobs=n_jobs, device=device, **settings,
            )  # fmt: skip

        if noise == "poisson" and noise_level is not None:
            raise ValueError("noise_level is not for noise='poisson', whose level follows from gain and brightness.")
        return denoise_counts(
            image, gaussian, noise=noise, gain=gain, offset=offset, read_noise=noise_level, value_range=value_range
        )
    if model not in MODELS:
        raise ValueError(f"model must be 'auto', 'mixture' or 'gsc', got {model!r}. Start with 'auto'.")
    settings["device"] = task_device(device)
    pixels = as_image(image)
    default_size = GSC_PATCH_SIZE if model == "gsc" else mixture_denoising.PATCH_SIZE
    check_patch_size(pixels, default_size if patch_size is None else patch_size)
    check_value_range(value_range)
    check_known_pixels(pixels)
    _check_noise_level(noise_level, model)
    if max_patches is not None:
        check_whole("max_patches", max_patches, 2, "A hundred thousand serve most images.")
    if n_components is not None:
        check_whole("n_components", n_components, 1, "Leave it out to have it chosen.")
    if model == "gsc":
        shared = {"n_components": n_components, "verbose": verbose, "n_jobs": n_jobs, **settings}
        clean, level, estimator = _by_gsc(
            pixels, patch_size or GSC_PATCH_SIZE, max_patches or GSC_MAX_PATCHES, random_state, **shared
        )
        return DenoisedImage(like(image, clean, value_range), level, estimator)
    with single_threaded_blas, cuda.errors_translated():  # threads are over patches
        cleaned = mixture_denoising.clean(
            pixels, noise_level, patch_size, n_components, max_patches, random_state, verbose, n_jobs, settings
        )
    uncertainty = cleaned.uncertainty.reshape(np.shape(image))
    return DenoisedImage(like(image, cleaned.pixels, value_range), cleaned.noise_level, cleaned.estimator, uncertainty)


def _check_noise_level(noise_level: float | None, model: str) -> None:
    if noise_level is None:
        return
    if model == "gsc":
        raise ValueError("noise_level is not for model='gsc', which learns it. Use model='mixture', or leave it out.")
    if not (is_number(noise_level) and noise_level >= 0.0):
        raise ValueError(
            f"noise_level must be a standard deviation, 0 or more and finite, got {noise_level!r}. None estimates it."
        )


def _by_gsc(
    pixels: np.ndarray,
    patch_size: int,
    max_patches: int,
    random_state: Any,
    subtract_mean: bool = True,
    weights: Literal["uniform", "sparsity"] = "uniform",
    n_passes: int = 2,
    **settings: Any,
) -> tuple[np.ndarray, float, Any]:
    """Pixels without noise, the noise level, and the model, by spike-and-slab sparse coding."""
    if weights not in ("uniform", "sparsity"):
        raise ValueError(f"weights must be 'uniform' or 'sparsity', got {weights!r}. Start with 'uniform'.")
    if n_passes < 1:
        raise ValueError(f"n_passes must be at least 1, got {n_passes}. Two serve most images.")
    patches = Patches(pixels, patch_size)
    model = PatchModel(pixels.shape[2], subtract_mean)
    selection = GREEDY if settings.get("posterior", "truncated") == "truncated" else {}
    settings = {**GSC_SETTINGS, **selection, **settings}
    model.fit(patches, np.arange(len(patches)), max_patches, random_state, **settings)
    verbose = settings["verbose"]
    clean = _merged(model, pixels, None, patch_size, weights, verbose)
    for _ in range(n_passes - 1 if subtract_mean else 0):
        clean = _merged(model, pixels, clean, patch_size, weights, verbose)
    return clean, model.noise_level(), model.estimator


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
