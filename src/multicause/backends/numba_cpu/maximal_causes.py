"""Maximal causes: every truncated state of a data point, walked with its running maximum over the dimensions.

Single causes are one matrix product. States of two and more are few: each keeps m_d = max(m_d of its parent, W_jd).
What the M-step wants, <A_hd> = sum_s q(s) A_hd(s), comes from tables u = W^rho and v = W^(rho-1), scaled per dimension:

    Wbar^rho_d(s) = (sum_{k in s} u_kd)^(1 / rho),   A_hd(s) = v_hd Wbar^rho_d(s) / sum_{k in s} u_kd

Where the model's mean is this smooth maximum, too, each state keeps the sum of its causes' u instead of their maximum.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln, logit

from multicause.backends.numba_cpu.selection import poisson_upper_bound_scores, top_candidates, upper_bound_scores
from multicause.backends.numba_cpu.subset_tree import subset_tree
from multicause.backends.numba_cpu.vector_math import exponentiate, flushed_exp, take_logs
from multicause.backends.tiles import tiled_product
from multicause.models.maximal_causes import SMALLEST_FIELD, MaximalCausesStatistics, sharpness

OFF = -1e300  # the log joint of a state that is not there
NEGLIGIBLE = 1e-14  # states of less weight add nothing to <A>
NONE = np.zeros((0, 0))
DEEPEST = -640.0  # exponent below which scaled powers of fields are cut off
MOST_KEPT = 2**19  # numbers in the smooth maxima of a data point's states, beyond which they are computed again


class Fields(NamedTuple):
    """What the walk needs of the parameters."""

    components: np.ndarray  # (H, D)
    log_components: np.ndarray  # (H, D)
    log_odds: np.ndarray  # (H,) logit pi
    u: np.ndarray  # (H, D) (W / largest)^rho
    v: np.ndarray  # (H, D) (W / largest)^(rho - 1)
    beta: float
    largest: np.ndarray  # (D,) of all fields: what u and v are scaled by
    precision: float  # 1 / sigma^2; 0 means Poisson noise
    root: float  # 1 / rho; 0 means the hard maximum
    smooth: bool  # whether states are judged by the smooth maximum: only with Gaussian noise


class Evidence(NamedTuple):
    """What a chunk's data points contribute, once the matrix product is done."""

    Y: np.ndarray  # (N, D)
    singles: np.ndarray  # (N, H) log joints of single causes, less the constant
    silence: np.ndarray  # (N,) log joint of no cause, less the constant
    constant: np.ndarray  # (N,)


class Sums(NamedTuple):
    """What a walk adds to; arrays without rows are left alone."""

    a: np.ndarray  # (H, D) sum_n w_n <A> over states of two and more causes
    ay: np.ndarray  # (H, D) sum_n w_n <A> y over the same
    rebuilt: np.ndarray  # (N, D) <Wbar> over the candidates' states


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _grow(fields, cause, y, below, log_below, top, log_top):
    """top <- max(below, W_cause); returns log p(y | top) up to a constant of y."""
    total = 0.0
    if fields.precision > 0.0:
        for d in range(y.size):
            m = max(below[d], fields.components[cause, d])
            top[d] = m
            total -= (y[d] - m) * (y[d] - m)
        return 0.5 * fields.precision * total
    for d in range(y.size):
        m = max(below[d], fields.components[cause, d])
        log_m = max(log_below[d], fields.log_components[cause, d])
        top[d] = m
        log_top[d] = log_m
        total += y[d] * log_m - m
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _take_root(fields, total, logs, mean):
    """mean <- the smooth maximum of causes whose u sum to `total`."""
    logs[:] = total
    take_logs(logs)
    for d in range(logs.size):
        logs[d] *= fields.root
    exponentiate(logs, mean)
    for d in range(logs.size):
        mean[d] *= fields.largest[d]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _grow_smoothly(fields, cause, y, below, top, logs, mean):
    """top <- below + u_cause, mean <- the smooth maximum; returns log p(y | mean) up to a constant of y."""
    for d in range(y.size):
        top[d] = below[d] + fields.u[cause, d]
    _take_root(fields, top, logs, mean)
    total = 0.0
    for d in range(y.size):
        total -= (y[d] - mean[d]) * (y[d] - mean[d])
    return 0.5 * fields.precision * total


@njit(cache=True, nogil=True)
def _walk(fields, tree, y, chosen, singles, silence, states, tops, logs, means):
    """Log joints of all states of the candidates; tops[depth] is the running maximum of the path, or its sum of u."""
    states[0] = silence
    for row in range(1, states.size):
        depth = tree.depth[row]
        cause = chosen[tree.members[row, depth - 1]]
        if not fields.smooth:
            log_noise = _grow(fields, cause, y, tops[depth - 1], logs[depth - 1], tops[depth], logs[depth])
        elif depth == 1:
            tops[1] = fields.u[cause]
            log_noise = 0.0
        else:
            log_noise = _grow_smoothly(
                fields, cause, y, tops[depth - 1], tops[depth], logs[depth], means[row % len(means)]
            )
        if depth == 1:
            states[row] = singles[cause]
        else:
            odds = 0.0
            for k in range(depth):
                odds += fields.log_odds[chosen[tree.members[row, k]]]
            states[row] = log_noise + odds


@njit(cache=True, nogil=True)
def _weigh(fields, states, chosen, row, singletons, weights):
    """weights, row <- q of the candidates' states and of the single causes outside; returns log Z_beta and <log p>."""
    for i in range(chosen.size):
        row[chosen[i]] = OFF
    largest = states.max()
    if singletons:
        largest = max(largest, row.max())
    total = 0.0
    energy = 0.0
    for k in range(states.size):
        x = max(fields.beta * (states[k] - largest), -80.0)
        weights[k] = flushed_exp(x)
        total += weights[k]
        energy += weights[k] * x
    for h in range(row.size):
        if singletons:
            x = max(fields.beta * (row[h] - largest), -80.0)
            row[h] = flushed_exp(x)
            total += row[h]
            energy += row[h] * x
        else:
            row[h] = 0.0
    for k in range(states.size):
        weights[k] /= total
    for h in range(row.size):
        row[h] /= total
    return fields.beta * largest + np.log(total), largest + energy / (total * fields.beta)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _share_hard(components, members, weight, y, sums):
    """Add weight * A_hd(s) and weight * A_hd(s) y_d for a state of two or more causes; causes that tie share."""
    for d in range(y.size):
        top = 0.0
        total = 0.0
        for k in range(members.size):
            top = max(top, components[members[k], d])
        for k in range(members.size):
            total += 1.0 if components[members[k], d] == top else 0.0
        for k in range(members.size):
            share = weight / total if components[members[k], d] == top else 0.0
            sums.a[members[k], d] += share
            sums.ay[members[k], d] += share * y[d]


@njit(cache=True, nogil=True)
def _add_up(u, members, total):
    total[:] = 0.0
    for k in range(members.size):
        for d in range(total.size):
            total[d] += u[members[k], d]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _share(fields, members, weight, y, mean, sums, work):
    """Add weight * A_hd(s) and weight * A_hd(s) y_d for the state `members` of two or more causes.

    `mean` is the state's smooth maximum, where it is known already.
    """
    if fields.root == 0.0:
        _share_hard(fields.components, members, weight, y, sums)
        return
    total, logs, root = work
    _add_up(fields.u, members, total)
    if not fields.smooth:
        _take_root(fields, total, logs, root)
        mean = root
    for d in range(y.size):
        total[d] = weight * mean[d] / (total[d] * fields.largest[d])
    for k in range(members.size):
        h = members[k]
        for d in range(y.size):
            share = fields.v[h, d] * total[d]
            sums.a[h, d] += share
            sums.ay[h, d] += share * y[d]


@njit(cache=True, nogil=True)
def walk_chunk(fields, tree, evidence, candidates, singletons, sample_weights, sums):
    """Overwrite `evidence.singles` (N, H) by <s>, and add to `sums`.

    Returns log Z_beta, <log p>, the weights of all single causes (N, H), for which A is 1, and <|y - Wbar|^2> of all
    other states.
    """
    n_rows, n_features = evidence.Y.shape
    n_states, max_active = tree.members.shape
    states, weights = np.empty(n_states), np.empty(n_states)
    tops = np.zeros((max_active + 1, n_features))
    logs = np.full((max_active + 1, n_features), OFF)
    keeps = n_states * n_features <= MOST_KEPT
    means = np.zeros((n_states if keeps else 1, n_features if fields.smooth else 0))
    log_normaliser, energy, distance = np.empty(n_rows), np.empty(n_rows), np.zeros(n_rows)
    alone = np.zeros(evidence.singles.shape)
    members = np.empty(max_active, dtype=np.int64)
    work = (np.empty(n_features), np.empty(n_features), np.empty(n_features))
    for n in range(n_rows):
        row, y, chosen = evidence.singles[n], evidence.Y[n], candidates[n]
        _walk(fields, tree, y, chosen, row, evidence.silence[n], states, tops, logs, means)
        log_normaliser[n], energy[n] = _weigh(fields, states, chosen, row, singletons, weights)
        alone[n] = row
        for k in range(n_states):
            if weights[k] == 0.0:
                continue
            depth = tree.depth[k]
            for i in range(depth):
                members[i] = chosen[tree.members[k, i]]
                row[members[i]] += weights[k]
            if depth == 1:
                alone[n, members[0]] += weights[k]
            else:
                mean = means[k % len(means)]
                if fields.smooth and not keeps:
                    mean[:] = 0.0
                    if depth > 0:
                        _add_up(fields.u, members[:depth], work[0])
                        _take_root(fields, work[0], work[1], mean)
                distance[n] += weights[k] * _squared_distance(fields, members[:depth], y, mean)
                if depth > 1 and weights[k] > NEGLIGIBLE and sample_weights[n] > 0.0:
                    _share(fields, members[:depth], sample_weights[n] * weights[k], y, mean, sums, work)
            if sums.rebuilt.size:
                _superpose(fields, members[:depth], weights[k], sums.rebuilt[n])
    return log_normaliser, energy, alone, distance


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _squared_distance(fields, members, y, mean):
    total = 0.0
    if mean.size:
        for d in range(y.size):
            total += (y[d] - mean[d]) * (y[d] - mean[d])
        return total
    for d in range(y.size):
        top = 0.0
        for k in range(members.size):
            top = max(top, fields.components[members[k], d])
        total += (y[d] - top) * (y[d] - top)
    return total


@njit(cache=True, nogil=True)
def _superpose(fields, members, weight, rebuilt):
    for d in range(rebuilt.size):
        top = 0.0
        for k in range(members.size):
            top = max(top, fields.components[members[k], d])
        rebuilt[d] += weight * top


class Walk:
    """The truncated E-step of `models.maximal_causes` for one set of parameters."""

    def __init__(self, model, params, max_active, singletons, beta):
        self.params, self.poisson = params, model.noise == "poisson"
        self.max_active, self.singletons, self.beta = max_active, singletons, beta
        rho = sharpness(beta)
        components = np.ascontiguousarray(params.components)
        log_components = np.log(np.maximum(components, SMALLEST_FIELD))
        log_largest = log_components.max(axis=0)
        scaled = log_components - log_largest
        hard = np.isinf(rho)
        u = np.exp(np.maximum(rho * scaled, DEEPEST)) if not hard else np.zeros_like(scaled)
        v = np.exp(np.maximum((rho - 1.0) * scaled, DEEPEST)) if not hard else np.zeros_like(scaled)
        precision = 0.0 if self.poisson else 1.0 / params.noise_variance
        log_odds, largest, root = logit(params.activation), np.exp(log_largest), 0.0 if hard else 1.0 / rho
        smooth = model.is_smooth and not hard
        self.fields = Fields(components, log_components, log_odds, u, v, beta, largest, precision, root, smooth)
        self.emphasis = model.weight_of_singles(beta)
        log_scale = 0.0 if self.poisson else 0.5 * model.n_features * np.log(2.0 * np.pi * params.noise_variance)
        self.log_silence = np.log1p(-params.activation).sum() - log_scale

    def evidence(self, Y):
        fields = self.fields
        if self.poisson:
            singles = tiled_product(Y, np.ascontiguousarray(fields.log_components.T))
            singles += fields.log_odds - fields.components.sum(axis=1)
            silence = np.where((Y == 0.0).all(axis=1), 0.0, OFF)
            return Evidence(Y, singles, silence, self.log_silence - gammaln(Y + 1.0).sum(axis=1))
        singles = tiled_product(Y, np.ascontiguousarray(fields.components.T) * fields.precision)
        silence = -0.5 * fields.precision * np.einsum("nd,nd->n", Y, Y)
        singles += fields.log_odds - 0.5 * fields.precision * np.square(fields.components).sum(axis=1)
        singles += silence[:, None]
        return Evidence(Y, singles, silence, np.full(len(Y), self.log_silence))

    def subset(self, evidence, rows):
        return Evidence(*(array[rows] for array in evidence))

    def select(self, evidence, n_candidates):
        fields, log_activation = self.fields, np.log(self.params.activation)
        if self.poisson:
            scores = poisson_upper_bound_scores(evidence.Y, fields.components, fields.log_components, log_activation)
        else:
            scores = upper_bound_scores(evidence.Y, fields.components, log_activation, fields.precision)
        return top_candidates(scores, np.zeros_like(log_activation), np.ones_like(log_activation), n_candidates)

    def free_energies(self, evidence, candidates):
        kept = evidence._replace(singles=evidence.singles.copy())
        return self._expectations(kept, candidates, np.zeros(len(candidates)))[0]

    def means(self, evidence, candidates):
        free_energies = self._expectations(evidence, candidates, np.zeros(len(candidates)))[0]
        return free_energies, evidence.singles

    def reconstruct(self, evidence, candidates):
        """Posterior means of max_h s_h W_hd."""
        rebuilt = np.zeros_like(evidence.Y)
        alone = self._expectations(evidence, candidates, np.zeros(len(candidates)), Sums(NONE, NONE, rebuilt))[1]
        np.put_along_axis(alone, candidates.astype(np.int64), 0.0, axis=1)  # they are in `rebuilt` already
        return rebuilt + tiled_product(alone, self.fields.components)

    def accumulate(self, evidence, candidates, weights):
        fields = self.fields
        sums = Sums(np.zeros_like(fields.components), np.zeros_like(fields.components), NONE)
        free_energies, alone, distance = self._expectations(evidence, candidates, weights, sums)
        if (weights != 1.0).any():
            alone *= weights[:, None]
        single = alone.sum(axis=0)
        single_ay = alone.T @ evidence.Y
        squares = np.einsum("nd,nd->n", evidence.Y, evidence.Y)
        of_singles = (
            alone.sum(axis=1) @ squares
            - 2.0 * np.vdot(single_ay, fields.components)
            + single @ np.square(fields.components).sum(axis=1)
        )
        statistics = MaximalCausesStatistics(
            float(weights.sum()),
            weights @ evidence.singles,
            sums.a + self.emphasis * single[:, None],
            sums.ay + self.emphasis * single_ay,
            float(weights @ distance + of_singles),
        )
        return free_energies, statistics, evidence.singles

    def _expectations(self, evidence, candidates, weights, sums=None):
        """F_n, the weights of single causes, and the squared distances of the other states."""
        tree = subset_tree(candidates.shape[1], self.max_active)
        sums = Sums(NONE, NONE, NONE) if sums is None else sums
        log_normaliser, energy, alone, distance = walk_chunk(
            self.fields, tree, evidence, candidates, self.singletons, weights, sums
        )
        return evidence.constant + log_normaliser + (1.0 - self.beta) * energy, alone, distance
