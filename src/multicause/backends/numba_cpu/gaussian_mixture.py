"""Gaussian mixtures: the densities of each row's candidate clusters, and of no others.

With L the inverse Cholesky factor of Sigma_c, the exponent is |L (y - mu_c)|^2 / 2. The pairs of a row and a candidate
are grouped by cluster; eight of a group go through the triangular product at once. That is two to ten times faster than
a matrix product per cluster, and a row's bits do not depend on the rows beside it.
"""

import numpy as np
from numba import njit
from scipy import linalg

from multicause.backends.numba_cpu.lanes import LANES, fill, load, store
from multicause.backends.numba_cpu.selection import top_candidates
from multicause.backends.numba_cpu.vector_math import exponentiate
from multicause.backends.tiles import tiled_product
from multicause.models.gaussian_mixture import GaussianMixtureStatistics

_UNROLLED = 4  # rows of L that the triangular product takes at once
_RESOLUTION = 8.0 * np.finfo(np.float64).eps  # of a mean: a cluster less wide than that is a point
_OFF = -1000.0  # far below the exponent that is flushed to 0
_ILL_DEFINED = (
    "Some clusters have covariances that are not positive definite, for instance because their data points are equal "
    "or lie in a plane. Use fewer components, a larger reg_covar, or scale the data."
)


@njit(cache=True, nogil=True)
def _group(candidates, n_clusters):
    """The pairs (row, candidate), counted as if `candidates` were flat, in the order of their clusters; and each
    cluster's first place in that order."""
    n_rows, n_candidates = candidates.shape
    starts = np.zeros(n_clusters + 1, dtype=np.int64)
    for n in range(n_rows):
        for k in range(n_candidates):
            starts[candidates[n, k] + 1] += 1
    for c in range(n_clusters):
        starts[c + 1] += starts[c]
    free = starts[:-1].copy()
    order = np.empty(n_rows * n_candidates, dtype=np.int64)
    for n in range(n_rows):
        for k in range(n_candidates):
            c = candidates[n, k]
            order[free[c]] = n * n_candidates + k
            free[c] += 1
    return order, starts


@njit(cache=True, nogil=True)
def full_distances(Y, candidates, means, factors):
    """|L (y - mu_c)|^2 of each row's candidates, (N, C'). `factors` (C, a multiple of four, D) hold L above zeros."""
    n_candidates, n_features = candidates.shape[1], Y.shape[1]
    order, starts = _group(candidates, len(means))
    distances = np.empty(candidates.shape)
    d, result = np.empty((n_features, LANES)), np.empty((1, LANES))
    for c in range(len(means)):
        factor, end = factors[c], starts[c + 1]
        for first in range(starts[c], end, LANES):
            for lane in range(LANES):
                n = order[min(first + lane, end - 1)] // n_candidates
                for i in range(n_features):
                    d[i, lane] = Y[n, i] - means[c, i]
            total = fill(0.0)
            for j in range(0, factor.shape[0], _UNROLLED):
                a, b, e, f = fill(0.0), fill(0.0), fill(0.0), fill(0.0)
                for i in range(min(j + _UNROLLED, n_features)):
                    x = load(d, i)
                    a = a + x * factor[j, i]
                    b = b + x * factor[j + 1, i]
                    e = e + x * factor[j + 2, i]
                    f = f + x * factor[j + 3, i]
                total = total + (a * a + b * b) + (e * e + f * f)
            store(result, 0, total)
            for lane in range(min(LANES, end - first)):
                pair = order[first + lane]
                distances[pair // n_candidates, pair % n_candidates] = result[0, lane]
    return distances


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def diagonal_distances(Y, candidates, means, precisions):
    """sum_d (y_d - mu_cd)^2 precision_cd of each row's candidates, (N, C')."""
    distances = np.empty(candidates.shape)
    for n in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            c = candidates[n, k]
            total = 0.0
            for i in range(Y.shape[1]):
                difference = Y[n, i] - means[c, i]
                total += difference * difference * precisions[c, i]
            distances[n, k] = total
    return distances


@njit(cache=True, nogil=True)
def full_sums(Y, candidates, r, means, rd, rdd):
    """Add r d and r d d^T of each pair with d = y - mu_c to (C, D) and, up to the diagonal, to (C, D, D)."""
    n_candidates, n_features = candidates.shape[1], Y.shape[1]
    order, starts = _group(candidates, len(means))
    d = np.empty(n_features)
    for c in range(len(means)):
        first, second = rd[c], rdd[c]
        for at in range(starts[c], starts[c + 1]):
            n = order[at] // n_candidates
            share = r[n, order[at] % n_candidates]
            if share == 0.0:
                continue
            for i in range(n_features):
                d[i] = Y[n, i] - means[c, i]
            for i in range(n_features):
                factor, row = share * d[i], second[i]
                first[i] += factor
                for j in range(i + 1):
                    row[j] += factor * d[j]


@njit(cache=True, nogil=True)
def diagonal_sums(Y, candidates, r, means, rd, rdd):
    """Add r d and r d^2 of each pair with d = y - mu_c to (C, D) and (C, D)."""
    for n in range(candidates.shape[0]):
        for k in range(candidates.shape[1]):
            c, share = candidates[n, k], r[n, k]
            if share == 0.0:
                continue
            for i in range(Y.shape[1]):
                difference = Y[n, i] - means[c, i]
                rd[c, i] += share * difference
                rdd[c, i] += share * difference * difference


class Walk:
    """The truncated E-step of `models.gaussian_mixture` for one set of parameters; the evidence is the data."""

    def __init__(self, model, params, max_active, singletons, beta):
        self.model, self.params, self.singletons, self.beta = model, params, singletons, beta
        self.full = model.covariance_type == "full"
        self.variances = np.ascontiguousarray(model.variances(params))
        self.centres = np.ascontiguousarray(params.means)
        smallest = np.square(_RESOLUTION * self.centres)
        if not (np.isfinite(self.variances).all() and (self.variances > smallest).all()):
            raise ValueError(_ILL_DEFINED)
        if self.full:
            self.factors, log_scale = _inverse_factors(params.covariances)
        else:
            self.precisions = 1.0 / self.variances
            log_scale = 0.5 * np.log(self.variances).sum(axis=1)
        self.log_peak = np.log(params.weights) - log_scale - 0.5 * model.n_features * np.log(2.0 * np.pi)

    def evidence(self, Y):
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
        fields = np.ascontiguousarray(np.hstack([-0.5 * inverse, means / variances]).T)  # (2D or D + 1, C)
        constant = np.log(self.params.weights) - 0.5 * (np.log(variances) + means**2 / variances).sum(axis=1)
        scores = tiled_product(np.hstack([squares, centred]), fields)
        return top_candidates(scores, -constant, np.ones_like(constant), n_candidates)

    def free_energies(self, Y, candidates):
        return self._weigh(Y, self._considered(candidates))[0]

    def means(self, Y, candidates):
        candidates = self._considered(candidates)
        free_energies, q = self._weigh(Y, candidates)
        return free_energies, self._spread(candidates, q)

    def reconstruct(self, Y, candidates):
        """Posterior means of the clusters' means."""
        return tiled_product(self.means(Y, candidates)[1], self.centres)

    def accumulate(self, Y, candidates, weights):
        candidates = self._considered(candidates)
        free_energies, q = self._weigh(Y, candidates)
        means = self._spread(candidates, q)
        return free_energies, self._sums(Y, candidates, q, weights, means), means

    def _sums(self, Y, candidates, q, weights, means):
        r = q * weights[:, None]
        rd = np.zeros_like(self.centres)
        if self.full:
            rdd = np.zeros((*rd.shape, rd.shape[1]))
            full_sums(Y, candidates, r, self.centres, rd, rdd)
            rdd += np.tril(rdd, -1).transpose(0, 2, 1)
        else:
            rdd = np.zeros_like(rd)
            diagonal_sums(Y, candidates, r, self.centres, rd, rdd)
        if self.model.covariance_type == "spherical":
            rdd = rdd.mean(axis=1)
        return GaussianMixtureStatistics(float(weights.sum()), weights @ means, rd, rdd)

    def _considered(self, candidates):
        """Where single causes are kept, all clusters are candidates."""
        if not self.singletons:
            return candidates
        return np.tile(np.arange(self.model.n_components, dtype=np.int32), (len(candidates), 1))

    def _spread(self, candidates, q):
        """<s>, (N, C)."""
        means = np.zeros((len(q), self.model.n_components))
        np.put_along_axis(means, candidates, q, axis=1)
        return means

    def _weigh(self, Y, candidates):
        """F_n = <log p>_q + H(q) and q proportional to p^beta, (N, C')."""
        if self.full:
            distances = full_distances(Y, candidates, self.centres, self.factors)
        else:
            distances = diagonal_distances(Y, candidates, self.centres, self.precisions)
        log_joint = self.log_peak[candidates] - 0.5 * distances
        largest = log_joint.max(axis=1, keepdims=True)
        below = log_joint - largest
        q = np.empty_like(below)
        exponentiate(np.maximum(self.beta * below, _OFF).reshape(-1), q.reshape(-1))
        total = q.sum(axis=1)
        q /= total[:, None]
        free_energies = largest[:, 0] + np.log(total)
        if self.beta != 1.0:
            free_energies += (1.0 - self.beta) * np.einsum("nk,nk->n", q, below)
        return free_energies, q


def _inverse_factors(covariances):
    """The inverse Cholesky factors L, with zeros below to make up groups of rows; and log |Sigma| / 2."""
    try:
        roots = np.linalg.cholesky(covariances)
    except np.linalg.LinAlgError as error:
        raise ValueError(_ILL_DEFINED) from error
    n_clusters, n_features, _ = covariances.shape
    factors = np.zeros((n_clusters, -(-n_features // _UNROLLED) * _UNROLLED, n_features))
    for factor, root in zip(factors, roots, strict=True):
        factor[:n_features] = linalg.lapack.dtrtri(root, lower=1)[0]
    return factors, np.log(np.einsum("cdd->cd", roots)).sum(axis=1)
