"""Parameters of a mixture that a user gives: checked, and made into arrays."""

import numpy as np
from sklearn.utils import check_array

from multicause.models.gaussian_mixture import CovarianceType


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
