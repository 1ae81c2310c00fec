"""Maximal causes analysis of causes that are alike: R-MCA2 in batches, R-MCA_NN pattern by pattern."""

from numbers import Integral, Real

import numpy as np

from multicause._compat import Interval, StrOptions
from multicause.estimators.component_estimator import _seed
from multicause.estimators.few_causes_estimator import FewCausesEstimator
from multicause.execution import InProcess, split
from multicause.learning import ConditionalCooling, Outcome, Stop
from multicause.learning.annealing import Schedule
from multicause.learning.moments import data_moments
from multicause.learning.online import HebbianRule, Online, default_presentations
from multicause.models.few_maximal_causes import (
    FewCausesParams,
    RestrictedCauses,
    expected_brightness,
    expected_field_sum,
)

SHAKE = 3e-4  # standard deviation of the noise on the fields while they cool, of a cause's brightness


class RestrictedMCA(FewCausesEstimator):
    """Maximal causes analysis of causes that are equally frequent and equally strong, with Poisson noise.

        s_h ~ Bernoulli(pi),   y_d ~ Poisson(max_h s_h W_hd),   sum_d W_hd = C                [MCA eq. 1-3, 19]

    Every state of at most two causes is weighed for every data point. Learning in batches is R-MCA2 (eq. 21, 22),
    learning pattern by pattern R-MCA_NN (eq. 25).

    Parameters
    ----------
    n_components : int or None, default=None
        Number of causes H; None takes the number of features.
    solver : {"batch", "online"}, default="batch"
        Annealed EM over all data, or one pattern after the other, drawn at random.
    activation : float or None, default=None
        The fixed activation probability pi of every cause; None lets two causes be active on average.
    field_sum : float or "auto", default="auto"
        The fixed sum C of every field. "auto" takes the sum that explains the data's mean and variance if causes of
        equal brightness are active two at a time on average: 50 for the standard bars of value 10.
    cooling : ConditionalCooling, Annealing, "auto" or None, default="auto"
        Temperatures of solver="batch". "auto" cools from 0.7 D + 1 to 1.5, a step at a time, whenever the fields have
        come to rest, and shakes them by 0.0003 of a cause's brightness, so that fields that became equal while hot can
        part again; None learns at temperature 1.
    temperature : float, default=16.0
        The constant temperature of solver="online".
    learning_rate : float, default=1.0
        Step of solver="online": the share of a pattern that is added to the field that explains it.
    weight_noise : float, default=0.02
        Standard deviation of the noise on the fields at each pattern of solver="online", in the units of the data.
    n_presentations : int or "auto", default="auto"
        Patterns presented by solver="online"; "auto" means a hundred per data point, from 10,000 to 200,000.
    components_init : array-like of shape (n_components, n_features) or None, default=None
        Initial generative fields, scaled to the sum C; None draws |N(1, 1/3)|.
    max_iter : int, default=1000
        Most EM iterations of solver="batch"; replaces the `n_steps` of a `ConditionalCooling`, and is what an
        `Annealing` stretches to.
    n_init : int, default=1
        Fits from different initial fields, of which the one with the largest free energy over the better-explained half
        of the data is kept: over all data, points of many causes would prefer fields that merge causes.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initialisation, order of patterns and noise.
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
        The activation probabilities, all equal.
    field_sum_ : float
        The sum C of every field.
    n_presentations_ : int
        Patterns presented one by one so far.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step, or after each of up to twenty blocks of presentations; the last
        value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations, or of blocks of presentations, done.
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
    >>> from multicause import RestrictedMCA
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=300, size=3, superposition="max", noise="poisson", random_state=0).X
    >>> RestrictedMCA(n_components=6, random_state=0).fit_transform(X).shape
    (300, 6)
    """

    _parameter_constraints: dict = {
        **FewCausesEstimator._parameter_constraints,
        "solver": [StrOptions({"batch", "online"})],
        "activation": [Interval(Real, 0, 1, closed="neither"), None],
        "field_sum": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "temperature": [Interval(Real, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_noise": [Interval(Real, 0, None, closed="left")],
        "n_presentations": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }
    _max_active = 2

    def __init__(
        self,
        n_components=None,
        *,
        solver="batch",
        activation=None,
        field_sum="auto",
        cooling="auto",
        temperature=16.0,
        learning_rate=1.0,
        weight_noise=0.02,
        n_presentations="auto",
        components_init=None,
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
        self.solver = solver
        self.activation = activation
        self.field_sum = field_sum
        self.cooling = cooling
        self.temperature = temperature
        self.learning_rate = learning_rate
        self.weight_noise = weight_noise
        self.n_presentations = n_presentations
        self.components_init = components_init
        self.max_iter = max_iter
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    def partial_fit(self, X, y=None):
        """Learn from the rows of X in their order, one pattern after the other, whatever the solver.

        The first call draws the fields; with field_sum="auto" it also fixes their sum, from its rows alone: give
        `field_sum` where the first rows are few. How rows are shared out among calls makes no difference after that.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One pattern or more.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator.
        """
        self._validate_params()
        first = not hasattr(self, "components_")
        X = self._validate(X, reset=first)
        if first:
            self._begin(X)
        elif not hasattr(self, "_generator"):
            self._generator = self._stream(self.n_presentations_)
        params = self._rule().present(self._fitted_model(), self._params(), X, self._generator)
        self.components_ = params.components.astype(self.components_.dtype)
        self.n_presentations_ += len(X)
        return self

    def _begin(self, X) -> None:
        """Initial fields, from what the first patterns tell."""
        n_components = X.shape[1] if self.n_components is None else self.n_components
        self._truncation(n_components)
        with InProcess() as executor:
            moments = data_moments(executor, split(X, n_components))
        self._generator = self._stream(0)
        model = self._model(n_components, X.shape[1], moments)
        params = self._first_params(model, moments, self._generator)
        self._keep(Outcome(params, np.array([]), 0, Stop.SCHEDULE_ENDED), X.dtype)

    def _stream(self, position: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(_seed(self.random_state), spawn_key=(position,)))

    def _model(self, n_components, n_features, moments=None):
        if moments is None:
            field_sum = self.field_sum_
        else:
            automatic = self.field_sum == "auto"
            field_sum = expected_field_sum(moments, n_components) if automatic else float(self.field_sum)
        return RestrictedCauses(n_components, n_features, field_sum=field_sum, activation=self.activation)

    def _own_cooling(self, moments) -> Schedule:
        noise = SHAKE * expected_brightness(moments)
        initial = 0.7 * self.n_features_in_ + 1.0
        return ConditionalCooling(initial, n_steps=self.max_iter, parameter_noise=noise)

    def _rule(self) -> HebbianRule:
        return HebbianRule(float(self.temperature), float(self.learning_rate), float(self.weight_noise))

    def _best_of_restarts(self, em, X) -> Outcome:
        self.__dict__.pop("_generator", None)
        if self.solver == "batch":
            self.n_presentations_ = 0
            return super()._best_of_restarts(em, X)
        n = default_presentations(len(X)) if self.n_presentations == "auto" else self.n_presentations
        online = Online(em.model, em.posterior, self._rule(), n, em.executor, em.chunks, em.moments)
        outcome = super()._best_of_restarts(online, X)
        self.n_presentations_ = n * outcome.n_iter // online.plan.n_steps
        return outcome

    def _initial(self, em, rng) -> FewCausesParams:
        return self._first_params(em.model, em.moments, rng)

    def _first_params(self, model, moments, rng) -> FewCausesParams:
        drawn = model.init_params(moments, rng)
        if self.components_init is None:
            return drawn
        given = self._check_components(self.components_init, drawn.components.shape)
        return drawn._replace(components=model.normalise(given))

    def _check_activation(self, activation, n_components, name="activation") -> np.ndarray:
        activations = super()._check_activation(activation, n_components, name)
        if not (activations == activations[0]).all():
            raise ValueError(
                f"The '{name}' of RestrictedMCA must be one probability for all causes. Got {activations} instead. "
                "Use MCA3 for causes of different frequency."
            )
        return activations

    def _attributes(self, params, dtype) -> dict:
        return {
            **super()._attributes(params, dtype),
            "field_sum_": float(params.components.sum(axis=1).mean()),
            "n_presentations_": getattr(self, "n_presentations_", 0),
        }
