"""The truncated E-step of mixtures of probabilistic principal components."""

import zlib
from itertools import pairwise

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.reproducible_matmul import TILE, product_with_tiles, tiled_product
from multicause.models.factor_mixture import SAME
from multicause.posteriors.e_steps.gaussian_mixture import ILL_DEFINED, GaussianMixtureEStep

_FAR = 1e4  # variances of the noise: what a product of 16 digits still resolves to 1e-10
_FEW = 2  # times as many clusters as candidates: those alone are then looked at
_DRAWS = 2  # data points per cluster that tell its neighbours
_ROUNDING = 2e-6  # of squared distances from the centre in units of the noise: more than single precision errs by
_BLOCK_NUMBERS = 2**20  # of the rows' places along all directions that exist at one time: a cache holds them


class FactorMixtureEStep(GaussianMixtureEStep):
    """Densities of all clusters by their few directions: r + 1 products of length D each, instead of D.

    With a direction q of variance l, under noise sigma^2, the exponent is half of
    |y - mu|^2 / sigma^2 - sum over directions of (1 / sigma^2 - 1 / l) (q^T (y - mu))^2.
    """

    def _factorise(self):
        spread, directions = self.model.decompose(self.params)  # (C, D), (C, D, D)
        if not (spread[:, 0] > 0.0).all():
            raise ValueError(ILL_DEFINED)
        self.kernel_of_factors = numba_cpu.load("factor_mixture")
        self.noise = spread[:, 0].copy()
        kept = spread > self.noise[:, None] * (1.0 + SAME)
        self.starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        share = 1.0 - self.noise[:, None] / spread  # of what is seen along a direction that is no noise
        self.shares = share[kept]
        self.directions = np.ascontiguousarray(directions.transpose(0, 2, 1)[kept])  # (directions of all clusters, D)
        self.scaled_directions = self.directions * np.sqrt(share / self.noise[:, None])[kept][:, None]
        of_directions = self.shares[:, None] * self.directions**2
        explained = [of_directions[first:last].sum(axis=0) for first, last in pairwise(self.starts)]
        self.centre = self.params.weights @ self.centres
        self.from_centre = self.centres - self.centre
        cluster_of = np.repeat(np.arange(len(self.centres)), np.diff(self.starts))
        self.offsets = np.einsum("jd,jd->j", self.from_centre[cluster_of], self.scaled_directions)
        with np.errstate(over="ignore"):
            self.in_single = self.scaled_directions.astype(np.float32), self.offsets.astype(np.float32)
        self.far = np.square(self.from_centre).sum(axis=1).max() > _FAR * self.noise.min()
        self.left_over = self.noise[:, None] * explained  # (C, D): posterior variances of the noiseless data
        self.neighbours = None  # (C, G): clusters beside each cluster, itself among them, where a search is local
        return 0.5 * np.log(spread).sum(axis=1)

    def search_locally(self, n_near):
        """From now on look at the neighbours of a row's last candidates alone.

        Neighbours of a cluster are those in which a few data points drawn from it are most likely, on average; and one
        more at random, so that no cluster is out of reach.
        """
        n_clusters, n_features = self.centres.shape
        rng = np.random.default_rng(zlib.crc32(self.params.weights.tobytes()))
        cluster_of = np.repeat(np.arange(n_clusters), np.diff(self.starts))
        spread = np.sqrt(self.noise[cluster_of] * self.shares / (1.0 - self.shares))[:, None] * self.directions
        total = np.zeros((n_clusters, n_clusters))
        for _ in range(_DRAWS):
            drawn = self.centres + np.sqrt(self.noise)[:, None] * rng.standard_normal((n_clusters, n_features))
            np.add.at(drawn, cluster_of, rng.standard_normal((len(spread), 1)) * spread)
            total += self._log_joint_of_all(drawn)
        np.fill_diagonal(total, np.inf)
        nearest = np.argpartition(-total, n_near - 1, axis=1)[:, :n_near]
        self.neighbours = np.hstack([nearest, rng.integers(n_clusters, size=(n_clusters, 1))]).astype(np.int32)

    def among_neighbours(self, Y, kept, n_candidates):
        """The most likely clusters among the neighbours of those kept, (N, C'); whatever was kept is among them."""
        near = self.kernel_of_factors.neighbourhoods(kept, self.neighbours)
        best = np.argpartition(-self._log_joint_of_few(Y, near), n_candidates - 1, axis=1)[:, :n_candidates]
        return np.sort(np.take_along_axis(near, best, axis=1), axis=1)

    def _log_joint_of_few(self, Y, candidates):
        """Of each row's candidates, (N, K); -inf where there is none."""
        scaled, precisions = self.scaled_directions, 1.0 / self.noise
        values = self.kernel_of_factors.log_joint_of(Y, candidates, self.centres, scaled, self.starts, precisions)
        return values + self.log_peak[candidates]

    def _log_joint_of_all(self, Y, single=False):
        scaled, offsets = self.in_single if single else (self.scaled_directions, self.offsets)
        log_joint = np.empty((len(Y), len(self.centres)))
        size = max(_BLOCK_NUMBERS // (TILE * max(len(offsets), 1)), 1) * TILE
        for first in range(0, len(Y), size):
            rows = slice(first, first + size)
            centred = Y[rows] - self.centre
            log_joint[rows] = self._distances(centred)
            places = product_with_tiles(scaled, centred.astype(scaled.dtype, copy=False))
            self.kernel_of_factors.log_joint(log_joint[rows], places, offsets, self.starts, 1.0 / self.noise)
        log_joint += self.log_peak
        return log_joint

    def _distances(self, centred):
        """|y - mu_c|^2, (N, C); by a matrix product where rounding errors leave enough of what noise adds to it."""
        if self.far:
            return self.kernel_of_factors.distances(centred, self.from_centre)
        lengths = np.einsum("nd,nd->n", centred, centred)[:, None] + np.square(self.from_centre).sum(axis=1)
        return lengths - 2.0 * tiled_product(centred, np.ascontiguousarray(self.from_centre.T))

    def select(self, Y, n_candidates):
        """By the log joint in single precision, and again in double where that leaves a row's candidates in doubt."""
        with np.errstate(over="ignore", invalid="ignore"):  # which leaves all clusters in doubt
            log_joint = self._log_joint_of_all(Y, single=True)
        candidates = self._likeliest(log_joint, n_candidates)
        of_rows, of_means = (np.square(x).sum(axis=1) / self.noise.min() for x in (Y - self.centre, self.from_centre))
        errors = _ROUNDING * (1.0 + of_rows), _ROUNDING * of_means
        least, n_possible = self.kernel_of_factors.possible(log_joint, candidates, *errors)
        rows = np.flatnonzero(n_possible > n_candidates)
        if rows.size:
            most = log_joint[rows] + errors[0][rows, None] + errors[1]
            possible = _listed(~(most < least[rows, None]))
            exact = self._likeliest(self._log_joint_of_few(Y[rows], possible), n_candidates)
            candidates[rows] = np.take_along_axis(possible, exact, axis=1)
        return candidates

    def _likeliest(self, log_joint, n_candidates):
        """The largest of each row; what the data's unit adds to all would take digits from their differences."""
        ones = np.ones(log_joint.shape[1])
        return numba_cpu.load("selection").top_candidates(log_joint, self.log_peak.max() * ones, ones, n_candidates)

    def reconstruct(self, Y, candidates):
        return self.clean(Y, candidates)[:, 0]

    def clean(self, Y, candidates):
        """Posterior means and variances of the noiseless data, (N, 2, D)."""
        candidates = self._considered(candidates)
        q = self._weigh(Y, candidates)[1]
        factors = self.directions, self.shares, self.starts
        return self.kernel_of_factors.clean(Y, candidates, q, self.centres, *factors, self.left_over)

    def _log_joint(self, Y, candidates):
        if self.neighbours is not None or candidates.shape[1] * _FEW <= len(self.centres):
            return self._log_joint_of_few(Y, candidates)
        return np.take_along_axis(self._log_joint_of_all(Y), candidates.astype(np.int64), axis=1)


def _listed(mask):
    """The columns in which each row is true, in rising order, (N, K); -1 fills up."""
    n_columns = mask.shape[1]
    numbers = np.sort(np.where(mask, np.arange(n_columns), n_columns), axis=1)[:, : mask.sum(axis=1).max()]
    return np.where(numbers < n_columns, numbers, -1).astype(np.int32)
