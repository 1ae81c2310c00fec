"""A mixture of Gaussians, seen as latents with exactly one of them active."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.priors import OneOfPrior

CovarianceType = Literal["full", "diag", "spherical"]
_ALMOST_NOTHING = 10.0 * np.finfo(np.float64).eps  # of an average cluster's weight


class GaussianMixtureParams(NamedTuple):
    weights: np.ndarray  # (C,) pi
    means: np.ndarray  # (C, D) mu
    covariances: np.ndarray  # (C, D, D), (C, D) or (C,): Sigma, full, diag or spherical


class GaussianMixtureStatistics(NamedTuple):
    """Sums over the data of responsibilities r_nc and of d = y_n - mu_c, about the means that the E-step used.

    About the origin, a large mean would swallow the digits of a small covariance.
    """

    weight: float  # sum_n w_n
    r: np.ndarray  # (C,) sum_n r_nc
    rd: np.ndarray  # (C, D) sum_n r_nc d
    rdd: np.ndarray  # in the shape of the covariances: sum_n r_nc of d d^T, of its diagonal, or of its mean diagonal


@dataclass(frozen=True)
class GaussianMixture:
    """One cluster per data point, as a state s with a single one.

    p(s) = pi_c if s is the c-th unit vector, else 0,   y | s_c = 1 ~ N(mu_c, Sigma_c)              [GPS eq. 5.1]

    Parameters
    ----------
    n_components, n_features : int
        C and D.
    covariance_type : {"full", "diag", "spherical"}
        Each Sigma_c: any covariance, independent features, or one variance for all features.
    reg_covar : float
        Added to the variances that the M-step finds.
    """

    n_components: int
    n_features: int
    covariance_type: CovarianceType = "full"
    reg_covar: float = 1e-6
    prior: OneOfPrior = OneOfPrior()  # noqa: RUF009  (a frozen value)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> GaussianMixtureParams:
        """Equal clusters, each as wide as the data, about means drawn from the data's mean and variance."""
        drawn = rng.standard_normal((self.n_components, self.n_features))
        return self.equal_clusters(moments.mean + np.sqrt(moments.variance) * drawn, moments.variance)

    def equal_clusters(self, means: np.ndarray, variance: np.ndarray) -> GaussianMixtureParams:
        """Clusters of equal weights about given means, all with the same variances (D,)."""
        weights = np.full(self.n_components, 1.0 / self.n_components)
        covariance = self._regularised(self._shaped(variance))
        return GaussianMixtureParams(weights, means, np.stack([covariance] * self.n_components))

    def for_means(self) -> "GaussianMixture":
        """The mixture with as few sums as learn the means of equal clusters."""
        kind: CovarianceType = "spherical" if self.covariance_type == "spherical" else "diag"
        return GaussianMixture(self.n_components, self.n_features, kind, self.reg_covar)

    def sample(self, params: GaussianMixtureParams, n_samples: int, rng: np.random.Generator):
        states = self.prior.sample(params, n_samples, rng)
        noise = rng.standard_normal((n_samples, self.n_features))
        roots = np.linalg.cholesky(self.covariance_matrices(params))[states.argmax(axis=1)]
        return self.superpose(params, states) + np.einsum("nij,nj->ni", roots, noise), states

    def superpose(self, params: GaussianMixtureParams, states: np.ndarray) -> np.ndarray:
        """sum_c s_c mu_c: the mean of the cluster that a state names."""
        return states @ params.means

    def log_joint(self, params: GaussianMixtureParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s) + log N(y; mu_c, Sigma_c), (N, K); -inf unless s is the unit vector of a cluster c."""
        states = np.broadcast_to(states, (len(Y), *states.shape[-2:]))
        named = np.take_along_axis(self._log_densities(params, Y), states.argmax(axis=-1), axis=1)
        return self.prior.log_density(params, states) + named

    def _log_densities(self, params: GaussianMixtureParams, Y: np.ndarray) -> np.ndarray:
        """log N(y; mu_c, Sigma_c) of all clusters, (N, C)."""
        d = Y[:, None, :] - params.means  # (N, C, D)
        covariances = self.covariance_matrices(params)
        distance = np.einsum("ncd,ncd->nc", d, np.linalg.solve(covariances, d.transpose(1, 2, 0)).transpose(2, 0, 1))
        log_volume = np.linalg.slogdet(covariances).logabsdet + self.n_features * np.log(2.0 * np.pi)
        return -0.5 * (log_volume + distance)

    def selection_scores(self, params: GaussianMixtureParams, Y: np.ndarray) -> np.ndarray:
        """log pi_c + log N(y; mu_c, diag Sigma_c), up to a constant: the log joint, blind to correlations."""
        variances = self.variances(params)
        d = Y[:, None, :] - params.means  # (N, C, D)
        return np.log(params.weights) - 0.5 * (np.log(variances) + d**2 / variances).sum(axis=2)

    def accumulate(
        self, params: GaussianMixtureParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> GaussianMixtureStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        r = np.einsum("nk,nkc->nc", weights, np.broadcast_to(states, (*weights.shape, self.n_components)))
        d = Y[:, None, :] - params.means  # (N, C, D)
        if self.covariance_type == "full":
            rdd = np.einsum("nc,nci,ncj->cij", r, d, d, optimize=True)
        else:
            rdd = np.einsum("nc,ncd->cd", r, d**2)
        if self.covariance_type == "spherical":
            rdd = rdd.mean(axis=1)
        return GaussianMixtureStatistics(float(weights.sum()), r.sum(axis=0), np.einsum("nc,ncd->cd", r, d), rdd)

    def m_step(self, params: GaussianMixtureParams, statistics: GaussianMixtureStatistics) -> GaussianMixtureParams:
        """pi = sum_n r_n / N,   mu = sum_n r_n y_n / sum_n r_n,   Sigma = sum_n r_n (y_n - mu)(y_n - mu)^T / sum_n r_n.

        A cluster that next to nothing belongs to stays as it is, with a weight of next to nothing.
        """
        if statistics.weight <= 0.0:
            return params
        size, rdd = self._sizes(statistics), statistics.rdd
        moved = statistics.rd / size[:, None]  # mu - mu_old
        covariances = rdd / _along(rdd, size)
        covariances -= self._outer(moved)
        covariances = self._regularised(covariances)
        unused = ~self._used(statistics)
        covariances[unused] = params.covariances[unused]
        return GaussianMixtureParams(size / size.sum(), self.moved_means(params, statistics), covariances)

    def moved_means(self, params: GaussianMixtureParams, statistics: GaussianMixtureStatistics) -> np.ndarray:
        """The means that the M-step finds, (C, D)."""
        moved = statistics.rd / self._sizes(statistics)[:, None]
        return np.where(self._used(statistics)[:, None], params.means + moved, params.means)

    def _sizes(self, statistics: GaussianMixtureStatistics) -> np.ndarray:
        """How much belongs to each cluster, and next to nothing where nothing does, (C,)."""
        return np.maximum(statistics.r, _ALMOST_NOTHING * statistics.weight / self.n_components)

    def _used(self, statistics: GaussianMixtureStatistics) -> np.ndarray:
        """Which clusters more than next to nothing belongs to, (C,)."""
        return statistics.r > _ALMOST_NOTHING * statistics.weight / self.n_components

    def recentre(
        self, statistics: GaussianMixtureStatistics, before: GaussianMixtureParams, after: GaussianMixtureParams
    ) -> GaussianMixtureStatistics:
        """The sums about the means of `after`: d = y - mu grows by how far mu has moved back."""
        weight, r, rd, rdd = statistics
        back = before.means - after.means
        if self.covariance_type == "full":
            cross = rd[:, :, None] * back[:, None, :]
            crossed = cross + cross.transpose(0, 2, 1)
        else:
            crossed = 2.0 * rd * back
            crossed = crossed if self.covariance_type == "diag" else crossed.mean(axis=1)
        moved = rdd + crossed + _along(rdd, r) * self._outer(back)
        return GaussianMixtureStatistics(weight, r, rd + r[:, None] * back, moved)

    def variances(self, params: GaussianMixtureParams) -> np.ndarray:
        """The diagonal of every Sigma_c, (C, D)."""
        if self.covariance_type == "full":
            return np.einsum("cdd->cd", params.covariances)
        return np.broadcast_to(params.covariances.reshape(self.n_components, -1), params.means.shape)

    def covariance_matrices(self, params: GaussianMixtureParams) -> np.ndarray:
        """Every Sigma_c written out, (C, D, D)."""
        if self.covariance_type == "full":
            return params.covariances
        return self.variances(params)[:, :, None] * np.eye(self.n_features)

    def _shaped(self, variance: np.ndarray) -> np.ndarray:
        """One cluster's variances (D,) in the shape of a covariance of this type."""
        if self.covariance_type == "full":
            return np.diag(variance)
        return variance if self.covariance_type == "diag" else variance.mean()

    def _outer(self, d: np.ndarray) -> np.ndarray:
        """d d^T of each row, in the shape of the covariances."""
        if self.covariance_type == "full":
            return d[:, :, None] * d[:, None, :]
        return d**2 if self.covariance_type == "diag" else (d**2).mean(axis=1)

    def _regularised(self, covariances: np.ndarray) -> np.ndarray:
        """`reg_covar` added to the variances."""
        return covariances + self.reg_covar * (np.eye(self.n_features) if self.covariance_type == "full" else 1.0)


def _along(array: np.ndarray, values: np.ndarray) -> np.ndarray:
    """One value for each entry of the array's first axis."""
    return values.reshape(-1, *([1] * (array.ndim - 1)))
