"""Counts with noise of variance one: the generalised Anscombe transform, and its exact unbiased inverse."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import poisson

LARGEST_TABULATED = 200.0  # photons; beyond, the asymptotic inverse is exact to 1e-4
TABLE_SIZE = 1500
QUADRATURE = 800  # points; the integrand is smooth and even, so that the trapezoidal rule converges exponentially
REACH = 9.0  # standard deviations of the read noise that are integrated over


class CameraNoise(NamedTuple):
    """Noise that grows with the light.

        y = gain · Poisson(x) + offset + read_noise · Normal(0, 1)

    Attributes
    ----------
    gain : float
        Grey values per photon.
    offset : float
        Grey value where there is no light (the pedestal).
    read_noise : float
        Standard deviation, in grey values, of the noise that is there without light.
    """

    gain: float
    offset: float = 0.0
    read_noise: float = 0.0

    def variance(self, mean: np.ndarray) -> np.ndarray:
        """Variance of y where its mean is `mean`: gain · (mean − offset) + read_noise²."""
        return self.gain * np.maximum(mean - self.offset, 0.0) + self.read_noise**2


class VarianceStabiliser:
    """The generalised Anscombe transform of a camera's values, after which the noise has a variance of about one.

        f(y) = 2 √max(y' + 3/8 + σ², 0),   y' = (y − offset) / gain,   σ = read_noise / gain

    The inverse undoes the bias that a mean of transformed values has: it returns the light x whose transformed values
    have the mean D, E[f(y) given x] = D, not f⁻¹(D) (Mäkitalo and Foi, IEEE TIP 2011 and 2013).
    """

    def __init__(self, camera: CameraNoise):
        self._camera = camera
        self._read_noise = camera.read_noise / camera.gain

    def transform(self, image: np.ndarray) -> np.ndarray:
        """Values whose noise has a variance of about one."""
        photons = (image - self._camera.offset) / self._camera.gain
        return 2.0 * np.sqrt(np.maximum(photons + 0.375 + self._read_noise**2, 0.0))

    def inverse(self, stabilised: np.ndarray) -> np.ndarray:
        """The grey values, without noise, whose transformed values have the means `stabilised`."""
        light, means = inverse_table(self._read_noise)
        photons = np.interp(stabilised, means, light)
        beyond = stabilised > means[-1]
        photons[beyond] = asymptotic_inverse(stabilised[beyond], self._read_noise)
        return self._camera.gain * photons + self._camera.offset

    def inverse_slope(self, stabilised: np.ndarray) -> np.ndarray:
        """Derivative of the inverse, by which standard deviations are scaled; D/2 gains away from the dark.

        Below the mean of darkness, where the inverse is flat, it is that of darkness: nobody is sure there.
        """
        step = 1e-2
        stabilised = np.maximum(stabilised, inverse_table(self._read_noise)[1][0] + step)
        return (self.inverse(stabilised + step) - self.inverse(stabilised - step)) / (2.0 * step)


@lru_cache(maxsize=16)
def inverse_table(read_noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of photons, closest where they are few, and E[f(y)] for each of them; unit gain, no offset."""
    light = np.linspace(0.0, np.sqrt(LARGEST_TABULATED), TABLE_SIZE) ** 2
    counts = np.arange(int(LARGEST_TABULATED + 12.0 * np.sqrt(LARGEST_TABULATED)))
    means = poisson.pmf(counts, light[:, None]) @ mean_of_transform(counts, read_noise)
    return light, means


def mean_of_transform(counts: np.ndarray, read_noise: float) -> np.ndarray:
    """E[2 √max(k + 3/8 + σ² + σ n, 0)] over standard normal n, for each number k of photons that were counted.

    With u² for what is under the root, it is an integral of 4 u² N(u²; k + 3/8 + σ², σ²) over u ≥ 0.
    """
    centre = (counts + 0.375 + read_noise**2)[:, None]
    if read_noise == 0.0:
        return 2.0 * np.sqrt(centre[:, 0])
    first = np.sqrt(np.maximum(centre - REACH * read_noise, 0.0))
    last = np.sqrt(centre + REACH * read_noise)
    u = first + (last - first) * np.linspace(0.0, 1.0, QUADRATURE + 1)
    density = np.exp(-0.5 * ((u**2 - centre) / read_noise) ** 2) / (np.sqrt(2.0 * np.pi) * read_noise)
    return np.trapezoid(4.0 * u**2 * density, u, axis=1)


def asymptotic_inverse(stabilised: np.ndarray, read_noise: float) -> np.ndarray:
    """The inverse for many photons, D²/4 − 1/8 − σ² (Anscombe 1948); the rest falls with their number."""
    return 0.25 * stabilised**2 - 0.125 - read_noise**2
