"""What a generative model offers, and what adds up over chunks of data."""

from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

Params = Any  # a NamedTuple of arrays, the model's own
Statistics = TypeVar("Statistics", bound=tuple)


@runtime_checkable
class GenerativeModel(Protocol):
    """p(s, y | params) over binary causes s in {0,1}^H, and the M-step that learns its parameters.

    `states` are (K, H) for all data points alike, or (N, K, H); weights are (N, K). `beta` is the inverse
    temperature, for models whose statistics depend on it. `TruncatedEM` trains a model without `kernel`, `sample`,
    `superpose` and `selection_scores`, too.
    """

    kernel: ClassVar[str | None]  # name of a fused kernel in backends/, or None: the definition is walked

    @property
    def n_components(self) -> int: ...

    def init_params(self, moments: "DataMoments", rng: np.random.Generator) -> Params: ...

    def sample(self, params: Params, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]: ...

    def superpose(self, params: Params, states: np.ndarray) -> np.ndarray: ...

    def log_joint(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray: ...

    def selection_scores(self, params: Params, Y: np.ndarray) -> np.ndarray: ...

    def accumulate(
        self, params: Params, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> tuple: ...

    def m_step(self, params: Params, statistics: Any, step: Any, rng: np.random.Generator) -> Params: ...


@runtime_checkable
class HasStrengths(Protocol):
    """A model whose active causes have strengths of their own."""

    def codes(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray: ...


@runtime_checkable
class Heated(Protocol):
    """A model that is another one while hot, beyond p^beta."""

    def heated_log_joint(self, params: Params, Y: np.ndarray, states: np.ndarray, beta: float) -> np.ndarray: ...


@runtime_checkable
class RedrawsUnused(Protocol):
    """A model that replaces causes which no data point uses."""

    def redraw_unused(
        self, params: Params, statistics: Any, moments: "DataMoments", rng: np.random.Generator
    ) -> Params: ...


@runtime_checkable
class Perturbable(Protocol):
    """A model whose fields can be shaken while it is annealed."""

    def perturb(self, params: Params, scale: float, rng: np.random.Generator) -> Params: ...


def heated_log_joint(model: Any, params: Params, Y: np.ndarray, states: np.ndarray, beta: float) -> np.ndarray:
    """The log joint whose power beta is the posterior at an inverse temperature: a model's own, unless it is Heated."""
    if isinstance(model, Heated):
        return model.heated_log_joint(params, Y, states, beta)
    return model.log_joint(params, Y, states)


class DataMoments(NamedTuple):
    """Weighted first moments of the data: all that an initialisation may know of it.

    Drawing random rows instead would make a weight of two differ from a row given twice.
    """

    weight: float  # total sample weight
    mean: np.ndarray  # (D,)
    variance: np.ndarray  # (D,)


class FieldParams(NamedTuple):
    """Parameters of the models whose causes are on or off: what each cause adds, how often, and the noise."""

    components: np.ndarray  # (H, D) one generative field per cause
    activation: np.ndarray  # (H,) pi
    noise_variance: float  # sigma^2; 1 where the noise has no parameter of its own


def combine(first: Statistics, second: Statistics) -> Statistics:
    """Add two NamedTuples field by field, in place where `first` holds arrays; nested tuples too."""
    return type(first)(*map(_add, first, second))


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, tuple):
        return combine(a, b)
    if isinstance(a, np.ndarray):
        return np.add(a, b, out=a)
    return a + b
