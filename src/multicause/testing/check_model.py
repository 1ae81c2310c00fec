"""Is this a `GenerativeModel`? Checks for people who bring their own."""

import inspect
from numbers import Integral
from typing import Any

import numpy as np

from multicause.models.base import DataMoments, GenerativeModel, calling, combine
from multicause.testing.brute_force import all_states, brute_force

_ARGUMENTS = {
    "init_params": ("moments", "rng"),
    "log_joint": ("params", "Y", "states"),
    "accumulate": ("params", "Y", "states", "weights"),
    "m_step": ("params", "statistics"),
}
_OPTIONAL = {
    "sample": ("params", "n_samples", "rng"),
    "superpose": ("params", "states"),
    "selection_scores": ("params", "Y"),
}
_MOST_LATENTS = 10


def check_model(model: GenerativeModel, X=None, *, n_samples: int = 40, random_state: int = 0) -> None:
    """Raise an AssertionError or TypeError that says what a model gets wrong; return quietly if nothing.

    It checks that all methods are there and take what they are given; that samples and log joints have the right
    shapes, no NaN, and do not depend on whether states are shared; that statistics add up over parts of the data; that
    the M-step gives parameters of the same shapes, all of them finite; and that an exact EM step does not lower the
    likelihood. The model must have at most ten components, so that all states can be enumerated.

    Parameters
    ----------
    model : GenerativeModel
        A small instance of the model.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Data to check it with; None draws them from the model, which then needs `sample` and `n_features`.
    n_samples : int, default=40
        Data points that are drawn, or the most that are taken of X.
    random_state : int, default=0
        Seed of everything that is drawn.
    """
    _check_methods(model)
    rng = np.random.default_rng(random_state)
    params, Y = _drawn(model, n_samples, rng) if X is None else _given(model, np.asarray(X, float)[:n_samples], rng)
    _check_params("init_params", params)
    _check_log_joint(model, params, Y)
    if hasattr(model, "selection_scores"):
        _check_selection(model, params, Y)
    _check_statistics(model, params, Y)
    _check_em_step(model, params, Y)


def _check(condition: bool, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


def _check_methods(model: Any) -> None:
    if isinstance(model, type):
        raise TypeError(f"check_model takes an instance of a model. Got the class {model.__name__}: call it first.")
    name = type(model).__name__
    missing = [method for method in _ARGUMENTS if not callable(getattr(model, method, None))]
    if missing or not isinstance(getattr(model, "n_components", None), Integral):
        wanted = ", ".join(missing) or "n_components (an int)"
        raise TypeError(f"{name} is not a GenerativeModel: it lacks {wanted}.")
    for method, arguments in {**_ARGUMENTS, **_OPTIONAL}.items():
        if callable(getattr(model, method, None)):
            _check_arguments(name, method, getattr(model, method), arguments)
    if model.n_components > _MOST_LATENTS:
        raise ValueError(
            f"check_model enumerates all states: give a model of at most {_MOST_LATENTS} components, "
            f"not {model.n_components}."
        )


def _check_arguments(name: str, method: str, function: Any, wanted: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # compiled, perhaps
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise TypeError(
            f"{name}.{method} is called as {method}({', '.join(wanted)}), but is {method}{signature}: {error}."
        ) from None


def _drawn(model: Any, n_samples: int, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    """Parameters for standard data, and data that they produce."""
    name = type(model).__name__
    n_features: Any = getattr(model, "n_features", None)
    for what, there in (
        ("sample", callable(getattr(model, "sample", None))),
        ("n_features (an int)", isinstance(n_features, Integral)),
    ):
        if not there:
            raise TypeError(f"{name} lacks {what}, so that check_model cannot draw data: give some, check_model(m, X).")
    moments = DataMoments(100.0, np.full(n_features, 0.5), np.ones(n_features))
    with calling(model, "init_params"):
        params = model.init_params(moments, rng)
    with calling(model, "sample"):
        Y, states = model.sample(params, n_samples, rng)
    _check(Y.ndim == 2 and len(Y) == n_samples and bool(np.isfinite(Y).all()), "sample must give finite data (n, D)")
    _check(states.shape == (n_samples, model.n_components), "sample must give states (n, H) beside the data")
    return params, Y


def _given(model: Any, X: np.ndarray, rng: np.random.Generator) -> tuple[Any, np.ndarray]:
    if X.ndim != 2 or len(X) < 2 or not np.isfinite(X).all():
        raise ValueError(f"X must be finite, with two rows or more. Got an array of shape {X.shape}.")
    with calling(model, "init_params"):
        return model.init_params(DataMoments(float(len(X)), X.mean(axis=0), X.var(axis=0)), rng), X


def _check_params(method: str, params: Any) -> None:
    _check(hasattr(params, "_fields"), f"{method} must give a NamedTuple of parameters, not {type(params).__name__}")
    for name, value in zip(params._fields, params, strict=True):
        _check(bool(np.isfinite(value).all()), f"{method} must give finite parameters: {name!r} is NaN or infinite")


def _check_log_joint(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    states = all_states(model.n_components)
    if len(Y) == len(states):  # else a transposed table would pass
        Y = Y[:-1]
    with calling(model, "log_joint"):
        shared = model.log_joint(params, Y, states)
        own = model.log_joint(params, Y, np.broadcast_to(states, (len(Y), *states.shape)))
    wanted = (len(Y), len(states))
    for which, table in (("(K, H)", shared), ("(N, K, H)", own)):
        transposed = " (transposed)" if np.shape(table) == wanted[::-1] else ""
        _check(
            np.shape(table) == wanted,
            f"log_joint must be (N, K) = {wanted} for states {which}, not {np.shape(table)}{transposed}",
        )
    _check(not np.isnan(shared).any(), "log_joint must not be NaN")
    _check(
        np.allclose(shared, own), "log_joint must not depend on whether states are shared, (K, H), or not, (N, K, H)"
    )


def _check_selection(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    with calling(model, "selection_scores"):
        scores = model.selection_scores(params, Y)
    _check(scores.shape == (len(Y), model.n_components), "selection_scores must be (N, H)")
    _check(not np.isnan(scores).any(), "selection_scores must not be NaN")


def _check_statistics(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    oracle = brute_force(model, params, Y)
    own_states, half = np.broadcast_to(oracle.states, (len(Y), *oracle.states.shape)), len(Y) // 2
    with calling(model, "accumulate"):
        whole: Any = model.accumulate(params, Y, oracle.states, oracle.q)
        own = model.accumulate(params, Y, own_states, oracle.q)
        first = model.accumulate(params, Y[:half], oracle.states, oracle.q[:half])
        second = model.accumulate(params, Y[half:], oracle.states, oracle.q[half:])
    _check(hasattr(whole, "_fields"), "accumulate must give a NamedTuple of sums")
    for name, a, b in zip(whole._fields, whole, own, strict=True):
        _check(np.allclose(a, b), f"the statistic {name!r} must not depend on whether states are shared")
    for name, a, b in zip(whole._fields, whole, combine(first, second), strict=True):
        _check(np.allclose(a, b), f"the statistic {name!r} of all data must be the sum over its parts")


def _check_em_step(model: GenerativeModel, params: Any, Y: np.ndarray) -> None:
    oracle = brute_force(model, params, Y)
    with calling(model, "m_step"):
        new = model.m_step(params, model.accumulate(params, Y, oracle.states, oracle.q))
    _check_params("m_step", new)
    _check(type(new) is type(params), f"m_step must give {type(params).__name__}, not {type(new).__name__}")
    for name, before, after in zip(params._fields, params, new, strict=True):
        shapes = np.shape(before), np.shape(after)
        _check(shapes[0] == shapes[1], f"m_step must keep the shape of {name!r}, {shapes[0]}; it gave {shapes[1]}")
    gain = brute_force(model, new, Y).free_energy.sum() - oracle.free_energy.sum()
    _check(
        gain >= -1e-9 * abs(oracle.free_energy.sum()),
        f"an exact EM step must not lower the likelihood (it did by {-gain:.3g})",
    )
