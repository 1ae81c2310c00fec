"""Is this a `GenerativeModel`? Checks for people who bring their own."""

from numbers import Integral
from typing import Any

import numpy as np

from multicause.models.base import DataMoments, GenerativeModel, combine
from multicause.testing.brute_force import all_states, brute_force

_METHODS = ("init_params", "sample", "log_joint", "accumulate", "m_step")


def check_model(model: GenerativeModel, *, n_samples: int = 40, random_state: int = 0) -> None:
    """Raise an AssertionError or TypeError that says what a model gets wrong; return quietly if nothing.

    It checks that all methods are there; that samples and log joints have the right shapes, finite values, and do not
    depend on whether states are shared; that statistics add up over parts of the data; and that an exact EM step does
    not lower the likelihood. The model must have at most ten components, so that all states can be enumerated.

    Parameters
    ----------
    model : GenerativeModel
        A small instance of the model.
    n_samples : int
        Data points drawn from it.
    random_state : int
        Seed of everything that is drawn.
    """
    missing = [name for name in _METHODS if not callable(getattr(model, name, None))]
    if isinstance(model, type):
        raise TypeError(f"check_model takes an instance of a model. Got the class {model.__name__}: call it first.")
    if missing or not isinstance(getattr(model, "n_components", None), Integral):
        wanted = ", ".join(missing) or "n_components (an int)"
        raise TypeError(f"{type(model).__name__} is not a GenerativeModel: it lacks {wanted}.")
    if model.n_components > 10:
        raise ValueError(
            f"check_model enumerates all states: give a model of at most 10 components, not {model.n_components}."
        )
    rng = np.random.default_rng(random_state)
    params = _params_of(model, rng)
    Y, states = model.sample(params, n_samples, rng)
    _check(Y.ndim == 2 and len(Y) == n_samples and bool(np.isfinite(Y).all()), "sample must give finite data (n, D)")
    _check(states.shape == (n_samples, model.n_components), "sample must give states (n, H) beside the data")
    _check_log_joint(model, params, Y)
    if hasattr(model, "selection_scores"):
        _check_selection(model, params, Y)
    _check_statistics(model, params, Y)
    _check_em_step(model, params, Y)


def _check(condition: bool, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


def _params_of(model: GenerativeModel, rng: np.random.Generator) -> Any:
    n_features = getattr(model, "n_features", None)
    if n_features is None:
        raise TypeError(f"{type(model).__name__} is not a GenerativeModel: it lacks n_features (an int).")
    moments = DataMoments(100.0, np.full(n_features, 0.5), np.ones(n_features))
    return model.init_params(moments, rng)


def _check_log_joint(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    states = all_states(model.n_components)
    shared = model.log_joint(params, Y, states)
    _check(shared.shape == (len(Y), len(states)), "log_joint must be (N, K) for states (K, H)")
    _check(not np.isnan(shared).any(), "log_joint must not be NaN")
    own = model.log_joint(params, Y, np.broadcast_to(states, (len(Y), *states.shape)))
    _check(
        np.allclose(shared, own), "log_joint must not depend on whether states are shared, (K, H), or not, (N, K, H)"
    )


def _check_selection(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    scores = model.selection_scores(params, Y)
    _check(scores.shape == (len(Y), model.n_components), "selection_scores must be (N, H)")
    _check(not np.isnan(scores).any(), "selection_scores must not be NaN")


def _check_statistics(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    oracle = brute_force(model, params, Y)
    whole: Any = model.accumulate(params, Y, oracle.states, oracle.q)
    _check(hasattr(whole, "_fields"), "accumulate must give a NamedTuple of sums")
    _check("weight" in whole._fields, "the statistics must have a field 'weight': the sum of all weights")
    own_states = np.broadcast_to(oracle.states, (len(Y), *oracle.states.shape))
    for name, a, b in zip(whole._fields, whole, model.accumulate(params, Y, own_states, oracle.q), strict=True):
        _check(np.allclose(a, b), f"the statistic {name!r} must not depend on whether states are shared")
    half = len(Y) // 2
    first = model.accumulate(params, Y[:half], oracle.states, oracle.q[:half])
    second = model.accumulate(params, Y[half:], oracle.states, oracle.q[half:])
    for name, a, b in zip(type(whole)._fields, whole, combine(first, second), strict=True):
        _check(np.allclose(a, b), f"the statistic {name!r} of all data must be the sum over its parts")


def _check_em_step(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    oracle = brute_force(model, params, Y)
    statistics = model.accumulate(params, Y, oracle.states, oracle.q)
    after = brute_force(model, model.m_step(params, statistics), Y)
    gain = after.free_energy.sum() - oracle.free_energy.sum()
    _check(
        gain >= -1e-9 * abs(oracle.free_energy.sum()),
        f"an exact EM step must not lower the likelihood (it did by {-gain:.3g})",
    )
