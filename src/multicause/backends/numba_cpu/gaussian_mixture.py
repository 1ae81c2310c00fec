"""Gaussian mixtures: the densities of each row's candidate clusters, and of no others.

With L the inverse Cholesky factor of Sigma_c, the exponent is |L (y - mu_c)|^2 / 2. The pairs of a row and a candidate
are grouped by cluster; eight of a group go through the triangular product at once. That is two to ten times faster than
a matrix product per cluster, and a row's bits do not depend on the rows beside it.
"""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.simd import LANES, fill, load, store

UNROLLED = 4  # rows of L that the triangular product takes at once
BLOCK = 64  # rows of one cluster whose outer products are summed at once


@njit(cache=True, nogil=True, error_model="numpy")
def group(candidates, n_clusters):
    """The pairs (row, candidate), counted as if `candidates` were flat, in the order of their clusters; and each
    cluster's first place in that order. Candidates below 0 are none."""
    n_rows, n_candidates = candidates.shape
    starts = np.zeros(n_clusters + 1, dtype=np.int64)
    for n in range(n_rows):
        for k in range(n_candidates):
            if candidates[n, k] >= 0:
                starts[candidates[n, k] + 1] += 1
    for c in range(n_clusters):
        starts[c + 1] += starts[c]
    free = starts[:-1].copy()
    order = np.empty(n_rows * n_candidates, dtype=np.int64)
    for n in range(n_rows):
        for k in range(n_candidates):
            c = candidates[n, k]
            if c >= 0:
                order[free[c]] = n * n_candidates + k
                free[c] += 1
    return order, starts


@njit(cache=True, nogil=True, error_model="numpy")
def full_distances(Y, candidates, means, factors):
    """|L (y - mu_c)|^2 of each row's candidates, (N, C'). `factors` (C, a multiple of four, D) hold L above zeros."""
    n_candidates, n_features = candidates.shape[1], Y.shape[1]
    order, starts = group(candidates, len(means))
    distances = np.empty(candidates.shape)
    d, result = np.empty((n_features, LANES)), np.empty((1, LANES))
    for c in range(len(means)):
        factor, end = factors[c], starts[c + 1]
        for first in range(starts[c], end, LANES):
            for lane in range(LANES):
                n = order[min(first + lane, end - 1)] // n_candidates
                for i in range(n_features):
                    d[i, lane] = Y[n, i] - means[c, i]
            total = fill(0.0)
            for j in range(0, factor.shape[0], UNROLLED):
                a, b, e, f = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
                for i in range(min(j + UNROLLED, n_features)):
                    x = load(d, i)
                    a = a + x * factor[j, i]
                    b = b + x * factor[j + 1, i]
                    e = e + x * factor[j + 2, i]
                    f = f + x * factor[j + 3, i]
                total = total + (a * a + b * b) + (e * e + f * f)
            store(result, 0, total)
            for lane in range(min(LANES, end - first)):
                pair = order[first + lane]
                distances[pair // n_candidates, pair % n_candidates] = result[0, lane]
    return distances


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def diagonal_distances(Y, candidates, means, precisions):
    """sum_d (y_d - mu_cd)^2 precision_cd of each row's candidates, (N, C')."""
    distances = np.empty(candidates.shape)
    for n in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            c = candidates[n, k]
            total = 0.0
            for i in range(Y.shape[1]):
                difference = Y[n, i] - means[c, i]
                total += difference * difference * precisions[c, i]
            distances[n, k] = total
    return distances


@njit(cache=True, nogil=True, error_model="numpy")
def full_sums(Y, candidates, r, means, rd, rdd):
    """Add r d and r d d^T of each pair with d = y - mu_c to (C, D) and (C, D, D)."""
    n_candidates, n_features = candidates.shape[1], Y.shape[1]
    order, starts = group(candidates, len(means))
    block, product = np.empty((BLOCK, n_features)), np.empty((n_features, n_features))
    for c in range(len(means)):
        n_rows = 0
        for at in range(starts[c], starts[c + 1]):
            n = order[at] // n_candidates
            root = np.sqrt(r[n, order[at] % n_candidates])
            if root > 0.0:
                for i in range(n_features):
                    block[n_rows, i] = root * (Y[n, i] - means[c, i])
                    rd[c, i] += root * block[n_rows, i]
                n_rows += 1
            if n_rows == BLOCK or (n_rows > 0 and at == starts[c + 1] - 1):
                np.dot(block[:n_rows].T, block[:n_rows], product)
                rdd[c] += product
                n_rows = 0


@njit(cache=True, nogil=True, error_model="numpy")
def diagonal_sums(Y, candidates, r, means, rd, rdd):
    """Add r d and r d^2 of each pair with d = y - mu_c to (C, D) and (C, D)."""
    for n in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            c, share = candidates[n, k], r[n, k]
            if share == 0.0:
                continue
            for i in range(Y.shape[1]):
                difference = Y[n, i] - means[c, i]
                rd[c, i] += share * difference
                rdd[c, i] += share * difference * difference
