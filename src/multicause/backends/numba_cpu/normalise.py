"""From log joints to weights, for eight data points at once: candidates' states, and singletons outside them."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.simd import LANES
from multicause.backends.numba_cpu.vector_math import exponentiate

OFF = -1e300  # the log joint of a state that is not there
FLOOR = -80.0  # below the exponent that is flushed to 0: keeps 0 * log 0 finite


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_states(states, largest, weights, total, energy):
    """weights <- exp(states - largest); total, energy <- per lane the sums of weight and weight * (x - largest)."""
    total[:] = 0.0
    energy[:] = 0.0
    for row in range(states.shape[0]):
        for lane in range(LANES):
            states[row, lane] = max(states[row, lane] - largest[lane], FLOOR)
    exponentiate(states.reshape(-1), weights.reshape(-1))
    for row in range(states.shape[0]):
        for lane in range(LANES):
            total[lane] += weights[row, lane]
            energy[lane] += weights[row, lane] * states[row, lane]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"})
def weigh_singletons(rows, largest, weights, total, energy):
    """The same for the singletons, one row per lane; total and energy gain their sums."""
    for lane in range(LANES):
        top = largest[lane]
        row = rows[lane]
        for h in range(row.size):
            row[h] = max(row[h] - top, FLOOR)
    exponentiate(rows.reshape(-1), weights.reshape(-1))
    for lane in range(LANES):
        row_total = 0.0
        row_energy = 0.0
        for h in range(rows.shape[1]):
            row_total += weights[lane, h]
            row_energy += weights[lane, h] * rows[lane, h]
        total[lane] += row_total
        energy[lane] += row_energy


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"})
def weigh_row(beta, states, chosen, row, singletons, weights):
    """q of one data point's states, from their log joints.

    weights, row <- q of the candidates' states and of the single latents outside them. Returns log Z of p^beta, and
    <log p>.
    """
    for i in range(chosen.size):
        row[chosen[i]] = OFF
    largest = OFF
    for k in range(states.size):
        largest = max(largest, states[k])
    if singletons:
        for h in range(row.size):
            largest = max(largest, row[h])
    total, energy = _weigh(beta, largest, states, weights)
    if singletons:
        outside, outside_energy = _weigh(beta, largest, row.copy(), row)
        total += outside
        energy += outside_energy
    else:
        row[:] = 0.0
    scale = 1.0 / total
    for k in range(states.size):
        weights[k] *= scale
    for h in range(row.size):
        row[h] *= scale
    return beta * largest + np.log(total), largest + energy / (total * beta)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"})
def _weigh(beta, largest, x, weights):
    """weights <- exp(beta (x - largest)), the exponents stay in x; returns the sums of weight and weight * exponent."""
    for k in range(x.size):
        x[k] = max(beta * (x[k] - largest), FLOOR)
    exponentiate(x, weights)
    total = 0.0
    energy = 0.0
    for k in range(x.size):
        total += weights[k]
        energy += weights[k] * x[k]
    return total, energy
