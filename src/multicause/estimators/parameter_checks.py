"""Parameters that a user gives: checked, and made into arrays."""

from numbers import Real

import numpy as np
from sklearn.utils import check_array

from multicause.models.gaussian_mixture import CovarianceType
from multicause.models.noises import MeanNoise

LARGEST_BACKGROUND = 1e100


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


def check_background(background, noise: MeanNoise, positive: bool, name: str) -> float:
    """The mean where no latent is active, in the range that the noise allows."""
    lowest = 0.0 if not positive else np.nextafter(0.0, 1.0)
    if not (
        isinstance(background, Real) and lowest <= float(background) <= min(noise.largest_mean, LARGEST_BACKGROUND)
    ):
        kind = "positive" if positive else "at least 0"
        limit = "" if np.isinf(noise.largest_mean) else f" and below {noise.highest:g}"
        raise ValueError(f"'{name}' must be one number, {kind}{limit}. Got {background!r} instead.")
    return float(background)


def refuse_negative(values: np.ndarray, name: str, estimator: str, way_out: str, start: int = 0) -> None:
    """Raise where a non-negative model gets a negative number in rows from `start` on; scikit-learn's first words."""
    lowest = values.min()
    if lowest < 0.0:
        row, column = np.unravel_index(np.argmin(values), values.shape)
        raise ValueError(
            f"Negative values in data passed to {estimator}: {name} holds {lowest:.3g} at row {start + row}, "
            f"column {column}. "
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


def check_weights(weights, n_components: int, name: str) -> np.ndarray:
    weights = check_array(weights, dtype=np.float64, ensure_2d=False, copy=True, input_name=name)
    if weights.shape != (n_components,):
        raise ValueError(f"'{name}' must have one entry per component ({n_components}). Got {weights.shape} instead.")
    if not (weights > 0.0).all() or abs(weights.sum() - 1.0) > 1e-6:
        raise ValueError(f"'{name}' must be positive and sum to 1. Got {weights}, whose sum is {weights.sum():.6g}.")
    return weights


def check_means(means, shape: tuple[int, int], name: str) -> np.ndarray:
    means = check_array(means, dtype=np.float64, copy=True, input_name=name)
    if means.shape != shape:
        raise ValueError(f"'{name}' must have shape (n_components, n_features) = {shape}. Got {means.shape} instead.")
    return means


def check_covariances(covariances, shape: tuple[int, int], kind: CovarianceType, name: str) -> np.ndarray:
    """Covariances or their inverses, in the shape that their kind asks for, and positive definite."""
    n_components, n_features = shape
    covariances = check_array(covariances, dtype=np.float64, ensure_2d=False, allow_nd=True, copy=True, input_name=name)
    wanted = {"full": (n_components, n_features, n_features), "diag": shape, "spherical": (n_components,)}[kind]
    if covariances.shape != wanted:
        raise ValueError(f"'{name}' must have shape {wanted} where covariance_type={kind!r}. Got {covariances.shape}.")
    if kind != "full":
        if not (covariances > 0.0).all():
            raise ValueError(f"'{name}' must be positive. Got {covariances.min():.6g}.")
        return covariances
    for c, covariance in enumerate(covariances):
        if not np.allclose(covariance, covariance.T) or np.linalg.eigvalsh(covariance)[0] <= 0.0:
            raise ValueError(f"'{name}' must be symmetric and positive definite, which that of component {c} is not.")
    return covariances


def invert(covariances: np.ndarray, kind: CovarianceType) -> np.ndarray:
    """Precisions from covariances, and back."""
    return np.linalg.inv(covariances) if kind == "full" else 1.0 / covariances
