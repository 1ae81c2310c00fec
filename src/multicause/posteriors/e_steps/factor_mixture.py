"""The truncated E-step of mixtures of probabilistic principal components."""

from typing import NamedTuple

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.reproducible_matmul import TILE, tiled_product
from multicause.models.factor_mixture import SAME
from multicause.posteriors.e_steps.gaussian_mixture import ILL_DEFINED, GaussianMixtureEStep

_FAR = 1e4  # variances of the noise: what a product of 16 digits still resolves to 1e-10
_BLOCK_NUMBERS = 2**21  # of the rows' places along all directions that exist at one time


class FactorTerms(NamedTuple):
    Y: np.ndarray  # (N, D)
    log_joint: np.ndarray  # (N, C)


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
        self.scaled = np.ascontiguousarray((self.directions * np.sqrt(share / self.noise[:, None])[kept][:, None]).T)
        squares = np.where(kept, share, 0.0)[:, None, :] * directions**2
        self.centre = self.params.weights @ self.centres
        self.from_centre = self.centres - self.centre
        self.far = np.square(self.from_centre).sum(axis=1).max() > _FAR * self.noise.min()
        self.left_over = self.noise[:, None] * squares.sum(axis=2)  # (C, D): posterior variances of the noiseless data
        return 0.5 * np.log(spread).sum(axis=1)

    def terms(self, Y):
        cluster_of = np.repeat(np.arange(len(self.centres)), np.diff(self.starts))
        offsets = np.einsum("jd,dj->j", self.from_centre[cluster_of], self.scaled)
        log_joint = np.empty((len(Y), len(self.centres)))
        size = max(_BLOCK_NUMBERS // (TILE * max(len(offsets), 1)), 1) * TILE
        for first in range(0, len(Y), size):
            rows = slice(first, first + size)
            centred = Y[rows] - self.centre
            log_joint[rows] = self._distances(centred)
            places = tiled_product(centred, self.scaled)
            self.kernel_of_factors.log_joint(log_joint[rows], places, offsets, self.starts, 1.0 / self.noise)
        log_joint += self.log_peak
        return FactorTerms(Y, log_joint)

    def _distances(self, centred):
        """|y - mu_c|^2, (N, C); by a matrix product where rounding errors leave enough of what noise adds to it."""
        if self.far:
            return self.kernel_of_factors.distances(centred, self.from_centre)
        lengths = np.einsum("nd,nd->n", centred, centred)[:, None] + np.square(self.from_centre).sum(axis=1)
        return lengths - 2.0 * tiled_product(centred, np.ascontiguousarray(self.from_centre.T))

    def subset(self, terms, rows):
        return FactorTerms(terms.Y[rows], terms.log_joint[rows])

    def select(self, terms, n_candidates):
        zeros = np.zeros(len(self.centres))
        return numba_cpu.load("selection").top_candidates(terms.log_joint, zeros, zeros + 1.0, n_candidates)

    def reconstruct(self, terms, candidates):
        return self.clean(terms, candidates)[:, 0]

    def clean(self, terms, candidates):
        """Posterior means and variances of the noiseless data, (N, 2, D)."""
        candidates = self._considered(candidates)
        q = self._weigh(terms, candidates)[1]
        factors = self.directions, self.shares, self.starts
        return self.kernel_of_factors.clean(terms.Y, candidates, q, self.centres, *factors, self.left_over)

    def _log_joint(self, terms, candidates):
        return np.take_along_axis(terms.log_joint, candidates.astype(np.int64), axis=1)

    def _sums(self, terms, candidates, q, weights, means):
        return super()._sums(terms.Y, candidates, q, weights, means)
