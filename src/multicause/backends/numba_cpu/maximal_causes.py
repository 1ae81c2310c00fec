"""Maximal causes: every truncated state of a data point, enumerated with its running maximum over the dimensions.

Noise is any exponential family, log p(y | m) = sum_d y_d eta(m_d) - A(m_d) up to a constant of y. A maximum picks one
W_hd per dimension, and eta and A rise with it: a state keeps the maxima of its parent's eta and A and of those of the
latent it adds. States of one latent are one matrix product, and not enumerated here.

What the M-step wants, <A_hd> = sum_s q(s) A_hd(s), comes from tables u = W^rho and v = W^(rho-1), scaled per dimension:

    Wbar^rho_d(s) = (sum_{k in s} u_kd)^(1 / rho),   A_hd(s) = v_hd Wbar^rho_d(s) / sum_{k in s} u_kd

Where the model's mean is this smooth maximum, too (Gaussian noise alone), each state keeps the sum of its latents' u.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.normalise import OFF, weigh_row  # noqa: F401  (OFF for the E-step)
from multicause.backends.numba_cpu.vector_math import exponentiate, take_logs

SMALLEST_STATE_WEIGHT = 1e-14  # states of less weight do not contribute to <A>
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
    squares: np.ndarray  # (D,) sum_n w_n <(y - Wbar)^2> over all states but those of one latent, for Gaussian noise
    rebuilt: np.ndarray  # (N, D) <Wbar> over the candidates' states


class Work(NamedTuple):
    """Arrays of one data point."""

    natural: np.ndarray  # (gamma + 1, D) running maxima of eta along a path, or running sums of u
    partition: np.ndarray  # (gamma + 1, D) running maxima of A
    means: np.ndarray  # (S or 1, D) smooth maxima, where states are judged by them
    total: np.ndarray  # (D,)
    logs: np.ndarray  # (D,)
    mean: np.ndarray  # (D,)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _grow(tables, latent, y, depth, work):
    """The maxima of a path that gains a latent; returns log p(y | maximum) up to a constant of y."""
    below_natural, below_partition = work.natural[depth - 1], work.partition[depth - 1]
    natural, partition = work.natural[depth], work.partition[depth]
    own_natural, own_partition = tables.natural[latent], tables.partition[latent]
    total = 0.0
    for d in range(y.size):
        eta = max(below_natural[d], own_natural[d])
        a = max(below_partition[d], own_partition[d])
        natural[d] = eta
        partition[d] = a
        total += y[d] * eta - a
    return total


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
    """The same for the smooth maximum of Gaussian noise, which goes to `mean`."""
    below, here = work.natural[depth - 1], work.natural[depth]
    for d in range(y.size):
        here[d] = below[d] + tables.u[latent, d]
    _take_root(tables, here, work.logs, mean)
    total = 0.0
    for d in range(y.size):
        total += tables.precision[d] * (y[d] - 0.5 * mean[d]) * mean[d]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(tables, tree, y, chosen, singles, empty, states, work):
    """Log joints of all states of the candidates, depth first."""
    states[0] = empty
    max_active = tree.members.shape[1]
    for row in range(1, states.size):
        depth = tree.depth[row]
        latent = chosen[tree.members[row, depth - 1]]
        if depth == 1:
            states[row] = singles[latent]
            if max_active > 1:
                work.natural[1] = tables.u[latent] if tables.smooth else tables.natural[latent]
                work.partition[1] = tables.partition[latent]
            continue
        if tables.smooth:
            log_noise = _grow_smoothly(tables, latent, y, depth, work.means[row % len(work.means)], work)
        else:
            log_noise = _grow(tables, latent, y, depth, work)
        for k in range(depth):
            log_noise += tables.log_odds[chosen[tree.members[row, k]]]
        states[row] = log_noise


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _share_hard(components, members, weight, y, sums):
    """Add weight * A_hd(s), weight * A_hd(s) y_d and the squares of a state of two or more latents; ties share."""
    squares = sums.squares.size > 0
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
        if squares:
            sums.squares[d] += weight * (y[d] - top) * (y[d] - top)


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
    if tables.root == 0.0 and members.size > 1:
        if sums.a.size:
            _share_hard(tables.components, members, weight, y, sums)
        return
    mean = work.mean
    if tables.smooth:
        mean = _smooth_mean(tables, row, members, keeps, work)
    elif sums.squares.size:
        _maximum(tables, members, mean)
    if sums.squares.size:
        for d in range(y.size):
            sums.squares[d] += weight * (y[d] - mean[d]) * (y[d] - mean[d])
    if members.size > 1 and weight > 0.0 and sums.a.size:
        _share(tables, members, weight, y, mean, sums, work)


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
        np.full((max_active + 1, n_features), tables.background_natural),
        np.full((max_active + 1, n_features), tables.background_partition),
        np.zeros((n_states if keeps else 1, n_features if tables.smooth else 0)),
        np.empty(n_features), np.empty(n_features), np.empty(n_features),
    )  # fmt: skip
    log_normaliser, energy = np.empty(n_rows), np.empty(n_rows)
    means, alone = singles.copy(), np.zeros(singles.shape)
    members = np.empty(max_active, dtype=np.int64)
    for n in range(n_rows):
        row, y, chosen = means[n], Y[n], candidates[n]
        _enumerate(tables, tree, y, chosen, row, empty[n], states, work)
        log_normaliser[n], energy[n] = weigh_row(tables.beta, states, chosen, row, singletons, weights)
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
            elif weights[k] > SMALLEST_STATE_WEIGHT and sample_weights[n] > 0.0:
                _add_state(tables, k, members[:depth], sample_weights[n] * weights[k], y, keeps, sums, work)
            if sums.rebuilt.size:
                _maximum(tables, members[:depth], work.mean)
                for d in range(n_features):
                    sums.rebuilt[n, d] += weights[k] * work.mean[d]
    return log_normaliser, energy, means, alone
