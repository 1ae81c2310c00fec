"""Gaussian mixtures that look at a few clusters per data point."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from multicause._compat import Interval, StrOptions
from multicause.estimators.component_estimator import ComponentEstimator
from multicause.estimators.mixture_values import check_covariances, check_means, check_weights, invert
from multicause.estimators.truncation import Truncation
from multicause.learning import EM, Outcome, Stop
from multicause.learning.seeding import start_clusters
from multicause.models import GaussianMixture, GaussianMixtureParams

_SHARED = "selection monotone max_iter tol n_init warm_start random_state n_jobs chunk_size trace verbose"


class TruncatedGaussianMixture(ComponentEstimator):
    """Gaussian mixture in which each data point belongs to a few of the clusters only.

        p(y) = sum_c pi_c N(y; mu_c, Sigma_c)                                                    [GPS eq. 5.1]
        r_nc = pi_c N(y_n; mu_c, Sigma_c) / sum_c' pi_c' N(y_n; mu_c', Sigma_c')     for the candidates of y_n, else 0

    A data point's candidates are the C' clusters with the largest log pi_c + log N(y; mu_c, diag Sigma_c). If all
    clusters are candidates, a fit follows scikit-learn's `GaussianMixture` step by step, given the same start.

    Parameters
    ----------
    n_components : int, default=1
        Number of clusters C.
    covariance_type : {"full", "diag", "spherical"}, default="full"
        Shape of each Sigma_c: any covariance, one variance per feature, or one variance.
    n_candidates : int or None, default=None
        Candidates C' kept per data point; None keeps all clusters.
    selection : {"hand-derived"} or GPSelect, default="hand-derived"
        Who chooses the candidates: the densities of the clusters' diagonals, or a function that is learned along.
    monotone : bool, default=False
        Keep a training point's last candidates where they explain it better, so that the free energy never falls. New
        data have no last candidates: `score` can then be below the last free energy, also on the training data.
    tol : float, default=1e-3
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.
    reg_covar : float, default=1e-6
        Added to all variances.
    max_iter : int, default=100
        Most EM iterations.
    n_init : int, default=1
        Fits from different starts, of which the one with the largest free energy is kept.
    weights_init : array-like of shape (n_components,) or None, default=None
        Initial weights of the clusters. What is not given comes from k-means.
    means_init : array-like of shape (n_components, n_features) or None, default=None
        Initial means.
    precisions_init : array-like or None, default=None
        Initial inverse covariances, in the shape of `covariances_`.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
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
    weights_ : ndarray of shape (n_components,)
        The weights pi.
    means_ : ndarray of shape (n_components, n_features)
        The means mu, one row per cluster.
    covariances_ : ndarray
        The covariances Sigma, of shape (n_components, n_features, n_features) where covariance_type="full",
        (n_components, n_features) where "diag", (n_components,) where "spherical".
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
    J. A. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from multicause import TruncatedGaussianMixture
    >>> corners = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    >>> X = np.repeat(corners, 50, axis=0) + np.random.default_rng(0).normal(size=(200, 2))
    >>> mixture = TruncatedGaussianMixture(4, n_candidates=2, random_state=0).fit(X)
    >>> np.bincount(mixture.predict(X)).tolist()
    [50, 50, 50, 50]
    """

    _parameter_constraints: dict = {
        **{name: ComponentEstimator._parameter_constraints[name] for name in _SHARED.split()},
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"full", "diag", "spherical"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
    }
    annealing = None
    data_classification = False

    def __init__(
        self,
        n_components=1,
        *,
        covariance_type="full",
        n_candidates=None,
        selection="hand-derived",
        monotone=False,
        tol=1e-3,
        reg_covar=1e-6,
        max_iter=100,
        n_init=1,
        weights_init=None,
        means_init=None,
        precisions_init=None,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.n_candidates = n_candidates
        self.selection = selection
        self.monotone = monotone
        self.tol = tol
        self.reg_covar = reg_covar
        self.max_iter = max_iter
        self.n_init = n_init
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    @classmethod
    def from_parameters(cls, *, weights, means, covariances, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        weights : array-like of shape (n_components,)
            The weights of the clusters.
        means : array-like of shape (n_components, n_features)
            Their means.
        covariances : array-like
            Their covariances, in the shape that `covariance_type` asks for.
        **settings : dict
            Constructor arguments of the estimator.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        shape = np.shape(means)
        means = check_means(means, shape, "means")
        estimator = cls(n_components=len(means), **settings)
        estimator._validate_params()
        estimator._truncation(len(means))
        params = GaussianMixtureParams(
            check_weights(weights, len(means), "weights"),
            means,
            check_covariances(covariances, shape, estimator.covariance_type, "covariances"),
        )
        estimator.n_features_in_ = means.shape[1]
        return estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), means.dtype)

    def predict(self, X):
        """The most probable cluster of each data point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Numbers of clusters, from 0 on.
        """
        return self.predict_proba(X).argmax(axis=1)

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit, and give the most probable cluster of each data point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the data points.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Numbers of clusters, from 0 on.
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    @property
    def _n_features_out(self):
        return len(self.means_)

    def _validate(self, X, reset: bool) -> np.ndarray:
        X = super()._validate(X, reset)
        if reset and len(X) < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {len(X)}. Use fewer components."
            )
        return X

    def _truncation(self, n_components: int) -> Truncation:
        return Truncation.resolve(type(self).__name__, n_components, self.n_candidates, 1, False)

    def _model(self, n_components: int, n_features: int, moments=None) -> GaussianMixture:
        return GaussianMixture(n_components, n_features, self.covariance_type, float(self.reg_covar))

    def _fitted_model(self) -> GaussianMixture:
        return self._model(*self.means_.shape)

    def _initial(self, em: EM, rng: np.random.Generator) -> GaussianMixtureParams:
        given = self._given((em.model.n_components, em.chunks[0].X.shape[1]))
        if len(given) == len(GaussianMixtureParams._fields):
            return GaussianMixtureParams(**given)
        return start_clusters(em, rng)._replace(**given)

    def _given(self, shape: tuple[int, int]) -> dict[str, np.ndarray]:
        """The initial values that the user gave, checked."""
        given: dict[str, Any] = {}
        if self.weights_init is not None:
            given["weights"] = check_weights(self.weights_init, shape[0], "weights_init")
        if self.means_init is not None:
            given["means"] = check_means(self.means_init, shape, "means_init")
        if self.precisions_init is not None:
            kind = self.covariance_type
            precisions = check_covariances(self.precisions_init, shape, kind, "precisions_init")
            given["covariances"] = invert(precisions, kind)
        return given

    def _warm(self, em: EM) -> GaussianMixtureParams:
        """The last fit's parameters."""
        shape = (em.model.n_components, em.chunks[0].X.shape[1])
        n_axes = {"full": 3, "diag": 2, "spherical": 1}[self.covariance_type]
        if self.means_.shape != shape or self.covariances_.ndim != n_axes:
            raise ValueError(
                f"warm_start=True goes on from means_ of shape {self.means_.shape} and covariances_ of shape "
                f"{self.covariances_.shape}, but n_components, the columns of X and covariance_type="
                f"{self.covariance_type!r} now ask for others. Set warm_start=False to start anew."
            )
        return self._params()

    def _attributes(self, params: GaussianMixtureParams, dtype) -> dict:
        return {
            "weights_": params.weights,
            "means_": params.means.astype(dtype),
            "covariances_": params.covariances,
        }

    def _params(self) -> GaussianMixtureParams:
        return GaussianMixtureParams(self.weights_, self.means_.astype(np.float64), self.covariances_)
