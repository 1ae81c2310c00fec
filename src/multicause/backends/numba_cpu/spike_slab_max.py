"""Gibbs sampling of spike-and-slab latents that combine by their maximum.

Coefficients are in units of the slab's standard deviation, data and components in units of the noise: z_h ~ N(mu_h, 1),
and -2 log p(y | x) = |y - max(0, max_h x_h W_h)|^2. Given the others' maximum m, latent h wins dimension d where
z_h > t_d = m_d / W_hd. With f the log density of z_h relative to p(s_h = 0),

    f(z) = logit pi_h - log(2 pi)/2 - (z - mu_h)^2 / 2 + sum_{d: t_d < z} [(y_d - m_d)^2 - (y_d - z W_hd)^2] / 2,

which is continuous, and quadratic between sorted thresholds: f' = b - lambda z, where passing t_d adds W_hd^2 to
lambda and W_hd y_d to b. So f is carried from threshold to threshold without the cancellation of large constants.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.counter_random import key_of, uniform
from multicause.backends.numba_cpu.truncated_normal import integral, moments, quantile

LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)
LOWEST_PIECE = -35.0  # a piece whose log density stays this far below the largest is left out: 6e-16 of it

_plainly = njit(cache=True, nogil=True, error_model="numpy", fastmath=False)


class Causes(NamedTuple):
    """The parameters of one E-step."""

    components: np.ndarray  # (H, D) sqrt(psi_h beta) W_h / sigma
    slab_mean: np.ndarray  # (H,) mu_h / sqrt(psi_h)
    log_odds: np.ndarray  # (H,) logit pi_h
    scale: float  # sqrt(beta) / sigma, by which the data are multiplied


class Chain(NamedTuple):
    """How long to sample, and from which random numbers."""

    n_burn_in: int
    n_sweeps: int
    key: np.uint64
    wants_evidence: bool


class Answers(NamedTuple):
    """What is known of each row, and weighted sums over all rows, in the kernel's units."""

    evidence: np.ndarray  # (N,) log of the sum over all states of the candidates, relative to the empty state
    s: np.ndarray  # (N, H) <s>
    x: np.ndarray  # (N, H) <x>
    rebuilt: np.ndarray  # (N, D) <max_h x_h W_h>
    distance: np.ndarray  # (N,) <|y - max_h x_h W_h|^2>
    xx: np.ndarray  # (H,) sum_n w_n <x^2>
    axy: np.ndarray  # (H, D) sum_n w_n <A x> y
    axx: np.ndarray  # (H, D) sum_n w_n <A x^2>


class Pieces(NamedTuple):
    """A conditional distribution: off, or on with z_h in one of the pieces that carry mass."""

    order: np.ndarray  # (D,) dimensions by rising threshold
    threshold: np.ndarray  # (D,) sorted
    n_won: np.ndarray  # (D + 1,) how many of `order` each piece wins
    lower: np.ndarray  # (D + 1,)
    upper: np.ndarray  # (D + 1,)
    centre: np.ndarray  # (D + 1,) b / lambda
    root: np.ndarray  # (D + 1,) sqrt(lambda)
    mass: np.ndarray  # (D + 1,) log mass relative to p(off), then the probability
    mean: np.ndarray  # (D + 1,) of z_h in the piece
    second: np.ndarray  # (D + 1,) <z_h^2>


@_plainly
def make_pieces(n_features):
    n = n_features
    return Pieces(
        np.empty(n, np.int64), np.empty(n), np.empty(n + 1, np.int64), np.empty(n + 1), np.empty(n + 1),
        np.empty(n + 1), np.empty(n + 1), np.empty(n + 1), np.empty(n + 1), np.empty(n + 1),
    )  # fmt: skip


@_plainly
def _sort_thresholds(others, component, threshold, order):
    """Thresholds in rising order, by Shell's method; returns how many dimensions the latent can win at all."""
    n = 0
    for d in range(component.size):
        t = others[d] / component[d] if component[d] > 0.0 else np.inf
        if t < np.inf:
            threshold[n] = t
            order[n] = d
            n += 1
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            t, d, k = threshold[i], order[i], i
            while k >= gap and threshold[k - gap] > t:
                threshold[k] = threshold[k - gap]
                order[k] = order[k - gap]
                k -= gap
            threshold[k] = t
            order[k] = d
        gap //= 3
    return n


@_plainly
def condition(y, others, component, slab_mean, log_odds, power, with_moments, pieces):
    """p(s_h, z_h | y, the others) with the likelihood to a power.

    Fills `pieces` with those that matter; returns their number, p(off), and the log of the total mass relative to off.
    """
    n_pieces, top = _cut(y, others, component, slab_mean, log_odds, power, pieces)
    off = math.exp(-top)
    total, filled = off, 0
    for j in range(n_pieces):
        if pieces.mass[j] >= top + LOWEST_PIECE:  # equal where top is so large that nothing is near it
            lower, upper, centre, root = pieces.lower[j], pieces.upper[j], pieces.centre[j], pieces.root[j]
            a, b = root * (lower - centre), root * (upper - centre)
            if with_moments:
                area, mean, variance = moments(a, b)
                mean = min(max(centre + mean / root, lower), upper)
                pieces.mean[filled] = mean
                pieces.second[filled] = mean * mean + variance / (root * root)
            else:
                area = integral(a, b)
            pieces.mass[filled] = math.exp(pieces.mass[j] - top) * area / root
            pieces.n_won[filled] = pieces.n_won[j]
            pieces.lower[filled], pieces.upper[filled] = lower, upper
            pieces.centre[filled], pieces.root[filled] = centre, root
            total += pieces.mass[filled]
            filled += 1
    for j in range(filled):
        pieces.mass[j] /= total
    return filled, off / total, top + math.log(total)


@_plainly
def _cut(y, others, component, slab_mean, log_odds, power, pieces):
    """Cut the line at the thresholds: `mass` gets the largest f of each piece. Returns their number and the largest."""
    threshold, order = pieces.threshold, pieces.order
    n = _sort_thresholds(others, component, threshold, order)
    precision, linear = 1.0, slab_mean
    lower, upper = -np.inf, threshold[0] if n > 0 else np.inf
    at_lower = -np.inf
    at_upper = log_odds - LOG_ROOT_2PI - 0.5 * (upper - slab_mean) ** 2
    top, n_pieces, i = 0.0, 0, 0
    while True:
        if upper > lower:
            centre = linear / precision
            if centre <= lower:
                peak = at_lower
            elif centre >= upper:
                peak = at_upper
            elif i == 0:
                peak = log_odds - LOG_ROOT_2PI
            else:
                peak = at_lower + 0.5 * precision * (centre - lower) ** 2
            pieces.n_won[n_pieces] = i
            pieces.lower[n_pieces], pieces.upper[n_pieces] = lower, upper
            pieces.centre[n_pieces], pieces.root[n_pieces] = centre, math.sqrt(precision)
            pieces.mass[n_pieces] = peak
            top = max(top, peak)
            n_pieces += 1
        if i == n:
            return n_pieces, top
        lower, at_lower = upper, at_upper
        while i < n and threshold[i] <= lower:
            w = component[order[i]]
            precision += power * w * w
            linear += power * w * y[order[i]]
            i += 1
        upper = threshold[i] if i < n else np.inf
        at_upper = at_lower + (upper - lower) * (linear - 0.5 * precision * (lower + upper)) if i < n else -np.inf


@_plainly
def draw(filled, off, which, where, pieces):
    """A coefficient by two uniform numbers: off (0), or which piece, and where in it."""
    total = off
    if filled == 0 or which < total:
        return 0.0
    j = 0
    while j < filled - 1:
        total += pieces.mass[j]
        if which < total:
            break
        j += 1
    root, centre = pieces.root[j], pieces.centre[j]
    z = quantile(root * (pieces.lower[j] - centre), root * (pieces.upper[j] - centre), where)
    z = min(max(centre + z / root, pieces.lower[j]), pieces.upper[j])
    return z if z != 0.0 else 1e-300  # 0 means off


@_plainly
def _maximum_of_others(x, chosen, components, left_out, result):
    result[:] = 0.0
    for k in range(chosen.size):
        if k != left_out and x[k] > 0.0:
            for d in range(result.size):
                result[d] = max(result[d], x[k] * components[chosen[k], d])


@_plainly
def update(j, x, y, chosen, latents, power, randomness, others, pieces):
    """Draw x[j] given y and the other candidates; returns how many pieces its conditional has."""
    key, pair = randomness
    h = chosen[j]
    _maximum_of_others(x, chosen, latents.components, j, others)
    filled, off, _ = condition(
        y, others, latents.components[h], latents.slab_mean[h], latents.log_odds[h], power, True, pieces
    )
    x[j] = draw(filled, off, uniform(key, 2 * pair), uniform(key, 2 * pair + 1), pieces)
    return filled


@_plainly
def _log_density(z, y, others, component, slab_mean, log_odds):
    """f(z), or 0 for a latent that is off: the log density relative to p(off)."""
    if z == 0.0:
        return 0.0
    total = log_odds - LOG_ROOT_2PI - 0.5 * (z - slab_mean) ** 2
    for d in range(y.size):
        here = z * component[d]
        if here > others[d]:
            total += (here - others[d]) * (y[d] - 0.5 * (here + others[d]))
    return total


@_plainly
def sample_rows(Y, candidates, weights, latents, chain, answers):
    """For each row a chain of its own over the coefficients of its candidates, from all off; fills `answers`.

    Expectations are Rao-Blackwellised: every update of a latent contributes its whole conditional distribution.
    """
    n_rows, n_features = Y.shape
    n_candidates = candidates.shape[1]
    pieces = make_pieces(n_features)
    y, others = np.empty(n_features), np.empty(n_features)
    visited = np.empty((chain.n_sweeps, n_candidates))
    second = np.empty(n_candidates)
    ax, axx = np.empty((n_candidates, n_features)), np.empty((n_candidates, n_features))
    rows = (second, ax, axx)
    for n in range(n_rows):
        key = key_of(Y[n], chain.key)
        for d in range(n_features):
            y[d] = latents.scale * Y[n, d]
        _sample(n, y, candidates[n], key, latents, chain, others, visited, rows, pieces, answers)
        if chain.wants_evidence:
            answers.evidence[n] = _evidence(y, candidates[n], latents, others, visited, pieces)
        w = weights[n]
        for j in range(n_candidates):
            h = candidates[n, j]
            answers.xx[h] += w * second[j]
            for d in range(n_features):
                answers.axy[h, d] += w * ax[j, d] * y[d]
                answers.axx[h, d] += w * axx[j, d]


@_plainly
def _sample(n, y, chosen, key, latents, chain, others, visited, rows, pieces, answers):
    """The chain of row n: burn-in from all off, during which the data gain weight, then the sweeps that count."""
    n_candidates = chosen.size
    second, ax, axx = rows
    second[:] = 0.0
    ax[:] = 0.0
    axx[:] = 0.0
    x = np.zeros(n_candidates)
    share = 1.0 / chain.n_sweeps
    for sweep in range(chain.n_burn_in + chain.n_sweeps):
        counts = sweep >= chain.n_burn_in
        power = min((sweep + 1.0) / (chain.n_burn_in + 1.0), 1.0)
        for j in range(n_candidates):
            pair = sweep * latents.log_odds.size + chosen[j]  # of random numbers
            filled = update(j, x, y, chosen, latents, power, (key, pair), others, pieces)
            if counts:
                _record(n, j, chosen[j], share, y, others, latents.components[chosen[j]], filled, rows, pieces, answers)
        for j in range(n_candidates if counts else 0):
            visited[sweep - chain.n_burn_in, j] = x[j]


@_plainly
def _record(n, j, h, share, y, others, component, filled, rows, pieces, answers):
    """Add a conditional's expectations; those of the maximum are averaged over the latents' conditionals as well."""
    second, ax, axx = rows
    each = share / second.size
    for i in range(filled):
        answers.s[n, h] += share * pieces.mass[i]
        answers.x[n, h] += share * pieces.mass[i] * pieces.mean[i]
        second[j] += share * pieces.mass[i] * pieces.second[i]
    for d in range(y.size):
        answers.rebuilt[n, d] += each * others[d]
        answers.distance[n] += each * (y[d] - others[d]) ** 2
    i, p, px, pxx = filled - 1, 0.0, 0.0, 0.0  # of the pieces that win a dimension: those from some piece upwards
    k = pieces.n_won[i] - 1 if filled > 0 else -1
    while k >= 0:
        while i >= 0 and pieces.n_won[i] > k:
            p += pieces.mass[i]
            px += pieces.mass[i] * pieces.mean[i]
            pxx += pieces.mass[i] * pieces.second[i]
            i -= 1
        d = pieces.order[k]
        ax[j, d] += share * px
        axx[j, d] += share * pxx
        gain = component[d] * px - others[d] * p
        answers.rebuilt[n, d] += each * gain
        answers.distance[n] += each * (component[d] ** 2 * pxx - others[d] ** 2 * p - 2.0 * y[d] * gain)
        k -= 1


@_plainly
def _evidence(y, chosen, latents, others, visited, pieces):
    """log p(y, x*) - log p(x* | y), relative to the empty state: Chib's estimate, at the best visited state x*.

    p(x* | y) is the mean, over every second visited state, of the density of a Gibbs sweep that leads to x*.
    """
    n_visited, n_candidates = visited.shape
    best, largest = 0, -np.inf
    for i in range(n_visited):
        value = _log_joint(y, visited[i], chosen, latents, others)
        if value > largest:
            best, largest = i, value
    x = np.empty(n_candidates)
    top, total, count = -np.inf, 0.0, 0
    for i in range(0, n_visited, 2):
        log_density = 0.0
        for j in range(n_candidates):
            x[j] = visited[i, j]
        for j in range(n_candidates):
            h = chosen[j]
            component, mean, odds = latents.components[h], latents.slab_mean[h], latents.log_odds[h]
            _maximum_of_others(x, chosen, latents.components, j, others)
            _, _, log_total = condition(y, others, component, mean, odds, 1.0, False, pieces)
            x[j] = visited[best, j]
            log_density += _log_density(x[j], y, others, component, mean, odds) - log_total
        if log_density > top:
            total, top = total * math.exp(top - log_density), log_density
        total += math.exp(log_density - top)
        count += 1
    return largest - top - math.log(total / count)


@_plainly
def _log_joint(y, x, chosen, latents, others):
    """log p(y, x) relative to the empty state, one latent after the other."""
    others[:] = 0.0
    total = 0.0
    for j in range(chosen.size):
        h = chosen[j]
        total += _log_density(x[j], y, others, latents.components[h], latents.slab_mean[h], latents.log_odds[h])
        for d in range(y.size):
            others[d] = max(others[d], x[j] * latents.components[h, d])
    return total
