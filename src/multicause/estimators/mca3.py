"""Maximal causes analysis with all states of at most three causes."""

from numbers import Real

import numpy as np

from multicause._compat import Interval, StrOptions
from multicause.estimators.few_causes_estimator import FewCausesEstimator
from multicause.learning import Annealing, ConditionalCooling, Plan
from multicause.learning.annealing import Schedule
from multicause.learning.online import HebbianRule, Online, default_presentations
from multicause.models.few_maximal_causes import (
    FewCausesParams,
    RestrictedCauses,
    ThirdOrderCauses,
    expected_brightness,
    expected_field_sum,
)
from multicause.models.maximal_causes import SMALLEST_FIELD
from multicause.posteriors.shared_states import SharedStates

FINAL = 1.5  # temperature
SHAKE = 0.18  # standard deviation of the noise on the fields while they cool, of a cause's brightness
MOST_COOLED = 200  # iterations that it takes to cool


class MCA3(FewCausesEstimator):
    """Maximal causes analysis with Poisson noise, by a third-order truncation.

        s_h ~ Bernoulli(pi_h),   y_d ~ Poisson(max_h s_h W_hd)                                    [MCA eq. 1-3]

    Every state of at most three causes is weighed for every data point; the number of states grows with the cube of
    `n_components`.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of causes H; None takes the number of features.
    cooling : Annealing, ConditionalCooling, "auto" or None, default="auto"
        Temperatures of the fit. "auto" cools from 0.4 D + 1 to 1.5 in 200 iterations at most, and shakes the fields, by
        0.18 of a cause's brightness, until they settle: without it a fifth of the fits on bars ends in a local optimum.
        After init="online" it cools from 6 at most, a step at a time, whenever the fields have come to rest, which is
        the paper's way: `ConditionalCooling(0.4 * D + 1)`. None learns at temperature 1.
    activation_init : float, array-like of shape (n_components,) or None, default=None
        Initial activation probabilities; None lets one cause be active on average.
    components_init : array-like of shape (n_components, n_features) or None, default=None
        Initial generative fields. None draws |N(1, 1/3)|, scaled to twice the mean that a field should have if two
        causes of equal brightness are active on average: 4 for the standard bars of value 10.
    init : {"random", "online"}, default="random"
        Where fields come from if `components_init` is None: drawn at random, or learned first, one pattern after the
        other, by `RestrictedMCA(solver="online")`.
    max_iter : int, default=1000
        Most EM iterations; replaces the `n_steps` of a `ConditionalCooling`, and is what an `Annealing` stretches to.
    n_init : int, default=1
        Fits from different initial fields, of which the one with the largest free energy over the better-explained half
        of the data is kept: over all data, points of many causes would prefer fields that merge causes.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the initialisation.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    chunk_size : int or None, default=None
        Rows processed at once, rounded up to a multiple of 256; None picks a few megabytes' worth.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per iteration.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The generative fields W, one row per cause.
    activation_ : ndarray of shape (n_components,)
        The activation probabilities pi.
    alpha_ : float
        The factor on states of three causes in the update of `activation_`, which makes up for data of more causes.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step; the last value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations done.
    stop_ : Stop
        Why the fit ended.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.

    References
    ----------
    J. Lücke, M. Sahani. Maximal Causes for Non-linear Component Extraction. JMLR 9, 2008.

    Examples
    --------
    >>> from multicause import MCA3
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=300, size=3, superposition="max", noise="poisson", random_state=0).X
    >>> MCA3(n_components=6, random_state=0).fit_transform(X).shape
    (300, 6)
    """

    _parameter_constraints: dict = {
        **FewCausesEstimator._parameter_constraints,
        "activation_init": ["array-like", Interval(Real, 0, 1, closed="neither"), None],
        "init": [StrOptions({"random", "online"})],
    }
    _max_active = 3

    def __init__(
        self,
        n_components=None,
        *,
        cooling="auto",
        activation_init=None,
        components_init=None,
        init="random",
        max_iter=1000,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.cooling = cooling
        self.activation_init = activation_init
        self.components_init = components_init
        self.init = init
        self.max_iter = max_iter
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    def _model(self, n_components, n_features, moments=None):
        return ThirdOrderCauses(n_components, n_features)

    def _own_cooling(self, moments) -> Schedule:
        initial = max(0.4 * self.n_features_in_ + 1.0, FINAL)
        if self.init == "online":
            return ConditionalCooling(initial=min(initial, 6.0), final=FINAL, n_steps=self.max_iter)
        noise = SHAKE * expected_brightness(moments)
        return Plan(min(self.max_iter, MOST_COOLED), Annealing(initial, FINAL, parameter_noise=noise))

    def _initial(self, em, rng) -> FewCausesParams:
        drawn = em.model.init_params(em.moments, rng)
        if self.components_init is not None:
            given = self._check_components(self.components_init, drawn.components.shape)
            drawn = drawn._replace(components=np.maximum(given, SMALLEST_FIELD))
        elif self.init == "online":
            drawn = drawn._replace(components=self._learned_online(em, rng))
        if self.activation_init is not None:
            given = self._check_activation(self.activation_init, len(drawn.activation))
            drawn = drawn._replace(activation=given)
        return drawn

    def _learned_online(self, em, rng) -> np.ndarray:
        n_components, n_features = em.model.n_components, em.model.n_features
        field_sum = expected_field_sum(em.moments, n_components)
        network = RestrictedCauses(n_components, n_features, field_sum=field_sum)
        n_presentations = default_presentations(em.chunks[-1].stop)
        online = Online(network, SharedStates(2), HebbianRule(), n_presentations, em.executor, em.chunks, em.moments)
        *_, last = online.steps(network.init_params(em.moments, rng), rng)
        return last.params.components

    def _attributes(self, params, dtype) -> dict:
        return {**super()._attributes(params, dtype), "alpha_": float(params.alpha)}

    def _params(self) -> FewCausesParams:
        return super()._params()._replace(alpha=self.alpha_)
