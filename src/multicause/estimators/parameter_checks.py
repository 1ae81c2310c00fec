"""Parameters that a user gives: checked, and made into arrays."""

from numbers import Real

import numpy as np
from sklearn.utils import check_array

from multicause.estimators.data_checks import LARGEST, unmasked
from multicause.models.gaussian_mixture import CovarianceType
from multicause.models.noises import MeanNoise

LARGEST_VARIANCE = LARGEST**2


def numbers(value, name: str, largest: float = LARGEST) -> np.ndarray:
    """Parameters as a new array of numbers, none of them missing or beyond what squares can be taken of."""
    value = unmasked(value, f"'{name}'", way_out="A parameter cannot be missing: give a number for each.")
    value = np.asarray(value) if np.isscalar(value) else value  # scikit-learn dispatches arrays only
    array = check_array(
        value, dtype=np.float64, ensure_2d=False, allow_nd=True, ensure_min_samples=0, copy=True, input_name=name
    )
    if np.abs(array).max(initial=0.0) > largest:
        raise ValueError(f"'{name}' must hold numbers of at most {largest:g}. Got {np.abs(array).max():.3g} instead.")
    return array


def check_components(components, shape: tuple[int, int], name: str) -> np.ndarray:
    components = numbers(components, name)
    if components.shape != shape:
        raise ValueError(
            f"'{name}' must have shape (n_components, n_features) = {shape}. Got {components.shape} instead."
        )
    return components


def check_activation(activation, n_components: int, name: str) -> np.ndarray:
    activation = numbers(activation, name)
    if activation.ndim > 1 or (activation.ndim == 1 and len(activation) != n_components):
        raise ValueError(
            f"'{name}' must be one number or one per component ({n_components}). Got shape {activation.shape} instead."
        )
    if not np.all((activation > 0.0) & (activation < 1.0)):
        raise ValueError(f"'{name}' must hold probabilities strictly between 0 and 1. Got {activation} instead.")
    return np.full(n_components, activation) if activation.ndim == 0 else activation


def check_background(background, noise: MeanNoise, positive: bool, name: str) -> float:
    """The mean where no latent is active, in the range that the noise allows."""
    lowest = 0.0 if not positive else np.nextafter(0.0, 1.0)
    if not (isinstance(background, Real) and lowest <= float(background) <= min(noise.largest_mean, LARGEST)):
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
    mean = numbers(mean, name)
    if mean.shape not in ((), (n_components,)):
        raise ValueError(
            f"'{name}' must be one finite number or one per component ({n_components}). Got {mean} instead."
        )
    return np.full(n_components, mean) if mean.ndim == 0 else mean


def check_intercept(intercept, n_features: int, name: str) -> np.ndarray:
    intercept = numbers(intercept, name)
    if intercept.shape not in ((), (n_features,)):
        raise ValueError(
            f"'{name}' must be one number or one per feature ({n_features}). Got shape {intercept.shape} instead."
        )
    return np.full(n_features, intercept) if intercept.ndim == 0 else intercept


def check_covariance(covariance, size: int, kind: str, name: str):
    """A covariance in the shape of its kind: "isotropic" a number, "diagonal" (size,), "full" (size, size)."""
    covariance = numbers(covariance, name, LARGEST_VARIANCE)
    wanted = {"isotropic": ((),), "diagonal": ((), (size,)), "full": ((), (size,), (size, size))}[kind]
    if covariance.shape not in wanted:
        raise ValueError(
            f"'{name}' must have one of the shapes {wanted} where the estimator is told {kind!r}. "
            f"Got {covariance.shape} instead."
        )
    variances = np.diag(covariance) if covariance.ndim == 2 else covariance
    if not (variances > 0.0).all():
        raise ValueError(f"'{name}' must hold positive, finite variances. Got {covariance} instead.")
    _refuse_tiny(variances, name)
    if kind == "isotropic":
        return float(covariance)
    if kind == "diagonal":
        return np.full(size, covariance) if covariance.ndim == 0 else covariance
    full = covariance if covariance.ndim == 2 else np.diag(np.full(size, covariance))
    if not is_positive_definite(full):
        raise ValueError(f"'{name}' must be symmetric and positive definite.")
    return full


def is_positive_definite(matrix: np.ndarray) -> bool:
    """Whether a matrix is symmetric, to rounding, and has a Cholesky factor."""
    if not np.allclose(matrix, matrix.T):
        return False
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _refuse_tiny(variances: np.ndarray, name: str) -> None:
    """Variances, or their inverses, of which one over them cannot be taken."""
    if 0.0 < variances.min() < 1.0 / LARGEST_VARIANCE:
        raise ValueError(
            f"'{name}' must hold variances of at least {1.0 / LARGEST_VARIANCE:g}. Got {variances.min():.3g} instead."
        )


def check_weights(weights, n_components: int, name: str) -> np.ndarray:
    weights = numbers(weights, name)
    if weights.shape != (n_components,):
        raise ValueError(f"'{name}' must have one entry per component ({n_components}). Got {weights.shape} instead.")
    if not (weights > 0.0).all() or abs(weights.sum() - 1.0) > 1e-6:
        raise ValueError(f"'{name}' must be positive and sum to 1. Got {weights}, whose sum is {weights.sum():.6g}.")
    return weights


def check_means(means, shape: tuple[int, int], name: str) -> np.ndarray:
    means = numbers(means, name)
    if means.shape != shape:
        raise ValueError(f"'{name}' must have shape (n_components, n_features) = {shape}. Got {means.shape} instead.")
    return means


def check_covariances(covariances, shape: tuple[int, int], kind: CovarianceType, name: str) -> np.ndarray:
    """Covariances or their inverses, in the shape that their kind asks for, and positive definite."""
    n_components, n_features = shape
    covariances = numbers(covariances, name, LARGEST_VARIANCE)
    wanted = {"full": (n_components, n_features, n_features), "diag": shape, "spherical": (n_components,)}[kind]
    if covariances.shape != wanted:
        raise ValueError(f"'{name}' must have shape {wanted} where covariance_type={kind!r}. Got {covariances.shape}.")
    if kind != "full":
        if not (covariances > 0.0).all():
            raise ValueError(f"'{name}' must be positive. Got {covariances.min():.6g}.")
        _refuse_tiny(covariances, name)
        return covariances
    _refuse_tiny(np.einsum("cdd->cd", covariances), name)
    for c, covariance in enumerate(covariances):
        if not is_positive_definite(covariance):
            raise ValueError(f"'{name}' must be symmetric and positive definite, which that of component {c} is not.")
    return covariances


def invert(covariances: np.ndarray, kind: CovarianceType) -> np.ndarray:
    """Precisions from covariances, and back."""
    return np.linalg.inv(covariances) if kind == "full" else 1.0 / covariances
