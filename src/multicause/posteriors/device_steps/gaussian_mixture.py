"""The truncated E-step of Gaussian mixtures on a device."""

from typing import Any, NamedTuple

import numpy as np

from multicause.models.gaussian_mixture import GaussianMixtureStatistics
from multicause.posteriors.base import free_energy
from multicause.posteriors.device_steps.base import LANES, DeviceEStep

_MOST_NUMBERS = 2**27  # of work arrays that exist at one time
_MOST_FEATURES = 1024  # of rows whose noise a kernel takes out: 32 to a lane
_PARTS = 4


class MixtureOnDevice(DeviceEStep):
    """Densities of the candidate clusters; the terms are the data."""

    def __init__(self, host, runtime, dtype):
        super().__init__(host, runtime, dtype)
        self.n_clusters = self.model.n_components
        self.centres, self.log_peak = self.put(host.centres), self.put(host.log_peak)

    def terms(self, Y):
        return Y

    def select(self, Y, n_candidates):
        """By log pi_c + log N(y; mu_c, diag Sigma_c), written out as one matrix product about the means' mean."""
        centre = self.params.weights @ self.params.means
        means, variances = self.params.means - centre, self.host.variances
        natural = self.put(np.hstack([-0.5 / variances, means / variances]).T)
        scales = np.log(variances / variances.max())  # whatever the data's unit
        constant = np.log(self.params.weights) - 0.5 * (scales + means**2 / variances).sum(axis=1)
        centred = Y - self.put(centre)
        scores = self.xp.hstack([self.xp.square(centred), centred]) @ natural
        return self.top_candidates(scores, self.put(-constant), self.put(np.ones(self.n_clusters)), n_candidates)

    def free_energies(self, terms, candidates):
        return self._weigh(terms, self._considered(candidates))[0]

    def means(self, terms, candidates):
        candidates = self._considered(candidates)
        return self._spread(candidates, self._weigh(terms, candidates)[1])

    def reconstruct(self, terms, candidates):
        return self.means(terms, candidates) @ self.centres

    def statistics(self, terms, candidates, weights):
        candidates = self._considered(candidates)
        free_energies, q = self._weigh(terms, candidates)
        r = q * weights[:, None]
        double = weights.astype(np.float64, copy=False)
        totals = self.xp.stack([double.sum(), double @ free_energies.astype(np.float64, copy=False)])
        sizes = self.column_totals(self._spread(candidates, r))
        totals, sizes, rd, rdd = self.read(totals, sizes, *self._sums(self._rows_of(terms), candidates, r))
        if self.model.covariance_type == "spherical":
            rdd = rdd.mean(axis=1)
        return float(totals[1]), GaussianMixtureStatistics(float(totals[0]), sizes, rd, rdd)

    def _rows_of(self, terms):
        return terms

    def _sums(self, Y, candidates, r):
        """Sums of r d, (C, D), and of r d d^T, (C, D, D), or of its diagonal."""
        C, D = self.n_clusters, Y.shape[1]
        shape = (_PARTS, C, D, D) if self.host.full else (_PARTS, C, D)
        rd, rdd = self.xp.empty((_PARTS, C, D)), self.xp.empty(shape)
        sizes = candidates.shape[1], D, C, _PARTS, self.host.full
        by_cluster = self.by_latent(candidates, C)
        self.launch("mixture_sums", (), rdd.size, 1, Y, r, *by_cluster, self.centres, *sizes, rd, rdd)
        return rd.sum(axis=0), rdd.sum(axis=0)

    def _considered(self, candidates):
        """Where single latents are kept, all clusters are candidates."""
        if not self.singletons:
            return candidates
        every = self.xp.arange(self.n_clusters, dtype=np.int32)
        return self.xp.ascontiguousarray(self.xp.broadcast_to(every, (len(candidates), self.n_clusters)))

    def _spread(self, candidates, q):
        means = self.xp.zeros((len(q), self.n_clusters), self.dtype)
        means[self.xp.arange(len(q))[:, None], candidates] = q
        return means

    def _log_joint(self, Y, candidates):
        """Of each row's candidates, (N, C')."""
        if self.host.full:
            distances = self.xp.take_along_axis(self._all_distances(Y), candidates.astype(np.int64), axis=1)
        else:
            distances = self.empty(*candidates.shape)
            tables = self.centres, self.put(self.host.precisions)
            sizes = len(Y), Y.shape[1], candidates.shape[1]
            self.launch("diagonal_distances", (), candidates.size, LANES, Y, candidates, *tables, *sizes, distances)
        return self.log_peak[candidates] - 0.5 * distances

    def _all_distances(self, Y):
        """|L_c (y - mu_c)|^2 of all clusters: a matrix product for each is quicker than the candidates one by one."""
        distances, ones = self.empty(len(Y), self.n_clusters), self.xp.ones(Y.shape[1], self.dtype)
        for c in range(self.n_clusters):
            factor = self.put(self.host.factors[c, : Y.shape[1]])
            distances[:, c] = self.row_squares((Y - self.centres[c]) @ factor.T, ones)
        return distances

    def _weigh(self, terms, candidates):
        """F_n, and q proportional to p^beta, (N, C')."""
        log_joint = self._log_joint(terms, candidates)
        largest = log_joint.max(axis=1)
        below = log_joint - largest[:, None]
        q = self.xp.exp(self.beta * below)
        total = q.sum(axis=1)
        q /= total[:, None]
        tempered = (q * below).sum(axis=1)
        return largest + free_energy(self.xp.log(total), tempered, self.beta), q


class FactorTerms(NamedTuple):
    Y: Any  # (N, D)
    log_joint: Any  # (N, C)


class FactorMixtureOnDevice(MixtureOnDevice):
    """Densities of all clusters by their few directions: see `e_steps/factor_mixture.py`."""

    def __init__(self, host, runtime, dtype):
        super().__init__(host, runtime, dtype)
        self.offsets = self.put(host.offsets)
        self.starts = self.xp.asarray(host.starts.astype(np.int32))
        self.scaled, self.precisions = self.put(host.scaled_directions.T), self.put(1.0 / host.noise)
        self.centre, self.from_centre = self.put(host.centre), self.put(host.from_centre)

    def terms(self, Y):
        log_joint, n_directions = self.empty(len(Y), self.n_clusters), len(self.offsets)
        size = max(_MOST_NUMBERS // max(n_directions, 1), 1)
        for first in range(0, len(Y), size):
            centred, values = Y[first : first + size] - self.centre, log_joint[first : first + size]
            self._distances(centred, values)
            places = centred @ self.scaled if n_directions else centred
            sizes = len(centred), self.n_clusters, n_directions
            tables = self.offsets, self.starts, self.precisions, self.log_peak
            self.launch("factor_log_joint", (), values.size, 1, places, *tables, *sizes, values)
        return FactorTerms(Y, log_joint)

    def _distances(self, centred, values):
        """values <- |y - mu_c|^2; by a matrix product where rounding errors leave enough of what noise adds to it."""
        if self.host.far or self.dtype == np.float32:
            sizes = len(centred), centred.shape[1], self.n_clusters
            self.launch("squared_distances", (), values.size, 1, centred, self.from_centre, *sizes, values)
            return
        lengths = self.row_squares(centred, self.xp.ones(centred.shape[1], self.dtype))
        values[...] = centred @ self.from_centre.T
        values *= -2.0
        values += lengths[:, None] + self.xp.square(self.from_centre).sum(axis=1)

    def select(self, terms, n_candidates):
        ones = np.ones(self.n_clusters)
        shift, scale = self.put(self.host.log_peak.max() * ones), self.put(ones)
        return self.top_candidates(terms.log_joint, shift, scale, n_candidates)

    def reconstruct(self, terms, candidates):
        return self.xp.ascontiguousarray(self.clean(terms, candidates)[:, 0])

    def clean(self, terms, candidates):
        candidates = self._considered(candidates)
        q = self.xp.ascontiguousarray(self._weigh(terms, candidates)[1])
        N, D = terms.Y.shape
        if D > _MOST_FEATURES:
            return self._clean_by_clusters(terms.Y, candidates, q)
        result, n_tiles = self.empty(N, 2, D), -(-D // LANES)
        tables = self.put(self.host.directions), self.put(self.host.shares), self.starts, self.put(self.host.left_over)
        sizes = N, D, candidates.shape[1]
        self.launch("factor_clean", (n_tiles,), N, LANES, terms.Y, candidates, q, self.centres, *tables, *sizes, result)
        return result

    def _clean_by_clusters(self, Y, candidates, q):
        """The same for rows that registers do not hold, by matrix products for one cluster after the other."""
        xp, starts, shift, variance = self.xp, self.host.starts, self.xp.zeros_like(Y), self.xp.zeros_like(Y)
        directions, shares, left_over = map(self.put, (self.host.directions, self.host.shares, self.host.left_over))
        for c in range(self.n_clusters):
            rows, places = xp.nonzero(candidates == c)
            own, weights = directions[starts[c] : starts[c + 1]], q[rows, places][:, None]
            from_centre = Y[rows] - self.centres[c]
            x = ((from_centre @ own.T) * shares[starts[c] : starts[c + 1]]) @ own - from_centre
            shift[rows] += weights * x
            variance[rows] += weights * (xp.square(x) + left_over[c])
        return xp.stack([Y + shift, xp.maximum(variance - xp.square(shift), 0.0)], axis=1)

    def _rows_of(self, terms):
        return terms.Y

    def _log_joint(self, terms, candidates):
        return self.xp.take_along_axis(terms.log_joint, candidates.astype(np.int64), axis=1)
