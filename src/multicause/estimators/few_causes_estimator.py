"""What MCA3 and RestrictedMCA share: states of few causes, the same for all data, and cooling when fields rest."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from multicause._compat import StrOptions
from multicause.backends.numba_cpu.subset_tree import count_subsets
from multicause.estimators.component_estimator import ComponentEstimator
from multicause.estimators.initial_values import check_activation, check_components, refuse_negative
from multicause.learning import Annealing, ConditionalCooling, Outcome, Plan, Stop
from multicause.learning.annealing import Schedule
from multicause.learning.restarts import merit_among_well_explained
from multicause.models.base import DataMoments
from multicause.models.few_maximal_causes import FewCausesParams
from multicause.models.maximal_causes import SMALLEST_FIELD
from multicause.posteriors.shared_states import SharedStates

MOST_STATES = 2**17  # beyond this the tables of all states outgrow memory
_SHARED = "n_components components_init max_iter n_init warm_start random_state n_jobs chunk_size trace verbose"


@dataclass(frozen=True)
class FewStates:
    """All states of at most `max_active` of the causes."""

    max_active: int

    @classmethod
    def resolve(cls, who: str, n_components: int, max_active: int) -> "FewStates":
        """Refuse more states than can be tabulated."""
        n_states = count_subsets(n_components, max_active)
        if n_states > MOST_STATES:
            raise ValueError(
                f"n_components={n_components} of {who} means {n_states:,} states of at most {max_active} causes; "
                f"at most {MOST_STATES:,} can be tabulated. Lower n_components, or use MCA, which preselects causes."
            )
        return cls(max_active)

    def posterior(self, monotone: bool, selection: None = None) -> SharedStates:
        return SharedStates(self.max_active)


class FewCausesEstimator(ComponentEstimator):
    """Base of MCA3 and RestrictedMCA, which differ in the model they build."""

    _parameter_constraints: dict = {
        **{name: ComponentEstimator._parameter_constraints[name] for name in _SHARED.split()},
        "cooling": [ConditionalCooling, Annealing, StrOptions({"auto"}), None],
    }
    _max_active = 1
    components_: np.ndarray
    monotone = False  # all points share all states: there is no selection to go back on
    selection = None  # nor one to learn
    tol = 0.0  # the schedule ends the fit: the free energy of a fixed-point M-step may fall

    @classmethod
    def from_parameters(cls, *, components, activation, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The generative fields, non-negative.
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
        estimator._truncation(len(components))
        fields = estimator._check_components(components, components.shape, "components")
        params = FewCausesParams(fields, estimator._check_activation(activation, len(components), "activation"))
        estimator.n_features_in_ = components.shape[1]
        return estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)

    def _best_of_restarts(self, em, X) -> Outcome:
        outcome = super()._best_of_restarts(em, X)
        ran_out = outcome.n_iter == em.plan.n_steps and outcome.stop is Stop.SCHEDULE_ENDED
        if ran_out and isinstance(em.plan, ConditionalCooling):
            outcome = outcome._replace(stop=Stop.NOT_AT_REST)
            warnings.warn(f"{type(self).__name__}: {outcome.stop.value}.", ConvergenceWarning, stacklevel=4)
        return outcome

    def _merit(self, em, outcome) -> float:
        return merit_among_well_explained(em, outcome.params)

    def _plan(self, moments: DataMoments) -> Schedule:
        """The cooling asked for; None stays at temperature 1.

        There fields of equal brightness may trade places for ever, by a little: a larger change is rest.
        """
        if self.cooling is None:
            return ConditionalCooling(initial=1.0, final=1.0, hold=0, threshold=1e-2, n_steps=self.max_iter)
        if isinstance(self.cooling, Annealing):
            return Plan(self.max_iter, self.cooling)
        if isinstance(self.cooling, ConditionalCooling):
            return replace(self.cooling, n_steps=self.max_iter)
        return self._own_cooling(moments)

    def _own_cooling(self, moments: DataMoments) -> Schedule:
        """What cooling="auto" stands for."""
        raise NotImplementedError

    def _warm(self, em) -> FewCausesParams:
        """The last fit's parameters."""
        shape = (em.model.n_components, em.model.n_features)
        if self.components_.shape != shape:
            raise ValueError(
                f"warm_start=True goes on from components_ of shape {self.components_.shape}, but n_components and the "
                f"columns of X now ask for {shape}. Set warm_start=False to start anew."
            )
        return self._params()

    def _truncation(self, n_components):
        return FewStates.resolve(type(self).__name__, n_components, self._max_active)

    def _fitted_model(self):
        return self._model(*self.components_.shape)

    def _validate(self, X, reset):
        X = super()._validate(X, reset)
        way_out = "Counts are not negative: shift or clip the data, or use MCA with Gaussian noise."
        refuse_negative(X, "X", type(self).__name__, way_out)
        return X

    def _check_components(self, components, shape, name="components_init") -> np.ndarray:
        components = check_components(components, shape, name)
        refuse_negative(components, name, type(self).__name__, "Fields are intensities: clip them.")
        return components

    def _check_activation(self, activation, n_components: int, name="activation_init") -> np.ndarray:
        return check_activation(activation, n_components, name)

    def _params(self) -> FewCausesParams:
        components = np.maximum(self.components_.astype(np.float64), SMALLEST_FIELD)  # which single precision lacks
        return FewCausesParams(components, self.activation_)

    def _attributes(self, params, dtype) -> dict:
        return {"components_": params.components.astype(dtype), "activation_": params.activation}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
