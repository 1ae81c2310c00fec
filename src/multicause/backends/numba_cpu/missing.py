"""Missing entries: how components overlap on the observed ones."""

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def observed_overlap(first, second, observed):
    """sum_d first_d second_d over the observed entries; `observed` is 1 or 0."""
    total = 0.0
    for d in range(observed.size):
        total += observed[d] * first[d] * second[d]
    return total
