"""Confidence intervals for counts of successes and for means."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval for a probability of success.

        (p̂ + z²/2n ± z √(p̂(1−p̂)/n + z²/4n²)) / (1 + z²/n),   p̂ = successes/n,   z the (1+confidence)/2 normal quantile

    It stays inside [0, 1] and has a width also when no trial or every trial succeeds.

    Parameters
    ----------
    successes : int
        Number of successful trials.
    trials : int
        Number n of trials.
    confidence : float, default=0.95
        Coverage, strictly between 0 and 1.

    Returns
    -------
    low, high : float
        Ends of the interval.
    """
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"successes must be from 0 to trials, and trials at least 1, got {successes} of {trials}. "
            "Count the successful trials and all trials, in that order."
        )
    z = ndtri(_upper_tail_level(confidence))
    rate = successes / trials
    middle = rate + z**2 / (2 * trials)
    reach = z * np.sqrt(rate * (1.0 - rate) / trials + z**2 / (4 * trials**2))
    low, high = np.clip((middle + np.array([-reach, reach])) / (1.0 + z**2 / trials), 0.0, 1.0)
    return float(low), float(high)


def bootstrap_interval(
    values: ArrayLike,
    confidence: float = 0.95,
    random_state: int | np.random.Generator | None = 0,
    *,
    n_resamples: int = 5000,
) -> tuple[float, float]:
    """Percentile bootstrap interval for a mean.

        the (1∓confidence)/2 quantiles of the means of `n_resamples` draws, with replacement, of as many values

    Parameters
    ----------
    values : array-like of shape (n,)
        Independent measurements, such as one error per trial.
    confidence : float, default=0.95
        Coverage, strictly between 0 and 1.
    random_state : int, numpy.random.Generator or None, default=0
        Source of randomness; the same numbers give the same interval by default.
    n_resamples : int, default=5000
        Number of resampled means.

    Returns
    -------
    low, high : float
        Ends of the interval.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1 or sample.size == 0 or not np.isfinite(sample).all():
        raise ValueError(
            f"values must be a non-empty 1-D array of finite numbers, got shape {sample.shape} with "
            f"{np.count_nonzero(~np.isfinite(sample))} not finite. Leave failed trials out, and ravel the array."
        )
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}. A few thousand serve most purposes.")
    level = _upper_tail_level(confidence)
    rng = np.random.default_rng(random_state)
    means = [rng.choice(sample, size=sample.size).mean() for _ in range(n_resamples)]
    low, high = np.quantile(means, [1.0 - level, level])
    return float(low), float(high)


def _upper_tail_level(confidence: float) -> float:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1, got {confidence}. Use 0.95 for 95 per cent.")
    return (1.0 + confidence) / 2.0
