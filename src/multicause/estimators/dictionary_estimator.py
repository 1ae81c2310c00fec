"""Estimators whose model has a dictionary of components: parameters in, parameters out."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from multicause._compat import StrOptions
from multicause.estimators.base import COUNT, TEMPERATURE
from multicause.estimators.em_estimator import Fit, SelectingEstimator
from multicause.estimators.information import InformationCriteria, count_symmetric
from multicause.estimators.parameter_checks import (
    check_activation,
    check_background,
    check_components,
    check_covariance,
    check_intercept,
    check_slab_mean,
)
from multicause.estimators.streaming import StreamingEstimator
from multicause.estimators.truncation import Truncation
from multicause.learning import EM, Annealing, Outcome, Plan, Stop
from multicause.learning.em.search import Search
from multicause.learning.em.widening import Widening
from multicause.learning.records import Record
from multicause.models import BernoulliPrior, DataMoments, DictionaryParams, GaussianNoise
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.base import Posterior
from multicause.posteriors.truncated import KeptStates
from multicause.selection.gp_select import GPSelect

_RELATIVE_NOISE_FLOOR = 1e-4  # of the data's variance: a noiseless fit would otherwise divide by zero


@dataclass(eq=False, repr=False)
class DictionaryEstimator(InformationCriteria, SelectingEstimator):
    """Base of the estimators with a dictionary, which differ in the model they build."""

    n_components: Any = None
    _: KW_ONLY
    activation_type: Any = "individual"
    fixed: Any = ()
    init: Any = None
    annealing: Any = None

    _parameter_names: ClassVar[tuple[str, ...]] = DictionaryParams._fields  # with any settings
    _parameter_constraints = {
        **SelectingEstimator._parameter_constraints,
        "n_components": [COUNT, None],
        "activation_type": [StrOptions({"individual", "shared"})],
        "fixed": ["array-like", str],
        "init": [dict, None],
        "annealing": [Annealing, TEMPERATURE, None],
    }

    @classmethod
    def from_parameters(cls, *, components, activation, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The components.
        activation : float or array-like of shape (n_components,)
            The activation probabilities.
        **settings : dict
            The model's other parameters (such as noise_variance), and constructor arguments of the estimator.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        components = check_array(components, dtype=[np.float64, np.float32], input_name="components")
        given = {name: settings.pop(name) for name in cls._parameter_names if name in settings}
        estimator = cls(n_components=len(components), **settings)
        estimator._validate_params()
        estimator._posterior(len(components))
        kind = estimator._type_for(given)
        wanted = kind._fields
        values = {**estimator._defaults, "components": components, "activation": activation, **given}
        for name in (*wanted, *given):
            if name not in wanted or name not in values:
                verb = "needs" if name in wanted else "has no"
                raise TypeError(f"{cls.__name__}.from_parameters {verb} {name!r} with these settings.")
        shape = components.shape
        params = kind(**{n: estimator._checked(n, values[n], shape, n) for n in wanted})
        estimator.n_features_in_ = shape[1]
        estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)
        return estimator

    def _type_for(self, given: Mapping[str, Any]) -> Any:
        """The type of the parameters, where a user gives some."""
        return self._params_type

    @property
    def _names_to_give(self) -> tuple[str, ...]:
        """What `fixed` and `init` may name."""
        return self._params_type._fields

    @property
    def _defaults(self) -> dict[str, float]:
        """Of parameters that `from_parameters` need not be given."""
        return {}

    @abstractmethod
    def _truncation(self, n_components: int) -> Truncation:
        """H' and gamma, made definite."""

    @abstractmethod
    def _build(self, n_components: int, n_features: int, noise_floor: float, truncated_at: int | None) -> Any:
        """The model, with a smallest noise variance, and gamma where data are classified."""

    @property
    def _given_start(self) -> str:
        return "init" if self.init else ""

    @property
    def _held(self) -> tuple[str, ...]:
        """The names in `fixed`, which may be one."""
        return (self.fixed,) if isinstance(self.fixed, str) else tuple(self.fixed)

    def _n_free_parameters(self) -> int:
        free = {name: value for name, value in self._params()._asdict().items() if name not in self._held}
        count = {name: count_symmetric(value) for name, value in free.items()}
        if "components" in free:
            count["components"] = free["components"].size
        if "activation" in free and self.activation_type == "shared":
            count["activation"] = 1
        if {"components", "slab_mean", "slab_covariance"} <= free.keys():
            count["the scale of coefficients"] = -len(free["components"])
        return sum(count.values())

    def _count_components(self, n_features: int) -> int:
        return n_features if self.n_components is None else int(self.n_components)

    def _prior_settings(self, truncated_at: int | None) -> dict[str, Any]:
        return {"shared": self.activation_type == "shared", "truncated_at": truncated_at}

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        self._check_names()
        second_moment = float((moments.variance + moments.mean**2).mean())
        floor = _RELATIVE_NOISE_FLOOR * float(moments.variance.mean()) + 1e-12 * second_moment
        schedule = self._schedule()
        truncated_at = self._truncation(n_components).max_active if schedule.classification else None
        model = self._build(n_components, len(moments.mean), floor if floor > 0.0 else 1e-12, truncated_at)
        return Fit(model, self._posterior(n_components), schedule, self._start, self.tol)

    def _keep(self, outcome: Outcome, dtype) -> None:
        for name in (*self._parameter_names, "noise_covariance"):  # of an earlier fit with other settings
            self.__dict__.pop(f"{name}_", None)
        super()._keep(outcome, dtype)

    def _schedule(self) -> Plan:
        return Plan(self.max_iter, Annealing.of(self.annealing))

    def _posterior(self, n_components: int) -> Posterior:
        return self._truncation(n_components).posterior(False, self._learned_selection())

    def _fitted_model(self) -> Any:
        n_components, n_features = self.components_.shape
        return self._build(n_components, n_features, 1e-12, None)

    @property
    def _params_type(self) -> Any:
        return DictionaryParams

    def _start(self, em: EM, rng: np.random.Generator) -> Any:
        drawn = em.model.init_params(em.moments, rng)
        return drawn._replace(**self._given(drawn.components.shape))

    def _warm(self, em: EM) -> Any:
        """The last fit's parameters; those held fixed take their given values."""
        given = self._given((em.model.n_components, em.model.n_features))
        return super()._warm(em)._replace(**{name: given[name] for name in self._held if name in given})

    def _given(self, shape: tuple[int, int]) -> dict[str, Any]:
        """The initial values that the user gave, checked."""
        values: Mapping[str, Any] = self.init or {}
        return {name: self._checked(name, value, shape, f"init[{name!r}]") for name, value in values.items()}

    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> Any:
        """A parameter that a user gives: checked, and made into an array."""
        match name:
            case "components":
                return self._check_components(value, shape, label)
            case "activation":
                return check_activation(value, shape[0], label)
            case "slab_mean":
                return check_slab_mean(value, shape[0], label)
            case "slab_covariance":
                return check_covariance(value, shape[0], self._slab_shape, label)
            case "intercept":
                return check_intercept(value, shape[1], label)
            case "background":
                return check_background(value, self._noise, self._needs_background, label)
        return check_covariance(value, shape[1], self._noise.shape, label)

    def _check_components(self, components, shape: tuple[int, int], name: str) -> np.ndarray:
        return check_components(components, shape, name)

    @property
    def _noise(self) -> Any:
        """The noise about the data."""
        return GaussianNoise()

    @property
    def _needs_background(self) -> bool:
        """Whether the mean where no latent is active must be positive."""
        return False

    @property
    def _slab_shape(self) -> str:
        return "diagonal"

    def _check_names(self) -> None:
        """`fixed` and `init` name parameters; those held fixed have a value to be held at."""
        known, given = self._names_to_give, self.init or {}
        for argument, names in (("fixed", self._held), ("init", given)):
            for name in names:
                if name not in known:
                    raise ValueError(
                        f"The {argument!r} parameter of {type(self).__name__} must hold names among {known}. "
                        f"Got {name!r} instead."
                    )
        for name in self._held:
            if not self._is_warm and name not in given:
                raise ValueError(
                    f"{type(self).__name__}(fixed={self.fixed!r}) holds {name!r} at its initial value: "
                    f"give init={{{name!r}: ...}} too."
                )


@dataclass(eq=False, repr=False)
class TruncatedDictionaryEstimator(DictionaryEstimator, StreamingEstimator):
    """Base of those whose posterior is a sum over the states of the candidates."""

    _: KW_ONLY
    selection: Any = "auto"
    max_active: Any = "auto"
    singletons: Any = True
    start: Any = "search"
    monotone: Any = "auto"

    _parameter_constraints = {
        **DictionaryEstimator._parameter_constraints,
        **StreamingEstimator._parameter_constraints,
        "selection": [StrOptions({"auto", "greedy", "model-based"}), GPSelect],
        "max_active": [COUNT, StrOptions({"auto"})],
        "singletons": ["boolean"],
        "start": [StrOptions({"search", "random"})],
        "monotone": ["boolean", StrOptions({"auto"})],
    }

    @property
    def _can_select_greedily(self) -> bool:
        """Whether the model's latents can be judged beside each other at little cost."""
        return False

    @property
    def _selects_greedily(self) -> bool:
        if self.selection == "greedy" and not self._can_select_greedily:
            raise ValueError(
                f"{type(self).__name__} with these settings has no greedy selection. Use selection='auto'."
            )
        wanted = self.selection == "greedy" or (self.selection == "auto" and self.annealing is None)
        return wanted and self._can_select_greedily

    @property
    def _keeps_candidates(self) -> bool:
        """Whether data points remember their last candidates."""
        return self.monotone != "auto" and bool(self.monotone)

    def _truncation(self, n_components: int) -> Truncation:
        asked = self.n_candidates, self.max_active, bool(self.singletons), self._selects_greedily
        return Truncation.resolve(type(self).__name__, n_components, *asked)

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        fit = super()._fit_of(n_components, moments)
        learns_selection = fit.posterior.selection is not None and not fit.posterior.keeps_all(fit.model)
        settled = isinstance(fit.posterior, TruncatedPosterior) and self.annealing is None and not learns_selection
        monotone = self._keeps_candidates or (self.monotone == "auto" and settled)
        fit = fit._replace(monotone=monotone, keeps_best=self.monotone == "auto" or self._keeps_candidates)
        if not settled or self.start != "search" or self.init:
            return fit
        widening = Widening(candidates=self.n_candidates == "auto", active=self.max_active == "auto")
        return fit._replace(start=Search(widening=widening))

    def _posterior(self, n_components: int) -> Posterior:
        return self._truncation(n_components).posterior(self._keeps_candidates, self._learned_selection())

    def _learned_posterior(self) -> Posterior:
        """With the states that the fit chose, where the settings leave them open."""
        n_components = self._n_features_out
        posterior, learned = self._posterior(n_components), getattr(self, "truncation_", None)
        if learned is None or not isinstance(posterior, TruncatedPosterior):
            return posterior
        if type(learned) is not KeptStates or not learned.are_possible(n_components):
            raise ValueError(f"truncation_ must say which states of {n_components} latents are kept, not {learned!r}")
        wants_all = posterior.max_active == n_components
        return posterior if wants_all else posterior.keeping(self._kept_as_asked(posterior.kept, learned))

    def _kept_as_asked(self, asked: KeptStates, learned: KeptStates) -> KeptStates:
        n_candidates = learned.n_candidates if self.n_candidates == "auto" else asked.n_candidates
        if self.max_active != "auto":
            return KeptStates(max(n_candidates, asked.max_active), asked.max_active)
        return KeptStates(n_candidates, min(learned.max_active, n_candidates))

    def _keep(self, outcome: Outcome, dtype) -> None:
        super()._keep(outcome, dtype)
        self.__dict__.pop("truncation_", None)  # of an earlier fit
        if outcome.kept is not None:
            self.truncation_ = outcome.kept

    def _so_far(self, dtype, record: Record) -> dict[str, Any]:
        kept = {} if record.kept is None else {"truncation_": record.kept}
        return {**super()._so_far(dtype, record), **kept}

    def _prior(self, truncated_at: int | None) -> BernoulliPrior:
        return BernoulliPrior(**self._prior_settings(truncated_at))
