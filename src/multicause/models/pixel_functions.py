"""How much each place of an image speaks for each component: functions of pixels' values, summed everywhere at once.

A component at x scores sum_d g_d(y_{x+d}), with one function g_d for each of its pixels. Functions are linear between
knots, so that a sum is one correlation of the image's hats with the functions' values at the knots: by FFT.
"""

from typing import NamedTuple

import numpy as np
from scipy import fft

N_KNOTS = 12
_AT_ONCE = 32  # images, so that their spectra stay in the cache


class PixelFunctions(NamedTuple):
    """A function of a value for each pixel of each component, linear between the knots and constant beyond them."""

    knots: np.ndarray  # (K,) evenly spaced
    values: np.ndarray  # (H, h, w, F, K)

    def scores(self, images: np.ndarray) -> np.ndarray:
        """The components at every placement that lies inside, (n, H, P), of images (n, height, width, F)."""
        H, h, w = self.values.shape[:3]
        rows, columns = images.shape[1] - h + 1, images.shape[2] - w + 1
        shape = [fft.next_fast_len(n, real=True) for n in images.shape[1:3]]
        functions = np.moveaxis(self.values.reshape(H, h, w, -1), -1, 0)  # (F K, H, h, w)
        kernels = np.ascontiguousarray(np.conj(fft.rfft2(functions, shape)).transpose(2, 3, 0, 1))
        table = np.empty((len(images), H, rows, columns))
        for start in range(0, len(images), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            seen = hats(images[part], self.knots)
            seen = np.moveaxis(seen.reshape(*seen.shape[:3], -1), -1, 1)  # (n, F K, height, width)
            spectra = np.ascontiguousarray(fft.rfft2(seen, shape).transpose(2, 3, 0, 1))
            product = np.ascontiguousarray((spectra @ kernels).transpose(2, 3, 0, 1))  # one product per frequency
            table[part] = fft.irfft2(product, shape)[:, :, :rows, :columns]
        return table.reshape(len(images), H, -1)


def window_pixels(image_shape: tuple[int, ...], component_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The image's pixel at which each placement begins, (P,), and from there to each pixel of a window, (h * w,)."""
    (height, width), (h, w) = image_shape[:2], component_shape
    corners = np.arange(height - h + 1)[:, None] * width + np.arange(width - w + 1)
    return corners.ravel(), (np.arange(h)[:, None] * width + np.arange(w)).ravel()


def spread_knots(low: float, high: float, n_knots: int = N_KNOTS) -> np.ndarray:
    """Knots from the smallest value to the largest; a single value, up to rounding, gets room above it."""
    size = max(abs(low), abs(high))
    return np.linspace(low, high if high - low > 1e-12 * size else low + max(1.0, 1e-6 * size), n_knots)


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
