"""Gaussian mixtures that look at a few clusters per data point."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from multicause._compat import StrOptions
from multicause.backends import cuda
from multicause.estimators.base import COUNT, NOT_NEGATIVE, POSITIVE
from multicause.estimators.documentation import documented
from multicause.estimators.em_estimator import Fit
from multicause.estimators.information import InformationCriteria, count_symmetric
from multicause.estimators.parameter_checks import check_covariances, check_means, check_weights, invert
from multicause.estimators.streaming import StreamingEstimator
from multicause.estimators.truncation import Truncation
from multicause.learning import EM, Outcome, Plan, Stop
from multicause.learning.initialisation.clusters import best_clusters, start_clusters
from multicause.models import DataMoments, FactorMixture, GaussianMixture, GaussianMixtureParams
from multicause.models.factor_mixture import eigen_solver
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.device_steps.base import LANES
from multicause.selection import GPSelect

_RELATIVE_REG_COVAR = 1e-6  # of the data's mean variance
_N_NEAR = 8  # neighbours of a cluster, itself among them
_ROWS_PER_CLUSTER = 10  # that k-means sees where candidates are sought among neighbours

STARTS = 4  # of k-means, of which the one with the largest free energy is learned on from


@documented
@dataclass(eq=False, repr=False)
class TruncatedGaussianMixture(InformationCriteria, StreamingEstimator):
    """Gaussian mixture in which each data point is shared by a few of the clusters only.

        p(y) = sum_c pi_c N(y; mu_c, Sigma_c)                                                    [GPS eq. 5.1]
        r_nc = pi_c N(y_n; mu_c, Sigma_c) / sum_c' pi_c' N(y_n; mu_c', Sigma_c')     for the candidates of y_n, else 0

    A data point's candidates are the C' clusters with the largest log pi_c + log N(y; mu_c, diag Sigma_c). If all
    clusters are candidates, a fit follows scikit-learn's `GaussianMixture` step by step, given the same start.

    Parameters
    ----------
    n_components : int, default=1
        Number of clusters C.
    covariance_type : {"full", "diag", "spherical", "factor"}, default="full"
        Shape of each Sigma_c: any covariance, one variance per feature, one variance, or a few directions plus
        isotropic noise (a mixture of probabilistic PCAs).
    n_factors : int or "auto", default="auto"
        With covariance_type="factor": most directions per cluster. "auto" keeps those whose variance exceeds what noise
        alone would reach in as many data points as the cluster has.
    noise : {"shared", "own"} or float, default="shared"
        With covariance_type="factor": one noise variance for all clusters, one for each, or a known variance.
    n_candidates : int or None, default=None
        Candidates C' kept per data point; None keeps all clusters.
    selection : {"model-based", "neighbours"} or GPSelect, default="model-based"
        How candidates are chosen: by the cluster densities with diagonal covariances (with covariance_type="factor",
        the densities themselves), or by a function that is learned jointly. "neighbours", for covariance_type="factor",
        evaluates only the neighbours of a data point's last candidates and starts from k-means on part of the data: the
        time per iteration then hardly grows with the number of clusters, of which there should be hundreds.
    monotone : bool, default=False
        Keep a training point's last candidates if they explain it better, and halve M-steps that overshoot, so that the
        free energy never falls. New data have no last candidates: `score` may then be lower than the last free energy,
        even on the training data. If the free energy falls, the parameters with the largest one are kept in any case.
    reg_covar : float or "auto", default="auto"
        Added to all variances. "auto" is a millionth of the data's mean variance, so that the unit of the data does not
        matter.
    weights_init : array-like of shape (n_components,) or None, default=None
        Initial weights of the clusters. Initial values that are not given come from k-means.
    means_init : array-like of shape (n_components, n_features) or None, default=None
        Initial means.
    precisions_init : array-like or None, default=None
        Initial inverse covariances, in the shape of `covariances_`.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        The weights pi.
    means_ : ndarray of shape (n_components, n_features)
        The means mu, one row per cluster.
    covariances_ : ndarray
        The covariances Sigma, of shape (n_components, n_features, n_features) if covariance_type is "full" or "factor",
        (n_components, n_features) if "diag", (n_components,) if "spherical". With "factor", the noise is the smallest
        eigenvalue of each.

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

    n_components: Any = 1
    _: KW_ONLY
    covariance_type: Any = "full"
    n_factors: Any = "auto"
    noise: Any = "shared"
    n_candidates: Any = None
    monotone: Any = False
    reg_covar: Any = "auto"
    max_iter: Any = 100
    weights_init: Any = None
    means_init: Any = None
    precisions_init: Any = None

    _parameter_constraints = {
        **StreamingEstimator._parameter_constraints,
        "n_components": [COUNT],
        "covariance_type": [StrOptions({"full", "diag", "spherical", "factor"})],
        "n_factors": [StrOptions({"auto"}), COUNT],
        "noise": [StrOptions({"shared", "own"}), POSITIVE],
        "n_candidates": [COUNT, None],
        "selection": [StrOptions({"model-based", "neighbours"}), GPSelect],
        "monotone": ["boolean"],
        "reg_covar": [NOT_NEGATIVE, StrOptions({"auto"})],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
    }

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
        estimator._posterior(len(means))
        params = GaussianMixtureParams(
            check_weights(weights, len(means), "weights"),
            means,
            check_covariances(covariances, shape, estimator._written_as, "covariances"),
        )
        estimator.n_features_in_ = means.shape[1]
        estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), means.dtype)
        return estimator

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

    def reconstruct_with_variance(self, X):
        """The data without noise, and how certain each number is; for covariance_type="factor".

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            Posterior means of the noiseless data, as `reconstruct` gives them.
        variances : ndarray of shape (n_samples, n_features)
            Posterior variances of the same.
        """
        if self.covariance_type != "factor":
            raise ValueError(
                "reconstruct_with_variance needs clusters whose noise is told from their shape, "
                f"covariance_type='factor'. Got {self.covariance_type!r}: use reconstruct."
            )
        both = self._ask(X, lambda posterior, chunk: posterior.clean(chunk))
        return both[:, 0], both[:, 1]

    @property
    def _written_as(self) -> Any:
        """The covariance type whose shape the covariances have."""
        return "full" if self.covariance_type == "factor" else self.covariance_type

    @property
    def _n_features_out(self):
        return len(self.means_)

    @property
    def _params_type(self):
        return GaussianMixtureParams

    def _validate(self, X, reset: bool) -> Any:
        X = super()._validate(X, reset)
        if reset and len(X) < self.n_components:
            raise ValueError(
                f"Expected n_samples >= n_components but got n_components = {self.n_components}, "
                f"n_samples = {len(X)}. Use fewer components."
            )
        return X

    def _without_kernel(self) -> str | None:
        return "selection='neighbours'" if self.selection == "neighbours" else super()._without_kernel()

    def _has_kernel_for(self, n_candidates: int, n_components: int) -> bool:
        return n_candidates <= LANES or n_candidates == n_components

    def _beside_device(self):
        return eigen_solver(cuda.runtime().eigh) if self.covariance_type == "factor" else None

    @property
    def _given_start(self) -> str:
        names = ("weights_init", "means_init", "precisions_init")
        return ", ".join(name for name in names if getattr(self, name) is not None)

    def _count_components(self, n_features: int) -> int:
        return int(self.n_components)

    def _n_free_parameters(self) -> int:
        """The weights sum to 1."""
        return self.means_.size + sum(map(count_symmetric, self.covariances_)) + len(self.weights_) - 1

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        automatic = _RELATIVE_REG_COVAR * float(moments.variance.mean())
        model = self._build(n_components, len(moments.mean), automatic if automatic > 0.0 else _RELATIVE_REG_COVAR)
        posterior, monotone = self._posterior(n_components), bool(self.monotone)
        return Fit(model, posterior, Plan(self.max_iter), self._start, self.tol, monotone=monotone)

    def _posterior(self, n_components: int) -> TruncatedPosterior:
        one = Truncation.resolve(type(self).__name__, n_components, self.n_candidates, 1, False)
        posterior = one.posterior(bool(self.monotone), self._learned_selection())
        if self.selection != "neighbours" or one.n_candidates == n_components:
            return posterior
        if self.covariance_type != "factor":
            raise ValueError(
                "selection='neighbours' needs clusters of few directions, covariance_type='factor'. Got "
                f"{self.covariance_type!r}: use selection='model-based'."
            )
        return replace(posterior, n_near=min(max(_N_NEAR, 2 * one.n_candidates), n_components))

    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> np.ndarray:
        match name:
            case "weights":
                return check_weights(value, shape[0], label)
            case "means":
                return check_means(value, shape, label)
        return check_covariances(value, shape, self._written_as, label)

    def _build(self, n_components: int, n_features: int, automatic: float = 0.0) -> GaussianMixture:
        reg_covar = automatic if self.reg_covar == "auto" else float(self.reg_covar)
        if self.covariance_type == "factor":
            form = {"n_factors": self.n_factors, "noise": self.noise}
            return FactorMixture(n_components, n_features, reg_covar=reg_covar, **form)
        return GaussianMixture(n_components, n_features, self.covariance_type, reg_covar)

    def _fitted_model(self) -> GaussianMixture:
        return self._build(*self.means_.shape)

    def _start(self, em: EM, rng: np.random.Generator) -> GaussianMixtureParams:
        given = self._given((em.model.n_components, em.model.n_features))
        if len(given) == len(GaussianMixtureParams._fields):
            return GaussianMixtureParams(**given)
        if self.selection == "neighbours":
            return start_clusters(em, rng, _ROWS_PER_CLUSTER)._replace(**given)
        return best_clusters(em, rng, 1 if self.covariance_type == "factor" else STARTS)._replace(**given)

    def _given(self, shape: tuple[int, int]) -> dict[str, np.ndarray]:
        """The initial values that the user gave, checked."""
        given: dict[str, Any] = {}
        if self.weights_init is not None:
            given["weights"] = check_weights(self.weights_init, shape[0], "weights_init")
        if self.means_init is not None:
            given["means"] = check_means(self.means_init, shape, "means_init")
        if self.precisions_init is not None:
            kind = self._written_as
            precisions = check_covariances(self.precisions_init, shape, kind, "precisions_init")
            given["covariances"] = invert(precisions, kind)
        return given
