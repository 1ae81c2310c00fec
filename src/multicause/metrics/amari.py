"""How well sources are unmixed."""

import numpy as np
from numpy.typing import ArrayLike


def amari_index(components: ArrayLike, causes: ArrayLike) -> float:
    """Amari index: how far learned components are from the generating ones, up to order, sign and scale (GSC, eq. 27).

        A = 1/(2H(H−1)) Σ_{hk} (|O_hk| / max_k |O_hk| + |O_hk| / max_h |O_hk|) − 1/(H−1),   O = W⁻¹ W_gen

    with the components as columns of W and W_gen. The second maximum would depend on the lengths of the components,
    which no data determine: all are brought to length one first.

    Parameters
    ----------
    components : array-like of shape (H, H)
        Learned components, one row per cause as in `components_`. Of a mixing matrix of shape (channels, sources) give
        the transpose.
    causes : array-like of shape (H, H)
        Generating components, in any order.

    Returns
    -------
    float
        0 where the components are the causes up to order, sign and scale; at most 1.
    """
    W, truth = (_square(name, values) for name, values in (("components", components), ("causes", causes)))
    if W.shape != truth.shape:
        raise ValueError(
            f"components and causes must have one shape, got {W.shape} and {truth.shape}. Compare equally many of both."
        )
    H = len(W)
    O = np.abs(np.linalg.solve(W.T, truth.T))  # noqa: E741  (the paper's letter)
    total = (O / O.max(axis=1, keepdims=True) + O / O.max(axis=0)).sum()
    return float(max(0.0, total / (2 * H * (H - 1)) - 1.0 / (H - 1)))


def _square(name: str, values: ArrayLike) -> np.ndarray:
    """A square, invertible matrix with rows of length one."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ValueError(
            f"{name} must be a square matrix of at least two rows, got shape {matrix.shape}. The Amari index compares "
            "as many causes as there are observed dimensions; use mean_absolute_error_matched for other numbers."
        )
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite, but holds NaN or infinity. Check that the fit did not diverge.")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit = matrix / np.where(lengths > 0.0, lengths, 1.0)
    if np.linalg.matrix_rank(unit) < len(unit):
        raise ValueError(
            f"{name} must be linearly independent, but have rank {np.linalg.matrix_rank(unit)} of {len(unit)}. "
            "Two of them are alike, or one is zero: fit again from another start."
        )
    return unit
