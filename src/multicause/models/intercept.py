"""What is there where no latent is active: b of y = b + sum_h x_h W_h, learned beside the components.

Statistics are about the b of their E-step: sums over y - b. With a latent more that is always active, of component
delta, the M-step of W and of b + delta is one regression, and exact.
"""

from typing import Any

import numpy as np

from multicause.models.dictionary_model import regress

NO_SUM = np.zeros(0)  # of data that have no intercept


def has_intercept(params: Any) -> bool:
    return hasattr(params, "intercept")


def intercept_of(params: Any) -> np.ndarray:
    """b, (D,), or nothing, (0,)."""
    return getattr(params, "intercept", NO_SUM)


def centred(params: Any, Y: np.ndarray) -> np.ndarray:
    """y - b."""
    return Y - params.intercept if has_intercept(params) else Y


def lifted(params: Any, mean: np.ndarray) -> np.ndarray:
    """b + what latents cause."""
    return mean + params.intercept if has_intercept(params) else mean


def with_constant(second: np.ndarray, first: np.ndarray, weight: float) -> np.ndarray:
    """sum_n w_n <x x^T> of the latents and one that is always active, (H + 1, H + 1)."""
    return np.block([[second, first[:, None]], [first[None, :], np.array([[weight]])]])


def regress_with_constant(
    components: np.ndarray,
    weight: float,
    first: np.ndarray,
    second: np.ndarray,
    cross: np.ndarray,
    total: np.ndarray,
    fixed: frozenset[str],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New components, with delta as the last one, (H + 1, D); and sums <x x^T> and <x y^T> with the constant's."""
    second, cross = with_constant(second, first, weight), np.vstack([cross, total])
    old = np.vstack([components, np.zeros_like(total)])
    held = [name in fixed for name in ("components", "intercept")]
    new = old.copy()
    if held == [False, False]:
        new = regress(old, second, cross)
    elif not held[0]:
        new[:-1] = regress(old[:-1], second[:-1, :-1], cross[:-1])
    elif not held[1]:
        new[-1] = (total - first @ components) / weight
    return new, second, cross
