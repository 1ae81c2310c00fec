"""A whole E-step in one call for each thread: matrix products, selection, expectations, sums over the rows, and chunks.

Threads take Python in turns, and wait for their turn after each call that does without; sixteen of them spend more time
waiting than computing where an E-step is many small calls. The parts are those of the other modules.

Threads that call one of the three functions below with the same `team` share its parts of chunks. The last of a part's
sums are its totals: w_n, w_n log Z_n, w_n <x>_n, w_n |y|^2, and the last in units of the noise. Where entries are
missing nothing else is done. They return whether their thread has brought the sum over all parts.
"""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu import binary_linear, maximal_causes, spike_slab_linear
from multicause.backends.numba_cpu.selection import (
    select_binary_greedily,
    squared_excess_scores,
    top_candidates,
    top_singletons,
)
from multicause.backends.numba_cpu.spike_slab_linear import symmetric
from multicause.backends.numba_cpu.teamwork import NOBODY, add_up, give_up, take_part, take_space

_enumerate_binary = binary_linear.expectations
_fill_moments, _space_of_slabs = spike_slab_linear.fill_moments, spike_slab_linear.make_space
_enumerate_maxima = maximal_causes.expectations


@njit(cache=True, nogil=True, error_model="numpy")
def _weighted_squares(Y, weights):
    """sum_n w_n y_nd^2; NaN where an entry is missing."""
    squares = np.zeros(Y.shape[1])
    for n in range(Y.shape[0]):
        for d in range(Y.shape[1]):
            squares[d] += weights[n] * (Y[n, d] * Y[n, d])
    return squares


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_totals(weights, log_normaliser, energy, squares, precision, totals):
    weight, total, total_energy = 0.0, 0.0, 0.0
    for n in range(weights.size):
        weight += weights[n]
        total += weights[n] * log_normaliser[n]
        total_energy += weights[n] * energy[n]
    totals[0], totals[1], totals[2] = weight, total, total_energy
    _fill_squares(squares, precision, totals)


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_squares(squares, precision, totals):
    """Returns whether entries are missing."""
    totals[3:] = 0.0
    for d in range(squares.size):
        totals[3] += squares[d]
        totals[4] += squares[d] * precision[d]
    return np.isnan(totals[3])


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_rows(rows, weights, total):
    """rows[n] <- w_n rows[n]; total <- their sum."""
    total[:] = 0.0
    for n in range(rows.shape[0]):
        for h in range(rows.shape[1]):
            rows[n, h] *= weights[n]
            total[h] += rows[n, h]


@njit(cache=True, nogil=True, error_model="numpy")
def _project(Y, projection, shift, linear):
    """linear <- Y projection + shift."""
    np.dot(Y, projection, linear)
    for n in range(linear.shape[0]):
        for h in range(linear.shape[1]):
            linear[n, h] += shift[h]


@njit(cache=True, nogil=True, error_model="numpy")
def _about(X, intercept, space):
    """y - b of some rows, in `space`; the rows themselves where there is no b."""
    if intercept.size == 0:
        return X
    Y = space[: X.shape[0]]
    for n in range(X.shape[0]):
        for d in range(X.shape[1]):
            Y[n, d] = X[n, d] - intercept[d]
    return Y


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_sum(rows, weights, total):
    """total <- sum_n w_n y_n, if there is a place for it."""
    if total.size:
        for n in range(rows.shape[0]):
            for d in range(rows.shape[1]):
                total[d] += weights[n] * rows[n, d]


@njit(cache=True, nogil=True, error_model="numpy")
def binary(team, X, sample_weights, constants, overlaps, tree, singletons):
    """Linear binary latents.

    `constants` are W^T / sigma^2, the offset, the scale of scores, 1 / sigma^2 (D,), the intercept or nothing, H', and
    whether it is greedy.

    Sums are w_n <s>, w_n <s s^T>, w_n <s> y^T and, where there is an intercept, w_n y; all y are about it.
    """
    projection, offset, scale, precision, intercept, n_candidates, greedy = constants
    D, H = projection.shape
    space = take_space(team)
    about = np.empty((len(space) if intercept.size else 0, D), X.dtype)
    nothing = np.zeros(1), np.zeros((0, 0))
    is_whole = False
    part, at = take_part(team, NOBODY)
    while part != NOBODY:
        first, last = team.borders[part], team.borders[part + 1]
        Y, weights, linear = _about(X[first:last], intercept, about), sample_weights[first:last], space[: last - first]
        row, square, whole = team.sums[at], H + H * H, H + H * H + H * D
        s, ss, sy = row[:H], row[H:square].reshape(H, H), row[square:whole].reshape(H, D)
        y, totals = row[whole : whole + intercept.size], row[whole + intercept.size :]
        squares = _weighted_squares(Y, weights)
        if _fill_squares(squares, precision, totals):
            give_up(team, part)
            return False
        _project(Y, projection, offset, linear)
        if greedy:
            candidates = select_binary_greedily(linear, overlaps, n_candidates)
        else:
            candidates = top_candidates(linear, offset, scale, n_candidates)
        sums = binary_linear.Sums(ss, nothing[1], nothing[0])
        log_normaliser, energy = _enumerate_binary(
            linear, overlaps, candidates, tree, singletons, weights, sums, linear
        )
        _weigh_rows(linear, weights, s)
        for h in range(H):
            ss[h, h] = s[h]
        np.dot(linear.T, Y, sy)
        _fill_sum(Y, weights, y)
        _fill_totals(weights, log_normaliser, energy, squares, precision, totals)
        is_whole, at = add_up(team, part, at)
        part, at = take_part(team, at)
    return is_whole


@njit(cache=True, nogil=True, error_model="numpy")
def slabs(team, X, sample_weights, problem, constants, tree, singletons):
    """Spike and slab; `constants` are the projection, what W y is short of b, the singletons' scores where b + mu = 0,
    the unit of coefficients, the precision of the noise (D,), the intercept or nothing, and H'.

    Sums are w_n <s>, w_n <x>, w_n y^2 for each dimension, w_n <x x^T>, w_n <x> y^T and, where there is an intercept,
    w_n y; all y are about it.
    """
    projection, shift, constant, unit, precision, intercept, n_candidates = constants
    D, H = projection.shape
    space = take_space(team)
    n_rows = len(space) // 3
    about = np.empty((n_rows if intercept.size else 0, D), X.dtype)
    linear_space, s_space, x_space = space[:n_rows], space[n_rows : 2 * n_rows], space[2 * n_rows :]
    on_path = _space_of_slabs(H, n_candidates, tree, 1)
    none, no_rows, no_gaps = np.zeros(0), np.zeros((0, 0)), (np.zeros((H, D)), np.zeros(D))
    is_whole = False
    part, at = take_part(team, NOBODY)
    while part != NOBODY:
        first, last = team.borders[part], team.borders[part + 1]
        Y, weights = _about(X[first:last], intercept, about), sample_weights[first:last]
        linear = linear_space[: last - first]
        row, square, whole = team.sums[at], 2 * H + D + H * H, 2 * H + D + H * H + H * D
        s, x, squares = row[:H], row[H : 2 * H], row[2 * H : 2 * H + D]
        y, totals = row[whole : whole + intercept.size], row[whole + intercept.size :]
        xx, xy = row[2 * H + D : square].reshape(H, H), row[square:whole].reshape(H, D)
        squares[:] = _weighted_squares(Y, weights)
        if _fill_squares(squares, precision, totals):
            give_up(team, part)
            return False
        _project(Y, projection, shift, linear)
        candidates = top_singletons(linear, problem.shift, problem.inverse, constant, n_candidates)
        s_rows, x_rows = s_space[: last - first], x_space[: last - first]
        log_normaliser, energy = _fill_moments(
            spike_slab_linear.Problem(
                linear, problem.shift, problem.slab_mean, problem.offset, problem.gram, problem.correlation,
                problem.inverse, problem.constant, problem.components, problem.observed, problem.partial, problem.beta,
            ),
            candidates, tree, singletons, weights,
            spike_slab_linear.Moments(s_rows, x_rows, xx, none, no_rows, no_rows, no_gaps[0], no_gaps[1]), on_path,
        )  # fmt: skip
        _weigh_rows(s_rows, weights, s)
        _weigh_rows(x_rows, weights, x)
        x *= unit
        np.dot(x_rows.T, Y, xy)
        _fill_sum(Y, weights, y)
        for h in range(H):
            xy[h] *= unit[h]
        symmetric(xx, unit)
        _fill_totals(weights, log_normaliser, energy, squares, precision, totals)
        is_whole, at = add_up(team, part, at)
        part, at = take_part(team, at)
    return is_whole


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
def maxima(team, X, sample_weights, tables, constants, tree, singletons):
    """Maxima under Gaussian noise; `constants` are the projection, the singles' offset, the noise's spread (D,), the
    components in its units, log pi, how much more single latents count, and H'.

    Sums are w_n <s>, w_n <(y - mean)^2>, w_n <A>, w_n <A> y.
    """
    projection, offset, spread, white, log_activation, emphasis, n_candidates = constants
    D, H = projection.shape
    space, rebuilt = take_space(team), np.zeros((0, 0))
    shift, scale = np.zeros(H), np.ones(H)
    is_whole = False
    part, at = take_part(team, NOBODY)
    while part != NOBODY:
        first, last = team.borders[part], team.borders[part + 1]
        Y, weights, singles = X[first:last], sample_weights[first:last], space[: last - first]
        row, half, whole = team.sums[at], H + D + H * D, H + D + 2 * H * D
        s, squares, totals = row[:H], row[H : H + D], row[whole:]
        a, ay = row[H + D : half].reshape(H, D), row[half:whole].reshape(H, D)
        _project(Y, projection, offset, singles)
        scores = squared_excess_scores(Y / spread, white, log_activation)
        candidates = top_candidates(scores, shift, scale, n_candidates)
        sums = maximal_causes.Sums(a, ay, squares, rebuilt)
        log_normaliser, energy, means, alone = _enumerate_maxima(
            tables, tree, (Y, singles, _log_joint_of_none(tables, Y)), candidates, singletons, weights, sums
        )
        _weigh_rows(means, weights, s)
        _add_singles(tables, sums, alone, Y, weights, emphasis)
        _fill_totals(weights, log_normaliser, energy, _weighted_squares(Y, weights), tables.precision, totals)
        is_whole, at = add_up(team, part, at)
        part, at = take_part(team, at)
    return is_whole


@njit(cache=True, nogil=True, error_model="numpy")
def _add_singles(tables, sums, alone, Y, weights, emphasis):
    """Add states of one latent, which rows have with weights `alone` (N, H), to those of several.

    The mean is in each dimension the one latent's that A is 1 for: <(y - mean)^2> = y^2 + W (A W - 2 A y). Under smooth
    maxima states of several latents have added their squares already.
    """
    components, hard = tables.components, tables.root == 0.0
    single = np.empty(components.shape[0])
    _weigh_rows(alone, weights, single)
    single_ay = np.dot(alone.T, Y)
    explained = weights
    if not hard:
        explained = np.empty(weights.size)
        for n in range(explained.size):
            explained[n] = alone[n].sum()
    squares = _weighted_squares(Y, explained)
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
