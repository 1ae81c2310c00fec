"""Linear binary latents: every truncated state of eight data points at once, without ever touching D again.

With b = W y / sigma^2 and G = W W^T / sigma^2 the log joint of a state is, up to a constant of the data point,

    x(s) = sum_h s_h a_h - sum_{h<k} s_h s_k G_hk,      a_h = logit pi_h + b_h - G_hh / 2

The candidates' subsets are enumerated as a tree; each child adds one number to its parent. Eight data points lie
in the innermost axis, so that the compiler vectorises across them: the tree is the same for all.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.missing import observed_overlap
from multicause.backends.numba_cpu.normalise import OFF, weigh_singletons, weigh_states
from multicause.backends.numba_cpu.simd import LANES


class Overlaps(NamedTuple):
    """How much of one component another one explains, in each data point."""

    gram: np.ndarray  # (H, H) beta G
    components: np.ndarray  # (H, D) whose products it holds
    observed: np.ndarray  # (N, D) 0 for a missing entry, or (0, 0) where none is missing
    partial: np.ndarray  # (N,) whether a row misses entries, or (0,)


class Sums(NamedTuple):
    """What data points add up to."""

    ss: np.ndarray  # (H, H) sum_n w_n <s s^T>, off the diagonal
    sy: np.ndarray  # (H, D) sum_n w_n <s y^T> of the missing entries, in units of `Overlaps.components`
    yy: np.ndarray  # (1,) sum_n w_n <y^2> of the missing entries, without their noise


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(linear_terms, overlaps, candidates, first, linear, pairs):
    """Copy the candidates' part of eight rows into lanes; rows past the end repeat the last one."""
    n_rows, n_candidates = candidates.shape
    gram, components = overlaps.gram, overlaps.components
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        partial = overlaps.partial.size > 0 and overlaps.partial[n]
        for i in range(n_candidates):
            h = candidates[n, i]
            linear[i, lane] = linear_terms[n, h]
            for j in range(i + 1, n_candidates):
                k = candidates[n, j]
                pairs[i, j, lane] = gram[h, k]
                if partial:
                    pairs[i, j, lane] = observed_overlap(components[h], components[k], overlaps.observed[n])


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def _gather_singletons(linear_terms, candidates, first, rows, largest):
    """Copy eight rows with their candidates switched off; largest <- each row's largest entry, at least 0."""
    n_rows, n_latents = linear_terms.shape
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        row = rows[lane]
        for h in range(n_latents):
            row[h] = linear_terms[n, h]
        for i in range(candidates.shape[1]):
            row[candidates[n, i]] = OFF
        top = 0.0
        for h in range(n_latents):
            top = max(top, row[h])
        largest[lane] = top


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(tree, pairs, remaining, states, largest):
    """Log joints of all subsets, depth first; remaining[d] holds what each later candidate adds at depth d."""
    n_candidates = pairs.shape[0]
    max_active = tree.members.shape[1]
    states[0, :] = 0.0
    for row in range(1, states.shape[0]):
        depth = tree.depth[row]
        parent = tree.parent[row]
        j = tree.members[row, depth - 1]
        for lane in range(LANES):
            x = states[parent, lane] + remaining[depth - 1, j, lane]
            states[row, lane] = x
            largest[lane] = max(largest[lane], x)
        if depth < max_active:
            for i in range(j + 1, n_candidates):
                for lane in range(LANES):
                    remaining[depth, i, lane] = remaining[depth - 1, i, lane] - pairs[j, i, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _collect(tree, weights, moments):
    """Backwards: each node's weight is its subtree's; pairs (i <= j) of members gain it where j was added."""
    moments[:] = 0.0
    for row in range(weights.shape[0] - 1, 0, -1):
        depth = tree.depth[row]
        parent = tree.parent[row]
        j = tree.members[row, depth - 1]
        for lane in range(LANES):
            weights[parent, lane] += weights[row, lane]
        for k in range(depth):
            i = tree.members[row, k]
            for lane in range(LANES):
                moments[i, j, lane] += weights[row, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _scatter(candidates, n, lane, moments, factor, second):
    """Add the candidates' pairs of one data point to both halves of `second`."""
    for i in range(candidates.shape[1]):
        h = candidates[n, i]
        for j in range(i + 1, candidates.shape[1]):
            k = candidates[n, j]
            second[h, k] += factor * moments[i, j, lane]
            second[k, h] += factor * moments[i, j, lane]


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_in(overlaps, candidates, n, lane, work, factor, sums):
    """What a row's missing entries add to <s y^T> and <y^2>: they are expected to be sum_h s_h W_h."""
    moments, row_weights = work
    n_candidates = candidates.shape[1]
    for d in range(overlaps.components.shape[1]):
        if overlaps.observed[n, d] != 0.0:
            continue
        square = 0.0
        for i in range(n_candidates):
            product = 0.0
            for j in range(n_candidates):
                product += moments[min(i, j), max(i, j), lane] * overlaps.components[candidates[n, j], d]
            sums.sy[candidates[n, i], d] += factor * product
            square += product * overlaps.components[candidates[n, i], d]
        for h in range(row_weights.shape[1]):
            product = row_weights[lane, h] * overlaps.components[h, d]
            sums.sy[h, d] += factor * product
            square += product * overlaps.components[h, d]
        sums.yy[0] += factor * square


@njit(cache=True, nogil=True, error_model="numpy")
def expectations(linear_terms, overlaps, candidates, tree, singletons, weights, sums, means):
    """means <- <s> of linear terms a (N, H), maybe the same array; adds all rows to `sums`, each with its weight.

    Returns log Z_n and <x>_n. Without `singletons` the latents outside the candidates are off.
    """
    n_rows, n_latents = linear_terms.shape
    n_candidates = candidates.shape[1]
    n_states, max_active = tree.members.shape
    linear = np.empty((max_active, n_candidates, LANES))
    pairs = np.zeros((n_candidates, n_candidates, LANES))
    moments = np.empty((n_candidates, n_candidates, LANES))
    states, state_weights = np.empty((n_states, LANES)), np.empty((n_states, LANES))
    rows, row_weights = np.empty((LANES, n_latents)), np.zeros((LANES, n_latents))
    largest, total, energy = np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _gather(linear_terms, overlaps, candidates, first, linear[0], pairs)
        largest[:] = 0.0
        if singletons:
            _gather_singletons(linear_terms, candidates, first, rows, largest)
        _enumerate(tree, pairs, linear, states, largest)
        weigh_states(states, largest, state_weights, total, energy)
        if singletons:
            weigh_singletons(rows, largest, row_weights, total, energy)
        _collect(tree, state_weights, moments)
        for lane in range(min(LANES, n_rows - first)):
            n = first + lane
            scale = 1.0 / total[lane]
            for h in range(n_latents):
                means[n, h] = row_weights[lane, h] * scale
            for i in range(n_candidates):
                means[n, candidates[n, i]] = moments[i, i, lane] * scale
            _scatter(candidates, n, lane, moments, weights[n] * scale, sums.ss)
            if overlaps.partial.size and overlaps.partial[n]:
                _fill_in(overlaps, candidates, n, lane, (moments, row_weights), weights[n] * scale, sums)
            log_normaliser[n] = largest[lane] + np.log(total[lane])
            mean_energy[n] = largest[lane] + energy[lane] * scale
    return log_normaliser, mean_energy


@njit(cache=True, nogil=True, error_model="numpy")
def log_normalisers(linear_terms, overlaps, candidates, tree, singletons):
    """log Z_n and <x>_n alone."""
    n_rows, n_latents = linear_terms.shape
    n_candidates = candidates.shape[1]
    n_states, max_active = tree.members.shape
    linear = np.empty((max_active, n_candidates, LANES))
    pairs = np.zeros((n_candidates, n_candidates, LANES))
    states, state_weights = np.empty((n_states, LANES)), np.empty((n_states, LANES))
    rows, row_weights = np.empty((LANES, n_latents)), np.empty((LANES, n_latents))
    largest, total, energy = np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _gather(linear_terms, overlaps, candidates, first, linear[0], pairs)
        largest[:] = 0.0
        if singletons:
            _gather_singletons(linear_terms, candidates, first, rows, largest)
        _enumerate(tree, pairs, linear, states, largest)
        weigh_states(states, largest, state_weights, total, energy)
        if singletons:
            weigh_singletons(rows, largest, row_weights, total, energy)
        for lane in range(min(LANES, n_rows - first)):
            log_normaliser[first + lane] = largest[lane] + np.log(total[lane])
            mean_energy[first + lane] = largest[lane] + energy[lane] / total[lane]
    return log_normaliser, mean_energy
