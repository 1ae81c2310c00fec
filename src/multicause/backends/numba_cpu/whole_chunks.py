"""All of a chunk's E-step between two matrix products, in one call: selection, expectations, sums over the rows.

Threads take Python in turns, and wait for their turn after each call that does without; sixteen of them spend more time
waiting than computing where an E-step is many small calls. The parts are those of the other modules.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu import binary_linear, maximal_causes, spike_slab_linear
from multicause.backends.numba_cpu.selection import (
    select_binary_greedily,
    squared_excess_scores,
    top_candidates,
    top_singletons,
)

_enumerate_binary = binary_linear.expectations
_enumerate_slabs = spike_slab_linear.expectations
_enumerate_maxima = maximal_causes.expectations


class Totals(NamedTuple):
    """Weighted sums over the rows."""

    weight: float
    log_normaliser: float
    energy: float  # <x>


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_squares(Y, weights):
    """sum_n w_n y_nd^2; NaN where an entry is missing."""
    squares = np.zeros(Y.shape[1])
    for n in range(Y.shape[0]):
        for d in range(Y.shape[1]):
            squares[d] += weights[n] * (Y[n, d] * Y[n, d])
    return squares


@njit(cache=True, nogil=True, error_model="numpy")
def _add_up(weights, log_normaliser, energy):
    weight, total_log, total_energy = 0.0, 0.0, 0.0
    for n in range(weights.size):
        weight += weights[n]
        total_log += weights[n] * log_normaliser[n]
        total_energy += weights[n] * energy[n]
    return Totals(weight, total_log, total_energy)


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_rows(rows, weights):
    """rows[n] <- w_n rows[n]; returns their sum."""
    total = np.zeros(rows.shape[1])
    for n in range(rows.shape[0]):
        for h in range(rows.shape[1]):
            rows[n, h] *= weights[n]
            total[h] += rows[n, h]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _shift_rows(rows, shift):
    for n in range(rows.shape[0]):
        for h in range(rows.shape[1]):
            rows[n, h] += shift[h]


@njit(cache=True, nogil=True, error_model="numpy")
def binary(Y, linear, constants, overlaps, tree, singletons, weights, sums):
    """Linear binary latents; `constants` are the offset, the scale of scores, H', and whether to select greedily.

    linear (N, H) holds W y / sigma^2, and w_n <s> in the end. Returns sum_n w_n <s>, sum_n w_n y^2 and the totals;
    squares that are NaN mean missing entries, and that nothing else was done.
    """
    offset, scale, n_candidates, greedy = constants
    squares = _weighted_squares(Y, weights)
    if np.isnan(squares.sum()):
        return np.zeros(offset.size), squares, Totals(0.0, 0.0, 0.0)
    _shift_rows(linear, offset)
    if greedy:
        candidates = select_binary_greedily(linear, overlaps, n_candidates)
    else:
        candidates = top_candidates(linear, offset, scale, n_candidates)
    log_normaliser, energy = _enumerate_binary(linear, overlaps, candidates, tree, singletons, weights, sums, linear)
    s = _weigh_rows(linear, weights)
    for h in range(s.size):
        sums.ss[h, h] = s[h]
    return s, squares, _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def slabs(Y, problem, constants, tree, singletons, weights, moments):
    """Spike and slab; `constants` are what W y is short of b, the singletons' scores where b + mu = 0, and H'.

    moments.x holds w_n <s*z> in the end. Returns the sums of w_n <s>, w_n <s*z>, w_n y^2, and the totals.
    """
    shift, constant, n_candidates = constants
    squares = _weighted_squares(Y, weights)
    if np.isnan(squares.sum()):
        return squares, squares, squares, Totals(0.0, 0.0, 0.0)
    _shift_rows(problem.linear, shift)
    candidates = top_singletons(problem.linear, problem.shift, problem.inverse, constant, n_candidates)
    log_normaliser, energy = _enumerate_slabs(problem, candidates, tree, singletons, weights, moments)
    x, s = _weigh_rows(moments.x, weights), _weigh_rows(moments.s, weights)
    return s, x, squares, _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def maxima(tables, tree, Y, singles, constants, singletons, weights, sums):
    """Maxima under Gaussian noise; `constants` are the singles' offset, the noise's spread (D,), the components in its
    units, log pi and H'.

    Returns the weights of single latents (N, H), times w_n; sums of them, of w_n <s> and of w_n y^2, the squares of the
    rows as far as single latents explain them, and the totals.
    """
    offset, spread, white, log_activation, n_candidates = constants
    _shift_rows(singles, offset)
    n_rows, n_features = Y.shape
    empty = np.empty(n_rows)
    for n in range(n_rows):
        total = 0.0
        for d in range(n_features):
            total += Y[n, d]
        empty[n] = tables.background_natural * total - n_features * tables.background_partition
    scores = squared_excess_scores(Y / spread, white, log_activation)
    shift, scale = np.zeros(log_activation.size), np.ones(log_activation.size)
    candidates = top_candidates(scores, shift, scale, n_candidates)
    log_normaliser, energy, means, alone = _enumerate_maxima(
        tables, tree, (Y, singles, empty), candidates, singletons, weights, sums
    )
    s, single = _weigh_rows(means, weights), _weigh_rows(alone, weights)
    by_singles = np.empty(n_rows)
    for n in range(n_rows):
        by_singles[n] = alone[n].sum()
    squares = _weighted_squares(Y, weights)
    return alone, single, s, squares, _weighted_squares(Y, by_singles), _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def add_singles(components, sums, single, single_ay, squares, hard, emphasis):
    """Add states of one latent to those of several; `squares` are of the rows that they explain, or of all.

    The mean is in each dimension the one latent's that A is 1 for: <(y - mean)^2> = y^2 + W (A W - 2 A y).
    """
    for d in range(components.shape[1]):
        sums.squares[d] += squares[d]
    for h in range(components.shape[0]):
        for d in range(components.shape[1]):
            W = components[h, d]
            a, ay = single[h], single_ay[h, d]
            if hard:
                a, ay = sums.a[h, d] + a, sums.ay[h, d] + ay
            sums.squares[d] += W * (a * W - 2.0 * ay)
            sums.a[h, d] += (1.0 + emphasis) * single[h]
            sums.ay[h, d] += (1.0 + emphasis) * single_ay[h, d]
