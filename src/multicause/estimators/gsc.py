"""Spike-and-slab sparse coding."""

from numbers import Real
from typing import Any

import numpy as np

from multicause._compat import Interval, StrOptions
from multicause.estimators.field_estimator import FieldEstimator
from multicause.estimators.initial_values import (
    check_activation,
    check_components,
    check_covariance,
    check_slab_mean,
    given_slab,
)
from multicause.estimators.truncation import Truncation
from multicause.learning import Outcome, Stop
from multicause.models import SpikeSlabLinear, SpikeSlabParams
from multicause.posteriors import FactoredPosterior
from multicause.selection import GPSelect


class GSC(FieldEstimator):
    """Spike-and-slab sparse coding: causes that are on or off, each with a strength of its own.

        s_h ~ Bernoulli(pi_h),   z ~ N(mu, Psi),   y ~ N(sum_h s_h z_h W_h, Sigma)          [GSC eq. 1-3]

    Entries of X that are NaN are missing: they take no part in the likelihood, and `reconstruct` fills them in.
    (Except where both posterior="factored" and noise="full".)

    Parameters
    ----------
    n_components : int or None, default=None
        Number of causes H; None takes the number of features.
    n_candidates : int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer), or six that are pursued; None
        keeps all.
    max_active : int or "auto", default="auto"
        Most causes gamma that are active at once. "auto" allows five, or all of them when H is at most ten.
    posterior : {"truncated", "exact", "factored"}, default="truncated"
        Exact among the candidates; over all 2^H states; or a product over the causes (mean field), which is fast but
        blind to explaining away.
    selection : {"hand-derived", "pursuit"} or GPSelect, default="hand-derived"
        Who chooses the candidates: the model's own selection function, which judges each cause by itself; a pursuit,
        which takes one cause after the other, each beside those before it; or a function that is learned along.
    singletons : bool, default=True
        Also consider every cause on its own, candidate or not.
    noise : {"isotropic", "diagonal", "full"}, default="isotropic"
        Sigma: one variance, one per feature, or any covariance.
    slab : {"diagonal", "full"}, default="diagonal"
        Psi: independent or correlated strengths.
    activation_type : {"individual", "shared"}, default="individual"
        One activation probability per cause, or one for all.
    fixed : tuple of parameter names, default=()
        Parameters held at their initial values, which must then be given: "components", "activation", "slab_mean",
        "slab_covariance", "noise_variance".
    components_init : array-like of shape (n_components, n_features) or None, default=None
        Initial generative fields; None draws them from the data's mean and variance.
    activation_init : float, array-like of shape (n_components,) or None, default=None
        Initial activation probabilities; None lets two causes be active on average.
    slab_mean_init : float, array-like of shape (n_components,) or None, default=None
        Initial means of the strengths; None draws them from N(0, 1).
    slab_covariance_init : float, array-like of shape (n_components,) or (n_components, n_components), or None, \
default=None
        Initial variances of the strengths, or their covariance; None takes ones.
    noise_variance_init : float, array-like of shape (n_features,) or (n_features, n_features), or None, default=None
        Initial noise variance or covariance; None takes the data's variances.
    annealing : Annealing or None, default=None
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`.
    data_classification : bool or DataClassification, default=False
        Learn, in the last third of the iterations, only from points that at most `max_active` causes explain.
    monotone : bool, default=False
        Keep a training point's last candidates where they explain it better, so that the free energy never falls. New
        data have no last candidates: `score` can then be below the last free energy, also on the training data.
    max_iter : int, default=200
        Most EM iterations; exactly as many for an annealed fit.
    tol : float, default=1e-3
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.
    n_init : int, default=1
        Fits from different initial fields, of which the one with the largest free energy is kept.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initialisation and annealing noise.
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
    slab_mean_ : ndarray of shape (n_components,)
        The means mu of the strengths.
    slab_covariance_ : ndarray of shape (n_components,) or (n_components, n_components)
        The variances of the strengths, or their covariance Psi where slab="full".
    noise_variance_ : float or ndarray of shape (n_features,)
        The noise variance; the diagonal of Sigma where noise="full".
    noise_covariance_ : ndarray of shape (n_features, n_features)
        Sigma, only where noise="full".
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step; the last value belongs to the learned parameters.
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
    A.-S. Sheikh, J. A. Shelton, J. Lücke. A Truncated EM Approach for Spike-and-Slab Sparse Coding. JMLR 15, 2014.

    Examples
    --------
    >>> from multicause import GSC
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=400, size=4, random_state=0).X
    >>> gsc = GSC(n_components=8, random_state=0).fit(X)
    >>> gsc.transform(X).shape
    (400, 8)
    """

    _parameter_constraints: dict = {
        **FieldEstimator._parameter_constraints,
        "posterior": [StrOptions({"truncated", "exact", "factored"})],
        "selection": [StrOptions({"hand-derived", "pursuit"}), GPSelect],
        "noise": [StrOptions({"isotropic", "diagonal", "full"})],
        "slab": [StrOptions({"diagonal", "full"})],
        "slab_mean_init": ["array-like", Real, None],
        "slab_covariance_init": ["array-like", Interval(Real, 0, None, closed="neither"), None],
        "noise_variance_init": ["array-like", Interval(Real, 0, None, closed="neither"), None],
    }

    _parameters = SpikeSlabParams._fields

    def __init__(
        self,
        n_components=None,
        *,
        n_candidates="auto",
        max_active="auto",
        posterior="truncated",
        selection="hand-derived",
        singletons=True,
        noise="isotropic",
        slab="diagonal",
        activation_type="individual",
        fixed=(),
        components_init=None,
        activation_init=None,
        slab_mean_init=None,
        slab_covariance_init=None,
        noise_variance_init=None,
        annealing=None,
        data_classification=False,
        monotone=False,
        max_iter=200,
        tol=1e-3,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.n_candidates = n_candidates
        self.max_active = max_active
        self.posterior = posterior
        self.selection = selection
        self.singletons = singletons
        self.noise = noise
        self.slab = slab
        self.activation_type = activation_type
        self.fixed = fixed
        self.components_init = components_init
        self.activation_init = activation_init
        self.slab_mean_init = slab_mean_init
        self.slab_covariance_init = slab_covariance_init
        self.noise_variance_init = noise_variance_init
        self.annealing = annealing
        self.data_classification = data_classification
        self.monotone = monotone
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
    def from_parameters(cls, *, components, activation, noise_variance, slab_mean=0.0, slab_covariance=1.0, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The generative fields.
        activation : float or array-like of shape (n_components,)
            The activation probabilities.
        noise_variance : float, array-like of shape (n_features,) or (n_features, n_features)
            The noise variance or covariance, in the shape that `noise` asks for.
        slab_mean : float or array-like of shape (n_components,)
            The means of the strengths.
        slab_covariance : float, array-like of shape (n_components,) or (n_components, n_components)
            The variances of the strengths, or their covariance, in the shape that `slab` asks for.
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
            check_components(components, shape, "components"),
            check_activation(activation, shape[0], "activation"),
            check_slab_mean(slab_mean, shape[0], "slab_mean"),
            check_covariance(slab_covariance, shape[0], estimator.slab, "slab_covariance"),
            check_covariance(noise_variance, shape[1], estimator.noise, "noise_variance"),
        )
        return estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)

    def transform(self, X):
        """Posterior means <s*z> of the causes' strengths.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data; NaN entries are missing.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            The expected strength of each cause, given the data point.
        """
        return self._collect("codes", X)

    @property
    def _allows_missing(self) -> bool:
        return self.posterior != "factored" or self.noise != "full"

    def _model(self, n_components, n_features, moments=None):
        settings = self._model_settings(n_components, moments)
        return SpikeSlabLinear(n_components, n_features, noise=self.noise, slab=self.slab, **settings)

    def _truncation(self, n_components: int) -> Truncation:
        who, everything = type(self).__name__, self.posterior == "exact"
        n_candidates, max_active = (None, "auto") if everything else (self.n_candidates, self.max_active)
        pursuit = self.selection == "pursuit"
        return Truncation.resolve(who, n_components, n_candidates, max_active, bool(self.singletons), pursuit)

    def _posterior(self, n_components: int, monotone: bool):
        if self.posterior != "factored":
            return super()._posterior(n_components, monotone)
        for what, wanted in (("slab='full'", self.slab == "full"), ("annealing", self.annealing is not None),
                             ("a selection", self.selection != "hand-derived"),
                             ("data_classification", bool(self.data_classification))):  # fmt: skip
            if wanted:
                raise ValueError(
                    f"GSC(posterior='factored') treats every cause on its own and has no place for {what}. "
                    "Use posterior='truncated'."
                )
        return FactoredPosterior()

    def _given(self, shape: tuple[int, int]) -> dict:
        return {**super()._given(shape), **given_slab(self, shape[0], self.slab)}

    def _check_noise(self, noise_variance, n_features: int, name: str):
        return check_covariance(noise_variance, n_features, self.noise, name)

    def _attributes(self, params: SpikeSlabParams, dtype) -> dict:
        noise = params.noise_variance
        full = {"noise_covariance_": noise, "noise_variance_": np.diag(noise)} if self.noise == "full" else {}
        return {
            "components_": params.components.astype(dtype),
            "activation_": params.activation,
            "slab_mean_": params.slab_mean,
            "slab_covariance_": params.slab_covariance,
            "noise_variance_": noise,
            **full,
        }

    def _params(self) -> SpikeSlabParams:
        noise: Any = self.noise_covariance_ if self.noise == "full" else self.noise_variance_
        components = self.components_.astype(np.float64)
        return SpikeSlabParams(components, self.activation_, self.slab_mean_, self.slab_covariance_, noise)
