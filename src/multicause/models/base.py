"""What a generative model offers, and what adds up over chunks of data."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

Params = Any  # a NamedTuple of arrays, the model's own
Statistics = TypeVar("Statistics", bound=tuple)


@runtime_checkable
class GenerativeModel(Protocol):
    """p(s, y | params) over binary latents s in {0,1}^H, and the M-step that learns its parameters.

    `states` are (K, H) for all data points alike, or (N, K, H); weights are (N, K). `TruncatedEM` trains a model
    without `sample`, `superpose` and `selection_scores`, too.
    """

    @property
    def n_components(self) -> int: ...

    def init_params(self, moments: "DataMoments", rng: np.random.Generator) -> Params: ...

    def sample(self, params: Params, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]: ...

    def superpose(self, params: Params, states: np.ndarray) -> np.ndarray: ...

    def log_joint(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray: ...

    def selection_scores(self, params: Params, Y: np.ndarray) -> np.ndarray: ...

    def accumulate(self, params: Params, Y: np.ndarray, states: np.ndarray, weights: np.ndarray) -> tuple: ...

    def m_step(self, params: Params, statistics: Any) -> Params: ...


@runtime_checkable
class HasCoefficients(Protocol):
    """A model whose active latents have coefficients of their own."""

    def codes(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray: ...


@runtime_checkable
class Cleans(Protocol):
    """A model in which a state leaves open what the data are without their noise."""

    def clean(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray: ...


@runtime_checkable
class Heated(Protocol):
    """A model that is another one while hot, beyond p^beta."""

    def heated(self, beta: float) -> "GenerativeModel": ...


@runtime_checkable
class RedrawsUnused(Protocol):
    """A model that replaces components which no data point uses."""

    def redraw_unused(
        self, params: Params, statistics: Any, moments: "DataMoments", rng: np.random.Generator
    ) -> Params: ...


@runtime_checkable
class Perturbable(Protocol):
    """A model whose components take parameter noise while it is annealed."""

    def perturb(self, params: Params, scale: float, rng: np.random.Generator) -> Params: ...


@runtime_checkable
class Recentred(Protocol):
    """A model whose statistics are about its parameters, so that those of several parameters do not add up."""

    def recentre(self, statistics: Any, before: Params, after: Params) -> Any: ...  # about `after` instead of `before`


def heated(model: Any, beta: float) -> Any:
    """The model whose p(s, y)^beta is the posterior at an inverse temperature: itself, unless it is Heated."""
    return model.heated(beta) if isinstance(model, Heated) else model


def is_users_own(model: Any) -> bool:
    """Whether a user wrote the model, so that what fails in it is theirs to mend."""
    return not type(model).__module__.startswith("multicause.")


@contextmanager
def calling(model: Any, method: str) -> Iterator[None]:
    """A context in which an error says which method of a user's model it came from."""
    try:
        yield
    except Exception as error:
        if is_users_own(model):
            error.add_note(
                f"This came out of {type(model).__name__}.{method}; multicause.testing.check_model looks for mistakes."
            )
        raise


class DataMoments(NamedTuple):
    """Weighted first moments of the data: all that an initialisation may know of it.

    Drawing random rows instead would make a weight of two differ from a row given twice.
    """

    weight: float  # total sample weight
    mean: np.ndarray  # (D,)
    variance: np.ndarray  # (D,)


def combine(first: Statistics, second: Statistics) -> Statistics:
    """Add two NamedTuples field by field, in place where `first` holds arrays; nested tuples too."""
    return type(first)(*map(_add, first, second))


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return combine(a, b)
    if isinstance(a, np.ndarray):
        return np.add(a, b, out=a)
    return a + b
