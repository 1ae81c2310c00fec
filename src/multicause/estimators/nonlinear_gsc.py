"""Nonlinear spike-and-slab sparse coding."""

from numbers import Integral, Real

import numpy as np

from multicause._compat import Interval, StrOptions
from multicause.estimators.field_estimator import FieldEstimator
from multicause.estimators.initial_values import (
    check_activation,
    check_covariance,
    check_noise_variance,
    check_slab_mean,
    given_slab,
    refuse_negative,
)
from multicause.estimators.truncation import Truncation
from multicause.learning import Annealing, Outcome, Plan, Stop
from multicause.models import SpikeSlabMax, SpikeSlabParams
from multicause.posteriors import GibbsPosterior

COOLING = Annealing(initial=3.0, hold=0.0, settle=0.4)
_NOT_OURS = {"max_active", "singletons", "data_classification", "monotone"}


class NonlinearGSC(FieldEstimator):
    """Nonlinear spike-and-slab sparse coding: causes of varying strength, of which the strongest wins in each feature.

        s_h ~ Bernoulli(pi_h),   z_h ~ N(mu_h, psi_h),   y ~ N(max(0, max_h s_h z_h W_h), sigma^2 I),   W >= 0
                                                                                          [GPS §5.1, model C]

    The expectations of its E-step are taken by Gibbs sampling among the candidates of each data point; each strength
    is drawn from its exact conditional distribution, which is Gaussian on each of up to D + 1 pieces. The random
    numbers of a data point follow from its values: answers do not depend on the data beside it, nor on `random_state`.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of causes H; None takes the number of features.
    n_candidates : int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer); None keeps all.
    selection : {"hand-derived"} or GPSelect, default="hand-derived"
        Who chooses the candidates: the model's own selection function, or one that is learned along.
    n_sweeps : int, default=10
        Gibbs sweeps over the candidates from which expectations are taken.
    n_burn_in : int, default=10
        Gibbs sweeps before them, from all causes off, while the weight of the data grows.
    activation_type : {"individual", "shared"}, default="individual"
        One activation probability per cause, or one for all.
    fixed : tuple of parameter names, default=()
        Parameters held at their initial values, which must then be given: "components", "activation", "slab_mean",
        "slab_covariance", "noise_variance".
    components_init : array-like of shape (n_components, n_features) or None, default=None
        Initial generative fields, non-negative; None draws them from the data's mean and variance.
    activation_init : float, array-like of shape (n_components,) or None, default=None
        Initial activation probabilities; None lets two causes be active on average.
    slab_mean_init : float, array-like of shape (n_components,) or None, default=None
        Initial means of the strengths; None takes ones.
    slab_covariance_init : float, array-like of shape (n_components,) or None, default=None
        Initial variances of the strengths; None takes 1/4.
    noise_variance_init : float or None, default=None
        Initial noise variance; None takes the data's variance.
    annealing : Annealing, "auto" or None, default="auto"
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`. The likelihood alone is taken to
        the power of the inverse temperature. "auto" is Annealing(3.0, hold=0.0, settle=0.4), but None for a fit that
        starts from given fields (`components_init`, `warm_start`). On bars, two fits in five without it merge causes.
    max_iter : int, default=40
        Most EM iterations; exactly as many for an annealed fit.
    tol : float, default=1e-3
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.
    n_init : int, default=1
        Fits from different initial fields, of which the one with the largest free energy is kept. Worth its time where
        strengths vary widely (a standard deviation of half their mean).
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initialisation and annealing noise.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    chunk_size : int or None, default=256
        Rows processed at once, rounded up to a multiple of 256; None picks a few megabytes' worth. Rows take long to
        sample: small chunks keep all threads busy.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per iteration.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The generative fields W, one row per cause. Only the product of a field and its strengths is determined.
    activation_ : ndarray of shape (n_components,)
        The activation probabilities pi.
    slab_mean_ : ndarray of shape (n_components,)
        The means mu of the strengths.
    slab_covariance_ : ndarray of shape (n_components,)
        The variances psi of the strengths.
    noise_variance_ : float
        The noise variance sigma^2.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean estimated log-likelihood at each E-step; the last value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations done.
    stop_ : Stop
        Why the fit ended.
    affinity_ : Affinity
        The selection function that was learned, where `selection` is a GPSelect.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.

    References
    ----------
    J. A. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> from multicause import NonlinearGSC
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=200, size=3, superposition="max", noise=1.0, random_state=0).X
    >>> nonlinear = NonlinearGSC(n_components=6, max_iter=10, random_state=0).fit(X)
    >>> nonlinear.transform(X).shape
    (200, 6)
    """

    _parameter_constraints: dict = {
        **{name: rule for name, rule in FieldEstimator._parameter_constraints.items() if name not in _NOT_OURS},
        "annealing": [Annealing, StrOptions({"auto"}), None],
        "n_sweeps": [Interval(Integral, 1, None, closed="left")],
        "n_burn_in": [Interval(Integral, 0, None, closed="left")],
        "slab_mean_init": ["array-like", Real, None],
        "slab_covariance_init": ["array-like", Interval(Real, 0, None, closed="neither"), None],
    }

    _parameters = SpikeSlabParams._fields
    monotone = False  # samples cannot tell which of two selections has the larger free energy to the last digit
    data_classification = False  # any number of candidates may be active

    def __init__(
        self,
        n_components=None,
        *,
        n_candidates="auto",
        selection="hand-derived",
        n_sweeps=10,
        n_burn_in=10,
        activation_type="individual",
        fixed=(),
        components_init=None,
        activation_init=None,
        slab_mean_init=None,
        slab_covariance_init=None,
        noise_variance_init=None,
        annealing="auto",
        max_iter=40,
        tol=1e-3,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=256,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.n_candidates = n_candidates
        self.selection = selection
        self.n_sweeps = n_sweeps
        self.n_burn_in = n_burn_in
        self.activation_type = activation_type
        self.fixed = fixed
        self.components_init = components_init
        self.activation_init = activation_init
        self.slab_mean_init = slab_mean_init
        self.slab_covariance_init = slab_covariance_init
        self.noise_variance_init = noise_variance_init
        self.annealing = annealing
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    @classmethod
    def from_parameters(
        cls, *, components, activation, noise_variance, slab_mean=1.0, slab_covariance=0.25, **settings
    ):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The generative fields, non-negative.
        activation : float or array-like of shape (n_components,)
            The activation probabilities.
        noise_variance : float
            The noise variance.
        slab_mean : float or array-like of shape (n_components,)
            The means of the strengths.
        slab_covariance : float or array-like of shape (n_components,)
            The variances of the strengths.
        **settings : dict
            Constructor arguments of the estimator.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        estimator, components = cls._for_components(components, settings)
        shape = components.shape
        params = SpikeSlabParams(
            estimator._check_components(components, shape, "components"),
            check_activation(activation, shape[0], "activation"),
            check_slab_mean(slab_mean, shape[0], "slab_mean"),
            check_covariance(slab_covariance, shape[0], "diagonal", "slab_covariance"),
            check_noise_variance(noise_variance, "noise_variance"),
        )
        return estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)

    def transform(self, X):
        """Posterior means <s*z> of the causes' strengths.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            The expected strength of each cause, given the data point.
        """
        return self._collect("codes", X)

    def log_joint(self, X, S):
        """log p(s, z, y) of given strengths.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        S : array-like of shape (n_states, n_components)
            Strengths s*z: 0 where a cause is off.

        Returns
        -------
        log_joint : ndarray of shape (n_samples, n_states)
            For each data point the log joint density of each row of S, in nats.
        """
        return super().log_joint(X, S)

    def _model(self, n_components, n_features, moments=None):
        return SpikeSlabMax(n_components, n_features, **self._model_settings(n_components, moments))

    def _plan(self, moments) -> Plan:
        given = self.components_init is not None or (self.warm_start and hasattr(self, "components_"))
        if self.annealing == "auto":
            return Plan(self.max_iter, None if given else COOLING)
        return Plan(self.max_iter, self.annealing)

    def _posterior(self, n_components: int, monotone: bool) -> GibbsPosterior:
        one = Truncation.resolve(type(self).__name__, n_components, self.n_candidates, 1, False)
        selection = self._learned_selection()
        return GibbsPosterior(one.n_candidates, self.n_sweeps, self.n_burn_in, selection=selection)

    def _given(self, shape: tuple[int, int]) -> dict:
        return {**super()._given(shape), **given_slab(self, shape[0], "diagonal")}

    def _check_components(self, components, shape, name="components_init"):
        components = super()._check_components(components, shape, name)
        refuse_negative(components, name, type(self).__name__, "Fields are intensities: clip them.")
        return components

    def _attributes(self, params: SpikeSlabParams, dtype) -> dict:
        slab = {"slab_mean_": params.slab_mean, "slab_covariance_": params.slab_covariance}
        return {**super()._attributes(params, dtype), **slab}

    def _params(self) -> SpikeSlabParams:
        components = self.components_.astype(np.float64)
        return SpikeSlabParams(
            components, self.activation_, self.slab_mean_, self.slab_covariance_, self.noise_variance_
        )
