"""What MCA3 and RestrictedMCA share: states of few latents, the same for all data, and cooling when components rest."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from multicause._compat import StrOptions
from multicause.estimators.base import COUNT
from multicause.estimators.em_estimator import EMEstimator, Fit
from multicause.estimators.kept_fits import Keeping
from multicause.estimators.learned_checks import check_number
from multicause.estimators.parameter_checks import check_activation, check_components, refuse_negative
from multicause.learning import EM, Annealing, ConditionalCooling, Outcome, Plan, Stop
from multicause.learning.em.restarts import score_of_well_explained
from multicause.learning.em.schedules import Schedule
from multicause.models.base import DataMoments
from multicause.models.few_maximal_causes import FewMaximalCauses
from multicause.models.subsets import count_subsets, too_many_subsets
from multicause.models.superpositions import SMALLEST_MEAN
from multicause.posteriors.enumerated import EnumeratedPosterior

MOST_STATES = 2**17  # beyond this the tables of all states outgrow memory


@dataclass(eq=False, repr=False)
class PoissonMCAEstimator(EMEstimator):
    """Base of MCA3 and RestrictedMCA, which differ in the model they build."""

    n_components: Any = None
    _: KW_ONLY
    cooling: Any = "auto"
    init: Any = None
    max_iter: Any = 1000

    _max_active: ClassVar[int] = 1
    _parameter_names: ClassVar[tuple[str, ...]] = ("components",)  # what `init` may name
    _parameter_constraints = {
        **EMEstimator._parameter_constraints,
        "n_components": [COUNT, None],
        "cooling": [ConditionalCooling, Annealing, StrOptions({"auto"}), None],
        "init": [dict, None],
    }

    @classmethod
    def from_parameters(cls, *, components, activation, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The components, non-negative.
        activation : float or array-like of shape (n_components,)
            The activation probabilities.
        **settings : dict
            Constructor arguments of the estimator.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        components = check_array(components, dtype=[np.float64, np.float32], input_name="components")
        estimator = cls(n_components=len(components), **settings)
        estimator._validate_params()
        estimator._posterior(len(components))
        checked = estimator._check_components(components, components.shape, "components")
        params = estimator._params_type(checked, estimator._check_activation(activation, len(components), "activation"))
        estimator.n_features_in_ = components.shape[1]
        estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)
        return estimator

    @abstractmethod
    def _build(self, n_components: int, n_features: int, moments: DataMoments | None) -> FewMaximalCauses:
        """The model; without moments that of the fitted estimator."""

    @abstractmethod
    def _own_cooling(self, moments: DataMoments) -> Schedule:
        """What cooling="auto" stands for."""

    @abstractmethod
    def _start(self, em: EM, rng: np.random.Generator) -> Any:
        """First parameters."""

    @property
    def _given_start(self) -> str:
        return "init" if self._initial_values else ""

    def _count_components(self, n_features: int) -> int:
        return n_features if self.n_components is None else int(self.n_components)

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        self._check_names()
        model = self._build(n_components, len(moments.mean), moments)
        posterior = self._posterior(n_components)
        return Fit(model, posterior, self._schedule(moments), self._start, score=score_of_well_explained)

    def _best_of_restarts(self, em: EM, fit: Fit, X: np.ndarray, keeping: Keeping) -> Outcome:
        outcome = super()._best_of_restarts(em, fit, X, keeping)
        ran_out = outcome.n_iter == em.n_steps and outcome.stop is Stop.SCHEDULE_ENDED
        if ran_out and isinstance(em.plan, ConditionalCooling):
            return outcome._replace(stop=Stop.NOT_AT_REST)
        return outcome

    def _schedule(self, moments: DataMoments) -> Schedule:
        """The cooling asked for; None stays at temperature 1.

        There components of equal brightness may trade places for ever, by a little: a larger change is rest.
        """
        if self.cooling is None:
            return ConditionalCooling(initial=1.0, final=1.0, n_hold_steps=0, threshold=1e-2, n_steps=self.max_iter)
        if isinstance(self.cooling, Annealing):
            return Plan(self.max_iter, self.cooling)
        if isinstance(self.cooling, ConditionalCooling):
            return replace(self.cooling, n_steps=self.max_iter)
        return self._own_cooling(moments)

    def _posterior(self, n_components: int) -> EnumeratedPosterior:
        n_states = too_many_subsets(n_components, self._max_active, MOST_STATES)
        if n_states is not None:
            raise ValueError(
                f"n_components={n_components} of {type(self).__name__} means {n_states} states of at most "
                f"{self._max_active} latents; at most {MOST_STATES:,} can be tabulated. Lower n_components, or use "
                "MCA, which preselects latents."
            )
        return EnumeratedPosterior(self._max_active)

    def _fitted_model(self) -> FewMaximalCauses:
        n_components, n_features = self.components_.shape
        return self._build(n_components, n_features, None)

    @property
    def _initial_values(self) -> dict[str, Any]:
        return self.init if isinstance(self.init, dict) else {}

    def _check_names(self) -> None:
        for name in self._initial_values:
            if name not in self._parameter_names:
                raise ValueError(
                    f"The 'init' parameter of {type(self).__name__} must hold names among {self._parameter_names}. "
                    f"Got {name!r} instead."
                )

    def _given_components(self, shape: tuple[int, int]) -> np.ndarray | None:
        given = self._initial_values.get("components")
        return None if given is None else self._check_components(given, shape, "init['components']")

    def _check_range(self, X, reset, start=0):
        way_out = "Counts are not negative: shift or clip the data, or use MCA with Gaussian noise."
        refuse_negative(X, "X", type(self).__name__, way_out, start)

    def _check_components(self, components, shape, name: str) -> np.ndarray:
        components = check_components(components, shape, name)
        refuse_negative(components, name, type(self).__name__, "They are intensities: clip them.")
        return components

    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> Any:
        match name:
            case "components":
                return self._check_components(value, shape, label)
            case "activation":
                return self._check_activation(value, shape[0], label)
        check_number(label, value, least=0.0)
        return value

    def _table_bytes(self) -> int:
        n_states = count_subsets(self._n_features_out, self._max_active)
        return max(super()._table_bytes(), 16 * n_states * max(self._n_features_out, int(self.n_features_in_)))

    def _check_activation(self, activation, n_components: int, name: str) -> np.ndarray:
        return check_activation(activation, n_components, name)

    def _params(self) -> Any:
        params = super()._params()
        return params._replace(components=np.maximum(params.components, SMALLEST_MEAN))  # which single precision lacks

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
