"""Fill the gaps of an image."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from multicause.backends import cuda
from multicause.posteriors.device_steps.base import LANES
from multicause.short_repr import short_repr
from multicause.tasks.arguments import check_whole, is_number
from multicause.tasks.devices import is_on_gpu, task_device
from multicause.tasks.gap_filling import interpolated, near_enough, well_known
from multicause.tasks.gap_noise import noise_level_of_known
from multicause.tasks.images import (
    PatchModel,
    as_image,
    check_known_pixels,
    check_patch_size,
    check_value_range,
    like,
    unit_of,
)
from multicause.tasks.incomplete_mixture import IncompleteMixture
from multicause.tasks.patches import Patches, some_of, with_progress
from multicause.tasks.weighted_merge import WeightedMerge

SETTINGS = {"max_iter": 30, "tol": 0.0, "selection": "greedy"}  # of spike-and-slab sparse coding
MIXTURE_SETTINGS = {"max_iter": 12, "n_candidates": 3, "n_jobs": None}
MIXTURE_PATCHES, GSC_PATCHES = 20_000, 100_000  # most that are learned from
MOST_CLUSTERS = 60
LEAST_COLOUR = 1e-9  # standard deviation, relative to that of the image, of an axis of colours that is worth a model
PATCH_SIZE, LARGE_PATCH, MUCH_MISSING = 8, 10, 0.65  # patches are larger where more than such a share is missing

Reconstruct = Callable[[Any, Any], tuple[Any, Any]]


class InpaintedImage(NamedTuple):
    """What `inpaint_image` returns.

    Attributes
    ----------
    image : ndarray of the shape and type of the image with gaps
        The image without gaps; known pixels are unchanged, unless keep_known=False.
    estimator : object
        The fitted model of the patches: `GSC`, or an `IncompleteMixture` per colour.
    noise_level : float
        Standard deviation of the noise on known pixels, learned or given.
    uncertainty : ndarray of the shape of the image, or None
        Posterior standard deviation of filled pixels, 0 for pixels that are kept; only with the mixture.
    """

    image: np.ndarray
    estimator: Any
    noise_level: float
    uncertainty: np.ndarray | None

    def __repr__(self) -> str:
        return short_repr(self)


def inpaint_image(
    image: ArrayLike,
    mask: ArrayLike,
    *,
    model: Literal["auto", "mixture", "gsc"] = "auto",
    patch_size: int | None = None,
    n_components: int | None = None,
    subtract_mean: bool | None = None,
    n_passes: int = 2,
    keep_known: bool = True,
    noise_level: float | None = None,
    max_patches: int | None = None,
    value_range: tuple[float, float] | None = None,
    random_state=None,
    verbose: int = 0,
    device: Literal["cpu", "cuda", "auto"] = "cpu",
    **settings: Any,
) -> InpaintedImage:
    """Fill the gaps of an image.

    A mixture of Gaussians, or spike-and-slab sparse coding, learns a model of the image's patches from known pixels
    only. Each missing pixel becomes the mean of the posterior means of the patches that cover it, weighted by their
    precision. A gap wider than a patch is filled from its edges inwards.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        Shades of grey or colours, integers or floating-point numbers of any range. Missing pixels may hold anything.
    mask : array-like of bool of shape (height, width)
        True where a pixel is missing.
    model : {"auto", "mixture", "gsc"}, default="auto"
        Model of the patches: a mixture of Gaussians, or sparse coding (`GSC`). "auto" is the mixture, which was better
        and faster on most images, unless arguments that only `GSC` has are given.
    patch_size : int or None, default=None
        Side length of a patch. None is 8, or 10 for the mixture if more than 65 % of the pixels are missing.
    n_components : int or None, default=None
        Number of Gaussians, or of components of `GSC`. None is up to 60 Gaussians or up to 256 components, fewer for
        small images.
    subtract_mean : bool or None, default=None
        Subtract the mean of each colour from each patch before the model sees it, and add it back in the end. None does
        so for `GSC` only: Gaussians have their own means.
    n_passes : int, default=2
        Number of times the gaps are filled. The subtracted means, and the first guess of missing pixels, come from
        interpolation in the first pass, and from the previous result in later ones.
    keep_known : bool, default=True
        Leave known pixels unchanged. False denoises them as well.
    noise_level : float or None, default=None
        Standard deviation of the noise on known pixels, for the mixture. None learns it.
    max_patches : int or None, default=None
        Largest number of patches that the model learns from, drawn at random; it bounds time and memory. None is 20,000
        for the mixture, and 100,000 for `GSC`.
    value_range : tuple of two floats or None, default=None
        Range that filled pixels are clipped to. None is the range of the type for integers, and does not clip
        floating-point numbers.
    random_state : int, RandomState instance or None, default=None
        Seed of the model's start and of the choice of patches.
    verbose : int, default=0
        1 shows progress on a terminal.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute. "auto" uses an NVIDIA GPU for a large image if there is one; `GSC` always runs on the CPU,
        since it has no GPU kernel for data with gaps.
    **settings : dict
        `max_iter`, `n_candidates` and `n_jobs`; further constructor arguments of `GSC`, such as `max_active`.

    Returns
    -------
    InpaintedImage
        The image, the fitted model, the noise level, and the uncertainty of filled pixels.
    """
    by_gsc = _takes_gsc(model, noise_level, settings)
    if task_device(device) == "cuda" and by_gsc:
        raise ValueError(
            "inpaint_image(model='gsc') has no kernel for a GPU: GSC with gaps runs on the CPU, device='cpu'. "
            "model='mixture' has one."
        )
    _check_counts(n_components, max_patches, n_passes)
    pixels = as_image(image)
    missing = _check_mask(mask, pixels.shape[:2])
    if patch_size is None:
        large = not by_gsc and missing.mean() > MUCH_MISSING and min(missing.shape) > LARGE_PATCH
        patch_size = LARGE_PATCH if large else PATCH_SIZE
    check_patch_size(pixels, patch_size)
    check_value_range(value_range)
    check_known_pixels(pixels[~missing])
    unit = unit_of(pixels[~missing])
    pixels /= unit
    pixels[missing] = np.nan
    random_state = check_random_state(random_state)
    subtract_mean = by_gsc if subtract_mean is None else subtract_mean
    gaps = Gaps(pixels, patch_size, n_passes, keep_known, verbose)
    if by_gsc:
        settings = {**SETTINGS, "n_components": n_components, "verbose": verbose, **settings}
        found = _by_gsc(gaps, subtract_mean, max_patches or GSC_PATCHES, random_state, settings)
    else:
        told = None if noise_level is None else noise_level / unit
        settings = {**MIXTURE_SETTINGS, "n_components": n_components, "noise_level": told, **settings}
        gaps = gaps._replace(place=_place(device, len(gaps.patches(pixels)), settings))
        with cuda.errors_translated():
            found = _by_mixtures(gaps, subtract_mean, max_patches or MIXTURE_PATCHES, random_state, settings)
    whole, variance, estimator, level = found
    result = like(image, whole * unit, value_range)
    uncertainty = None if variance is None else unit * np.sqrt(np.maximum(variance, 0.0)).reshape(result.shape)
    if keep_known:
        result[~missing] = np.asarray(image)[~missing]
        if uncertainty is not None:
            uncertainty[~missing] = 0.0
    return InpaintedImage(result, estimator, level * unit, uncertainty)


class Place(NamedTuple):
    """Where patches are filled: what they are taken by, learned by, and merged by."""

    patches: type[Patches]
    mixture: type[IncompleteMixture]
    merge: type[WeightedMerge]


HERE = Place(Patches, IncompleteMixture, WeightedMerge)


def _place(device: str, n_patches: int, settings: dict[str, Any]) -> Place:
    too_many = device == "auto" and settings["n_candidates"] > LANES
    if too_many or not is_on_gpu(device, n_patches, settings["n_components"] or _number_of_clusters(n_patches)):
        return HERE
    from multicause.tasks.device_inpainting import MergeThere, MixtureThere, PatchesThere

    return Place(PatchesThere, MixtureThere, MergeThere)


class Gaps(NamedTuple):
    """What is to be filled: pixels with NaN, (height, width, colours), and how."""

    pixels: np.ndarray
    patch_size: int
    n_passes: int
    keep_known: bool
    verbose: int
    place: Place = HERE

    def patches(self, image: np.ndarray) -> Patches:
        return self.place.patches(image, self.patch_size)


Found = tuple[np.ndarray, np.ndarray | None, Any, float]  # image, variances, estimator, noise level


def _by_gsc(
    gaps: Gaps, subtract_mean: bool, max_patches: int, random_state: np.random.RandomState, settings: dict[str, Any]
) -> Found:
    """All colours at once, by spike-and-slab sparse coding; patches count by how much is known of them."""
    pixels, whole = gaps.pixels, interpolated(gaps.pixels)
    model = PatchModel(pixels.shape[2], subtract_mean)
    positions = well_known(np.isnan(pixels[..., 0]), gaps.patch_size)
    model.fit(gaps.patches(pixels), positions, max_patches, random_state, gaps.patches(whole), **settings)

    def reconstruct(X: np.ndarray, guess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        share = np.isfinite(X).mean(axis=1, keepdims=True)
        return model.reconstruct(X, guess), np.broadcast_to(share**-2.0, X.shape)

    for _ in range(gaps.n_passes if subtract_mean else 1):
        whole, _ = _filled(gaps, whole, reconstruct)
    return whole, None, model.estimator, model.noise_level()


def _by_mixtures(
    gaps: Gaps, subtract_mean: bool, max_patches: int, random_state: np.random.RandomState, settings: dict[str, Any]
) -> Found:
    """Each colour by a mixture of its own, after colours were turned so that they are not correlated."""
    known = gaps.pixels[np.isfinite(gaps.pixels[..., 0])]
    _, axes = np.linalg.eigh(np.cov(known.T).reshape(known.shape[1], -1))
    axes = axes[:, ::-1].T  # (axes, colours), the one that varies most first
    whole = np.broadcast_to(known.mean(axis=0) @ axes.T, gaps.pixels.shape).copy()
    variance, mixtures = np.zeros_like(whole), []
    for index, axis in enumerate(axes):
        if (known @ axis).std() <= LEAST_COLOUR * known.std():  # as two of the axes of a grey picture in colours
            continue
        one = gaps._replace(pixels=(gaps.pixels @ axis)[..., None])
        whole[..., [index]], variance[..., [index]], mixture = _by_mixture(
            one, subtract_mean, max_patches, random_state, settings
        )
        mixtures.append(mixture)
    level = float(np.sqrt(np.mean([mixture.params_.noise_variance for mixture in mixtures])))
    return whole @ axes, variance @ axes**2, mixtures[0] if len(mixtures) == 1 else mixtures, level


def _by_mixture(
    gaps: Gaps, subtract_mean: bool, max_patches: int, random_state: np.random.RandomState, settings: dict[str, Any]
) -> tuple[np.ndarray, np.ndarray, IncompleteMixture]:
    pixels = gaps.pixels
    positions = some_of(np.arange(len(gaps.patches(pixels))), max_patches, random_state)
    n_components = settings["n_components"] or _number_of_clusters(len(gaps.patches(pixels)))
    if n_components > len(positions):
        raise ValueError(
            f"n_components={n_components} is more than the {len(positions)} patches that are learned from."
        )
    noise_level = settings["noise_level"]
    if noise_level is None and not gaps.keep_known:
        noise_level = noise_level_of_known(pixels[..., 0])  # Gaussians that may be anything would take it for texture
    mixture = gaps.place.mixture(
        n_components, settings["n_candidates"], noise_level, settings["n_jobs"], random_state.randint(2**31 - 1)
    )
    level = float(np.nanmean(pixels))

    def reconstruct(X: Any, guess: Any) -> tuple[Any, Any]:
        mean = guess.mean(axis=1, keepdims=True) if subtract_mean else level
        filled = mixture.fill(X - mean, guess - mean)
        return filled.mean + mean, filled.variance

    whole = interpolated(pixels)
    X = gaps.patches(pixels).take(positions)
    n_iter = -(-settings["max_iter"] * 2 // (gaps.n_passes + 1))  # half as many in later passes
    for number in range(gaps.n_passes):
        guess = gaps.patches(whole).take(positions)
        mean = guess.mean(axis=1, keepdims=True) if subtract_mean else level
        steps = [slice(step, step + 1) for step in range(n_iter if number == 0 else max(1, n_iter // 2))]
        mixture.fit(X - mean, guess - mean, with_progress(steps, "Learning", gaps.verbose))
        whole, variance = _filled(gaps, whole, reconstruct)
    return whole, variance, mixture


def _number_of_clusters(n_patches: int) -> int:
    return int(np.clip(np.sqrt(n_patches) / 2.0, 1, MOST_CLUSTERS))


def _filled(gaps: Gaps, guess: np.ndarray, reconstruct: Reconstruct) -> tuple[np.ndarray, np.ndarray]:
    """The image without gaps, and its variance: where patches know little, from what was filled in before."""
    pixels, guess = gaps.pixels.copy(), guess.copy()
    variance, clean = np.zeros_like(pixels), None
    missing = np.isnan(pixels[..., 0])
    while missing.any():
        merge = _merged(gaps, pixels, guess, reconstruct, gaps.keep_known or clean is not None)
        if clean is None and not gaps.keep_known:
            clean = merge.mean(), merge.variance()
        reached = missing & near_enough(missing, gaps.patch_size)
        pixels[reached] = guess[reached] = merge.mean()[reached]
        variance[reached] = merge.variance()[reached]
        missing &= ~reached
    if clean is not None:
        known = np.isfinite(gaps.pixels[..., 0])
        pixels[known], variance[known] = clean[0][known], clean[1][known]
    return pixels, variance


def _merged(
    gaps: Gaps, pixels: np.ndarray, guess: np.ndarray, reconstruct: Reconstruct, only_gaps: bool
) -> WeightedMerge:
    """All patches that are partly known, weighted by the inverse of their variances."""
    patches, guessed = gaps.patches(pixels), gaps.patches(guess)
    merge = gaps.place.merge(pixels.shape, gaps.patch_size)
    for rows in with_progress(patches.bands(), "Inpainting", gaps.verbose):
        X = patches.band(rows)
        share = np.isfinite(X).mean(axis=1)
        wanted = (share > 0.0) & (share < 1.0) if only_gaps else share > 0.0
        variance, weights = np.zeros_like(X), np.zeros_like(X)
        X[~wanted] = 0.0
        if wanted.any():
            X[wanted], variance[wanted] = reconstruct(X[wanted], guessed.band(rows)[wanted])
            weights[wanted] = 1.0 / (variance[wanted] + 1e-3 * variance[wanted].mean() + 1e-300)
        merge.add(rows, X, variance, weights)
    return merge


def _takes_gsc(model: str, noise_level: float | None, settings: dict[str, Any]) -> bool:
    """Whether it is for spike-and-slab sparse coding; refuses what the model that was asked for does not have."""
    if model not in ("auto", "mixture", "gsc"):
        raise ValueError(f"model must be 'auto', 'mixture' or 'gsc', got {model!r}. Start with 'auto'.")
    others = sorted(set(settings) - set(MIXTURE_SETTINGS))
    if model == "mixture" and others:
        raise TypeError(
            f"inpaint_image() got an unexpected keyword argument {others[0]!r}: model='mixture' takes "
            f"{', '.join(MIXTURE_SETTINGS)}. Arguments of GSC need model='gsc'."
        )
    if noise_level is not None and not (is_number(noise_level) and noise_level >= 0.0):
        raise ValueError(f"noise_level must be at least 0, got {noise_level!r}. Leave it out to have it learned.")
    if model != "gsc" and not others:
        for name, value in settings.items():
            if name != "n_jobs":
                check_whole(name, value, 1, "Leave it out for the default.")
    by_gsc = model == "gsc" or (model == "auto" and bool(others))
    if by_gsc and noise_level is not None:
        raise ValueError("noise_level belongs to model='mixture', but the model is 'gsc', which learns it.")
    return by_gsc


def _check_counts(n_components: Any, max_patches: Any, n_passes: Any) -> None:
    for name, value, least in (("n_components", n_components, 1), ("max_patches", max_patches, 2)):
        if value is not None:
            check_whole(name, value, least, "Leave it out to have it chosen.")
    check_whole("n_passes", n_passes, 1, "Two serve most images.")


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
