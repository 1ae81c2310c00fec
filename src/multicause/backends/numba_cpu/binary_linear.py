"""Linear binary causes: every truncated state of eight data points at once, without ever touching D again.

With b = W y / sigma^2 and G = W W^T / sigma^2 the log joint of a state is, up to a constant of the data point,

    x(s) = sum_h s_h a_h - sum_{h<k} s_h s_k G_hk,      a_h = logit pi_h + b_h - G_hh / 2

The candidates' subsets are walked as a tree; each child adds one number to its parent. Eight data points lie
in the innermost axis, so that the compiler vectorises across them: the tree is the same for all.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import logit

from multicause.backends.numba_cpu.lanes import LANES
from multicause.backends.numba_cpu.missing import observed_overlap
from multicause.backends.numba_cpu.selection import top_candidates, upper_bound_scores
from multicause.backends.numba_cpu.subset_tree import subset_tree
from multicause.backends.numba_cpu.weighing import OFF, weigh_singletons, weigh_states
from multicause.backends.tiles import tiled_product
from multicause.models.binary_linear import BinaryLinearStatistics, inverse_norms

_NOTHING = np.zeros((0, 0))


class Overlaps(NamedTuple):
    """How much of one cause's field another one's explains, in each data point."""

    gram: np.ndarray  # (H, H) beta G
    fields: np.ndarray  # (H, D) whose products it holds
    observed: np.ndarray  # (N, D) 0 for a missing entry, or (0, 0) where none is missing
    partial: np.ndarray  # (N,) whether a row misses entries, or (0,)


class Sums(NamedTuple):
    """What data points add up to."""

    ss: np.ndarray  # (H, H) sum_n w_n <s s^T>, off the diagonal
    sy: np.ndarray  # (H, D) sum_n w_n <s y^T> of the missing entries, in units of `Overlaps.fields`
    yy: np.ndarray  # (1,) sum_n w_n <y^2> of the missing entries, less their noise


@njit(cache=True, nogil=True)
def _gather(evidence, overlaps, candidates, first, linear, pairs):
    """Copy the candidates' part of eight rows into lanes; rows past the end repeat the last one."""
    n_rows, n_candidates = candidates.shape
    gram, fields = overlaps.gram, overlaps.fields
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        partial = overlaps.partial.size > 0 and overlaps.partial[n]
        for i in range(n_candidates):
            h = candidates[n, i]
            linear[i, lane] = evidence[n, h]
            for j in range(i + 1, n_candidates):
                k = candidates[n, j]
                pairs[i, j, lane] = gram[h, k]
                if partial:
                    pairs[i, j, lane] = observed_overlap(fields[h], fields[k], overlaps.observed[n])


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _gather_singletons(evidence, candidates, first, rows, largest):
    """Copy eight rows with their candidates switched off; largest <- each row's largest entry, at least 0."""
    n_rows, n_causes = evidence.shape
    for lane in range(LANES):
        n = min(first + lane, n_rows - 1)
        row = rows[lane]
        for h in range(n_causes):
            row[h] = evidence[n, h]
        for i in range(candidates.shape[1]):
            row[candidates[n, i]] = OFF
        top = 0.0
        for h in range(n_causes):
            top = max(top, row[h])
        largest[lane] = top


@njit(cache=True, nogil=True)
def _walk(tree, pairs, remaining, states, largest):
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _scatter(candidates, n, lane, moments, factor, second):
    """Add the candidates' pairs of one data point to both halves of `second`."""
    for i in range(candidates.shape[1]):
        h = candidates[n, i]
        for j in range(i + 1, candidates.shape[1]):
            k = candidates[n, j]
            second[h, k] += factor * moments[i, j, lane]
            second[k, h] += factor * moments[i, j, lane]


@njit(cache=True, nogil=True)
def _fill_in(overlaps, candidates, n, lane, work, factor, sums):
    """What a row's missing entries add to <s y^T> and <y^2>: they are expected to be sum_h s_h W_h."""
    moments, row_weights = work
    n_candidates = candidates.shape[1]
    for d in range(overlaps.fields.shape[1]):
        if overlaps.observed[n, d] != 0.0:
            continue
        square = 0.0
        for i in range(n_candidates):
            product = 0.0
            for j in range(n_candidates):
                product += moments[min(i, j), max(i, j), lane] * overlaps.fields[candidates[n, j], d]
            sums.sy[candidates[n, i], d] += factor * product
            square += product * overlaps.fields[candidates[n, i], d]
        for h in range(row_weights.shape[1]):
            product = row_weights[lane, h] * overlaps.fields[h, d]
            sums.sy[h, d] += factor * product
            square += product * overlaps.fields[h, d]
        sums.yy[0] += factor * square


@njit(cache=True, nogil=True)
def expectations(evidence, overlaps, candidates, tree, singletons, weights, sums):
    """Overwrite `evidence` (N, H), holding a, by <s>; add all rows to `sums`, each with its weight.

    Returns log Z_n and <x>_n. Without `singletons` the causes outside the candidates are off.
    """
    n_rows, n_causes = evidence.shape
    n_candidates = candidates.shape[1]
    n_states, max_active = tree.members.shape
    linear = np.empty((max_active, n_candidates, LANES))
    pairs = np.zeros((n_candidates, n_candidates, LANES))
    moments = np.empty((n_candidates, n_candidates, LANES))
    states, state_weights = np.empty((n_states, LANES)), np.empty((n_states, LANES))
    rows, row_weights = np.empty((LANES, n_causes)), np.zeros((LANES, n_causes))
    largest, total, energy = np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _gather(evidence, overlaps, candidates, first, linear[0], pairs)
        largest[:] = 0.0
        if singletons:
            _gather_singletons(evidence, candidates, first, rows, largest)
        _walk(tree, pairs, linear, states, largest)
        weigh_states(states, largest, state_weights, total, energy)
        if singletons:
            weigh_singletons(rows, largest, row_weights, total, energy)
        _collect(tree, state_weights, moments)
        for lane in range(min(LANES, n_rows - first)):
            n = first + lane
            scale = 1.0 / total[lane]
            for h in range(n_causes):
                evidence[n, h] = row_weights[lane, h] * scale
            for i in range(n_candidates):
                evidence[n, candidates[n, i]] = moments[i, i, lane] * scale
            _scatter(candidates, n, lane, moments, weights[n] * scale, sums.ss)
            if overlaps.partial.size and overlaps.partial[n]:
                _fill_in(overlaps, candidates, n, lane, (moments, row_weights), weights[n] * scale, sums)
            log_normaliser[n] = largest[lane] + np.log(total[lane])
            mean_energy[n] = largest[lane] + energy[lane] * scale
    return log_normaliser, mean_energy


@njit(cache=True, nogil=True)
def log_normalisers(evidence, overlaps, candidates, tree, singletons):
    """log Z_n and <x>_n alone; `evidence` is left as it is."""
    n_rows, n_causes = evidence.shape
    n_candidates = candidates.shape[1]
    n_states, max_active = tree.members.shape
    linear = np.empty((max_active, n_candidates, LANES))
    pairs = np.zeros((n_candidates, n_candidates, LANES))
    states, state_weights = np.empty((n_states, LANES)), np.empty((n_states, LANES))
    rows, row_weights = np.empty((LANES, n_causes)), np.empty((LANES, n_causes))
    largest, total, energy = np.zeros(LANES), np.empty(LANES), np.empty(LANES)
    log_normaliser, mean_energy = np.empty(n_rows), np.empty(n_rows)
    for first in range(0, n_rows, LANES):
        _gather(evidence, overlaps, candidates, first, linear[0], pairs)
        largest[:] = 0.0
        if singletons:
            _gather_singletons(evidence, candidates, first, rows, largest)
        _walk(tree, pairs, linear, states, largest)
        weigh_states(states, largest, state_weights, total, energy)
        if singletons:
            weigh_singletons(rows, largest, row_weights, total, energy)
        for lane in range(min(LANES, n_rows - first)):
            log_normaliser[first + lane] = largest[lane] + np.log(total[lane])
            mean_energy[first + lane] = largest[lane] + energy[lane] / total[lane]
    return log_normaliser, mean_energy


class Evidence(NamedTuple):
    """What a chunk's data points contribute, once the matrix product is done."""

    Y: np.ndarray  # (N, D) with 0 for missing entries
    linear: np.ndarray  # (N, H) beta * a
    constant: np.ndarray  # (N,) log p(s=0, y)
    unseen: np.ndarray  # (N, H) half of what missing entries take off the diagonal of beta G, or (0, 0)
    overlaps: Overlaps


class Walk:
    """The truncated E-step of `models.binary_linear` for one set of parameters."""

    def __init__(self, model, params, max_active, singletons, beta):
        self.model, self.params = model, params
        self.max_active, self.singletons, self.beta = max_active, singletons, beta
        self.tempered_precision = beta / params.noise_variance
        self.fields = np.ascontiguousarray(params.components.T) * self.tempered_precision  # (D, H)
        self.gram = params.components @ self.fields
        self.offset = beta * logit(params.activation) - 0.5 * np.diag(self.gram)
        level = np.sqrt(model.n_features * params.noise_variance + np.square(params.components).sum(axis=1).max())
        self.score_scale = inverse_norms(params.components) / (self.tempered_precision * level)  # within float32
        self.log_noise = 0.5 * np.log(2.0 * np.pi * params.noise_variance)
        self.log_silence = np.log1p(-params.activation).sum() - model.n_features * self.log_noise

    def evidence(self, Y):
        missing = np.isnan(Y)
        if not missing.any():
            return self._evidence(Y, _NOTHING, Overlaps(self.gram, _NOTHING, _NOTHING, np.zeros(0, dtype=bool)))
        fields = np.sqrt(self.tempered_precision) * self.params.components
        unseen = 0.5 * tiled_product(missing.astype(np.float64), np.ascontiguousarray(np.square(fields).T))
        overlaps = Overlaps(self.gram, fields, (~missing).astype(np.float64), missing.any(axis=1))
        evidence = self._evidence(np.where(missing, 0.0, Y), unseen, overlaps)
        np.add(evidence.linear, unseen, out=evidence.linear)
        np.add(evidence.constant, missing.sum(axis=1) * self.log_noise, out=evidence.constant)
        return evidence

    def _evidence(self, Y, unseen, overlaps):
        linear = tiled_product(Y, self.fields)
        linear += self.offset
        distance = np.einsum("nd,nd->n", Y, Y) / (2.0 * self.params.noise_variance)
        return Evidence(Y, linear, self.log_silence - distance, unseen, overlaps)

    def subset(self, evidence, rows):
        overlaps, unseen = evidence.overlaps, evidence.unseen
        if overlaps.partial.size:
            overlaps = overlaps._replace(observed=overlaps.observed[rows], partial=overlaps.partial[rows])
            unseen = unseen[rows]
        return Evidence(evidence.Y[rows], evidence.linear[rows], evidence.constant[rows], unseen, overlaps)

    def select(self, evidence, n_candidates):
        if self.model.selection == "cosine":
            linear = evidence.linear - evidence.unseen if evidence.unseen.size else evidence.linear
            return top_candidates(linear, self.offset, self.score_scale, n_candidates)
        log_activation, precision = np.log(self.params.activation), 1.0 / self.params.noise_variance
        scores = upper_bound_scores(evidence.Y, self.params.components, log_activation, precision)
        return top_candidates(scores, np.zeros_like(log_activation), np.ones_like(log_activation), n_candidates)

    def free_energies(self, evidence, candidates):
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normaliser, energy = log_normalisers(evidence.linear, evidence.overlaps, candidates, tree, self.singletons)
        return self._bound(evidence, log_normaliser, energy)

    def means(self, evidence, candidates):
        free_energies, _ = self._expectations(evidence, candidates, np.zeros(len(candidates)))
        return free_energies, evidence.linear

    def reconstruct(self, evidence, candidates):
        """Posterior means of sum_h s_h W_h."""
        return tiled_product(self.means(evidence, candidates)[1], np.ascontiguousarray(self.params.components))

    def accumulate(self, evidence, candidates, weights):
        free_energies, sums = self._expectations(evidence, candidates, weights)
        weighted = weights[:, None] * evidence.linear if (weights != 1.0).any() else evidence.linear
        s = weighted.sum(axis=0)
        np.fill_diagonal(sums.ss, s)
        sy = weighted.T @ evidence.Y
        yy = float(weights @ np.einsum("nd,nd->n", evidence.Y, evidence.Y))
        if evidence.overlaps.partial.size:
            n_missing = weights @ (evidence.overlaps.observed == 0.0).sum(axis=1)
            sy += sums.sy / np.sqrt(self.tempered_precision)
            yy += float(sums.yy[0] / self.tempered_precision + n_missing * self.params.noise_variance)
        return free_energies, BinaryLinearStatistics(float(weights.sum()), s, sums.ss, sy, yy), evidence.linear

    def _expectations(self, evidence, candidates, weights):
        """F_n and the sums over all rows; <s> takes the place of evidence.linear."""
        n_causes = len(self.offset)
        sums = Sums(np.zeros((n_causes, n_causes)), np.zeros_like(evidence.overlaps.fields), np.zeros(1))
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normaliser, energy = expectations(
            evidence.linear, evidence.overlaps, candidates, tree, self.singletons, weights, sums
        )
        return self._bound(evidence, log_normaliser, energy), sums

    def _bound(self, evidence, log_normaliser, energy):
        """F_n = <log p>_q + H(q), where q is proportional to p^beta and `energy` is beta <log p - constant>_q."""
        return evidence.constant + log_normaliser + (1.0 - self.beta) / self.beta * energy
