"""Matrix products whose rows have the same bits, whatever the other rows."""

import numpy as np

TILE = 128  # rows of one matrix product; chunks of data are whole tiles


def tiled_product(Y: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Y @ right in tiles of equal shape, the last one padded: BLAS takes other paths for other shapes."""
    product = np.empty((len(Y), right.shape[1]))
    whole = len(Y) - len(Y) % TILE
    for start in range(0, whole, TILE):
        np.matmul(Y[start : start + TILE], right, out=product[start : start + TILE])
    if whole < len(Y):
        padded = np.zeros((TILE, Y.shape[1]))
        padded[: len(Y) - whole] = Y[whole:]
        product[whole:] = (padded @ right)[: len(Y) - whole]
    return product
