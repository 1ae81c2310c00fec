"""The truncated E-step of spike-and-slab sparse coding on a device."""

from typing import Any, NamedTuple

import numpy as np

from multicause.models.spike_slab_linear import SpikeSlabStatistics
from multicause.posteriors.base import free_energy
from multicause.posteriors.device_steps.base import (
    LANES,
    NORMALISERS,
    ROWS,
    STATISTICS,
    DeviceEStep,
    Unsupported,
    check_candidates,
    lanes_of,
)

_NOTHING = np.zeros((0, 0))


class RowTerms(NamedTuple):
    Y: Any  # (N, D)
    linear: Any  # (N, H) b + mu


class SpikeSlabOnDevice(DeviceEStep):
    """Independent coefficients: see `backends/cuda/spike_slab_linear.cuh`."""

    def __init__(self, host, runtime, dtype):
        super().__init__(host, runtime, dtype)
        if host.correlated:
            raise Unsupported("Correlated coefficients, slab='full', have no kernel for a GPU. Use device='cpu'.")
        self.full = self.model.noise.shape == "full"
        diagonal = np.einsum("hd,hd->h", host.whitened, host.whitened)
        offset = host.log_odds - 0.5 * host.slab_mean**2
        constant = offset - 0.5 * np.log1p(diagonal)
        (
            self.projection, self.slab_mean, self.offset, self.inverse, self.constant, self.score_constant, self.white,
        ) = self.put_all(
            host.projection, host.slab_mean, offset, 1.0 / (1.0 + diagonal), constant, constant - host.log_odds,
            host.whiten.R if self.full else 1.0 / host.whiten.factor,
        )  # fmt: skip
        whitened = self.xp.asarray(host.whitened)
        self.gram = (whitened @ whitened.T + self.xp.eye(len(whitened))).astype(self.dtype, copy=False)

    def terms(self, Y):
        linear = Y @ self.projection
        linear += self.slab_mean
        return RowTerms(Y, linear)

    def select(self, terms, n_candidates):
        check_candidates(n_candidates, LANES)
        N, H = terms.linear.shape
        chosen = self.xp.empty((N, n_candidates), np.int32)
        scores = terms.linear, self.inverse, self.score_constant
        self.launch("top_singletons", (), N, LANES, *scores, N, H, n_candidates, chosen)
        return chosen

    def select_greedily(self, terms, n_candidates):
        tables = self.inverse, self.slab_mean, self.gram
        return self.choose_greedily("greedy_candidates", terms.linear, tables, 3 + n_candidates, n_candidates)

    def free_energies(self, terms, candidates):
        nothing, s = self.empty(1), self.empty(*terms.linear.shape)
        log_normaliser, energy = self._expectations(terms, candidates, nothing, NORMALISERS, nothing, s, nothing)
        squares = self._white_squares(terms.Y)
        constant = self.host.log_empty - self.host.whiten.log_scale.sum()
        return constant - 0.5 * squares + free_energy(log_normaliser, energy / self.beta, self.beta)

    def means(self, terms, candidates):
        return self._rows(terms, candidates)[0]

    def codes(self, terms, candidates):
        return self._rows(terms, candidates)[1] * self.put(self.host.unit)

    def reconstruct(self, terms, candidates):
        return self.codes(terms, candidates) @ self.put(self.params.components)

    def statistics(self, terms, candidates, weights):
        N, H = terms.linear.shape
        n_candidates = candidates.shape[1]
        values = self.empty(N, 2 + 2 * n_candidates + n_candidates * (n_candidates + 1) // 2)
        s, x = self.empty(N, H), terms.linear  # which is not needed any more, once its row is read
        found = self._expectations(terms, candidates, weights, STATISTICS, values, s, x)
        active, xx = self.pair_sums(values, candidates, weights, 2, 2 + 2 * n_candidates, H)
        n_parts = self.parts(H, N)
        columns = self.xp.empty((n_parts, 3, H))
        self.launch("column_sums", (), n_parts * H, 1, s, x, self.inverse, N, H, n_parts, columns)
        columns = columns.sum(axis=0)
        double = weights.astype(np.float64, copy=False)
        totals = self.xp.stack([double.sum(), *(double @ part.astype(np.float64, copy=False) for part in found)])
        squares = self._squares(terms.Y, weights)
        return self._settled(*self.read(totals, active, columns, xx, self.cross_sums(x, terms.Y), squares))

    def _settled(self, totals, active, columns, xx, xy, squares):
        """F and statistics, in the units of the data."""
        host, unit = self.host, self.host.unit
        weight, log_normaliser, energy = map(float, totals)
        xx[np.diag_indices_from(xx)] += columns[2]
        if self.full:
            distance = float(np.einsum("ij,ij->", host.whiten.R @ host.whiten.R.T, squares))
        else:
            distance = float(squares @ (1.0 / np.square(host.whiten.factor)))
        if np.isnan(distance):
            raise Unsupported("Missing values, NaN in X, have no kernel for a GPU. Use device='cpu', or fill them in.")
        constant = weight * (host.log_empty - host.whiten.log_scale.sum()) - 0.5 * distance
        yy = squares if self.model.noise.shape != "isotropic" else np.asarray(squares.sum())
        xx *= np.outer(unit, unit)
        correlated = np.zeros(0), _NOTHING, _NOTHING
        statistics = SpikeSlabStatistics(
            weight, active + columns[0], unit * columns[1], xx, unit[:, None] * xy, yy, *correlated
        )
        return constant + free_energy(log_normaliser, energy / self.beta, self.beta), statistics

    def _squares(self, Y, weights):
        """sum_n w_n y y^T, or its diagonal."""
        return self.cross_sums(weights[:, None] * Y, Y) if self.full else self.square_sums(Y, weights)

    def _white_squares(self, Y):
        if self.full:
            return self.row_squares(Y @ self.white, self.xp.ones(Y.shape[1], self.dtype))
        return self.row_squares(Y, self.white)

    def _rows(self, terms, candidates):
        s, x, nothing = self.empty(*terms.linear.shape), terms.linear.copy(), self.empty(1)
        self._expectations(terms, candidates, nothing, ROWS, nothing, s, x)
        return s, x

    def _expectations(self, terms, candidates, weights, mode, values, s, x):
        """log Z_n and beta <x>_n; arrays are filled in as `mode` says."""
        N, H = terms.linear.shape
        n_candidates = candidates.shape[1]
        tops, log_normaliser, energy = self.tops(n_candidates), self.empty(N), self.empty(N)
        tables = self.offset, self.gram, self.inverse, self.constant
        sizes = len(tops), N, H, self.max_active, self.singletons, mode
        self.launch(
            "slab_expectations", (n_candidates,), N, lanes_of(n_candidates), terms.linear, candidates, *tables, weights,
            tops, *sizes, float(self.beta), log_normaliser, energy, values, s, x,
        )  # fmt: skip
        return log_normaliser, energy
