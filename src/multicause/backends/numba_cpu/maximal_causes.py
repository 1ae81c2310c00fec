"""Maximal causes: every truncated state of a data point, enumerated along a tree.

Noise is any exponential family, log p(y | m) = sum_d y_d eta(m_d) - A(m_d) up to a constant of y. States of one latent
are one matrix product, and not enumerated here; the rest of the maximum itself is in `maxima`.

What the M-step wants, <A_hd> = sum_s q(s) A_hd(s), comes from tables u = W^rho and v = W^(rho-1), scaled per dimension:

    Wbar^rho_d(s) = (sum_{k in s} u_kd)^(1 / rho),   A_hd(s) = v_hd Wbar^rho_d(s) / sum_{k in s} u_kd

Where the model's mean is this smooth maximum, too (Gaussian noise alone), each state keeps the sum of its latents' u.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.maxima import gain_all, gather, grow, make_path, share_out
from multicause.backends.numba_cpu.normalise import OFF, weigh_row  # noqa: F401  (OFF for the E-step)
from multicause.backends.numba_cpu.vector_math import exponentiate, take_logs

SMALLEST_MENTIONED = 1e-24  # states of less weight do not contribute to <s>
SMALLEST_STATE_WEIGHT = 1e-14  # states of less weight do not contribute to <A>
FEW_STATES = 2  # up to so many of two and more latents are quicker taken one by one than all together
MANY_STATES = 12  # per candidate: so many are quicker looked up in sums over sets than grown one by one
MOST_KEPT = 2**19  # numbers in the smooth maxima of a data point's states, beyond which they are computed again


class Tables(NamedTuple):
    """What is to be known of the parameters."""

    components: np.ndarray  # (H, D)
    natural: np.ndarray  # (H, D) eta(W)
    partition: np.ndarray  # (H, D) A(W)
    log_odds: np.ndarray  # (H,) logit pi
    u: np.ndarray  # (H, D) (W / largest)^rho
    v: np.ndarray  # (H, D) (W / largest)^(rho - 1)
    largest: np.ndarray  # (D,) of all components: what u and v are scaled by
    precision: np.ndarray  # (D,) 1 / sigma^2 of Gaussian noise; (0,) for other noise
    background: float  # the mean where no latent is active
    background_natural: float
    background_partition: float
    beta: float
    root: float  # 1 / rho; 0 means the hard maximum
    smooth: bool  # whether states are judged by the smooth maximum: only with Gaussian noise


class Sums(NamedTuple):
    """What the enumeration adds to; arrays without rows are left alone."""

    a: np.ndarray  # (H, D) sum_n w_n <A> over states of two and more latents
    ay: np.ndarray  # (H, D) sum_n w_n <A> y over the same
    squares: np.ndarray  # (D,) sum_n w_n <(y - Wbar)^2> over all states but those of one latent; smooth maxima only
    rebuilt: np.ndarray  # (N, D) <Wbar> over the candidates' states


class Work(NamedTuple):
    """Arrays of one data point."""

    sums: np.ndarray  # (gamma + 1, D) running sums of u along a path
    means: np.ndarray  # (S or 1, D) smooth maxima, where states are judged by them
    total: np.ndarray  # (D,)
    logs: np.ndarray  # (D,)
    mean: np.ndarray  # (D,)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _take_root(tables, total, logs, mean):
    """mean <- the smooth maximum of latents whose u sum to `total`."""
    logs[:] = total
    take_logs(logs)
    for d in range(logs.size):
        logs[d] *= tables.root
    exponentiate(logs, mean)
    for d in range(logs.size):
        mean[d] *= tables.largest[d]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _grow_smoothly(tables, latent, y, depth, mean, work):
    """mean <- the smooth maximum of a path that gains a latent; returns log p(y | mean) up to a constant of y."""
    below, here = work.sums[depth - 1], work.sums[depth]
    for d in range(y.size):
        here[d] = below[d] + tables.u[latent, d]
    _take_root(tables, here, work.logs, mean)
    total = 0.0
    for d in range(y.size):
        total += tables.precision[d] * (y[d] - 0.5 * mean[d]) * mean[d]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(tables, tree, y, chosen, singles, empty, states, work, path):
    """Log joints of all states of the candidates, depth first."""
    states[0] = empty
    max_active, n_candidates = tree.members.shape[1], chosen.size
    if max_active > 1 and not tables.smooth:
        gather(tables, y, chosen, path)
        if len(path.ranks) and states.size > MANY_STATES * n_candidates:
            gain_all(tables.log_odds, chosen, path, y.size)
            for row in range(1, states.size):
                states[row] = path.gained[path.subsets[row]]
            return
    for row in range(1, states.size):
        depth = tree.depth[row]
        last = tree.members[row, depth - 1]
        if depth == 1:
            states[row] = singles[chosen[last]]
            if tables.smooth:
                work.sums[1] = tables.u[chosen[last]]
            continue
        if tables.smooth:
            log_noise = _grow_smoothly(tables, chosen[last], y, depth, work.means[row % len(work.means)], work)
        else:
            below = tree.members[row, 0] if depth == 2 else n_candidates + depth - 1
            log_noise = grow(path, below, last, n_candidates + depth)
        for k in range(depth):
            log_noise += tables.log_odds[chosen[tree.members[row, k]]]
        states[row] = log_noise


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _share_hard(components, members, weight, y, sums):
    """Add weight * A_hd(s) and weight * A_hd(s) y_d of a state of two or more latents; ties share."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def _add_up(u, members, total):
    total[:] = 0.0
    for k in range(members.size):
        for d in range(total.size):
            total[d] += u[members[k], d]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _share(tables, members, weight, y, mean, sums, work):
    """Add weight * A_hd(s) and weight * A_hd(s) y_d for the state `members` of two or more latents.

    `mean` is the state's smooth maximum, where it is known already.
    """
    total = work.total
    _add_up(tables.u, members, total)
    if not tables.smooth:
        _take_root(tables, total, work.logs, work.mean)
        mean = work.mean
    for d in range(y.size):
        total[d] = weight * mean[d] / (total[d] * tables.largest[d])
    for k in range(members.size):
        h = members[k]
        for d in range(y.size):
            share = tables.v[h, d] * total[d]
            sums.a[h, d] += share
            sums.ay[h, d] += share * y[d]


@njit(cache=True, nogil=True, error_model="numpy")
def _maximum(tables, members, mean):
    """mean <- the maximum of some latents and the background."""
    mean[:] = tables.background
    for k in range(members.size):
        for d in range(mean.size):
            mean[d] = max(mean[d], tables.components[members[k], d])


@njit(cache=True, nogil=True, error_model="numpy")
def _smooth_mean(tables, row, members, keeps, work):
    """A state's smooth maximum, kept from the enumeration or computed again."""
    mean = work.means[row % len(work.means)]
    if not keeps:
        mean[:] = 0.0
        if members.size > 0:
            _add_up(tables.u, members, work.total)
            _take_root(tables, work.total, work.logs, mean)
    return mean


@njit(cache=True, nogil=True, error_model="numpy")
def _add_state(tables, row, members, weight, y, keeps, sums, work):
    """What a state of none, two or more latents adds to the sums."""
    if tables.root == 0.0:
        if members.size > 1:
            _share_hard(tables.components, members, weight, y, sums)
        return
    mean = work.mean
    if tables.smooth:
        mean = _smooth_mean(tables, row, members, keeps, work)
    else:
        _maximum(tables, members, mean)
    for d in range(tables.precision.size):  # of Gaussian noise
        sums.squares[d] += weight * (y[d] - mean[d]) * (y[d] - mean[d])
    if members.size > 1 and weight > 0.0:
        _share(tables, members, weight, y, mean, sums, work)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_states(tables, tree, chosen, weights, sample_weight, y, keeps, sums, work, path):
    """What the states of one data point add to the sums."""
    if tables.root == 0.0 and len(path.ranks):
        n_states = 0
        for k in range(weights.size):
            n_states += tree.depth[k] > 1 and weights[k] > SMALLEST_STATE_WEIGHT
        if n_states > FEW_STATES:
            share_out(tree, weights, sample_weight, y, chosen, path, sums)
            return
    for k in range(weights.size):
        if tree.depth[k] != 1 and weights[k] > SMALLEST_STATE_WEIGHT:
            members = chosen[tree.members[k, : tree.depth[k]]]
            _add_state(tables, k, members, sample_weight * weights[k], y, keeps, sums, work)


@njit(cache=True, nogil=True, error_model="numpy")
def expectations(tables, tree, data, candidates, singletons, sample_weights, sums):
    """Expectations over the states of each row; `data` are Y, and the log joints of single latents and of none.

    Returns log Z of p^beta, <log p>, <s>, and the weights of single latents (N, H), for which A is 1.
    """
    Y, singles, empty = data
    n_rows, n_features = Y.shape
    n_states, max_active = tree.members.shape
    states, weights = np.empty(n_states), np.empty(n_states)
    keeps = n_states * n_features <= MOST_KEPT
    work = Work(
        np.zeros((max_active + 1, n_features)),
        np.zeros((n_states if keeps else 1, n_features if tables.smooth else 0)),
        np.empty(n_features), np.empty(n_features), np.empty(n_features),
    )  # fmt: skip
    path = make_path(tree, candidates.shape[1], n_features)
    log_normaliser, energy = np.empty(n_rows), np.empty(n_rows)
    means, alone = singles.copy(), np.zeros(singles.shape)
    for n in range(n_rows):
        row, y, chosen = means[n], Y[n], candidates[n]
        _enumerate(tables, tree, y, chosen, row, empty[n], states, work, path)
        log_normaliser[n], energy[n] = weigh_row(tables.beta, states, chosen, row, singletons, weights)
        alone[n] = row
        for k in range(1, n_states):
            if weights[k] > SMALLEST_MENTIONED:
                for i in range(tree.depth[k]):
                    row[chosen[tree.members[k, i]]] += weights[k]
                if tree.depth[k] == 1:
                    alone[n, chosen[tree.members[k, 0]]] += weights[k]
        if sums.a.size and sample_weights[n] > 0.0:
            _add_states(tables, tree, chosen, weights, sample_weights[n], y, keeps, sums, work, path)
        if sums.rebuilt.size:
            _rebuild(tables, tree, chosen, weights, sums.rebuilt[n], work)
    return log_normaliser, energy, means, alone


@njit(cache=True, nogil=True, error_model="numpy")
def _rebuild(tables, tree, chosen, weights, rebuilt, work):
    """Add <Wbar> over the candidates' states."""
    for k in range(weights.size):
        if weights[k] > 0.0:
            _maximum(tables, chosen[tree.members[k, : tree.depth[k]]], work.mean)
            for d in range(rebuilt.size):
                rebuilt[d] += weights[k] * work.mean[d]
