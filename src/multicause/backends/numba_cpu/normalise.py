"""From log joints to weights, for eight data points at once: candidates' states, and singletons outside them."""

import numpy as np
from numba import njit

from multicause.backends.numba_cpu.simd import LANES
from multicause.backends.numba_cpu.vector_math import exponentiate, flushed_exp

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


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_row(beta, states, chosen, row, singletons, weights):
    """q of one data point's states, from their log joints.

    weights, row <- q of the candidates' states and of the single latents outside them. Returns log Z of p^beta, and
    <log p>.
    """
    for i in range(chosen.size):
        row[chosen[i]] = OFF
    largest = states.max()
    if singletons:
        largest = max(largest, row.max())
    total = 0.0
    energy = 0.0
    for k in range(states.size):
        x = max(beta * (states[k] - largest), FLOOR)
        weights[k] = flushed_exp(x)
        total += weights[k]
        energy += weights[k] * x
    for h in range(row.size):
        if singletons:
            x = max(beta * (row[h] - largest), FLOOR)
            row[h] = flushed_exp(x)
            total += row[h]
            energy += row[h] * x
        else:
            row[h] = 0.0
    for k in range(states.size):
        weights[k] /= total
    for h in range(row.size):
        row[h] /= total
    return beta * largest + np.log(total), largest + energy / (total * beta)
