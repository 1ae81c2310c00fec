"""The M-step of generative fields that add up."""

import numpy as np
from scipy import linalg

from multicause.models.field_model import UNUSED

PROXIMAL = 1e-6  # pull towards the old field, relative to its use: keeps the solve regular and F from falling


def regress_fields(old: np.ndarray, second: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """W = (sum <x x^T>)^-1 sum <x y^T>, with a vanishing pull towards the old W."""
    use = np.diag(second)
    use = np.maximum(use, UNUSED * (use.max() or 1.0))
    scale = 1.0 / np.sqrt(use)  # rare causes next to common ones must not make the solve ill-conditioned
    correlation = scale[:, None] * second * scale + PROXIMAL * np.eye(len(old))
    target = scale[:, None] * (cross + PROXIMAL * use[:, None] * old)
    factor = linalg.cho_factor(correlation, overwrite_a=True, check_finite=False)
    return scale[:, None] * linalg.cho_solve(factor, target, overwrite_b=True, check_finite=False)
