"""How much of the exact posterior a truncated one keeps."""

import numpy as np
from numpy.typing import ArrayLike

ROUNDING = 1e-6  # excess of F_n over log p(y_n), relative to max(1, |log p(y_n)|), that rounding may cause


def posterior_quality(truncated_log_evidence: ArrayLike, exact_log_evidence: ArrayLike) -> np.ndarray:
    """Posterior mass on the states that a truncation keeps (ET, eq. 21).

        Q_n = exp(F_n − log p(y_n)) = Σ_{s∈K_n} p(s | y_n),   KL(q_n ‖ posterior) = −log Q_n

    Parameters
    ----------
    truncated_log_evidence : array-like of shape (N,)
        F_n, the log of the joint summed over the kept states.
    exact_log_evidence : array-like of shape (N,)
        log p(y_n), the log of the joint summed over all states, under the same parameters.

    Returns
    -------
    ndarray of shape (N,)
        Quality of each data point, in [0, 1]; 1 where nothing is lost.
    """
    truncated = np.asarray(truncated_log_evidence, dtype=np.float64)
    exact = np.asarray(exact_log_evidence, dtype=np.float64)
    if truncated.shape != exact.shape:
        raise ValueError(
            f"truncated_log_evidence and exact_log_evidence must have one shape, got {truncated.shape} and "
            f"{exact.shape}. Give one value of each per data point."
        )
    if not np.isfinite(exact).all() or np.isnan(truncated).any():
        raise ValueError(
            "exact_log_evidence must be finite and truncated_log_evidence must not hold NaN. "
            "Compute both in log space, by log-sum-exp."
        )
    excess = truncated - exact
    if (excess > ROUNDING * np.maximum(1.0, np.abs(exact))).any():
        raise ValueError(
            f"truncated_log_evidence must not exceed exact_log_evidence, but does so by up to {excess.max():.3g}. "
            "Evaluate both under the same parameters and at temperature 1, and check the order of the arguments."
        )
    return np.exp(np.minimum(excess, 0.0))
