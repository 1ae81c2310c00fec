"""Data and weights that a user gives: what cannot be learned from is refused, with the way out."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from multicause._compat import check_sample_weight
from multicause.backends import cuda
from multicause.execution import RowSource
from multicause.execution.on_device import is_on_device

LARGEST = 1e100  # magnitude of data: beyond this, sums of squares overflow
LARGEST_WEIGHT = 1e50  # a weight times such a square must not, either
_ROWS = 4096  # looked at together
_NAMED = 5  # columns in an error


def unmasked(X: Any, name: str, missing_as: float | None = None, way_out: str = "") -> Any:
    """An array without its mask: masked entries become `missing_as`, or are refused where that is None."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    n_masked = int(np.ma.count_masked(X))
    if n_masked == 0:
        return np.ma.getdata(X)
    if missing_as is None:
        raise ValueError(f"{name} is a masked array of which {n_masked} entries are masked, that is missing. {way_out}")
    return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32), copy=False), missing_as)


def unmasked_data(X: Any, estimator: str, allows_missing: bool) -> Any:
    """X without its mask, NaN where it was masked."""
    way_out = (
        f"{estimator} does not support missing values: fill them in first, for instance with X.filled(0), leave their "
        "rows out, or use LinCA or GSC, which take them."
    )
    return unmasked(X, "X", np.nan if allows_missing else None, way_out)


@contextmanager
def naming_models_for_gaps(estimator: str) -> Iterator[None]:
    """A context in which scikit-learn refuses NaN: its words name models of another kind, ours those that take it."""
    try:
        yield
    except ValueError as error:
        if "does not accept missing values" not in str(error):
            raise
        raise ValueError(
            f"Input X contains NaN. {estimator} does not support missing values: use GSC or LinCA, which take them and "
            "fill them in (reconstruct), or fill them in first."
        ) from None


@contextmanager
def refusing_endless_integers(name: str) -> Iterator[None]:
    """A context in which numbers become floating-point ones: Python's integers have no largest one."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(
            f"{name} holds an integer beyond the range of floating-point numbers; magnitudes must be at most "
            f"{LARGEST:g}. Rescale it."
        ) from error


def refuse_huge(S: np.ndarray, name: str) -> None:
    """Latents whose squares overflow."""
    largest = float(np.abs(S).max(initial=0.0))
    if largest > LARGEST:
        raise ValueError(f"The largest magnitude in {name} is {largest:.3g}; it must be at most {LARGEST:g}.")


def refuse_extreme(X: np.ndarray) -> None:
    """Data whose squares overflow, or vanish, cannot be learned from."""
    refuse_magnitude(largest_magnitude(X))


def largest_magnitude(X: np.ndarray) -> float:
    return max(float(np.fmax.reduce(X, axis=None, initial=0.0)), -float(np.fmin.reduce(X, axis=None, initial=0.0)))


def has_gaps(X: Any) -> bool:
    """Whether entries of validated data are missing; on a GPU none may be."""
    if isinstance(X, RowSource) or is_on_device(X):
        return getattr(X, "has_gaps", False)
    return any(bool(np.isnan(X[start : start + _ROWS]).any()) for start in range(0, len(X), _ROWS))


def refuse_magnitude(largest: float) -> None:
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"The largest magnitude in X is {largest:.3g}, whose square leaves the range of floating-point "
            "numbers. Rescale the data, for instance with StandardScaler."
        )


def refuse_too_small(shape: tuple[int, ...], fewest_samples: int) -> None:
    """The sizes that scikit-learn checks of arrays in memory, for those that are elsewhere."""
    for n, what, fewest in (shape[0], "sample(s)", fewest_samples), (shape[1], "feature(s)", 1):
        if n < fewest:
            raise ValueError(f"Found array with {n} {what} (shape={shape}) while a minimum of {fewest} is required.")


def refuse_not_finite(answer: np.ndarray, name: str) -> None:
    """What rounding has made of parameters that no fit would learn, such as a damaged file's."""
    finite = np.isfinite(answer) if answer.dtype.kind == "f" else np.ones(1, dtype=bool)
    if not finite.all():
        row = int(np.argmin(finite.reshape(len(answer), -1).all(axis=1)))
        raise ValueError(
            f"The result of {name} for row {row} of X is not finite: its parameters, such as components_ and noise, "
            "are too far apart for floating-point numbers. Fit it again, or give it less extreme parameters."
        )


def warn_of_unobserved(X: np.ndarray, weights: np.ndarray | None, names: np.ndarray | None) -> None:
    """Of a column that is missing in every row nothing can be learned; most data show that they have none at once."""
    unseen = np.ones(X.shape[1], dtype=bool)
    for start in range(0, len(X), _ROWS):
        rows = X[start : start + _ROWS, unseen]
        if weights is not None:
            rows = rows[weights[start : start + _ROWS] > 0.0]
        unseen[unseen] = np.isnan(rows).all(axis=0)
        if not unseen.any():
            return
    columns = np.flatnonzero(unseen)
    listed = ", ".join(str(column if names is None else repr(names[column])) for column in columns[:_NAMED])
    more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
    warnings.warn(
        f"X has no observed value in column {listed}{more}: all entries there are NaN"
        f"{'' if weights is None else ', or of weight 0'}, and nothing is learned there. Leave such columns out of X.",
        UserWarning,
        stacklevel=2,
    )


def checked_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray | None:
    """Weights of the rows of X, not negative, of a magnitude whose sums neither overflow nor vanish."""
    if sample_weight is None:
        return None
    if is_on_device(sample_weight):
        sample_weight = _weights_from_device(sample_weight, X)
    given = unmasked(sample_weight, "sample_weight", way_out="Give a weight of 0 to rows that are to be left out.")
    weights = check_sample_weight(given, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weights.max())
    if not 1.0 / LARGEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise ValueError(
            f"The largest of sample_weight is {largest:.3g}; it must lie between {1.0 / LARGEST_WEIGHT:g} and "
            f"{LARGEST_WEIGHT:g}. Weights count relative to each other: divide them by their mean."
        )
    return weights


def _weights_from_device(sample_weight: Any, X: Any) -> np.ndarray:
    if not is_on_device(X):
        raise ValueError("sample_weight is on a GPU, but X is not. Give sample_weight.get(), or X on the GPU as well.")
    runtime = cuda.runtime()
    return runtime.to_host(runtime.xp.asarray(sample_weight))


def refuse_too_many(name: str, n_components: int, n_features: int) -> None:
    """Components that alone need more than the machine's memory: some systems promise it and then end the process."""
    known = hasattr(os, "sysconf") and {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if known else 2**63
    if 8 * n_components * n_features > memory:
        raise ValueError(
            f"The 'n_components' parameter of {name} must be such that its components fit into memory, {memory:.2g} "
            f"bytes. Got {n_components:,} of {n_features:,} features. Ask for fewer components."
        )
