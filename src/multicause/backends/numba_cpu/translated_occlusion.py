"""Objects at places: every state of a data point's candidates, each state by one object more than its parent.

A candidate is a component at a placement; of the placements of one component at most one is taken. With the largest of
all log densities of a pixel taken out, e_d, a pixel's likelihood is num_d / den_d: num_d sums over the layers
alpha exp(-|y - w|^2 / 2 sigma^2 - e_d), den_d their masks. Adding an object changes both on its own pixels alone.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.vector_math import take_logs

DEEPEST = -650.0  # exponents below it count as this
SMALLEST_STATE_WEIGHT = 1e-10  # states of less weight do not contribute to the M-step


class Scene(NamedTuple):
    """The parameters, laid out for the enumeration."""

    components: np.ndarray  # (H, A, F) with A pixels each
    masks: np.ndarray  # (H, A)
    log_odds: np.ndarray  # (H,) logit pi - log of the number of placements
    background: np.ndarray  # (F,)
    precision: float
    beta: float
    offsets: np.ndarray  # (A,) from a component's first pixel to each of its pixels, in the image
    starts: np.ndarray  # (P,) the image's pixel at which each placement begins


class Sums(NamedTuple):
    """What data points add up to, as in `OcclusionStatistics`."""

    s: np.ndarray  # (H,)
    r: np.ndarray  # (H, A)
    ry: np.ndarray  # (H, A, F)
    contests: np.ndarray  # (H, A)
    background: np.ndarray  # (1,)
    background_y: np.ndarray  # (F,)
    distance: np.ndarray  # (1,)


class Answers(NamedTuple):
    """What is known of each row; empty arrays are not filled."""

    log_normaliser: np.ndarray  # (N,) log of the sum of p^beta, relative to the empty state's p^beta
    energy: np.ndarray  # (N,) <log p>, relative to the empty state's log p
    means: np.ndarray  # (N, H) <s>
    placed: np.ndarray  # (N, H', R) probability of each candidate
    rebuilt: np.ndarray  # (N, D, F)


@njit(cache=True, nogil=True, error_model="numpy")
def _densities(scene, image, components, placements, table, empty, top):
    """table[i, r, a] <- alpha exp(-|y - w|^2 / 2 sigma^2 - e), empty[d] <- the same of the background.

    Returns by how much the background's log density is raised in all, where it lies too deep for an exponential.
    """
    n_pixels, F = image.shape
    for d in range(n_pixels):
        total = 0.0
        for f in range(F):
            total += (image[d, f] - scene.background[f]) ** 2
        empty[d] = -0.5 * scene.precision * total
        top[d] = empty[d]
    for i in range(components.size):
        h = components[i]
        for r in range(placements.shape[1]):
            start = scene.starts[placements[i, r]]
            for a in range(scene.offsets.size):
                d = start + scene.offsets[a]
                total = 0.0
                for f in range(F):
                    total += (image[d, f] - scene.components[h, a, f]) ** 2
                table[i, r, a] = -0.5 * scene.precision * total
                top[d] = max(top[d], table[i, r, a])
    for i in range(components.size):
        h = components[i]
        for r in range(placements.shape[1]):
            start = scene.starts[placements[i, r]]
            for a in range(scene.offsets.size):
                d = start + scene.offsets[a]
                table[i, r, a] = scene.masks[h, a] * np.exp(max(table[i, r, a] - top[d], DEEPEST))
    raised = 0.0
    for d in range(n_pixels):
        raised += max(DEEPEST - (empty[d] - top[d]), 0.0)
        empty[d] = np.exp(max(empty[d] - top[d], DEEPEST))
    return raised


@njit(cache=True, nogil=True, error_model="numpy")
def _add(scene, table, masks, start, num, den, kept_num, kept_den, logs):
    """Put an object in; returns by how much the log likelihood grows. What was there before is kept."""
    n = scene.offsets.size
    for a in range(n):
        d = start + scene.offsets[a]
        kept_num[a] = num[d]
        kept_den[a] = den[d]
        num[d] += table[a]
        den[d] += masks[a]
        logs[a] = (num[d] / kept_num[a]) * (kept_den[a] / den[d])
    take_logs(logs)
    total = 0.0
    for a in range(n):
        total += logs[a]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _take_out(scene, start, num, den, kept_num, kept_den):
    for a in range(scene.offsets.size):
        d = start + scene.offsets[a]
        num[d] = kept_num[a]
        den[d] = kept_den[a]


@njit(cache=True, nogil=True, error_model="numpy")
def _enumerate(scene, components, placements, table, empty, max_active, states, log_joint, work):
    """All states in depth-first order, and their log joints relative to the empty state's; returns their number.

    states[k, i] is the chosen placement of candidate i, or -1.
    """
    num, den, kept_num, kept_den, logs = work
    n_candidates, n_choices = placements.shape
    num[:] = empty
    den[:] = 1.0
    choice = np.full(n_candidates, -1, dtype=np.int64)
    value = np.zeros(n_candidates + 1)
    states[0, :] = -1
    log_joint[0] = 0.0
    n_states, i, active = 1, 0, 0
    choice[0] = -1
    entering = True
    while True:
        if entering:  # candidate i is decided on: first it stays out
            choice[i] = -1
            value[i + 1] = value[i]
        else:
            if choice[i] >= 0:
                _take_out(scene, scene.starts[placements[i, choice[i]]], num, den, kept_num[i], kept_den[i])
                active -= 1
            choice[i] += 1
            if choice[i] == n_choices or active == max_active:
                choice[i] = -1
                i -= 1
                if i < 0:
                    return n_states
                continue
            h = components[i]
            start = scene.starts[placements[i, choice[i]]]
            gain = _add(scene, table[i, choice[i]], scene.masks[h], start, num, den, kept_num[i], kept_den[i], logs)
            value[i + 1] = value[i] + scene.log_odds[h] + gain
            active += 1
            states[n_states, :] = choice
            states[n_states, i + 1 :] = -1
            log_joint[n_states] = value[i + 1]
            n_states += 1
        if i + 1 < n_candidates and active < max_active:
            i += 1
            entering = True
        else:
            entering = False


@njit(cache=True, nogil=True, error_model="numpy")
def _contribute(scene, image, components, placements, table, empty, state, weight, sums, work):
    """Add one state of one data point to the sums, but for the background, whose share each object diminishes."""
    num, den = work[0], work[1]
    num[:] = empty
    den[:] = 1.0
    F = image.shape[1]
    for i in range(components.size):
        if state[i] >= 0:
            start = scene.starts[placements[i, state[i]]]
            for a in range(scene.offsets.size):
                d = start + scene.offsets[a]
                num[d] += table[i, state[i], a]
                den[d] += scene.masks[components[i], a]
    for i in range(components.size):
        if state[i] < 0:
            continue
        h = components[i]
        start = scene.starts[placements[i, state[i]]]
        for a in range(scene.offsets.size):
            d = start + scene.offsets[a]
            owned = weight * table[i, state[i], a] / num[d]
            sums.r[h, a] += owned
            sums.contests[h, a] += weight / den[d]
            sums.background[0] -= owned
            for f in range(F):
                sums.ry[h, a, f] += owned * image[d, f]
                sums.background_y[f] -= owned * image[d, f]
                sums.distance[0] += owned * (
                    (image[d, f] - scene.components[h, a, f]) ** 2 - (image[d, f] - scene.background[f]) ** 2
                )


@njit(cache=True, nogil=True, error_model="numpy")
def _rebuild(scene, components, placements, table, empty, state, weight, rebuilt, work):
    """Add what a state's objects show to `rebuilt`, where the background was assumed before."""
    num, F = work[0], rebuilt.shape[1]
    num[:] = empty
    for i in range(components.size):
        if state[i] >= 0:
            start = scene.starts[placements[i, state[i]]]
            for a in range(scene.offsets.size):
                num[start + scene.offsets[a]] += table[i, state[i], a]
    for i in range(components.size):
        if state[i] >= 0:
            h, start = components[i], scene.starts[placements[i, state[i]]]
            for a in range(scene.offsets.size):
                d = start + scene.offsets[a]
                share = weight * table[i, state[i], a] / num[d]
                for f in range(F):
                    rebuilt[d, f] += share * (scene.components[h, a, f] - scene.background[f])


@njit(cache=True, nogil=True, error_model="numpy")
def enumerate_states(scene, images, components, placements, max_active, n_states, weights, sums, answers):
    """Enumerate all states of each row; fill `answers`, and add to `sums` where it is not empty."""
    n_rows, n_pixels = images.shape[:2]
    n_candidates, n_choices = placements.shape[1:]
    A = scene.offsets.size
    table, empty, top = np.empty((n_candidates, n_choices, A)), np.empty(n_pixels), np.empty(n_pixels)
    states, log_joint = np.empty((n_states, n_candidates), dtype=np.int64), np.empty(n_states)
    work = (
        np.empty(n_pixels),
        np.empty(n_pixels),
        np.empty((n_candidates, A)),
        np.empty((n_candidates, A)),
        np.empty(A),
    )
    for n in range(n_rows):
        raised = _densities(scene, images[n], components[n], placements[n], table, empty, top)
        found = _enumerate(scene, components[n], placements[n], table, empty, max_active, states, log_joint, work)
        largest = log_joint[:found].max()
        total, energy = 0.0, 0.0
        for k in range(found):
            total += np.exp(scene.beta * (log_joint[k] - largest))
        for k in range(found):
            q = np.exp(scene.beta * (log_joint[k] - largest)) / total
            energy += q * log_joint[k]
            for i in range(n_candidates):
                if states[k, i] >= 0:
                    answers.means[n, components[n, i]] += q
                    answers.placed[n, i, states[k, i]] += q
            if q < SMALLEST_STATE_WEIGHT:
                continue
            if sums.s.size and weights[n] > 0.0:
                _contribute(
                    scene,
                    images[n],
                    components[n],
                    placements[n],
                    table,
                    empty,
                    states[k],
                    weights[n] * q,
                    sums,
                    work,
                )
            if answers.rebuilt.size:
                rebuilt = answers.rebuilt[n]
                _rebuild(scene, components[n], placements[n], table, empty, states[k], q, rebuilt, work)
        answers.log_normaliser[n] = scene.beta * (largest + raised) + np.log(total)
        answers.energy[n] = energy + raised
