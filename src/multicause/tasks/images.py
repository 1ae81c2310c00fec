"""What denoising and inpainting share: images checked and made floating, a model of their patches, images back."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from multicause.estimators import GSC
from multicause.estimators.data_checks import unmasked
from multicause.tasks.arguments import check_whole
from multicause.tasks.patches import Patches, some_of

MOST_COMPONENTS = 256
PATCHES_PER_COMPONENT = 4  # fewer would be learned by heart


def as_image(image: ArrayLike) -> np.ndarray:
    """An array of shape (height, width, colours) in double precision."""
    pixels = np.asarray(unmasked(image, "image", np.nan))
    if pixels.dtype.kind not in "uif":
        raise ValueError(f"image must hold integers or floating-point numbers, got {pixels.dtype}. Convert it first.")
    if pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (1,), (3,)) or pixels.size == 0:
        raise ValueError(
            f"image must have shape (height, width) or (height, width, 3), got {pixels.shape}. "
            "Drop transparency, and give one image at a time."
        )
    return pixels.astype(np.float64).reshape(*pixels.shape[:2], -1)


def check_patch_size(pixels: np.ndarray, patch_size: int) -> None:
    height, width = pixels.shape[:2]
    check_whole("patch_size", patch_size, 2, "8 serves most images.")
    if min(height, width) < patch_size or max(height, width) == patch_size:
        raise ValueError(
            f"image must be larger than a patch of {patch_size} × {patch_size} pixels, got {height} × {width}. "
            "Give a larger image or a smaller patch_size."
        )


def check_value_range(value_range: tuple[float, float] | None) -> None:
    if value_range is None:
        return
    try:
        low, high = map(float, value_range)
    except (TypeError, ValueError):
        low = high = np.nan
    if not low < high:
        raise ValueError(
            f"value_range must be a smallest and a largest value, got {value_range!r}. Give (0, 255) for 8-bit images."
        )


def check_known_pixels(known: np.ndarray) -> None:
    """Refuse pixels that are not finite, or all alike."""
    wrong = np.count_nonzero(~np.isfinite(known))
    if wrong:
        raise ValueError(
            f"image must be finite, but {wrong} of its values are NaN or infinite. "
            "Mark missing pixels in the mask of inpaint_image."
        )
    if np.ptp(known) == 0.0:
        raise ValueError(f"Every pixel of image is {known.flat[0]:.6g}: there is nothing to learn. Give another image.")


def unit_of(pixels: np.ndarray) -> float:
    """1, or, where the square of a value would leave single precision, a power of two near the image's range."""
    exponent = np.log2(float(np.ptp(pixels)))
    return 1.0 if -20.0 < exponent < 40.0 else float(2.0 ** np.round(exponent))


class PatchModel:
    """Spike-and-slab sparse coding of patches, whose mean of each colour may be taken off first and put back last."""

    def __init__(self, n_colours: int, subtract_mean: bool):
        self._n_colours, self._subtract_mean = n_colours, subtract_mean
        self.estimator: Any = None

    def fit(
        self,
        patches: Patches,
        positions: np.ndarray,
        max_patches: int,
        random_state,
        guess: Patches | None = None,
        **settings: Any,
    ) -> None:
        """Learn from the patches at some positions, or from as many as are wanted, drawn at random.

        Where gaps are guessed, the first half of the iterations learns from patches without gaps: few known pixels
        alone would not lead far from a random start.
        """
        if max_patches < 2:
            raise ValueError(
                f"max_patches must be at least 2, got {max_patches}. A hundred thousand serve most images."
            )
        random_state = check_random_state(random_state)
        positions = some_of(positions, max_patches, random_state)
        if settings.get("n_components") is None:
            settings["n_components"] = int(np.clip(len(positions) // PATCHES_PER_COMPONENT, 1, MOST_COMPONENTS))
        self.estimator = GSC(noise="isotropic", random_state=random_state.randint(2**31 - 1), **settings)
        X, whole = patches.take(positions), None if guess is None else guess.take(positions)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is a budget here
            if whole is None:
                self.estimator.fit(self._split(X)[0])
                return
            max_iter = self.estimator.max_iter
            self.estimator.set_params(max_iter=(max_iter + 1) // 2).fit(self._split(whole)[0])
            self.estimator.set_params(warm_start=True).fit(self._split(X, whole)[0])
            self.estimator.set_params(max_iter=max_iter, warm_start=False)

    def reconstruct(self, X: np.ndarray, guess: np.ndarray | None = None) -> np.ndarray:
        """Patches without noise and without gaps; their means come from the guess, where there is one."""
        rest, mean = self._split(X, guess)
        return self._joined(self.estimator.reconstruct(rest), mean)

    def n_active(self, X: np.ndarray, guess: np.ndarray | None = None) -> np.ndarray:
        """How many latents are active in each patch, on average over the posterior."""
        return self.estimator.predict_proba(self._split(X, guess)[0]).sum(axis=1)

    def noise_level(self) -> float:
        """Standard deviation of the noise; a mean that is taken off takes its share of the noise with it."""
        n_pixels = self.estimator.n_features_in_ // self._n_colours
        share = 1.0 / n_pixels if self._subtract_mean else 0.0
        return float(np.sqrt(self.estimator.noise_variance_ / (1.0 - share)))

    def _split(self, X: np.ndarray, guess: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Patches around zero, and the mean of each colour in each patch, (n, 1, colours)."""
        if not self._subtract_mean:
            return X, np.zeros((len(X), 1, 1))
        bright = X if guess is None else guess
        mean = np.nanmean(bright.reshape(len(X), -1, self._n_colours), axis=1, keepdims=True)
        return self._joined(X, -mean), mean

    def _joined(self, X: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return (X.reshape(len(X), -1, self._n_colours) + mean).reshape(len(X), -1)


def like(image: ArrayLike, pixels: np.ndarray, value_range: tuple[float, float] | None) -> np.ndarray:
    """Pixels in the shape, type and range of the image that they come from."""
    original = np.asarray(image)
    integers = original.dtype.kind in "ui"
    if value_range is None and integers:
        limits = np.iinfo(original.dtype)
        value_range = (limits.min, limits.max)
    if value_range is not None:
        pixels = np.clip(pixels, *value_range)
    return (np.round(pixels) if integers else pixels).astype(original.dtype).reshape(original.shape)
