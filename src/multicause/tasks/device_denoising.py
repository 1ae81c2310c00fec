"""The two passes over an image on a GPU: patches, their model and their groups never leave it."""

from typing import Any

import numpy as np

from multicause.backends import cuda
from multicause.estimators import TruncatedGaussianMixture
from multicause.models.local_gaussian import Neighbourhood, middles
from multicause.tasks.mixture_denoising import LEAST_VARIANCE, Learner
from multicause.tasks.noise_level import SIZE, cosines, frequencies, level_of, looked_at
from multicause.tasks.texture_spectrum import level_beside_texture, some_powers

_AT_ONCE = 2**19  # patches
_SLOTS = 132 * 32  # groups that are under way at one time
LANES = 32


class PatchesOnDevice:
    """The overlapping square patches of a channel (height, width), as rows in double precision."""

    def __init__(self, channel: np.ndarray, size: int):
        self._runtime, self._size = cuda.runtime(), size
        self._channel = self._runtime.xp.asarray(np.ascontiguousarray(channel, dtype=np.float32))
        self.n_rows, self.n_columns = (n - size + 1 for n in channel.shape)

    def __len__(self) -> int:
        return self.n_rows * self.n_columns

    def take(self, positions: np.ndarray) -> Any:
        """The patches at some positions, counted row by row, (n, D)."""
        patches = self._runtime.xp.empty((len(positions), self._size**2))
        there = self._runtime.xp.asarray(positions, dtype=np.int64)
        sizes = len(positions), self._channel.shape[1], self._size
        self._runtime.launch("take_patches", np.float64, (), patches.size, 1, self._channel, there, *sizes, patches)
        return patches


class DeviceLearner(Learner):
    """The same learner, whose arrays are on a GPU."""

    @staticmethod
    def noise_of(channel: np.ndarray, clipped: np.ndarray | None) -> float:
        size = min(SIZE, *channel.shape)
        positions, n_pixels = looked_at(channel.shape, size, clipped)
        runtime, patches, (low, high) = cuda.runtime(), PatchesOnDevice(channel, size), frequencies(size)
        xp = runtime.xp
        powers = xp.square(patches.take(positions) @ xp.asarray(cosines(size)))
        smoothest = powers[xp.argsort(powers @ xp.asarray(low / low.sum()))]
        level = level_of(lambda n: runtime.to_host(smoothest[:n].mean(axis=0))[high], len(powers), n_pixels, high)
        some = runtime.to_host(some_powers(powers))
        return float(np.sqrt(level * level_beside_texture(some, size, level)))

    def patches(self, channel: np.ndarray) -> PatchesOnDevice:
        return PatchesOnDevice(channel[:, :, 0], self.patch_size)

    def merged(self, mixture: TruncatedGaussianMixture, channel: np.ndarray) -> np.ndarray:
        """The channel merged from denoised patches, a band of rows at a time."""
        runtime, patches, shape = cuda.runtime(), self.patches(channel), channel.shape[:2]
        xp, D = runtime.xp, self.patch_size**2
        total, weight = xp.zeros(shape), xp.zeros(shape)
        height = max(_AT_ONCE // patches.n_columns, 1)
        for first in range(0, patches.n_rows, height):
            n_rows = min(height, patches.n_rows - first)
            positions = np.arange(first * patches.n_columns, (first + n_rows) * patches.n_columns)
            mean, variance = map(xp.asarray, mixture.reconstruct_with_variance(patches.take(positions)))
            weights = 1.0 / (variance.mean(axis=1) + LEAST_VARIANCE * self.noise_level**2)
            sizes = first, n_rows, *shape, self.patch_size, D
            mean = xp.ascontiguousarray(mean)
            runtime.launch("merge_patches", np.float64, (), total.size, 1, mean, weights, *sizes, total, weight)
        return runtime.to_host(total / weight)[:, :, None]

    def by_groups(self, channels: np.ndarray, pilot: np.ndarray, where: Neighbourhood) -> tuple[np.ndarray, np.ndarray]:
        runtime, variance = cuda.runtime(), float(np.float32(self.noise_level**2))
        xp, (height, width, n_colours) = runtime.xp, channels.shape
        rows, columns = (xp.asarray(middles(n, where).astype(np.int32)) for n in (height, width))
        D, n = where.patch_size**2, where.n_alike
        slot = (2 * where.reach + 1) ** 2 + 3 * n * D + 2 * n * n
        n_slots = min(len(rows) * len(columns), _SLOTS)
        work, places = xp.empty((n_slots, slot), np.float32), xp.empty((n_slots, n, 2), np.int32)
        sums = xp.zeros((3, height, width, n_colours), np.int64)
        image = height, width, n_colours, where.patch_size, where.reach, n
        runtime.launch(
            "clean_groups", np.float32, (), n_slots, LANES, xp.asarray(channels), xp.asarray(pilot), rows, columns,
            len(rows), len(columns), *image, variance, LEAST_VARIANCE * variance, n_slots, slot, work, places, sums,
        )  # fmt: skip
        weight, change, gain = runtime.to_host(sums).astype(np.float64)
        covered = weight > 0.0
        weight = np.where(covered, weight, 1.0)
        cleaned = pilot + np.sqrt(variance) * (change / weight)
        variances = np.where(covered, variance * (gain / weight), variance)
        return cleaned.astype(np.float32), variances.astype(np.float32)
