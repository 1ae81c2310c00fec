"""Spike-and-slab latents: every truncated state of eight data points at once, by Schur complements.

With the slab integrated out, the log joint of a state is, up to a constant of the data point,

    x(s) = sum_{h in s} a_h - log|det K_ss| / 2 + c_s^T K_ss^-1 c_s / 2

where K and c have one or two variables per latent (in units of the slab's standard deviations):

    slab of independent coefficients    K = I + G,                       c = b + mu           variables z
    slab of correlated coefficients     K = [[-Psi, I], [I, G]],         c = (mu, b)          variables (t, z)

The second form eliminates t to Psi_ss^-1, whichever latents are active. Adding a latent to a state eliminates its
variables: one division and a few products. The states' moments come from the way back: an eliminated variable v is,
given the rest, normal with mean (c_v - sum_i K_iv x_i) / K_vv and variance 1 / K_vv.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.missing import observed_overlap
from multicause.backends.numba_cpu.normalise import OFF, weigh_singletons, weigh_states
from multicause.backends.numba_cpu.simd import LANES, fill, load, store
from multicause.backends.numba_cpu.vector_math import take_logs


class Problem(NamedTuple):
    """What a chunk's data points ask; arrays of no rows where there is nothing to say."""

    linear: np.ndarray  # (N, H) b + mu, or b where coefficients are correlated
    shift: np.ndarray  # (H,) what a singleton adds to it: 0, or mu
    slab_mean: np.ndarray  # (H,) mu
    offset: np.ndarray  # (H,) a
    gram: np.ndarray  # (H, H) I + G, or G where coefficients are correlated
    correlation: np.ndarray  # (H, H) Psi, or (0, 0) where coefficients are independent
    inverse: np.ndarray  # (1 or N, H) a singleton's 1 / (1 + G_hh)
    constant: np.ndarray  # (1 or N, H) a singleton's log joint where b + mu = 0
    components: np.ndarray  # (H, D) whitened components
    observed: np.ndarray  # (N, D) 0 for a missing entry, or (0, 0) where none is missing
    partial: np.ndarray  # (N,) whether a row misses entries, or (0,)
    beta: float


class Moments(NamedTuple):
    """What the enumeration fills in, each summed over the kept states."""

    s: np.ndarray  # (N, H) <s>
    x: np.ndarray  # (N, H) <s*z>
    xx: np.ndarray  # (H, H) upper triangle of sum_n w_n <(s*z)(s*z)^T>
    t: np.ndarray  # (H,) sum_n w_n <t>, of correlated coefficients
    tt: np.ndarray  # (H, H) upper triangle of the second moments of t
    ss: np.ndarray  # (H, H) upper triangle of sum_n w_n <s s^T>, of correlated coefficients
    xy: np.ndarray  # (H, D) sum_n w_n <(s*z) y^T> of the missing entries, whitened
    yy: np.ndarray  # (D,) sum_n w_n <y^2> of the missing entries, whitened


class Path(NamedTuple):
    """Work arrays of one enumeration; the last axis holds eight data points."""

    matrix: np.ndarray  # (levels, V, V, 8) K of the variables that remain after a number of eliminations
    vector: np.ndarray  # (levels, V, 8) c of these
    offset: np.ndarray  # (H', 8) a
    states: np.ndarray  # (S, 8) log joints
    weights: np.ndarray  # (S, 8)
    pivots: np.ndarray  # (S, 8) product of the pivots of the state's last latent
    inverse: np.ndarray  # (S, R, 8) 1 / pivot
    means: np.ndarray  # (S, R, 8) c_v / pivot
    factors: np.ndarray  # (F, 8) K_iv / pivot for every variable i that remains
    at: np.ndarray  # (S,) where a state's factors begin
    rows: np.ndarray  # (8, H) log joints of the singletons outside the candidates
    row_weights: np.ndarray  # (8, H)
    largest: np.ndarray  # (8,)
    total: np.ndarray  # (8,)
    energy: np.ndarray  # (8,)


@njit(cache=True, nogil=True, error_model="numpy")
def _make_path(n_components, n_candidates, tree, per_latent):
    n_states, max_active = tree.members.shape
    n_variables = per_latent * n_candidates
    at = np.empty(n_states, dtype=np.int64)
    n_factors = 0
    for row in range(n_states):
        at[row] = n_factors
        if row > 0:
            j = tree.members[row, tree.depth[row] - 1]
            last = n_variables if tree.depth[row] < max_active else per_latent * (j + 1)
            for v in range(per_latent * j, per_latent * (j + 1)):
                n_factors += last - v - 1
    levels = per_latent * max_active + 1
    return Path(
        np.zeros((levels, n_variables, n_variables, LANES)),
        np.zeros((levels, n_variables, LANES)),
        np.empty((n_candidates, LANES)),
        np.empty((n_states, LANES)),
        np.empty((n_states, LANES)),
        np.ones((n_states, LANES)),
        np.empty((n_states, per_latent, LANES)),
        np.empty((n_states, per_latent, LANES)),
        np.empty((max(n_factors, 1), LANES)),
        at,
        np.empty((LANES, n_components)),
        np.zeros((LANES, n_components)),
        np.zeros(LANES),
        np.empty(LANES),
        np.empty(LANES),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _gather_matrix(problem, chosen, n, matrix, lane, per_latent):
    """K of one row's candidates; G sums over the observed entries where some are missing."""
    z = per_latent - 1  # a latent's variables are (z) or (t, z)
    own = 2.0 - per_latent  # the diagonal of K - G
    gram, components = problem.gram, problem.components
    partial = problem.partial.size > 0 and problem.partial[n]
    for i in range(chosen.size):
        h = chosen[i]
        for j in range(i, chosen.size):
            value = gram[h, chosen[j]]
            if partial:
                value = observed_overlap(components[h], components[chosen[j]], problem.observed[n])
                if i == j:
                    value += own
            matrix[per_latent * i + z, per_latent * j + z, lane] = value
    if per_latent == 2:
        for i in range(chosen.size):
            for j in range(i, chosen.size):
                matrix[2 * i, 2 * j, lane] = -problem.correlation[chosen[i], chosen[j]]
            matrix[2 * i, 2 * i + 1, lane] = 1.0


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(problem, candidates, first, path):
    """Copy the candidates' part of eight rows into lanes; rows past the end repeat the last one."""
    n_rows, n_candidates = candidates.shape
    per_latent = path.inverse.shape[1]
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        for i in range(n_candidates):
            h = candidates[n, i]
            path.offset[i, lane] = problem.offset[h]
            path.vector[0, per_latent * (i + 1) - 1, lane] = problem.linear[n, h]
            if per_latent == 2:
                path.vector[0, 2 * i, lane] = problem.slab_mean[h]
        _gather_matrix(problem, candidates[n], n, path.matrix[0], lane, per_latent)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"})
def _gather_singletons(problem, candidates, first, path):
    """Log joints of eight rows' singletons, candidates switched off; largest <- each row's largest, at least 0."""
    n_rows, n_latents = problem.linear.shape
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        inverse = problem.inverse[n if len(problem.inverse) > 1 else 0]
        constant = problem.constant[n if len(problem.inverse) > 1 else 0]
        row = path.rows[lane]
        for h in range(n_latents):
            c = problem.linear[n, h] + problem.shift[h]
            row[h] = problem.beta * (constant[h] + 0.5 * c * c * inverse[h])
        for i in range(candidates.shape[1]):
            row[candidates[n, i]] = OFF
        top = 0.0
        for h in range(n_latents):
            top = max(top, row[h])
        path.largest[lane] = top


@njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(path, level, v, last, at):
    """K and c of the variables v+1..last at the next level; returns pivot, its inverse and c_v / pivot."""
    size = path.matrix.shape[1]
    here, there = level * size, (level + 1) * size
    pivot = load(path.matrix, (here + v) * size + v)
    inverse = 1.0 / pivot
    mean = load(path.vector, here + v) * inverse
    for i in range(v + 1, last):
        column = load(path.matrix, (here + v) * size + i)
        store(path.factors, at + i - v - 1, column * inverse)
        store(path.vector, there + i, load(path.vector, here + i) - column * mean)
    for k in range(v + 1, last):
        factor = load(path.factors, at + k - v - 1)
        for i in range(k, last):
            column = load(path.matrix, (here + v) * size + i)
            store(path.matrix, (there + k) * size + i, load(path.matrix, (here + k) * size + i) - factor * column)
    return pivot, inverse, mean


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(tree, path):
    """Everything about each state but the logarithm of its pivots, depth first."""
    n_variables = path.matrix.shape[1]
    per_latent = path.inverse.shape[1]
    max_active = tree.members.shape[1]
    for row in range(1, len(path.at)):
        depth = tree.depth[row]
        j = tree.members[row, depth - 1]
        last = n_variables if depth < max_active else per_latent * (j + 1)
        level = per_latent * (depth - 1)
        at = path.at[row]
        gain = load(path.offset, j)
        pivots = fill(1.0)
        for e in range(per_latent):
            v = per_latent * j + e
            pivot, inverse, mean = _eliminate(path, level + e, v, last, at)
            at += last - v - 1
            gain = gain + 0.5 * mean * mean * pivot
            pivots = pivots * pivot
            store(path.inverse, row * per_latent + e, inverse)
            store(path.means, row * per_latent + e, mean)
        store(path.states, row, gain)
        store(path.pivots, row, pivots)


@njit(cache=True, nogil=True, error_model="numpy")
def _finish_log_joints(tree, path, beta):
    """states <- beta times the log joints; largest <- the largest of each lane."""
    take_logs(path.pivots.reshape(-1))
    path.states[0, :] = 0.0
    for row in range(1, len(path.at)):
        parent = tree.parent[row]
        for lane in range(LANES):
            gain = path.states[row, lane] - 0.5 * path.pivots[row, lane]
            x = path.states[parent, lane] + beta * gain
            path.states[row, lane] = x
            path.largest[lane] = max(path.largest[lane], x)


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh(problem, candidates, first, tree, singletons, path):
    """Unnormalised weights of all states of eight rows, their total and their energy."""
    _gather(problem, candidates, first, path)
    path.largest[:] = 0.0
    if singletons:
        _gather_singletons(problem, candidates, first, path)
    _enumerate(tree, path)
    _finish_log_joints(tree, path, problem.beta)
    weigh_states(path.states, path.largest, path.weights, path.total, path.energy)
    if singletons:
        weigh_singletons(path.rows, path.largest, path.row_weights, path.total, path.energy)


@njit(cache=True, nogil=True, error_model="numpy")
def _restore(path, first, second, depth, v, last, at, state):
    """Moments of the eliminated variable v, given those of the variables v+1..last in a subtree of given weight.

    first[depth] holds <x_i>, second[depth] the upper triangle of <x_i x_k>.
    """
    row, e = state
    size = path.matrix.shape[1]
    per_latent = path.inverse.shape[1]
    base = depth * size
    mean = load(path.means, row * per_latent + e)
    weight = load(path.weights, row)
    x = weight * mean
    for i in range(v + 1, last):
        x = x - load(path.factors, at + i - v - 1) * load(first, base + i)
    xx = weight * load(path.inverse, row * per_latent + e) + mean * x
    for i in range(v + 1, last):
        product = mean * load(first, base + i)
        for k in range(v + 1, i):
            product = product - load(path.factors, at + k - v - 1) * load(second, (base + k) * size + i)
        for k in range(i, last):
            product = product - load(path.factors, at + k - v - 1) * load(second, (base + i) * size + k)
        store(second, (base + v) * size + i, product)
        xx = xx - load(path.factors, at + i - v - 1) * product
    store(first, base + v, x)
    store(second, (base + v) * size + v, xx)


@njit(cache=True, nogil=True, error_model="numpy")
def _collect(tree, path, first, second, active):
    """Backwards over all states: a state's moments are its subtree's, which its parent gains.

    active[i, j] counts the states with both, i <= j; those with i alone are all that is counted where it has one row.
    """
    first[0] = 0.0  # deeper levels are left empty after they are read
    second[0] = 0.0
    active[:] = 0.0
    in_pairs = len(active) > 1
    n_variables = path.matrix.shape[1]
    per_latent = path.inverse.shape[1]
    max_active = tree.members.shape[1]
    nothing = fill(0.0)
    for row in range(len(path.at) - 1, 0, -1):
        depth = tree.depth[row]
        parent = tree.parent[row]
        j = tree.members[row, depth - 1]
        last = n_variables if depth < max_active else per_latent * (j + 1)
        at = path.at[row + 1] if row + 1 < len(path.at) else len(path.factors)
        for e in range(per_latent - 1, -1, -1):
            v = per_latent * j + e
            at -= last - v - 1
            _restore(path, first, second, depth, v, last, max(at, 0), (row, e))
        weight = load(path.weights, row)
        store(path.weights, parent, load(path.weights, parent) + weight)
        if in_pairs:
            for d in range(depth):
                pair = tree.members[row, d] * active.shape[1] + j
                store(active, pair, load(active, pair) + weight)
        else:
            store(active, j, load(active, j) + weight)
        here, above = depth * n_variables, (depth - 1) * n_variables
        for i in range(per_latent * j, last):
            store(first, above + i, load(first, above + i) + load(first, here + i))
            store(first, here + i, nothing)
            for k in range(i, last):
                source, target = (here + i) * n_variables + k, (above + i) * n_variables + k
                store(second, target, load(second, target) + load(second, source))
                store(second, source, nothing)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_singletons(problem, n, lane, path, factor, moments):
    """What the singletons outside the candidates add; `factor` is the row's weight over its total."""
    inverse = problem.inverse[n if len(problem.inverse) > 1 else 0]
    scale = 1.0 / path.total[lane]
    for h in range(problem.linear.shape[1]):
        s = path.row_weights[lane, h] * scale
        z = (problem.linear[n, h] + problem.shift[h]) * inverse[h]
        moments.s[n, h] = s
        moments.x[n, h] = s * z
        moments.xx[h, h] += factor * path.row_weights[lane, h] * (inverse[h] + z * z)
        if moments.t.size:
            t = z - problem.slab_mean[h]
            moments.t[h] += factor * path.row_weights[lane, h] * t
            moments.tt[h, h] += factor * path.row_weights[lane, h] * (inverse[h] - 1.0 + t * t)
            moments.ss[h, h] += factor * path.row_weights[lane, h]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_candidates(chosen, n, lane, work, scale, factor, moments):
    """What the states of the candidates add."""
    first, second, active = work
    n_candidates = len(chosen)
    per_latent = first.shape[1] // n_candidates
    z = per_latent - 1
    for i in range(n_candidates):
        h = chosen[i]
        moments.s[n, h] = active[i if per_latent == 2 else 0, i, lane] * scale
        moments.x[n, h] = first[0, per_latent * i + z, lane] * scale
        for j in range(i, n_candidates):
            moments.xx[h, chosen[j]] += factor * second[0, per_latent * i + z, per_latent * j + z, lane]
        if per_latent == 2:
            moments.t[h] += factor * first[0, 2 * i, lane]
            for j in range(i, n_candidates):
                moments.tt[h, chosen[j]] += factor * second[0, 2 * i, 2 * j, lane]
                moments.ss[h, chosen[j]] += factor * active[i, j, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_in(problem, chosen, n, lane, path, second, factor, moments):
    """What a row's missing entries add to <x y^T> and <y^2>: they are expected to be sum_h x_h W_h."""
    n_candidates = len(chosen)
    per_latent = path.inverse.shape[1]
    z = per_latent - 1
    inverse = problem.inverse[n]
    for d in range(problem.components.shape[1]):
        if problem.observed[n, d] != 0.0:
            continue
        square = path.total[lane]
        for i in range(n_candidates):
            product = 0.0
            for j in range(n_candidates):
                low, high = per_latent * min(i, j) + z, per_latent * max(i, j) + z
                product += second[0, low, high, lane] * problem.components[chosen[j], d]
            moments.xy[chosen[i], d] += factor * product
            square += product * problem.components[chosen[i], d]
        for h in range(problem.linear.shape[1]):
            if path.row_weights[lane, h] > 0.0:
                mean = (problem.linear[n, h] + problem.shift[h]) * inverse[h]
                product = path.row_weights[lane, h] * (inverse[h] + mean * mean) * problem.components[h, d]
                moments.xy[h, d] += factor * product
                square += product * problem.components[h, d]
        moments.yy[d] += factor * square


@njit(cache=True, nogil=True, error_model="numpy")
def make_space(n_latents, n_candidates, tree, per_latent):
    """Work arrays of `fill_moments`: a path, first and second moments on it, and how often latents are active."""
    n_variables, n_levels = per_latent * n_candidates, tree.members.shape[1] + 1
    return (
        _make_path(n_latents, n_candidates, tree, per_latent),
        np.zeros((n_levels, n_variables, LANES)),
        np.zeros((n_levels, n_variables, n_variables, LANES)),
        np.empty((n_candidates if per_latent == 2 else 1, n_candidates, LANES)),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def expectations(problem, candidates, tree, singletons, weights, moments):
    """Fill in the moments of all rows, each with its weight; returns log Z_n and <x>_n."""
    per_latent = 1 if problem.correlation.size == 0 else 2
    space = make_space(problem.linear.shape[1], candidates.shape[1], tree, per_latent)
    return fill_moments(problem, candidates, tree, singletons, weights, moments, space)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_moments(problem, candidates, tree, singletons, weights, moments, space):
    """The same with work arrays that are there: new ones are pages that the system clears, one thread at a time."""
    n_rows = problem.linear.shape[0]
    path, first_moments, second_moments, active = space
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _weigh(problem, candidates, first, tree, singletons, path)
        _collect(tree, path, first_moments, second_moments, active)
        for lane in range(min(LANES, n_rows - first)):
            n = first + lane
            scale = 1.0 / path.total[lane]
            factor = weights[n] * scale
            _add_singletons(problem, n, lane, path, factor, moments)
            _add_candidates(candidates[n], n, lane, (first_moments, second_moments, active), scale, factor, moments)
            if problem.partial.size and problem.partial[n]:
                _fill_in(problem, candidates[n], n, lane, path, second_moments, factor, moments)
            log_normaliser[n] = path.largest[lane] + np.log(path.total[lane])
            mean_energy[n] = path.largest[lane] + path.energy[lane] * scale
    return log_normaliser, mean_energy


@njit(cache=True, nogil=True, error_model="numpy")
def log_normalisers(problem, candidates, tree, singletons):
    """log Z_n and <x>_n alone."""
    n_rows, n_latents = problem.linear.shape
    path = _make_path(n_latents, candidates.shape[1], tree, 1 if problem.correlation.size == 0 else 2)
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _weigh(problem, candidates, first, tree, singletons, path)
        for lane in range(min(LANES, n_rows - first)):
            log_normaliser[first + lane] = path.largest[lane] + np.log(path.total[lane])
            mean_energy[first + lane] = path.largest[lane] + path.energy[lane] / path.total[lane]
    return log_normaliser, mean_energy


@njit(cache=True, nogil=True, error_model="numpy")
def symmetric(upper, unit):
    """unit_h unit_k times the symmetric matrix that `upper` holds the upper triangle of, in its place."""
    for h in range(len(unit)):
        for k in range(h, len(unit)):
            value = upper[h, k] * unit[h] * unit[k]
            upper[h, k] = value
            upper[k, h] = value
    return upper
