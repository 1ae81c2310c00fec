"""Parameters that a user gives: checked, and made into arrays."""

from numbers import Real

import numpy as np
from sklearn.utils import check_array


def check_components(components, shape: tuple[int, int], name: str) -> np.ndarray:
    components = check_array(components, dtype=np.float64, input_name=name)
    if components.shape != shape:
        raise ValueError(
            f"'{name}' must have shape (n_components, n_features) = {shape}. Got {components.shape} instead."
        )
    return components


def check_activation(activation, n_components: int, name: str) -> np.ndarray:
    activation = np.asarray(activation, dtype=np.float64)
    if activation.ndim > 1 or (activation.ndim == 1 and len(activation) != n_components):
        raise ValueError(
            f"'{name}' must be one number or one per component ({n_components}). Got shape {activation.shape} instead."
        )
    if not np.all((activation > 0.0) & (activation < 1.0)):
        raise ValueError(f"'{name}' must hold probabilities strictly between 0 and 1. Got {activation} instead.")
    return np.full(n_components, activation) if activation.ndim == 0 else activation.copy()


def check_noise_variance(noise_variance, name: str) -> float:
    if not (isinstance(noise_variance, Real) and 0.0 < float(noise_variance) < float("inf")):
        raise ValueError(f"'{name}' must be one positive number. Got {noise_variance!r} instead.")
    return float(noise_variance)


def refuse_negative(values: np.ndarray, name: str, who: str, way_out: str) -> None:
    """Raise where a non-negative model gets a negative number; the first words are scikit-learn's."""
    lowest = values.min()
    if lowest < 0.0:
        row, column = np.unravel_index(np.argmin(values), values.shape)
        raise ValueError(
            f"Negative values in data passed to {who}: {name} holds {lowest:.3g} at row {row}, column {column}. "
            f"{way_out}"
        )


def check_slab_mean(mean, n_components: int, name: str) -> np.ndarray:
    mean = np.asarray(mean, dtype=np.float64)
    if mean.shape not in ((), (n_components,)) or not np.isfinite(mean).all():
        raise ValueError(
            f"'{name}' must be one finite number or one per component ({n_components}). Got {mean} instead."
        )
    return np.full(n_components, mean) if mean.ndim == 0 else mean.copy()


def check_covariance(covariance, size: int, kind: str, name: str):
    """A covariance in the shape of its kind: "isotropic" a number, "diagonal" (size,), "full" (size, size)."""
    covariance = np.asarray(covariance, dtype=np.float64)
    wanted = {"isotropic": ((),), "diagonal": ((), (size,)), "full": ((), (size,), (size, size))}[kind]
    if covariance.shape not in wanted:
        raise ValueError(
            f"'{name}' must have one of the shapes {wanted} where the estimator is told {kind!r}. "
            f"Got {covariance.shape} instead."
        )
    variances = np.diag(covariance) if covariance.ndim == 2 else covariance
    if not (np.isfinite(covariance).all() and (variances > 0.0).all()):
        raise ValueError(f"'{name}' must hold positive, finite variances. Got {covariance} instead.")
    if kind == "isotropic":
        return float(covariance)
    if kind == "diagonal":
        return np.full(size, covariance) if covariance.ndim == 0 else covariance.copy()
    full = covariance.copy() if covariance.ndim == 2 else np.diag(np.full(size, covariance))
    if not np.allclose(full, full.T) or np.linalg.eigvalsh(full)[0] <= 0.0:
        raise ValueError(f"'{name}' must be symmetric and positive definite.")
    return full


def given_slab(estimator, n_components: int, kind: str) -> dict:
    """The slab's initial values that the user gave, checked."""
    given: dict = {}
    if estimator.slab_mean_init is not None:
        given["slab_mean"] = check_slab_mean(estimator.slab_mean_init, n_components, "slab_mean_init")
    if estimator.slab_covariance_init is not None:
        covariance = estimator.slab_covariance_init
        given["slab_covariance"] = check_covariance(covariance, n_components, kind, "slab_covariance_init")
    return given
