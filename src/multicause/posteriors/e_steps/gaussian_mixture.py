"""The truncated E-step of Gaussian mixtures."""

import numpy as np
from scipy import linalg

from multicause.backends import numba_cpu
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.gaussian_mixture import GaussianMixtureStatistics
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated, TruncatedEStep

_RESOLUTION = 8.0 * np.finfo(np.float64).eps  # of a mean: a narrower cluster is a point
_OFF = -1000.0  # far below the exponent that is flushed to 0
ILL_DEFINED = (
    "Some clusters have covariances that are not positive definite, for instance because their data points are equal "
    "or lie in a plane, or because they start far from all data. Use fewer components, a larger reg_covar, a start "
    "nearer to the data, or scale the data."
)


class GaussianMixtureEStep(TruncatedEStep):
    """Densities of each row's candidate clusters, and of no others; the terms are the data."""

    def __init__(self, model, params, max_active, singletons, beta):
        super().__init__(model, params, max_active, singletons, beta)
        self.kernel = numba_cpu.load("gaussian_mixture")
        self.full = model.covariance_type == "full"
        self.variances = np.ascontiguousarray(model.variances(params))
        self.centres = np.ascontiguousarray(params.means)
        smallest = np.square(_RESOLUTION * self.centres)
        if not (np.isfinite(self.variances).all() and (self.variances > smallest).all()):
            raise ValueError(ILL_DEFINED)
        log_scale = self._factorise()
        self.log_peak = np.log(params.weights) - log_scale - 0.5 * model.n_features * np.log(2.0 * np.pi)

    def _factorise(self) -> np.ndarray:
        """Prepare what distances are made of; log |Sigma_c| / 2, (C,)."""
        if self.full:
            self.factors, log_scale = _inverse_factors(self.params.covariances, self.kernel.UNROLLED)
            return log_scale
        self.precisions = 1.0 / self.variances
        return 0.5 * np.log(self.variances).sum(axis=1)

    def terms(self, Y):
        return Y

    def subset(self, Y, rows):
        return Y[rows]

    def select(self, Y, n_candidates):
        """By log pi_c + log N(y; mu_c, diag Sigma_c), written out as one matrix product about the means' mean."""
        centre = self.params.weights @ self.params.means
        centred, means, variances = Y - centre, self.params.means - centre, self.variances
        squares = np.square(centred)
        if self.model.covariance_type == "spherical":
            squares, inverse = squares.sum(axis=1, keepdims=True), 1.0 / variances[:, :1]
        else:
            inverse = 1.0 / variances
        natural = np.ascontiguousarray(np.hstack([-0.5 * inverse, means / variances]).T)  # (2D or D + 1, C)
        scales = np.log(variances / variances.max())  # whatever the data's unit
        constant = np.log(self.params.weights) - 0.5 * (scales + means**2 / variances).sum(axis=1)
        scores = tiled_product(np.hstack([squares, centred]), natural)
        return numba_cpu.load("selection").top_candidates(scores, -constant, np.ones_like(constant), n_candidates)

    def free_energies(self, Y, candidates):
        return self._weigh(Y, self._considered(candidates))[0]

    def means(self, Y, candidates):
        candidates = self._considered(candidates)
        return self._spread(candidates, self._weigh(Y, candidates)[1])

    def reconstruct(self, Y, candidates):
        """Posterior means of the clusters' means."""
        return tiled_product(self.means(Y, candidates), self.centres)

    def accumulate(self, Y, candidates, weights):
        candidates = self._considered(candidates)
        free_energies, q = self._weigh(Y, candidates)
        means = self._spread(candidates, q)
        return Accumulated(free_energies, self._sums(Y, candidates, q, weights, means), means)

    def _sums(self, Y, candidates, q, weights, means):
        r = q * weights[:, None]
        rd = np.zeros_like(self.centres)
        if self.full:
            rdd = np.zeros((*rd.shape, rd.shape[1]))
            self.kernel.full_sums(Y, candidates, r, self.centres, rd, rdd)
        else:
            rdd = np.zeros_like(rd)
            self.kernel.diagonal_sums(Y, candidates, r, self.centres, rd, rdd)
        if self.model.covariance_type == "spherical":
            rdd = rdd.mean(axis=1)
        return GaussianMixtureStatistics(float(weights.sum()), weights @ means, rd, rdd)

    def _considered(self, candidates):
        """Where single latents are kept, all clusters are candidates."""
        if not self.singletons:
            return candidates
        return np.tile(np.arange(self.model.n_components, dtype=np.int32), (len(candidates), 1))

    def _spread(self, candidates, q):
        """<s>, (N, C)."""
        means = np.zeros((len(q), self.model.n_components))
        np.put_along_axis(means, candidates, q, axis=1)
        return means

    def _log_joint(self, Y, candidates):
        """Of each row's candidates, (N, C')."""
        if self.full:
            distances = self.kernel.full_distances(Y, candidates, self.centres, self.factors)
        else:
            distances = self.kernel.diagonal_distances(Y, candidates, self.centres, self.precisions)
        return self.log_peak[candidates] - 0.5 * distances

    def _weigh(self, terms, candidates):
        """F_n, and q proportional to p^beta, (N, C')."""
        log_joint = self._log_joint(terms, candidates)
        largest = log_joint.max(axis=1, keepdims=True)
        below = log_joint - largest
        q = np.empty_like(below)
        exponentiate = numba_cpu.load("vector_math").exponentiate
        exponentiate(np.maximum(self.beta * below, _OFF).reshape(-1), q.reshape(-1))
        total = q.sum(axis=1)
        q /= total[:, None]
        tempered = np.einsum("nk,nk->n", q, below)
        return largest[:, 0] + free_energy(np.log(total), tempered, self.beta), q


def _inverse_factors(covariances: np.ndarray, group: int) -> tuple[np.ndarray, np.ndarray]:
    """The inverse Cholesky factors L, with zeros below to make up groups of rows; and log |Sigma| / 2."""
    try:
        roots = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError(ILL_DEFINED) from error
    n_clusters, n_features, _ = covariances.shape
    factors = np.zeros((n_clusters, -(-n_features // group) * group, n_features))
    for factor, root in zip(factors, roots, strict=True):
        factor[:n_features] = linalg.lapack.dtrtri(root, lower=1)[0]
    return factors, np.log(np.einsum("cdd->cd", roots)).sum(axis=1)
