"""All of a chunk's E-step in one call: matrix products, selection, expectations, sums over the rows.

Threads take Python in turns, and wait for their turn after each call that does without; sixteen of them spend more time
waiting than computing where an E-step is many small calls. The parts are those of the other modules.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu import binary_linear, maximal_causes, spike_slab_linear
from multicause.backends.numba_cpu.selection import squared_excess_scores, top_candidates, top_singletons
from multicause.backends.numba_cpu.spike_slab_linear import symmetric

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
def _project(Y, projection, shift, linear):
    """linear <- Y projection + shift."""
    np.dot(Y, projection, linear)
    for n in range(linear.shape[0]):
        for h in range(linear.shape[1]):
            linear[n, h] += shift[h]


@njit(cache=True, nogil=True, error_model="numpy")
def binary(Y, constants, linear, overlaps, tree, singletons, weights, sums):
    """Linear binary latents; `constants` are W^T / sigma^2, the offset, the scale of scores and H'.

    linear (N, H) may hold anything. Returns sum_n w_n <s>, sum_n w_n <s> y^T, sum_n w_n y^2 and the totals; squares that
    are NaN mean missing entries, and that nothing else was done.
    """
    projection, offset, scale, n_candidates = constants
    squares = _weighted_squares(Y, weights)
    if np.isnan(squares.sum()):
        return offset, projection, squares, Totals(0.0, 0.0, 0.0)
    _project(Y, projection, offset, linear)
    candidates = top_candidates(linear, offset, scale, n_candidates)
    log_normaliser, energy = _enumerate_binary(linear, overlaps, candidates, tree, singletons, weights, sums, linear)
    s = _weigh_rows(linear, weights)
    for h in range(s.size):
        sums.ss[h, h] = s[h]
    return s, np.dot(linear.T, Y), squares, _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def slabs(Y, problem, constants, tree, singletons, weights, moments):
    """Spike and slab; `constants` are the projection, what W y is short of b, the singletons' scores where b + mu = 0,
    the unit of coefficients and H'.

    problem.linear (N, H) may hold anything. Returns the sums of w_n <s>, w_n <x>, w_n <x> y^T and w_n y^2, and the
    totals; moments.xx holds the sum of w_n <x x^T> in the end.
    """
    projection, shift, constant, unit, n_candidates = constants
    squares = _weighted_squares(Y, weights)
    if np.isnan(squares.sum()):
        return unit, unit, projection, squares, Totals(0.0, 0.0, 0.0)
    _project(Y, projection, shift, problem.linear)
    candidates = top_singletons(problem.linear, problem.shift, problem.inverse, constant, n_candidates)
    log_normaliser, energy = _enumerate_slabs(problem, candidates, tree, singletons, weights, moments)
    x, s = _weigh_rows(moments.x, weights), _weigh_rows(moments.s, weights)
    xy = np.dot(moments.x.T, Y)
    for h in range(unit.size):
        xy[h] *= unit[h]
    symmetric(moments.xx, unit)
    return s, unit * x, xy, squares, _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def _log_joint_of_none(tables, Y):
    empty = np.empty(Y.shape[0])
    for n in range(Y.shape[0]):
        total = 0.0
        for d in range(Y.shape[1]):
            total += Y[n, d]
        empty[n] = tables.background_natural * total - Y.shape[1] * tables.background_partition
    return empty


@njit(cache=True, nogil=True, error_model="numpy")
def maxima(tables, tree, Y, singles, constants, singletons, weights, sums):
    """Maxima under Gaussian noise; `constants` are the projection, the singles' offset, the noise's spread (D,), the
    components in its units, log pi, how much more single latents count, and H'.

    singles (N, H) may hold anything. Returns the sums of w_n <s> and of w_n y^2, and the totals; those of A are added to
    `sums`.
    """
    projection, offset, spread, white, log_activation, emphasis, n_candidates = constants
    _project(Y, projection, offset, singles)
    scores = squared_excess_scores(Y / spread, white, log_activation)
    shift, scale = np.zeros(log_activation.size), np.ones(log_activation.size)
    candidates = top_candidates(scores, shift, scale, n_candidates)
    log_normaliser, energy, means, alone = _enumerate_maxima(
        tables, tree, (Y, singles, _log_joint_of_none(tables, Y)), candidates, singletons, weights, sums
    )
    s, single, squares = _weigh_rows(means, weights), _weigh_rows(alone, weights), _weighted_squares(Y, weights)
    explained = squares
    if tables.root != 0.0:  # states of several latents have added their squares
        by_singles = np.empty(Y.shape[0])
        for n in range(by_singles.size):
            by_singles[n] = alone[n].sum()
        explained = _weighted_squares(Y, by_singles)
    _add_singles(tables, sums, single, np.dot(alone.T, Y), explained, emphasis)
    return s, squares, _add_up(weights, log_normaliser, energy)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_singles(tables, sums, single, single_ay, squares, emphasis):
    """Add states of one latent to those of several; `squares` are of the rows that they explain, or of all.

    The mean is in each dimension the one latent's that A is 1 for: <(y - mean)^2> = y^2 + W (A W - 2 A y).
    """
    components, hard = tables.components, tables.root == 0.0
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
