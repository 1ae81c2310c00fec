"""Maxima of the candidates of one data point: what each state explains, and who is largest in each dimension.

Dimensions lie in lanes, eight at a time; what is past the last one adds nothing.

A state is explained dimension by dimension by its largest latent, so that it keeps what its parent's largest gains
there or what the latent gains that it adds. Where states are many, none of them is looked at: i is the largest in
dimension d of the states with i among the candidates T that are not larger there,

    T_id = {j : W_jd <= W_id},   [i is the largest of s] = [s in T_id] - [s in T_id without i]

so that what a state gains is a sum over sets that contain it, and <A_id>, the weight of all states whose largest is i,

    sum_d gain_d(s) = sum_{M contains s} G(M),   G(M) = sum_id gain_id ([M = T_id] - [M = T_id without i])
    <A_id> = Q(T_id) - Q(T_id without i),        Q(M) = sum_{s in M} q(s)

The sums over sets, the same for all dimensions, take one addition per set and candidate.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.simd import LANES, fill, load, store, sum_lanes, where_larger

MOST_RANKED = 10  # candidates, beyond which the tables over their subsets outgrow the states
_MEMBER = 2.0**20  # a rank is a set of candidates: its bits, plus this for each of its members
_BITS = 2**MOST_RANKED - 1
SMALLEST_PART = 1e-14  # of a data point: candidates with less do not contribute to <A>


class Path(NamedTuple):
    """Arrays of one data point; rows are the candidates', then those of a path of growing states."""

    means: np.ndarray  # (H' + gamma + 1, blocks, LANES) components, and their maxima along the path
    gains: np.ndarray  # the same of y eta - A
    ranks: np.ndarray  # (H', blocks, LANES) of each candidate the set T that are not larger
    subsets: np.ndarray  # (S,) the states as bits
    gained: np.ndarray  # (2^H',) G, then its sums
    whole: np.ndarray  # (2^H',) Q
    divided: np.ndarray  # the same with q(s) / |s|: what each has of states that all their latents tie in
    shares: np.ndarray  # (H', D) <A>


@njit(cache=True, nogil=True, error_model="numpy")
def make_path(tree, n_candidates, n_features):
    """Arrays for data points of a given size; the tables over subsets are empty where candidates are too many."""
    n_states, max_active = tree.members.shape
    n_blocks = -(-n_features // LANES)
    n_ranked = n_candidates if n_candidates <= MOST_RANKED else 0
    n_sets = 1 << n_ranked
    means = np.zeros((n_candidates + max_active + 1, n_blocks, LANES))
    for i in range(n_candidates):
        means[i] = -i  # no ties past the last dimension
    subsets = np.zeros(n_states, dtype=np.int64)
    for row in range(n_states if n_ranked else 0):
        for k in range(tree.depth[row]):
            subsets[row] |= 1 << tree.members[row, k]
    return Path(
        means, np.zeros(means.shape), np.empty((n_ranked, n_blocks, LANES)), subsets,
        np.empty(n_sets), np.empty(n_sets), np.empty(n_sets), np.empty((n_ranked, n_features)),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def gather(tables, y, chosen, path):
    """What each candidate gains by itself."""
    for i in range(chosen.size):
        natural, partition = tables.natural[chosen[i]], tables.partition[chosen[i]]
        gains = path.gains[i].reshape(-1)
        path.means[i].reshape(-1)[: y.size] = tables.components[chosen[i]]
        for d in range(y.size):
            gains[d] = y[d] * natural[d] - partition[d]


@njit(cache=True, nogil=True, error_model="numpy")
def grow(path, below, own, here):
    """Row `here` <- the maximum of the rows `below` and `own`; returns all that it gains."""
    n_blocks = path.means.shape[1]
    total = fill(0.0)
    for block in range(n_blocks):
        old, new = load(path.means, below * n_blocks + block), load(path.means, own * n_blocks + block)
        old_gain, new_gain = load(path.gains, below * n_blocks + block), load(path.gains, own * n_blocks + block)
        gain = where_larger(new, old, new_gain, old_gain)
        total = total + gain
        store(path.gains, here * n_blocks + block, gain)
        store(path.means, here * n_blocks + block, where_larger(new, old, new, old))
    return sum_lanes(total)


@njit(cache=True, nogil=True, error_model="numpy")
def _rank_strictly(path):
    """ranks <- T of each candidate, where the later of two that tie is the larger; as plain bits."""
    n_ranked, n_blocks = path.ranks.shape[:2]
    nothing = fill(0.0)
    for block in range(n_blocks):
        for i in range(n_ranked):
            own = load(path.means, i * n_blocks + block)
            rank = fill(float(1 << i))
            for j in range(n_ranked):
                other = load(path.means, j * n_blocks + block)
                if j < i:
                    rank = rank + where_larger(other, own, nothing, fill(float(1 << j)))
                elif j > i:
                    rank = rank + where_larger(own, other, fill(float(1 << j)), nothing)
            store(path.ranks, i * n_blocks + block, rank)


@njit(cache=True, nogil=True, error_model="numpy")
def gain_all(log_odds, chosen, path, n_features):
    """path.gained <- what each set of candidates gains, and its log odds; the empty one's are not meant.

    `gather` comes first.
    """
    n_ranked, gained, everything = path.ranks.shape[0], path.gained, path.gained.size - 1
    _rank_strictly(path)
    gained[:] = 0.0
    for i in range(n_ranked):
        ranks, gains, bit = path.ranks[i].reshape(-1), path.gains[i].reshape(-1), 1 << i
        for d in range(n_features):
            rank = np.int64(ranks[d])
            gained[rank] += gains[d]
            gained[rank - bit] -= gains[d]
        gained[everything] += log_odds[chosen[i]]
        gained[everything - bit] -= log_odds[chosen[i]]
    _sum_over_larger(gained)


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_over_larger(table):
    """table[M] <- the sum over all sets that contain M."""
    bit = 1
    if table.size >= 8:  # three candidates at once
        for first in range(0, table.size, 8):
            a, b, c, d = table[first], table[first + 1], table[first + 2], table[first + 3]
            e, f, g, h = table[first + 4], table[first + 5], table[first + 6], table[first + 7]
            a, c, e, g = a + b, c + d, e + f, g + h
            a, b, e, f = a + c, b + d, e + g, f + h
            table[first], table[first + 1], table[first + 2], table[first + 3] = a + e, b + f, c + g, d + h
            table[first + 4], table[first + 5], table[first + 6], table[first + 7] = e, f, g, h
        bit = 8
    while bit < table.size:
        for first in range(0, table.size, 2 * bit):
            low, high = table[first : first + bit], table[first + bit : first + 2 * bit]
            for k in range(bit):
                low[k] += high[k]
        bit *= 2


@njit(cache=True, nogil=True, error_model="numpy")
def _rank(path, active):
    """ranks <- T of each active candidate among them; returns whether some of them tie anywhere."""
    n_ranked, n_blocks = active.size, path.ranks.shape[1]
    nothing, one = fill(0.0), fill(1.0)
    without_ties = fill(_MEMBER * (0.5 * n_ranked * (n_ranked + 1) + 1.0))  # less their members all together have
    ties = fill(0.0)
    for block in range(n_blocks):
        total = fill(0.0)
        for i in active:
            own = load(path.means, i * n_blocks + block)
            rank = fill(0.0)
            for j in active:
                other = load(path.means, j * n_blocks + block)
                rank = rank + where_larger(other, own, nothing, fill(_MEMBER + float(1 << j)))
            store(path.ranks, i * n_blocks + block, rank)
            total = total + rank
        ties = ties + where_larger(without_ties, total, nothing, one)
    return sum_lanes(ties) > 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _tabulate(tree, weights, factor, path, divide, table):
    """table[M] <- the weight of all states of two and more latents within the set M."""
    table[:] = 0.0
    for row in range(1, weights.size):
        depth = tree.depth[row]
        if depth > 1:
            table[path.subsets[row]] = factor * weights[row] / (depth if divide else 1)
    bit = 1
    if table.size >= 8:  # three candidates at once
        for first in range(0, table.size, 8):
            a, b, c, d = table[first], table[first + 1], table[first + 2], table[first + 3]
            e, f, g, h = table[first + 4], table[first + 5], table[first + 6], table[first + 7]
            b, d, f, h = a + b, c + d, e + f, g + h
            c, d, g, h = a + c, b + d, e + g, f + h
            table[first], table[first + 1], table[first + 2], table[first + 3] = a, b, c, d
            table[first + 4], table[first + 5], table[first + 6], table[first + 7] = a + e, b + f, c + g, d + h
        bit = 8
    while bit < table.size:
        for first in range(0, table.size, 2 * bit):
            low, high = table[first : first + bit], table[first + bit : first + 2 * bit]
            for k in range(bit):
                high[k] += low[k]
        bit *= 2


@njit(cache=True, nogil=True, error_model="numpy")
def _difference(table, subset, i):
    """What the sets within a subset have that hold candidate i; rounding must not make it negative."""
    return max(table[subset] - table[subset - (1 << i)], 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _tied_share(weights, factor, path, ranks, active, i):
    """<A_id>, where others are as large as candidate i, and more are smaller: the same rank is the same size."""
    rank, equal = ranks[i] & _BITS, 0
    for j in active:
        equal |= (ranks[j] == ranks[i]) << j
    share = 0.0
    for row in range(1, weights.size):
        subset = path.subsets[row]
        if (subset >> i) & 1 and subset | rank == rank and subset != 1 << i:
            n_equal = 0
            for j in active:
                n_equal += ((subset & equal) >> j) & 1
            share += factor * weights[row] / n_equal
    return share


@njit(cache=True, nogil=True, error_model="numpy")
def _look_up_ties(weights, factor, path, active, shares):
    """shares <- <A> where candidates may tie.

    Most ties are between the smallest, as where components are 0. Then all latents of the states within T tie.
    """
    n_features = shares.shape[1]
    ranks = path.ranks.reshape(shares.shape[0], -1)
    here = np.empty(shares.shape[0], dtype=np.int64)
    for d in range(n_features):
        members, lowest = 0, np.int64(2**62)
        for i in active:
            here[i] = np.int64(ranks[i, d])
            members += here[i] // int(_MEMBER)
            lowest = min(lowest, here[i])
        n_lowest = lowest // int(_MEMBER)
        no_others = 2 * members == active.size * (active.size + 1) + n_lowest * (n_lowest - 1)
        for i in active:
            if here[i] == lowest:
                shares[i, d] = _difference(path.divided, here[i] & _BITS, i)
            elif no_others:
                shares[i, d] = _difference(path.whole, here[i] & _BITS, i)
            else:
                shares[i, d] = _tied_share(weights, factor, path, here, active, i)


@njit(cache=True, nogil=True, error_model="numpy")
def share_out(tree, weights, factor, y, chosen, path, sums):
    """Add factor * <A> and factor * <A> y over the states of two and more latents to the sums.

    Candidates that next to no such state has are left out: all is then a matter of the others.
    """
    _tabulate(tree, weights, factor, path, False, path.whole)
    everything = path.whole.size - 1
    active, n_active = np.empty(chosen.size, dtype=np.int64), 0
    for i in range(chosen.size):
        if _difference(path.whole, everything, i) > SMALLEST_PART * factor:
            active[n_active] = i
            n_active += 1
    active = active[:n_active]
    if _rank(path, active):
        _tabulate(tree, weights, factor, path, True, path.divided)
        _look_up_ties(weights, factor, path, active, path.shares)
    else:
        for i in active:
            ranks, share = path.ranks[i].reshape(-1), path.shares[i]
            for d in range(y.size):
                share[d] = _difference(path.whole, np.int64(ranks[d]) & _BITS, i)
    for i in active:
        share, a, ay = path.shares[i], sums.a[chosen[i]], sums.ay[chosen[i]]
        for d in range(y.size):
            a[d] += share[d]
        for d in range(y.size):
            ay[d] += share[d] * y[d]
