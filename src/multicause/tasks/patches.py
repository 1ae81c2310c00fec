"""All overlapping patches of an image, a few at a time, and the image that they are merged to."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Band = TypeVar("Band")
BAND_BYTES = 2**24  # of patches that exist at one time


class Patches:
    """The overlapping square patches of an image of shape (height, width, colours).

    A view: patches are copied only when they are asked for. A *band* is some rows of positions, a slice.
    """

    def __init__(self, image: np.ndarray, size: int):
        windows = sliding_window_view(image, (size, size), axis=(0, 1))
        self._windows = np.moveaxis(windows, 2, -1)  # (rows, columns, size, size, colours)

    def __len__(self) -> int:
        return self._windows.shape[0] * self._windows.shape[1]

    @property
    def n_pixels(self) -> int:
        """D, the pixels of a patch, counted once per colour."""
        return int(np.prod(self._windows.shape[2:]))

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The patches at some positions, counted row by row, (n, D)."""
        rows, columns = np.divmod(positions, self._windows.shape[1])
        return self._windows[rows, columns].reshape(len(positions), -1)

    def band(self, rows: slice) -> np.ndarray:
        """The patches of a band, (n, D), never a view of the image."""
        return np.array(self._windows[rows], order="C").reshape(-1, self.n_pixels)

    def bands(self) -> list[slice]:
        """All rows of positions, cut into bands of about BAND_BYTES."""
        n_rows, n_columns = self._windows.shape[:2]
        height = max(1, BAND_BYTES // (8 * self.n_pixels * n_columns))
        return [slice(first, min(first + height, n_rows)) for first in range(0, n_rows, height)]


class Merge:
    """The weighted mean, in each pixel, of the patches that cover it."""

    def __init__(self, shape: tuple[int, ...], size: int):
        self._size = size
        self._total = np.zeros(shape)  # (height, width, colours)
        self._weight = np.zeros(shape[:2])

    def add(self, rows: slice, patches: np.ndarray, weights: np.ndarray) -> None:
        """Lay the patches of a band over the image, each with its weight."""
        size, n_colours = self._size, self._total.shape[2]
        n_rows, n_columns = rows.stop - rows.start, self._total.shape[1] - size + 1
        weights = weights.reshape(n_rows, n_columns)
        patches = patches.reshape(n_rows, n_columns, size, size, n_colours) * weights[..., None, None, None]
        for dy in range(size):
            for dx in range(size):
                place = slice(rows.start + dy, rows.stop + dy), slice(dx, dx + n_columns)
                self._total[place] += patches[:, :, dy, dx]
                self._weight[place] += weights

    @property
    def covered(self) -> np.ndarray:
        """Where any weight lies, (height, width)."""
        return self._weight > 0.0

    def mean(self) -> np.ndarray:
        """The image; NaN where nothing lies."""
        return self._total / np.where(self.covered, self._weight, np.nan)[..., None]


def some_of(rows: np.ndarray, most: int, random_state: np.random.RandomState) -> np.ndarray:
    """The rows, in their order; where there are more than `most`, as many of them, drawn at random."""
    if len(rows) <= most:
        return rows
    rng = np.random.default_rng(random_state.randint(2**31 - 1))
    return rows[np.sort(rng.choice(len(rows), most, replace=False))]


def with_progress(bands: Iterable[Band], title: str, verbose: int) -> Iterator[Band]:
    """The bands one after the other, with a progress bar where there is a terminal and someone who wants one."""
    from rich.console import Console
    from rich.progress import track

    console = Console(file=sys.stderr)
    yield from track(list(bands), title, console=console, disable=not (verbose and console.is_terminal))
