"""Matrix products whose rows have the same bits, whatever the other rows."""

import numpy as np

TILE = 128  # rows of one matrix product; chunks of data are whole tiles


def tiled_product(Y: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Y @ right in tiles of equal shape, the last one padded: BLAS takes other paths for other shapes.

    One call for all tiles: threads that come back from many wait for the interpreter each time.
    """
    if not isinstance(Y, np.ndarray):
        return Y @ right  # on a device, where products of any shape are as fast as they can be
    product = np.empty((len(Y), right.shape[1]))
    n_tiles, (D, H) = len(Y) // TILE, right.shape
    whole = n_tiles * TILE
    np.matmul(Y[:whole].reshape(n_tiles, TILE, D), right, out=product[:whole].reshape(n_tiles, TILE, H))
    if whole < len(Y):
        padded = np.zeros((TILE, Y.shape[1]))
        padded[: len(Y) - whole] = Y[whole:]
        product[whole:] = (padded @ right)[: len(Y) - whole]
    return product


def product_with_tiles(left: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """left @ Y^T, (tiles, L, TILE): a tile's rows are its last axis, which is the one to loop over for speed.

    In single precision, the last bits of a row depend on where in its tile it stands.
    """
    n_tiles, D = -(-len(Y) // TILE), Y.shape[1]
    padded = np.zeros((n_tiles * TILE, D), dtype=Y.dtype)
    padded[: len(Y)] = Y
    return np.matmul(left, np.ascontiguousarray(padded.reshape(n_tiles, TILE, D).transpose(0, 2, 1)))
