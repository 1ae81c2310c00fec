"""How much each place of an image speaks for each component: functions of its pixels' values, summed, everywhere at once.

A component at x scores sum_d g_d(y_{x+d}), with one function g_d for each of its pixels. Functions are linear between
knots, so that a sum is one correlation of the image's hats with the functions' values at the knots: by FFT.
"""

from typing import NamedTuple

import numpy as np
from scipy import fft

N_KNOTS = 12


class PixelFunctions(NamedTuple):
    """A function of a value for each pixel of each component, linear between the knots and constant beyond them."""

    knots: np.ndarray  # (K,) evenly spaced
    values: np.ndarray  # (H, h, w, F, K)

    def scores(self, images: np.ndarray) -> np.ndarray:
        """The components at every placement that lies inside, (n, H, P), of images (n, height, width, F)."""
        H, h, w = self.values.shape[:3]
        rows, columns = images.shape[1] - h + 1, images.shape[2] - w + 1
        shape = [fft.next_fast_len(n, real=True) for n in images.shape[1:3]]
        seen = np.moveaxis(hats(images, self.knots).reshape(*images.shape[:3], -1), -1, 1)  # (n, F K, height, width)
        functions = np.moveaxis(self.values.reshape(H, h, w, -1), -1, 0)  # (F K, H, h, w)
        spectra, kernels = fft.rfft2(seen, shape), np.conj(fft.rfft2(functions, shape))
        # one matrix product per frequency: (frequencies, n, F K) times (frequencies, F K, H)
        by_frequency = np.ascontiguousarray(spectra.transpose(2, 3, 0, 1)) @ kernels.transpose(2, 3, 0, 1)
        table = fft.irfft2(np.ascontiguousarray(by_frequency.transpose(2, 3, 0, 1)), shape)
        return table[:, :, :rows, :columns].reshape(len(images), H, -1)


def spread_knots(low: float, high: float) -> np.ndarray:
    """Knots from the smallest value to the largest; a single value gets room above it."""
    return np.linspace(low, high if high > low else low + 1.0, N_KNOTS)


def hats(values: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """The weights of the knots in a linear interpolation, (..., K): at most two are not zero, and they sum to 1."""
    lower, fraction = between(values, knots)
    weights = np.zeros((*values.shape, len(knots)))
    np.put_along_axis(weights, lower[..., None], 1.0 - fraction[..., None], axis=-1)
    np.put_along_axis(weights, lower[..., None] + 1, fraction[..., None], axis=-1)
    return weights


def between(values: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The knot below each value, and how far the value is on its way to the next."""
    position = ((values - knots[0]) / (knots[1] - knots[0])).clip(0.0, len(knots) - 1.0)
    lower = np.minimum(position.astype(np.int64), len(knots) - 2)
    return lower, position - lower
