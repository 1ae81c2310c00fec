"""An image cleaned in two passes: by clusters of its patches, then by groups of alike patches in one place."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from multicause.backends import numba_cpu
from multicause.estimators import TruncatedGaussianMixture
from multicause.execution.in_process import InProcess, effective_threads
from multicause.execution.on_device import is_on_device
from multicause.learning import Outcome, Stop
from multicause.models import combine
from multicause.models.factor_mixture import remembering_decompositions
from multicause.models.local_gaussian import Neighbourhood, middles
from multicause.posteriors import TruncatedPosterior
from multicause.tasks.clipping import clipped_share
from multicause.tasks.images import unit_of
from multicause.tasks.noise_level import estimate_noise_level
from multicause.tasks.patches import Merge, Patches, some_of, with_progress

PATCH_SIZE = 8
LARGE_PATCH_SIZE, STRONG_NOISE = 10, 0.7  # of the image's standard deviation
MOST_COMPONENTS, PATCHES_PER_FURTHER_COMPONENT = 100, 1250  # large images hold more kinds of patches
PATCHES_PER_COMPONENT = 100  # fewer would be learned by heart
SETTINGS = {"max_iter": 5, "tol": 0.0, "n_candidates": 3}
MAX_PATCHES = 250_000
MOST_AT_FIRST, LAST_ROUNDS = 12_000, 2
ROWS_AT_ONCE = 2048  # fewer are not worth the sums of all clusters
NO_NOISE = 1e-4  # of the image's range: there is nothing to take out
LEAST_VARIANCE = 0.01  # of the noise's: a patch may not be surer than this
REACH, N_ALIKE, STRIDE = 18, 28, 4
# Groups take their guess for the truth. Measured on images with known truth: a little gain counts for 2.5 times as much
# error, and all passes together follow the noise twice as closely as a group says (their degrees of freedom).
ERROR_PER_GAIN, FREEDOM_PER_GAIN = 2.5, 2.0
LEAST_LOST, UNSURE = 0.008, 0.01  # of the noise's variance: texture that is lost, and error in measuring it
BAND = 8  # rows of middles that are cleaned at one time
_OPPONENT = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, -1.0], [1.0, -2.0, 1.0]])
OPPONENT = (_OPPONENT / np.linalg.norm(_OPPONENT, axis=1, keepdims=True)).T  # brightness, and two of colour


class Cleaned(NamedTuple):
    pixels: np.ndarray  # (height, width, colours)
    uncertainty: np.ndarray  # in the same shape
    noise_level: float
    estimator: Any


def clean(
    pixels: np.ndarray,
    noise_level: float | None,
    patch_size: int | None,
    n_components: int | None,
    max_patches: int | None,
    random_state: Any,
    verbose: int,
    n_jobs: int | None,
    settings: dict[str, Any],
) -> Cleaned:
    """Pixels (height, width, colours) without white noise.

    Three colours are turned into brightness and two differences, which leaves the noise as it is.
    """
    unit = unit_of(pixels)
    rotation = OPPONENT if pixels.shape[2] == 3 else np.eye(pixels.shape[2])
    mean = pixels.mean(axis=(0, 1))
    channels = _rotated(pixels, rotation / unit, -mean @ rotation / unit, np.float32)
    level, learner_kind = (
        None if noise_level is None else noise_level / unit,
        _learner_kind(settings, pixels.shape, n_components, max_patches or MAX_PATCHES),
    )
    if level is None:
        clipped = clipped_share(pixels)
        level = float(np.median([learner_kind.noise_of(channel, clipped) for channel in np.moveaxis(channels, 2, 0)]))
    size = patch_size or _suitable_patch_size(channels, level)
    if level <= NO_NOISE * np.ptp(pixels) / unit:
        return Cleaned(pixels, np.zeros_like(pixels), level * unit, None)
    learner = learner_kind(level, size, n_components, max_patches or MAX_PATCHES, n_jobs, verbose, settings)
    random_state = check_random_state(random_state)
    pilot = np.empty_like(channels)
    estimators = []
    for k in range(channels.shape[2]):
        with remembering_decompositions():
            estimators.append(learner.fit(channels[:, :, k : k + 1], random_state))
            pilot[:, :, k : k + 1] = learner.merged(estimators[k], channels[:, :, k : k + 1])
    where = Neighbourhood(size, REACH, N_ALIKE, STRIDE)
    cleaned, variances = learner.by_groups(channels, pilot, where)
    for k in range(channels.shape[2]):
        _calibrate(variances[:, :, k], channels[:, :, k] - cleaned[:, :, k], np.float32(level**2))
    del channels, pilot  # all are as large as the image
    uncertainty = _rotated(variances, np.square(rotation.T), np.zeros(len(mean)), np.float32)
    del variances
    np.sqrt(uncertainty, out=uncertainty)
    uncertainty *= np.float32(unit)
    estimator = estimators[0] if unit == 1.0 else _in_units(estimators[0], unit)
    return Cleaned(_rotated(cleaned, rotation.T * unit, mean, np.float64), uncertainty, level * unit, estimator)


def _in_units(mixture: TruncatedGaussianMixture, unit: float) -> TruncatedGaussianMixture:
    """The mixture of data that are so many times as large."""
    settings = {name: value for name, value in mixture.get_params().items() if name != "n_components"}
    settings["noise"] *= unit**2
    params = {
        "weights": mixture.weights_,
        "means": mixture.means_ * unit,
        "covariances": mixture.covariances_ * unit**2,
    }
    return TruncatedGaussianMixture.from_parameters(**params, **settings)


def _rotated(pixels: np.ndarray, rotation: np.ndarray, offset: np.ndarray, dtype: Any) -> np.ndarray:
    """pixels @ rotation + offset, one colour at a time, to bound the memory for double precision."""
    result = np.empty(pixels.shape, dtype=dtype)
    for k in range(pixels.shape[2]):
        result[:, :, k] = pixels @ rotation[:, k].astype(pixels.dtype) + offset[k]
    return result


def _suitable_patch_size(channels: np.ndarray, noise_level: float) -> int:
    """Larger patches where noise is strong, more pixels tell which patches are alike, and there are enough of them."""
    contrast, least = np.sqrt(max(channels[:, :, 0].var() - noise_level**2, 0.0)), min(channels.shape[:2])
    is_noisy, is_large = noise_level > STRONG_NOISE * contrast, least >= 2 * LARGE_PATCH_SIZE
    return LARGE_PATCH_SIZE if is_noisy and is_large else min(PATCH_SIZE, least)


def _suitable_n_components(n_patches: int) -> int:
    most = max(MOST_COMPONENTS, n_patches // PATCHES_PER_FURTHER_COMPONENT)
    return int(np.clip(n_patches // PATCHES_PER_COMPONENT, 1, most))


def _learner_kind(
    settings: dict[str, Any], shape: tuple[int, ...], n_components: int | None, max_patches: int
) -> "type[Learner]":
    """On the device that the mixture takes for all patches: about as many as there are pixels."""
    n_patches = shape[0] * shape[1]
    n_components = n_components or _suitable_n_components(min(n_patches, max_patches))
    mixture = TruncatedGaussianMixture(n_components, **_mixture_settings(settings, n_components))
    if mixture._device_for(np.broadcast_to(0.0, (n_patches, PATCH_SIZE**2))) == "cpu":
        return Learner
    from multicause.tasks.device_denoising import DeviceLearner

    return DeviceLearner


def _mixture_settings(settings: dict[str, Any], n_components: int) -> dict[str, Any]:
    settings = {**SETTINGS, "covariance_type": "factor", **settings}
    return settings | {"n_candidates": min(settings["n_candidates"], n_components)}


class Learner(NamedTuple):
    """The first pass: a mixture of probabilistic principal components of the patches of one channel; and the second."""

    noise_level: float
    patch_size: int
    n_components: int | None
    max_patches: int
    n_jobs: int | None
    verbose: int
    settings: dict[str, Any]

    def fit(self, channel: np.ndarray, random_state: np.random.RandomState) -> TruncatedGaussianMixture:
        """Most iterations on some of the patches; the last on all that memory and time allow."""
        patches = self.patches(channel)
        positions = some_of(np.arange(len(patches)), self.max_patches, random_state)
        n_components = self.n_components or _suitable_n_components(len(positions))
        n_at_first = max(MOST_AT_FIRST, PATCHES_PER_COMPONENT * n_components)
        few = positions[some_of(np.arange(len(positions)), n_at_first, random_state)]
        X, some = patches.take(positions).astype(np.float64), patches.take(few).astype(np.float64)
        settings = _mixture_settings({"n_jobs": self.n_jobs, "verbose": self.verbose, **self.settings}, n_components)
        settings.setdefault("random_state", random_state.randint(2**31 - 1))
        settings |= {"covariance_type": "factor", "noise": self.noise_level**2, "reg_covar": 0.0}
        mixture = TruncatedGaussianMixture(n_components, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of iterations is a budget here
            mixture.fit(some)
        for _ in range(LAST_ROUNDS if len(some) < len(X) else 0):
            mixture = _another_round(mixture, X)
        return mixture

    @staticmethod
    def noise_of(channel: np.ndarray, clipped: np.ndarray | None) -> float:
        """Standard deviation of the noise of one channel, measured where the image is not clipped."""
        return estimate_noise_level(channel, clipped)

    def patches(self, channel: np.ndarray) -> Any:
        """The patches of one channel (height, width, 1)."""
        return Patches(channel, self.patch_size)

    def by_groups(self, channels: np.ndarray, pilot: np.ndarray, where: Neighbourhood) -> tuple[np.ndarray, np.ndarray]:
        """The second pass: pixels, which take the place of the pilot's, and their variances."""
        return _by_groups(channels, pilot, self.noise_level, where, effective_threads(self.n_jobs), self.verbose)

    def merged(self, mixture: TruncatedGaussianMixture, channel: np.ndarray) -> np.ndarray:
        """The channel merged from denoised patches, each with the more weight the surer it is."""
        patches, merge = Patches(channel, self.patch_size), Merge(channel.shape, self.patch_size)
        for rows in with_progress(patches.bands(), "First pass", self.verbose):
            mean, variance = mixture.reconstruct_with_variance(patches.band(rows).astype(np.float64))
            merge.add(rows, mean, 1.0 / (variance.mean(axis=1) + LEAST_VARIANCE * self.noise_level**2))
        return merge.mean()


def _another_round(mixture: TruncatedGaussianMixture, X: np.ndarray) -> TruncatedGaussianMixture:
    """One iteration of EM on other data. A warm start would add an E-step to say how good the result is."""
    model, params = mixture._fitted_model(), mixture._params()
    with mixture._executor(X) as executor:
        posterior = TruncatedPosterior(int(mixture.n_candidates), 1, singletons=False).prepare(model, params)
        chunks = executor.split(X, model.n_components, None if is_on_device(X) else ROWS_AT_ONCE)
        found = executor.map_reduce(posterior.statistics, chunks, combine)
        again = model.m_step(params, found.statistics)
    mixture._keep(Outcome(again, np.array([]), 0, Stop.PARAMETERS_GIVEN), np.dtype(np.float64))
    return mixture


def _by_groups(
    noisy: np.ndarray, pilot: np.ndarray, noise_level: float, where: Neighbourhood, n_threads: int, verbose: int
) -> tuple[np.ndarray, np.ndarray]:
    """The second pass: pixels, which take the place of the pilot's, and their variances.

    A band's groups reach into the rows about it. Sums are kept of the rows that later bands may still reach.
    """
    height, variance = len(noisy), np.float32(noise_level**2)
    rows, columns = middles(height, where), middles(noisy.shape[1], where)
    bands = [rows[first : first + BAND] for first in range(0, len(rows), BAND)]
    strips = [
        slice(max(band[0] - where.reach, 0), min(band[-1] + where.reach + where.patch_size, height)) for band in bands
    ]
    clean_rows = numba_cpu.load("local_gaussian").clean_rows

    def sums_of(i: int) -> np.ndarray:
        strip = strips[i]
        sums = np.zeros((3, *noisy[strip].shape), dtype=np.float32)
        settings = columns, where, variance, LEAST_VARIANCE * variance
        clean_rows(noisy[strip], pilot[strip], bands[i] - strip.start, *settings, sums)
        return sums

    variances = np.full_like(pilot, variance)
    done, waiting = 0, np.zeros((3, 0, *noisy.shape[1:]), dtype=np.float32)
    with InProcess(n_threads) as executor:
        results = executor.map(sums_of, range(len(bands)))
        for i in with_progress(range(len(bands)), "Second pass", verbose):
            sums = next(results)
            new_rows = strips[i].stop - done - waiting.shape[1]
            waiting = np.pad(waiting, ((0, 0), (0, new_rows), (0, 0), (0, 0)))
            waiting[:, strips[i].start - done :] += sums
            n_final = (strips[i + 1].start if i + 1 < len(bands) else height) - done
            final = slice(done, done + n_final)
            _settle(waiting[:, :n_final], pilot[final], variances[final])
            done, waiting = final.stop, waiting[:, n_final:]
    return pilot, variances


def _settle(sums: np.ndarray, pilot: np.ndarray, variances: np.ndarray) -> None:
    """Turn sums over groups into pixels, and the noise's variance into theirs, where any group lies."""
    weight = np.where(sums[0] > 0.0, sums[0], 1.0)
    pilot += sums[1] / weight
    np.copyto(variances, sums[2] / weight, where=sums[0] > 0.0)


def _calibrate(variances: np.ndarray, residuals: np.ndarray, noise_variance: np.float32) -> None:
    """Turn what groups are unsure of, sigma^2 times their gain g, into squared errors to be expected, in one channel.

        error / sigma^2 = 1 - (1 - g)^2.5 + lost

    What is lost everywhere follows from Stein's estimate of the whole error, |residuals|^2 / sigma^2 - 1 + 2 freedom.
    """
    variances /= noise_variance
    freedom = FREEDOM_PER_GAIN * float(variances.mean())
    stein = float(np.square(residuals).mean() / noise_variance) - 1.0 + 2.0 * freedom
    np.subtract(1.0, np.power(np.maximum(1.0 - variances, 0.0), np.float32(ERROR_PER_GAIN)), out=variances)
    lost = max(stein - float(variances.mean()) - UNSURE, LEAST_LOST)
    variances += np.float32(lost)
    variances *= noise_variance
