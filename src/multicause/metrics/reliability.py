"""Which of the generating causes a model has found."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from multicause.short_repr import short_repr


class Recovery(NamedTuple):
    """How the units of a model represent the C generating causes.

    Attributes
    ----------
    unit : ndarray of shape (C,)
        The unit that represents each cause.
    injective : bool
        Whether no unit represents two causes.
    errors : ndarray of shape (C,)
        Mean absolute error between each cause and the component of its unit.
    found : ndarray of bool of shape (C,)
        Whether each cause has a unit to itself, with an error below the threshold.
    all_found : bool
        Whether every cause is found: a successful trial.
    mean_absolute_error : float
        Mean of `errors`.
    """

    unit: np.ndarray
    injective: bool
    errors: np.ndarray
    found: np.ndarray
    all_found: bool
    mean_absolute_error: float

    def __repr__(self) -> str:
        return short_repr(self)


def cause_to_unit(log_posteriors: ArrayLike) -> np.ndarray:
    """Unit that represents each cause (ET, Appendix E).

        unit(c) = argmax_h log p(s = e_h | y = cause c without noise)

    Parameters
    ----------
    log_posteriors : array-like of shape (C, H)
        Log posterior (or log joint: the maximum is the same) of the H states with one active unit, for each of the
        C noiseless causes. Units that a truncation leaves out hold −inf.

    Returns
    -------
    ndarray of shape (C,)
        Index of a unit for each cause.
    """
    values = _matrix("log_posteriors", log_posteriors)
    if np.isnan(values).any() or np.isposinf(values).any():
        raise ValueError(
            "log_posteriors must be finite or −inf, but holds NaN or +inf. "
            "Pass logarithms of probabilities, computed by log-sum-exp."
        )
    empty = np.flatnonzero(np.isneginf(values).all(axis=1))
    if empty.size:
        raise ValueError(
            f"log_posteriors must have a value above −inf for each cause, but row {empty[0]} has none. "
            "Keep all singleton states in the truncated posterior."
        )
    return values.argmax(axis=1)


def found_causes(
    components: ArrayLike,
    causes: ArrayLike,
    singleton_log_posteriors: ArrayLike,
    threshold: float | None = 1.0,
) -> Recovery:
    """Decide which generating causes the components represent (ET, Appendix E).

        error(c) = 1/D Σ_d |W_{unit(c),d} − cause_{c,d}|

    A cause is found if its unit (see `cause_to_unit`) represents no other cause and its error is below the threshold.
    Two causes that share a unit both count as not found.

    Parameters
    ----------
    components : array-like of shape (H, D)
        Learned components, in the order of the columns of `singleton_log_posteriors`.
    causes : array-like of shape (C, D)
        Generating causes, in the order of the rows of `singleton_log_posteriors`.
    singleton_log_posteriors : array-like of shape (C, H)
        Log posterior of each state with one active unit, given each cause without noise.
    threshold : float or None, default=1.0
        Error that a found cause stays below. None asks for an injective map only, the criterion of the 2008 paper.

    Returns
    -------
    Recovery
        The map from causes to units, and what it says.
    """
    W, truth = _components_and_causes(components, causes)
    posteriors = np.asarray(singleton_log_posteriors, dtype=np.float64)
    if posteriors.shape != (len(truth), len(W)):
        raise ValueError(
            f"singleton_log_posteriors must have shape ({len(truth)}, {len(W)}), causes by components, "
            f"got {posteriors.shape}. Give one row per cause and one column per component."
        )
    unit = cause_to_unit(posteriors)
    errors = np.abs(W[unit] - truth).mean(axis=1)
    alone = np.bincount(unit, minlength=len(W))[unit] == 1
    found = alone if threshold is None else alone & (errors < threshold)
    return Recovery(unit, bool(alone.all()), errors, found, bool(found.all()), float(errors.mean()))


def mean_absolute_error_matched(components: ArrayLike, causes: ArrayLike) -> float:
    """Mean absolute error under the best one-to-one assignment of causes to components.

        min over injective maps u of   1/(C D) Σ_{c,d} |W_{u(c),d} − cause_{c,d}|

    For use where no posterior is at hand; components left over are ignored.

    Parameters
    ----------
    components : array-like of shape (H, D)
        Learned components, H ≥ C.
    causes : array-like of shape (C, D)
        Generating causes.

    Returns
    -------
    float
        Mean over causes and dimensions.
    """
    W, truth = _components_and_causes(components, causes)
    if len(W) < len(truth):
        raise ValueError(
            f"components must be at least as many as causes, got {len(W)} components for {len(truth)} causes. "
            "Fit with a larger n_components, or compare with fewer causes."
        )
    distances = cdist(truth, W, metric="cityblock") / truth.shape[1]
    return float(distances[linear_sum_assignment(distances)].mean())


def _components_and_causes(components: ArrayLike, causes: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    W, truth = _matrix("components", components), _matrix("causes", causes)
    for name, values in (("components", W), ("causes", truth)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} must be finite, but holds NaN or infinity. Check that the fit did not diverge.")
    if W.shape[1] != truth.shape[1]:
        raise ValueError(
            f"causes must have as many columns as components, got {truth.shape[1]} and {W.shape[1]}. "
            "Give both with one row per cause and one column per observed dimension."
        )
    return W, truth


def _matrix(name: str, values: ArrayLike) -> np.ndarray:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(
            f"{name} must be a non-empty 2-D array, got shape {matrix.shape}. Reshape it to one row per cause or unit."
        )
    return matrix
