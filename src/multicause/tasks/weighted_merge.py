"""The image that patches are merged to, where each pixel of a patch has a weight of its own."""

from typing import Any

import numpy as np


class WeightedMerge:
    """The weighted mean, in each pixel, of the patches that cover it, and of their variances."""

    def __init__(self, shape: tuple[int, ...], size: int, xp: Any = np):
        self._size = size
        self._weight, self._total, self._spread = xp.zeros((3, *shape))  # (height, width, colours) each

    def add(self, rows: slice, patches: Any, variances: Any, weights: Any) -> None:
        """Lay the patches of a band over the image, (n, D) each."""
        size, (_, width, n_colours) = self._size, self._total.shape
        n_rows, n_columns = rows.stop - rows.start, width - size + 1
        shape = n_rows, n_columns, size, size, n_colours
        layers = [layer.reshape(shape) for layer in (weights, patches * weights, variances * weights)]
        for dy in range(size):
            for dx in range(size):
                place = slice(rows.start + dy, rows.stop + dy), slice(dx, dx + n_columns)
                for image, layer in zip((self._weight, self._total, self._spread), layers, strict=True):
                    image[place] += layer[:, :, dy, dx]

    def mean(self) -> np.ndarray:
        """The image; NaN where nothing lies."""
        return self._total / np.where(self._weight > 0.0, self._weight, np.nan)

    def variance(self) -> np.ndarray:
        """The weighted mean of the patches' variances; NaN where nothing lies.

        Patches that overlap share their pixels and their errors: the variance of the mean is about that of the patches.
        """
        return self._spread / np.where(self._weight > 0.0, self._weight, np.nan)
