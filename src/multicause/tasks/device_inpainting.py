"""Gaps filled on a GPU: patches, their mixture and the sums that they are merged to stay there."""

from typing import Any

import numpy as np

from multicause.backends import cuda
from multicause.posteriors.device_steps.base import LANES, check_candidates
from multicause.tasks.incomplete_mixture import Filled, IncompleteMixture, MixtureParams
from multicause.tasks.patches import Patches
from multicause.tasks.weighted_merge import WeightedMerge

_SLOTS = 132 * 16  # rows that are under way at one time
_MOST_NUMBERS = 2**28  # of work arrays that exist at one time


class PatchesThere(Patches):
    """The same patches, those that are asked for on the device."""

    def __init__(self, image: np.ndarray, size: int):
        super().__init__(image, size)
        self._xp = cuda.runtime().xp
        _, self._width, self._n_colours = image.shape
        self._image = self._xp.asarray(np.ascontiguousarray(image, dtype=np.float64)).ravel()
        rows, columns, colours = np.ogrid[:size, :size, : self._n_colours]
        self._places = self._xp.asarray(((rows * self._width + columns) * self._n_colours + colours).ravel())

    def take(self, positions: np.ndarray) -> Any:
        rows, columns = np.divmod(positions, self._windows.shape[1])
        corners = self._xp.asarray((rows * self._width + columns) * self._n_colours)
        return self._image[corners[:, None] + self._places]

    def band(self, rows: slice) -> Any:
        n_columns = self._windows.shape[1]
        return self.take(np.arange(rows.start * n_columns, rows.stop * n_columns))


class MergeThere(WeightedMerge):
    """The same sums on the device; the image is in host memory."""

    def __init__(self, shape: tuple[int, ...], size: int):
        self._runtime = cuda.runtime()
        super().__init__(shape, size, self._runtime.xp)

    def mean(self) -> np.ndarray:
        return self._runtime.to_host(super().mean())

    def variance(self) -> np.ndarray:
        return self._runtime.to_host(super().variance())


class MixtureThere(IncompleteMixture):
    """The same mixture, whose rows are on the device: see `backends/cuda/incomplete_gaussians.cuh`."""

    @property
    def _runtime(self) -> Any:
        return cuda.runtime()  # not kept, since the mixture is part of a result that may be pickled

    def _start(self, guess: Any) -> MixtureParams:
        return super()._start(self._runtime.to_host(guess))

    def _candidates(self, guess: Any, whitening: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Any:
        few = min(self.n_candidates, self.n_components)
        check_candidates(few, LANES)
        runtime, (N, D), C = self._runtime, guess.shape, self.n_components
        xp, rows = runtime.xp, guess.astype(np.float32)
        squares, scores, ones = xp.empty(N, np.float32), xp.empty((N, C), np.float32), xp.ones(D, np.float32)
        whites, middles, peaks = map(xp.asarray, whitening)
        for c in range(C):
            Z = rows @ xp.ascontiguousarray(whites[c])
            Z -= middles[c]
            runtime.launch("row_squares", np.float32, (), N, LANES, Z, ones, N, D, squares)
            scores[:, c] = squares
        chosen, scale = xp.empty((N, few), np.int32), xp.full(C, -0.5, np.float32)
        runtime.launch("top_candidates", np.float32, (), N, LANES, scores, 2.0 * peaks, scale, N, C, few, chosen)
        return chosen

    def _expect(self, Y: Any, observed: Any, guess: Any, with_moments: bool) -> tuple[Filled, Any]:
        runtime, params, (N, D) = self._runtime, self.params_, Y.shape
        xp, seen = runtime.xp, observed.view(np.uint8)
        log_weights, means, covariances = map(xp.asarray, params[:3])
        candidates, n_slots = self._candidates(guess, self._whitening()), min(N, _SLOTS)
        cluster, places = xp.empty(N, np.int32), xp.empty((n_slots, D), np.int32)
        runtime.launch(
            "most_likely_gaussian", np.float64, (), n_slots, LANES, Y, seen, candidates, log_weights, means,
            covariances, float(params.noise_variance), N, D, candidates.shape[1], n_slots,
            xp.empty((n_slots, D + 1, D)), places, cluster,
        )  # fmt: skip
        filled, sums = Filled(xp.empty_like(Y), xp.empty_like(Y), cluster), xp.zeros(covariances.shape)
        order, borders = self._by_cluster(cluster)
        size = max(_MOST_NUMBERS // D**2, 1) if with_moments else N
        for first in range(0, N, size):
            rows = order[first : first + size]
            B = xp.zeros((len(rows) if with_moments else n_slots, D, D))
            runtime.launch(
                "incomplete_posteriors", np.float64, (), n_slots, LANES, Y, seen, rows, cluster, means, covariances,
                float(params.noise_variance), len(rows), D, n_slots, with_moments, B, xp.empty((n_slots, D)), places,
                filled.mean, filled.variance,
            )  # fmt: skip
            if with_moments:
                _add_products(B, np.clip(borders - first, 0, len(rows)), sums)
        return filled, runtime.to_host(sums)

    def _by_cluster(self, cluster: Any) -> tuple[Any, np.ndarray]:
        """The rows in the order of their clusters, and where each cluster begins and ends, (C + 1,)."""
        xp = self._runtime.xp
        order = xp.argsort(cluster, kind="stable")
        borders = xp.searchsorted(cluster[order], xp.arange(self.n_components + 1, dtype=cluster.dtype))
        return order.astype(np.int64, copy=False), self._runtime.to_host(borders)

    def _moments(self, filled: Filled) -> list[tuple[float, np.ndarray, np.ndarray]]:
        xp, to_host, C, D = self._runtime.xp, self._runtime.to_host, self.n_components, filled.mean.shape[1]
        order, borders = self._by_cluster(filled.cluster)
        rows, first, second = filled.mean[order], xp.zeros((C, D)), xp.zeros((C, D, D))
        _add_products(rows[:, None], borders, second)
        for c in range(C):
            first[c] = rows[borders[c] : borders[c + 1]].sum(axis=0)
        counts = np.diff(borders).astype(np.float64).tolist()
        return list(zip(counts, to_host(first), to_host(second), strict=True))


def _add_products(B: Any, borders: np.ndarray, sums: Any) -> None:
    """sums_c += sum over the matrices of B, (n, m, D), from one border to the next, of B^T B."""
    for c in range(len(sums)):
        part = B[borders[c] : borders[c + 1]]
        if len(part):
            rows = part.reshape(-1, B.shape[2])
            sums[c] += rows.T @ rows
