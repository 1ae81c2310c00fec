"""What the truncated posterior asks of a model's E-step on a device."""

from abc import ABC, abstractmethod
from functools import cache, cached_property
from itertools import accumulate
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from multicause.models.intercept import intercept_of
from multicause.models.subsets import subsets
from multicause.posteriors.e_steps.base import TruncatedEStep

MOST_CANDIDATES = 16  # that templates are compiled for: each latent more doubles the code of a lane
NORMALISERS, ROWS, STATISTICS = 0, 1, 2  # what kernels are asked for, as in spike_slab_linear.cuh
MISSING = "Missing values, NaN in X, have no kernel for a GPU. Use device='cpu', or fill them in."
_GROUPS = 8192  # of lanes, that keep a device busy
_SHARED_COLUMNS = 256, 1024  # of pairs, whose sums fit into shared memory
_ROWS_AT_ONCE = 2**16  # whose sums single precision bears
LANES = 32
_CACHE_BYTES = 190 * 2**10
_SLOTS = 132 * 16  # rows whose candidates are chosen at one time, greedily


class Unsupported(ValueError):
    """What has no kernel for a device."""


class DeviceEStep(ABC):
    """Expectations over the states K_n of each row's candidates, at given parameters, all arrays being on a device.

    What depends on the parameters alone is taken from the E-step of the processor.

    Parameters
    ----------
    host : TruncatedEStep
        The E-step of the processor, at the same parameters.
    runtime : Runtime
        The device.
    dtype : dtype
        The precision of the data, in which everything but sums is computed.
    """

    host: Any

    def __init__(self, host: TruncatedEStep, runtime: Any, dtype: Any):
        self.host, self.model, self.params = host, host.model, host.params
        self.max_active, self.singletons, self.beta = host.max_active, host.singletons, host.beta
        self.runtime, self.xp, self.dtype = runtime, runtime.xp, np.dtype(dtype)

    def numbers_per_row(self, n_candidates: int, n_features: int) -> int:
        """Of work arrays, besides a few of (N, D) and of (N, H)."""
        return 0

    @abstractmethod
    def terms(self, Y: Any) -> Any:
        """What the rows contribute."""

    @abstractmethod
    def select(self, terms: Any, n_candidates: int) -> Any:
        """Candidates by the model's own selection function, (N, H')."""

    def select_greedily(self, terms: Any, n_candidates: int) -> Any:
        raise Unsupported(f"{type(self.model).__name__} has no greedy selection on a GPU. Use device='cpu'.")

    def choose_greedily(
        self, kernel: str, linear: Any, tables: tuple, n_work: int, n_candidates: int, sizes: tuple[int, ...] = ()
    ) -> Any:
        """By a kernel of `backends/cuda/selection.cuh` that works on so many numbers for each latent."""
        check_candidates(n_candidates, LANES)
        N, H = linear.shape
        chosen, n_slots = self.xp.empty((N, n_candidates), np.int32), min(N, _SLOTS)
        if sizes:  # the work should fit into the cache beside a multiprocessor
            fitting = _CACHE_BYTES // (n_work * H * self.dtype.itemsize)
            n_slots = min(N, _SLOTS, _SLOTS // 16 * max(4, fitting // 4 * 4))
        work, shape = self.empty(n_slots, n_work, H), (N, H, n_candidates, n_slots)
        self.launch(kernel, sizes, n_slots, LANES, linear, *tables, *shape, work, chosen)
        return chosen

    @abstractmethod
    def free_energies(self, terms: Any, candidates: Any) -> Any:
        """F_n, (N,)."""

    @abstractmethod
    def means(self, terms: Any, candidates: Any) -> Any:
        """<s>, (N, H)."""

    def codes(self, terms: Any, candidates: Any) -> Any:
        """<s*z>, (N, H); the same as `means` where latents have no coefficients."""
        return self.means(terms, candidates)

    @abstractmethod
    def reconstruct(self, terms: Any, candidates: Any) -> Any:
        """Posterior means of the noiseless data, (N, D)."""

    def clean(self, terms: Any, candidates: Any) -> Any:
        """Posterior means and variances of the noiseless data, (N, 2, D)."""
        raise TypeError(f"{type(self.model).__name__} does not say how certain its noiseless data are.")

    @abstractmethod
    def statistics(self, terms: Any, candidates: Any, weights: Any) -> tuple[float, Any]:
        """The weighted sum of F_n, and the model's statistics in host memory; it uses the terms up."""

    def put(self, array: Any) -> Any:
        """An array of parameters on the device."""
        return self.xp.asarray(np.ascontiguousarray(array, dtype=self.dtype))

    def put_all(self, *arrays: Any) -> list[Any]:
        """Several arrays of parameters by one copy."""
        given = [np.asarray(array) for array in arrays]
        flat, ends = self.put(np.concatenate([array.ravel() for array in given])), accumulate(a.size for a in given)
        return [flat[end - array.size : end].reshape(array.shape) for end, array in zip(ends, given, strict=True)]

    @cached_property
    def intercept(self) -> Any:
        """b on the device, (D,), or nothing, (0,)."""
        return self.put(intercept_of(self.params))

    def centred(self, Y: Any) -> Any:
        """y - b of each row."""
        return Y - self.intercept if self.intercept.size else Y

    def lifted(self, mean: Any) -> Any:
        """b + what latents cause."""
        return mean + self.intercept if self.intercept.size else mean

    def row_sum(self, Y: Any, weights: Any, out: Any) -> Any:
        """out <- sum_n w_n y_n, where there is a place for it, (1, D)."""
        return self.cross_sums(weights[:, None], Y, out) if out.size else out

    def empty(self, *shape: int) -> Any:
        return self.xp.empty(shape, self.dtype)

    def launch(self, name: str, sizes: tuple[int, ...], n_groups: int, lanes: int, *arguments: Any) -> None:
        self.runtime.launch(name, self.dtype, sizes, n_groups, lanes, *arguments)

    def results(self, *shapes: tuple[int, ...]) -> "Results":
        """Sums to be filled in on the device, and read by one copy."""
        sizes = [prod(shape) for shape in shapes]
        flat, ends = self.xp.empty(sum(sizes)), accumulate(sizes)
        parts = [flat[end - n : end].reshape(s) for end, n, s in zip(ends, sizes, shapes, strict=True)]
        return Results(flat, parts)

    def read_results(self, results: "Results") -> list[np.ndarray]:
        flat, first, arrays = self.runtime.read(results.flat), 0, []
        for part in results.parts:
            arrays.append(flat[first : first + part.size].reshape(part.shape))
            first += part.size
        return arrays

    def read(self, *arrays: Any) -> list[np.ndarray]:
        """Arrays in double precision, in host memory, by one copy."""
        flat = self.xp.concatenate([array.ravel().astype(np.float64, copy=False) for array in arrays])
        parts = np.split(self.runtime.read(flat), np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def cross_sums(self, left: Any, right: Any, out: Any = None) -> Any:
        """left^T right, (H, D); single precision is summed in double, a few thousand rows at a time."""
        total = self.xp.empty((left.shape[1], right.shape[1])) if out is None else out
        if self.dtype == np.float64:
            return self.xp.matmul(left.T, right, out=total)
        total[...] = left[:_ROWS_AT_ONCE].T @ right[:_ROWS_AT_ONCE]
        for first in range(_ROWS_AT_ONCE, len(left), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            total += left[rows].T @ right[rows]
        return total

    def add_parts(self, parts: Any, out: Any) -> Any:
        """out <- the sum over the first axis, in double precision."""
        self.runtime.launch("add_parts", parts.dtype, (), out.size, LANES, parts, len(parts), out.size, out)
        return out

    def weighted_totals(self, weights: Any, a: Any, b: Any, out: Any) -> Any:
        """out <- the sums of w_n, w_n a_n and w_n b_n, (3,)."""
        n_parts = max(min(_GROUPS // 4, len(weights) // 64), 1)
        sums = self.xp.empty((n_parts, 3))
        self.launch("weighted_totals", (), n_parts, LANES, weights, a, b, len(weights), n_parts, sums)
        return self.add_parts(sums, out)

    def row_squares(self, Y: Any, scale: Any) -> Any:
        """sum_d (scale_d y_d)^2 of each row, (N,)."""
        squares = self.empty(len(Y))
        self.launch("row_squares", (), len(Y), LANES, Y, scale, len(Y), Y.shape[1], squares)
        return squares

    def square_sums(self, Y: Any, weights: Any, out: Any = None) -> Any:
        """sum_n w_n y_nd^2, (D,); NaN where an entry is missing."""
        out = self.xp.empty(Y.shape[1]) if out is None else out
        n_parts = self.parts(Y.shape[1], len(Y))
        sums = self.xp.empty((n_parts, Y.shape[1]))
        self.launch("square_sums", (), sums.size, 1, Y, weights, len(Y), Y.shape[1], n_parts, sums)
        return self.add_parts(sums, out)

    def column_totals(self, rows: Any, out: Any = None) -> Any:
        """The sum of all rows in double precision, (H,)."""
        (N, H), out = rows.shape, self.xp.empty(rows.shape[1]) if out is None else out
        n_parts = self.parts(H, N)
        sums = self.xp.empty((n_parts, H))
        self.launch("column_totals", (), n_parts * H, 1, rows, N, H, n_parts, sums)
        return self.add_parts(sums, out)

    def parts(self, n_columns: int, n_rows: int) -> int:
        """Into how many parts sums over rows are cut: it depends on the sizes alone."""
        return max(min(ceil(_GROUPS * LANES / n_columns), ceil(n_rows / 64)), 1)

    def top_candidates(self, scores: Any, shift: Any, scale: Any, n_candidates: int) -> Any:
        check_candidates(n_candidates, LANES)
        chosen = self.xp.empty((len(scores), n_candidates), np.int32)
        sizes = len(scores), scores.shape[1], n_candidates
        self.launch("top_candidates", (), len(scores), LANES, scores, shift, scale, *sizes, chosen)
        return chosen

    def tops(self, n_candidates: int) -> Any:
        """The subsets of the first candidates that lanes take, as bits."""
        check_candidates(n_candidates, MOST_CANDIDATES)
        return self.runtime.constant(first_subsets, n_candidates, self.max_active)

    def by_latent(self, candidates: Any, n_latents: int) -> tuple[Any, Any]:
        """The pairs (row, place), counted as if candidates were flat, by latent; and where each latent begins."""
        (N, n_candidates), n_parts = candidates.shape, max(min(_GROUPS, len(candidates) // 32), 1)
        counts, order = self.xp.zeros(n_latents * n_parts, np.int32), self.xp.empty(candidates.size, np.int32)
        ends, sizes = self.xp.zeros(counts.size + 1, np.int32), (N, n_candidates, n_parts)
        self.launch("count_candidates", (), n_parts, LANES, candidates, *sizes, counts)
        self.xp.cumsum(counts, dtype=np.int32, out=ends[1:])
        self.launch("order_candidates", (), n_parts, LANES, candidates, ends[1:], *sizes, counts, order)
        return order, self.xp.ascontiguousarray(ends[::n_parts])

    def pair_sums(
        self,
        values: Any,
        candidates: Any,
        weights: Any,
        active: int,
        second: int,
        out: tuple[Any, Any],
        unit: Any = None,
    ) -> None:
        """Sums over the rows of what candidates have: the value `active` + place, (H,), and their pairs, (H, H)."""
        H, n_tasks = len(out[1]), max(min(_GROUPS, candidates.size // 16), 1)
        columns = next((n for n in _SHARED_COLUMNS if n >= H), 0)
        actives, runs = self.xp.empty(n_tasks + H), (self.xp.empty if columns else self.xp.zeros)((n_tasks + H, H))
        where = candidates.size, candidates.shape[1], values.shape[1], active, second, H, n_tasks
        order, starts = self.by_latent(candidates, H)
        self.launch(
            "pair_sums", (columns,), n_tasks, LANES, values, candidates, order, starts, weights, *where, actives, runs
        )
        units = weights if unit is None else unit, unit is not None
        self.launch("add_runs", (), H * H, 1, runs, starts, *units, H, H, n_tasks, out[1])
        if active >= 0:
            self.launch("add_runs", (), H, 1, actives, starts, weights, False, H, 1, n_tasks, out[0])


class Results(NamedTuple):
    """Arrays of double precision, one after the other in the memory of a device."""

    flat: Any
    parts: list[Any]


def lanes_of(n_candidates: int) -> int:
    """Lanes that share a data point: as `Shares` in common.cuh."""
    return 1 << min(_n_first(n_candidates), 5)


def _n_first(n_candidates: int) -> int:
    return n_candidates - min((n_candidates + 1) // 2, 5)


@cache
def first_subsets(n_candidates: int, max_active: int) -> np.ndarray:
    chosen = (sum(1 << i for i in members) for members in subsets(_n_first(n_candidates), max_active))
    return np.array(sorted(chosen), dtype=np.int32)


def check_candidates(n_candidates: int, most: int) -> None:
    if n_candidates > most:
        raise Unsupported(
            f"On a GPU a data point has at most {most} candidates. Got n_candidates={n_candidates}: lower it, or use "
            "device='cpu'."
        )
