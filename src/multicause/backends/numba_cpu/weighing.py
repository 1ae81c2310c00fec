"""From log joints to weights, for eight data points at once: candidates' states, and singletons outside them."""

from numba import njit

from multicause.backends.numba_cpu.lanes import LANES
from multicause.backends.numba_cpu.vector_math import exponentiate

OFF = -1e300  # the log joint of a state that is not there
FLOOR = -80.0  # below the exponent that is flushed to 0: keeps 0 * log 0 finite


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc", "contract"})
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
