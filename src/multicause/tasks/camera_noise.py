"""Pictures whose noise grows with the light: the camera's noise from one picture, and denoising by its leave."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike
from scipy.ndimage import convolve

from multicause.short_repr import short_repr
from multicause.tasks.arguments import is_number
from multicause.tasks.clipping import clipped_share
from multicause.tasks.images import as_image, check_known_pixels, like
from multicause.tasks.noise_level import estimate_noise_level
from multicause.tasks.variance_stabilisation import CameraNoise, VarianceStabiliser

__all__ = ["CameraNoise", "DenoisedCounts", "denoise_counts", "estimate_camera_noise"]

NOISES = ("gaussian", "poisson", "poisson-gaussian")
BLOCK = 8  # side length, in pixels, of the blocks whose mean and variance are compared
HIGH_PASS = np.outer([1.0, -2.0, 1.0], [1.0, -2.0, 1.0]) / 6.0  # blind to slopes; keeps the variance of white noise
DEGREES = 17.0  # of freedom of a block's variance: neighbours in the high-pass are correlated
BLOCKS_PER_BIN, FEWEST_BINS, MOST_BINS = 150, 4, 60
SHARE = 0.15  # of the blocks of a brightness, those with the least texture
ROUNDS = 20  # of reweighting
TOLERATED = 2.5  # standard errors that a bin may lie above the line before it counts less: texture only adds
LIKELY_LEVELS = (0.9, 1.1)  # of stabilised noise: an estimated gain is right within a fifth
SATURATED = 1e-3  # share of equal brightest pixels above which they are taken to be clipped


class DenoisedCounts(NamedTuple):
    """What `denoise_image` returns where the noise is not Gaussian.

    Attributes
    ----------
    image : ndarray of the shape and type of the noisy image
        The image without its noise, pedestal included.
    noise_level : float
        Standard deviation of the noise at the image's mean.
    estimator : estimator
        The fitted model of the patches of the variance-stabilised image.
    uncertainty : ndarray of the shape of the image, or None
        Posterior standard deviation of each pixel of `image`, where the denoiser says it.
    camera : CameraNoise
        Gain, offset and read noise, as they were given or estimated.
    """

    image: np.ndarray
    noise_level: float
    estimator: Any
    uncertainty: np.ndarray | None
    camera: CameraNoise

    def __repr__(self) -> str:
        return short_repr(self)


def denoise_counts(
    image: ArrayLike,
    denoise: Callable[[np.ndarray, float | None], Any],
    *,
    noise: Literal["poisson", "poisson-gaussian"],
    gain: float | None = None,
    offset: float | None = None,
    read_noise: float | None = None,
    value_range: tuple[float, float] | None = None,
) -> DenoisedCounts:
    """Remove Poisson noise, or a mix of Poisson and Gaussian noise, from an image.

    The generalised Anscombe transform makes the noise variance one everywhere, `denoise` removes the noise, and the
    exact unbiased inverse transforms back.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        The noisy image.
    denoise : callable
        A denoiser of additive Gaussian noise: it is given a floating-point image and the standard deviation of its
        noise, and returns a result with `image`, `estimator` and perhaps `uncertainty`.
    noise : {"poisson", "poisson-gaussian"}
        Kind of noise.
    gain, offset, read_noise : float or None, default=None
        See `CameraNoise`. None is estimated from the image.
    value_range : tuple of two floats or None, default=None
        Range that the result is clipped to.

    Returns
    -------
    DenoisedCounts
        The image, and the camera's noise.
    """
    camera = estimate_camera_noise(image, noise=noise, gain=gain, offset=offset, read_noise=read_noise)
    pixels = np.asarray(image, dtype=np.float64)
    stabiliser = VarianceStabiliser(camera)
    stabilised = stabiliser.transform(pixels)
    result = denoise(stabilised, _level_of(stabilised) if gain is None else 1.0)
    deviation = getattr(result, "uncertainty", None)
    return DenoisedCounts(
        like(image, stabiliser.inverse(result.image), value_range),
        float(np.sqrt(camera.variance(pixels.mean()))),
        result.estimator,
        None if deviation is None else deviation * stabiliser.inverse_slope(result.image),
        camera,
    )


def _level_of(stabilised: np.ndarray) -> float:
    """Standard deviation of the noise of counts that an estimated gain has stabilised: one, but for the gain's error.

    Where it is dark, no transform stabilises counts. Smooth dark parts would make the noise of all others too small.
    """
    pixels = as_image(stabilised)
    clipped = clipped_share(pixels)
    measured = float(np.median([estimate_noise_level(channel, clipped) for channel in np.moveaxis(pixels, 2, 0)]))
    return float(np.clip(measured, *LIKELY_LEVELS))


def estimate_camera_noise(
    image: ArrayLike,
    *,
    noise: Literal["poisson", "poisson-gaussian"] = "poisson-gaussian",
    gain: float | None = None,
    offset: float | None = None,
    read_noise: float | None = None,
) -> CameraNoise:
    """Estimate the noise of a camera from one picture, whose colours share it.

    The variance of the noise is a line over brightness, variance = gain · (mean − offset) + read_noise². It is fitted
    to blocks of little texture. One picture tells the line's intercept, not offset and read noise apart: where neither
    is given, one of them is 0, which makes no difference to denoising.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, 3)
        The noisy image.
    noise : {"poisson", "poisson-gaussian"}, default="poisson-gaussian"
        Kind of noise; "poisson" has no read noise.
    gain, offset, read_noise : float or None, default=None
        See `CameraNoise`. What is None is estimated.

    Returns
    -------
    CameraNoise
        Gain, offset and read noise.
    """
    check_camera(noise, gain, offset, read_noise)
    if noise == "poisson":
        read_noise = 0.0
    if gain is not None and offset is not None and read_noise is not None:
        return CameraNoise(float(gain), float(offset), float(read_noise))
    pixels = as_image(image)
    check_known_pixels(pixels)
    bins = NoiseBins.of(pixels)
    known = None if offset is None or read_noise is None else (offset, read_noise**2)
    a, b = bins.line(gain, known)
    if noise == "poisson" and offset is None and (b > 0.0 or bins.may_pass_zero(a, b)):
        a, b = bins.line(gain, (0.0, 0.0))  # counts without a pedestal are the rule
    elif noise == "poisson" and offset is None and -b / a > pixels.min():
        a, b = bins.line(gain, (float(pixels.min()), 0.0))  # less than the pedestal no count can be
    if offset is not None:
        return CameraNoise(a, float(offset), float(np.sqrt(max(b + a * offset, 0.0))))
    if read_noise is None:
        read_noise = np.sqrt(max(b, 0.0))
    return CameraNoise(a, float(read_noise**2 - b) / a, float(read_noise))


class NoiseBins(NamedTuple):
    """Bins of like brightness: their mean, the variance of their noise, and its relative standard error."""

    mean: np.ndarray
    variance: np.ndarray
    error: np.ndarray

    @classmethod
    def of(cls, pixels: np.ndarray) -> "NoiseBins":
        """The bins of an image of shape (height, width, colours)."""
        if min(pixels.shape[:2]) < BLOCK + 6:
            raise ValueError(
                f"gain and offset cannot be estimated from an image of {pixels.shape[0]} × {pixels.shape[1]} pixels. "
                "Give both."
            )
        colours = [local_moments(pixels[..., colour]) for colour in range(pixels.shape[2])]
        mean, variance, texture = np.concatenate(colours, axis=1)
        if not variance.max() > (1e-9 * np.abs(pixels).max()) ** 2:
            raise ValueError("image holds no noise that gain and offset could be estimated from. Give both.")
        n_bins = int(np.clip(mean.size // BLOCKS_PER_BIN, FEWEST_BINS, MOST_BINS))
        chosen = [
            few[np.argsort(texture[few])[: max(1, int(SHARE * few.size))]]
            for few in np.array_split(np.argsort(mean), min(n_bins, mean.size))
        ]
        values = [(mean[few].mean(), variance[few].mean(), np.sqrt(4.0 / (DEGREES * few.size))) for few in chosen]
        return cls(*np.array(values).T)

    def line(self, gain: float | None, through: tuple[float, float] | None) -> tuple[float, float]:
        """Gain and intercept of the line, robustly; through a point, where one is known."""
        weight = 1.0 / (self.error * np.maximum(self.variance, 1e-3 * self.variance.mean())) ** 2
        for _ in range(ROUNDS):
            a, b = self._weighted_line(weight, gain, through)
            expected = self._expected(a, b)
            excess = (self.variance - expected) / (self.error * expected)
            trust = np.minimum(1.0, TOLERATED / np.maximum(excess, TOLERATED)) ** 2
            weight = trust / (self.error * expected) ** 2
        return a, b

    def may_pass_zero(self, a: float, b: float) -> bool:
        """Whether the intercept is 0 within three standard errors."""
        weight = 1.0 / (self.error * self._expected(a, b)) ** 2
        design = np.stack([self.mean, np.ones_like(self.mean)], axis=1)
        return b**2 < 9.0 * np.linalg.pinv(design.T @ (weight[:, None] * design))[1, 1]

    def _expected(self, a: float, b: float) -> np.ndarray:
        return np.maximum(a * self.mean + b, 1e-3 * self.variance.mean())

    def _weighted_line(
        self, weight: np.ndarray, gain: float | None, through: tuple[float, float] | None
    ) -> tuple[float, float]:
        x0, y0 = through or (np.average(self.mean, weights=weight), np.average(self.variance, weights=weight))
        x, y = self.mean - x0, self.variance - y0
        least = 1e-3 * self.variance.mean() / max(np.abs(self.mean).max(), np.ptp(self.mean))  # no light, no gain
        a = gain if gain is not None else max(np.sum(weight * x * y) / max(np.sum(weight * x**2), 1e-300), least)
        return float(a), float(y0 - a * x0)


def local_moments(pixels: np.ndarray) -> np.ndarray:
    """Mean, variance of the noise, and texture of each block of a grey image, (3, n_blocks).

    The variance comes from the highest frequencies, and texture is measured one octave below: noise says different
    things there, so that blocks chosen for little texture have noise like all others. Clipped blocks are left out.
    """
    height, width = pixels.shape[0] - 1, pixels.shape[1] - 1
    coarse = sum(pixels[i : height + i, j : width + j] for i in (0, 1) for j in (0, 1))
    spread = np.zeros((5, 5))
    spread[::2, ::2] = HIGH_PASS
    clipped = pixels == pixels.max()
    maps = (pixels, convolve(pixels, HIGH_PASS) ** 2, convolve(coarse, spread) ** 2, clipped)
    blocks = [sliding_window_view(values[2 : height - 2, 2 : width - 2], (BLOCK, BLOCK)) for values in maps]
    means = np.stack([block[:: BLOCK // 2, :: BLOCK // 2].mean(axis=(2, 3)).ravel() for block in blocks])
    usable = means[3] == 0.0 if clipped.mean() > SATURATED else np.ones(means.shape[1], dtype=bool)
    return means[:3, usable if usable.any() else slice(None)]


def check_camera(noise: str, gain: float | None, offset: float | None, read_noise: float | None) -> None:
    """Refuse what is no kind of noise, or no camera."""
    if noise not in NOISES:
        raise ValueError(f"noise must be one of {', '.join(map(repr, NOISES))}, got {noise!r}.")
    if noise == "gaussian" and not (gain is None and offset is None):
        raise ValueError("gain and offset belong to noise='poisson' and 'poisson-gaussian', but noise is 'gaussian'.")
    for name, value, least in (("gain", gain, 0.0), ("offset", offset, -np.inf), ("read_noise", read_noise, 0.0)):
        if value is not None and not (is_number(value) and value >= least and (name != "gain" or value > 0.0)):
            wanted = {"gain": "positive", "offset": "finite", "read_noise": "at least 0"}[name]
            raise ValueError(f"{name} must be {wanted}, got {value!r}. Leave it out to have it estimated.")
