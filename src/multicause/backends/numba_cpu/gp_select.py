"""The inner loops of GP-select: targets that are mostly zero, and candidates chosen by the selection function."""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.counter_random import mix
from multicause.backends.numba_cpu.selection import offer
from multicause.backends.numba_cpu.without_compiler import silently


class Targets(NamedTuple):
    """The posterior means of a chunk, without the negligible ones, row by row."""

    starts: np.ndarray  # (N + 1,) where each row begins
    latents: np.ndarray  # (M,)
    values: np.ndarray  # (M,)


@njit(cache=True, nogil=True, error_model="numpy")
def sparse_targets(means, negligible):
    """The entries of `means` above `negligible`."""
    n_rows, n_latents = means.shape
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    for n in range(n_rows):
        starts[n + 1] = starts[n] + (means[n] > negligible).sum()
    latents, values = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1])
    for n in range(n_rows):
        i = starts[n]
        for h in range(n_latents):
            if means[n, h] > negligible:
                latents[i] = h
                values[i] = means[n, h]
                i += 1
    return Targets(starts, latents, values)


@njit(cache=True, nogil=True, error_model="numpy")
def project(targets, features, weights, n_latents):
    """sum_n w_n <s>_n phi_n^T, (H, Q)."""
    total = np.zeros((n_latents, features.shape[1]))
    for n in range(len(features)):
        for i in range(targets.starts[n], targets.starts[n + 1]):
            share, row = weights[n] * targets.values[i], total[targets.latents[i]]
            for q in range(features.shape[1]):
                row[q] += share * features[n, q]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def leave_out(scores, targets, leverage):
    """Subtract from each row's predictions what the row itself contributed to them."""
    for n in range(len(scores)):
        for i in range(targets.starts[n], targets.starts[n + 1]):
            scores[n, targets.latents[i]] -= leverage[n] * targets.values[i]


@silently(njit(cache=True, nogil=True, error_model="numpy"))
def pick(scores, n_candidates, n_random, key, first_row):
    """The columns of each row's largest scores, `n_random` of them replaced by others drawn at random, in rising order.

    What is drawn depends on the key, the row's number and the draw alone. Scores count as equal when they round to the
    same float32, and the first wins.
    """
    n_rows, n_columns = scores.shape
    n_best = n_candidates - n_random
    chosen = np.empty((n_rows, n_candidates), dtype=np.int32)
    best, which = np.empty(n_best, dtype=np.float32), np.empty(n_best, dtype=np.int32)
    taken = np.zeros(n_columns, dtype=np.bool_)
    for n in range(n_rows):
        filled = 0
        if n_best > 0:
            for h in range(n_columns):
                filled = offer(np.float32(scores[n, h]), h, best, which, filled)
        taken[:] = False
        for i in range(n_best):
            taken[which[i]] = True
        row_key = mix(np.uint64(key) + mix(np.uint64(first_row + n) + np.uint64(0x9E3779B97F4A7C15)))
        for i in range(n_random):
            drawn = mix(row_key + np.uint64(i + 1)) >> np.uint64(11)
            skip = np.int64(np.float64(drawn) * 2.0**-53 * (n_columns - n_best - i))
            for h in range(n_columns):
                if not taken[h]:
                    if skip == 0:
                        taken[h] = True
                        break
                    skip -= 1
        i = 0
        for h in range(n_columns):
            if taken[h]:
                chosen[n, i] = h
                i += 1
    return chosen
