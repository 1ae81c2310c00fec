"""Rates that add up: every truncated state of a data point, enumerated with its running sum of rates.

    x(s) = sum_{h in s} (logit pi_h - sum_d W_hd) + sum_{d: y_d > 0} y_d log(b + sum_{h in s} W_hd)

up to a constant of the data point. Only dimensions that have counts need a logarithm: they are gathered first. States
of one latent are one matrix product, and not enumerated here. The M-step shares counts out: it wants
sum_s q(s) s_h y_d / rate_d(s) of every latent.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.normalise import weigh_row
from multicause.backends.numba_cpu.vector_math import take_logs

SMALLEST_STATE_WEIGHT = 1e-14  # states of less weight do not contribute to the M-step


class Tables(NamedTuple):
    """What is to be known of the parameters."""

    components: np.ndarray  # (H, D)
    offset: np.ndarray  # (H,) logit pi_h - sum_d W_hd
    background: float
    beta: float


class Work(NamedTuple):
    """Arrays of one data point, of which as many columns are used as it has counts."""

    where: np.ndarray  # (D,) the dimensions that have counts
    counts: np.ndarray  # (D,)
    rates: np.ndarray  # (H', D) of the candidates
    path: np.ndarray  # (gamma + 1, D) the rates of the states on a path
    logs: np.ndarray  # (D,)
    shares: np.ndarray  # (H', D) sum_s q(s) s_h y_d / rate_d(s) over states of two and more


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(tables, y, chosen, work):
    """Collect the dimensions that have counts, and the candidates' rates there; returns how many they are."""
    n = 0
    for d in range(y.size):
        if y[d] > 0.0:
            work.where[n] = d
            work.counts[n] = y[d]
            n += 1
    for i in range(chosen.size):
        rates = tables.components[chosen[i]]
        for k in range(n):
            work.rates[i, k] = rates[work.where[k]]
    work.path[0, :n] = tables.background
    work.shares[:, :n] = 0.0
    return n


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _log_likelihood(counts, rates, logs):
    """sum_d y_d log(rate_d)."""
    for k in range(counts.size):
        logs[k] = rates[k]
    take_logs(logs)
    total = 0.0
    for k in range(counts.size):
        total += counts[k] * logs[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(tables, tree, chosen, singles, empty, n, states, work):
    """Log joints of all states of the candidates, depth first."""
    states[0] = empty
    for row in range(1, states.size):
        depth = tree.depth[row]
        last = tree.members[row, depth - 1]
        below, here, own = work.path[depth - 1], work.path[depth], work.rates[last]
        for k in range(n):
            here[k] = below[k] + own[k]
        if depth == 1:
            states[row] = singles[chosen[last]]
            continue
        total = _log_likelihood(work.counts[:n], here[:n], work.logs[:n])
        for k in range(depth):
            total += tables.offset[chosen[tree.members[row, k]]]
        states[row] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _share_out(tables, members, weight, n, work):
    """Add the counts per rate of a state of two and more latents to its members' shares; returns their sum."""
    rate = work.logs
    for k in range(n):
        rate[k] = tables.background
    for i in range(members.size):
        own = work.rates[members[i]]
        for k in range(n):
            rate[k] += own[k]
    total = 0.0
    for k in range(n):
        rate[k] = weight * work.counts[k] / rate[k]
        total += rate[k]
    for i in range(members.size):
        share = work.shares[members[i]]
        for k in range(n):
            share[k] += rate[k]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def expectations(tables, tree, data, candidates, singletons, sample_weights, shared):
    """Expectations over the states of each row; `data` are Y, and the log joints of single latents and of none.

    Adds sum_n w_n <s_h y_d / rate_d> over states of two and more latents to `shared` (H, D), unless it has no rows.
    Returns log Z of p^beta, <log p>, <s>, the weights of single latents (N, H) and of none (N,), and the sum of
    w_n <y_d / rate_d> over the same states.
    """
    Y, singles, empty = data
    n_rows, n_features = Y.shape
    n_states, max_active = tree.members.shape
    n_candidates = candidates.shape[1]
    states, weights = np.empty(n_states), np.empty(n_states)
    work = Work(
        np.empty(n_features, dtype=np.int64), np.empty(n_features), np.empty((n_candidates, n_features)),
        np.empty((max_active + 1, n_features)), np.empty(n_features), np.empty((n_candidates, n_features)),
    )  # fmt: skip
    log_normaliser, energy, none = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    means, alone = singles.copy(), np.zeros(singles.shape)
    per_rate = 0.0
    for n in range(n_rows):
        row, chosen = means[n], candidates[n]
        n_counts = _gather(tables, Y[n], chosen, work)
        _enumerate(tables, tree, chosen, row, empty[n], n_counts, states, work)
        log_normaliser[n], energy[n] = weigh_row(tables.beta, states, chosen, row, singletons, weights)
        alone[n] = row
        none[n] = weights[0]
        shares = shared.size > 0 and sample_weights[n] > 0.0
        for k in range(1, n_states):
            if weights[k] == 0.0:
                continue
            depth = tree.depth[k]
            members = tree.members[k, :depth]
            for i in range(depth):
                row[chosen[members[i]]] += weights[k]
            if depth == 1:
                alone[n, chosen[members[0]]] += weights[k]
            elif shares and weights[k] > SMALLEST_STATE_WEIGHT:
                per_rate += _share_out(tables, members, sample_weights[n] * weights[k], n_counts, work)
        if shares:
            for i in range(n_candidates):
                for k in range(n_counts):
                    shared[chosen[i], work.where[k]] += work.shares[i, k]
    return log_normaliser, energy, means, alone, none, per_rate
