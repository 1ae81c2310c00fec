"""Learned attributes, from a file or changed by hand: checked before all questions, since kernels index unchecked."""

from numbers import Integral
from typing import Any

import numpy as np

from multicause.learning import Stop
from multicause.learning.experts.batches import REMEMBERED
from multicause.models.experts import Expert
from multicause.models.product_of_experts import ProductParams, mixing

LARGEST = 1e300
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def check_run(estimator: Any) -> None:
    """What every fit leaves, besides the model's parameters."""
    check_count("n_features_in_", estimator.n_features_in_, least=1)
    check_count("n_iter_", estimator.n_iter_, least=0)
    if not isinstance(estimator.stop_, Stop):
        raise ValueError(f"stop_ must say why the fit ended. Got {_described(estimator.stop_)}")
    history = estimator.free_energy_
    if not (isinstance(history, np.ndarray) and history.ndim == 1 and history.dtype in _FLOATS):
        raise ValueError(f"free_energy_ must be a list of numbers. Got {_described(history)}")
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and not (
        isinstance(names, np.ndarray)
        and names.shape == (estimator.n_features_in_,)
        and all(isinstance(name, str) for name in names)
    ):
        raise ValueError(f"feature_names_in_ must be {estimator.n_features_in_} strings. Got {_described(names)}")


def check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}. Got {_described(value)}")


def check_number(name: str, value: Any, least: float = -LARGEST) -> None:
    check_floats(name, value, ())
    if value < least:
        raise ValueError(f"{name} must be at least {least:g}. Got {value}")


def check_floats(name: str, value: Any, shape: tuple[int, ...]) -> None:
    """An array of floating-point numbers, or one number where the shape is empty."""
    if np.shape(value) != shape or not (
        isinstance(value, float | np.floating) if shape == () else isinstance(value, np.ndarray)
    ):
        raise ValueError(f"{name} must be finite, of shape {shape}. Got {_described(value)}")
    array = np.asarray(value)
    if array.dtype not in _FLOATS or not float(np.abs(array).max(initial=0.0)) <= LARGEST:  # NaN is not below
        raise ValueError(f"{name} must be finite, of shape {shape} and single or double precision. Got {array.dtype}")


def check_product(estimator: Any, params: ProductParams) -> None:
    """The learned attributes of a product of experts."""
    J, D = len(params.experts), int(estimator.n_features_in_)
    K = np.shape(params.directions)[-1]
    if not J <= K <= D or K < 1:
        raise ValueError(f"directions_ of {J} experts must have between {J} and {D} dimensions. Got {K}")
    shapes = {
        "mean_": (D,),
        "whitening_": (K, D),
        "dewhitening_": (D, K),
        "directions_": (J, K),
        "components_": (J, D),
        "mixing_": (D, J),
        "projection_index_": (J,),
    }
    for name, shape in shapes.items():
        check_floats(name, getattr(estimator, name), shape)
    if not all(isinstance(expert, Expert) for expert in params.experts):
        raise ValueError(f"experts_ must hold instances of Expert. Got {_described(params.experts)}")
    check_number("n_samples_seen_", float(estimator.n_samples_seen_), least=0.0)
    if hasattr(estimator, "covariance_"):
        check_floats("covariance_", estimator.covariance_, (D, D))
    latest = getattr(estimator, "_latest", np.empty((J, 0)))
    check_floats("the latest projections", latest, (J, min(np.shape(latest)[-1], REMEMBERED)))
    _check_derived(estimator, params)


def _check_derived(estimator: Any, params: ProductParams) -> None:
    """What follows from the whitening and the directions does so; the former can be undone, the latter are distinct."""
    whitening, W = params.whitening, params.directions
    if not np.allclose(whitening.forward @ whitening.backward, np.eye(W.shape[1]), atol=1e-3):
        raise ValueError("dewhitening_ must undo whitening_")
    if not np.isfinite(whitening.log_determinant):
        raise ValueError("dewhitening_ must have independent columns")
    try:
        np.linalg.cholesky(W @ W.T)
    except np.linalg.LinAlgError:
        raise ValueError("directions_ must be independent") from None
    for name, derived in (("components_", W @ whitening.forward), ("mixing_", mixing(params))):
        kept = getattr(estimator, name)
        scale = float(np.abs(derived).max(initial=0.0))
        if not np.allclose(kept, derived, rtol=1e-3, atol=1e-3 * scale):
            raise ValueError(f"{name} must follow from directions_ and the whitening")


def _described(value: Any) -> str:
    shape = f" of shape {value.shape} and dtype {value.dtype}" if isinstance(value, np.ndarray) else f" {value!r:.60}"
    return f"{type(value).__name__}{shape}"
