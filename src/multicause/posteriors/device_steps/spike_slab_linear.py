"""The truncated E-step of spike-and-slab sparse coding on a device."""

from typing import Any, NamedTuple

import numpy as np

from multicause.models.spike_slab_linear import SpikeSlabStatistics
from multicause.posteriors.base import free_energy
from multicause.posteriors.device_steps.base import (
    LANES,
    MISSING,
    NORMALISERS,
    ROWS,
    STATISTICS,
    DeviceEStep,
    Unsupported,
    check_candidates,
    lanes_of,
)

_NOTHING = np.zeros((0, 0))
_TILES = 2, 8  # of 32 latents, that registers hold in greedy selection


class RowTerms(NamedTuple):
    Y: Any  # (N, D)
    linear: Any  # (N, H) b, to which kernels add mu


class Moments(NamedTuple):
    log_normaliser: Any  # (N,)
    energy: Any  # (N,) beta <x>
    values: Any  # (N, 2 + 2 H' + H' (H' + 1) / 2) of the candidates: see `slab_values`
    s: Any  # (N, H) w_n <s>, outside of the candidates
    x: Any  # (N, H) w_n <s*z>


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
        white = host.whiten.R if self.full else 1.0 / host.whiten.factor
        (
            self.projection, self.slab_mean, self.offset, self.inverse, self.constant, self.score_constant, self.white,
            whitened, self.unit,
        ) = self.put_all(
            host.projection, host.slab_mean, offset, 1.0 / (1.0 + diagonal), constant, constant - host.log_odds, white,
            host.whitened, host.unit,
        )  # fmt: skip
        self.gram = whitened @ whitened.T
        on_diagonal = self.gram.ravel()[:: len(whitened) + 1]
        on_diagonal += 1.0

    def terms(self, Y):
        Y = self.centred(Y)
        return RowTerms(Y, Y @ self.projection)

    def select(self, terms, n_candidates):
        check_candidates(n_candidates, LANES)
        N, H = terms.linear.shape
        chosen = self.xp.empty((N, n_candidates), np.int32)
        scores = terms.linear, self.slab_mean, self.inverse, self.score_constant
        self.launch("top_singletons", (), N, LANES, *scores, N, H, n_candidates, chosen)
        return chosen

    def select_greedily(self, terms, n_candidates):
        asked = terms.linear, (self.inverse, self.slab_mean, self.gram)
        tiles = next((n for n in _TILES if LANES * n >= terms.linear.shape[1]), None)
        if tiles is None:
            return self.choose_greedily("greedy_candidates", *asked, 3 + n_candidates, n_candidates)
        return self.choose_greedily("greedy_candidates_of_few", *asked, n_candidates, n_candidates, (tiles,))

    def free_energies(self, terms, candidates):
        nothing = [self.empty(1)] * 4
        log_normaliser, energy = self._expectations(terms, candidates, nothing[0], NORMALISERS, *nothing[1:])
        squares = self._white_squares(terms.Y)
        constant = self.host.log_empty - self.host.whiten.log_scale.sum()
        return constant - 0.5 * squares + free_energy(log_normaliser, energy / self.beta, self.beta)

    def means(self, terms, candidates):
        return self._rows(terms, candidates)[0]

    def codes(self, terms, candidates):
        return self._rows(terms, candidates)[1] * self.put(self.host.unit)

    def reconstruct(self, terms, candidates):
        return self.lifted(self.codes(terms, candidates) @ self.put(self.params.components))

    def statistics(self, terms, candidates, weights):
        return self.sums(terms.Y, candidates, weights, self.moments(terms, candidates, weights))

    def moments(self, terms, candidates, weights):
        """What the states of each row say; it uses the terms up."""
        (N, H), n_candidates = terms.linear.shape, candidates.shape[1]
        values = self.empty(N, 2 + 2 * n_candidates + n_candidates * (n_candidates + 1) // 2)
        s, x = self.empty(N, H), terms.linear  # which is not needed any more, once its row is read
        log_normaliser, energy = self._expectations(terms, candidates, weights, STATISTICS, values, s, x)
        return Moments(log_normaliser, energy, values, s, x)

    def sums(self, Y, candidates, weights, moments):
        """Of all rows: F and statistics."""
        (N, H), D, n_candidates = moments.s.shape, Y.shape[1], candidates.shape[1]
        squares_of = (D, D) if self.full else (D,)
        results = self.results((H, D), (H, H), squares_of, (3, H), (H,), (3,), (1, self.intercept.size))
        xy, xx, squares, columns, active, totals, y = results.parts
        self.pair_sums(moments.values, candidates, weights, 2, 2 + 2 * n_candidates, (active, xx), self.unit)
        n_parts = self.parts(H, N)
        sums = self.xp.empty((n_parts, 3, H))
        self.launch("column_sums", (), n_parts * H, 1, moments.s, moments.x, self.inverse, N, H, n_parts, sums)
        self.add_parts(sums, columns)
        self.weighted_totals(weights, moments.log_normaliser, moments.energy, totals)
        self.cross_sums(moments.x, Y, xy)
        self._squares(Y, weights, squares)
        self.row_sum(Y, weights, y)
        return self._settled(*self.read_results(results))

    def _settled(self, xy, xx, squares, columns, active, totals, y):
        """F and statistics, in the units of the data."""
        host, unit = self.host, self.host.unit
        weight, log_normaliser, energy = map(float, totals)
        xx.ravel()[:: len(xx) + 1] += np.square(unit) * columns[2]
        if self.full:
            distance = float(np.einsum("ij,ij->", host.whiten.R @ host.whiten.R.T, squares))
        else:
            distance = float(squares @ (1.0 / np.square(host.whiten.factor)))
        if np.isnan(distance):
            raise Unsupported(MISSING)
        constant = weight * (host.log_empty - host.whiten.log_scale.sum()) - 0.5 * distance
        yy = squares if self.model.noise.shape != "isotropic" else np.asarray(squares.sum())
        correlated = np.zeros(0), _NOTHING, _NOTHING
        statistics = SpikeSlabStatistics(
            weight, active + columns[0], unit * columns[1], xx, unit[:, None] * xy, yy, *correlated, y.ravel()
        )
        return constant + free_energy(log_normaliser, energy / self.beta, self.beta), statistics

    def _squares(self, Y, weights, out):
        """out <- sum_n w_n y y^T, or its diagonal."""
        return self.cross_sums(weights[:, None] * Y, Y, out) if self.full else self.square_sums(Y, weights, out)

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
            "slab_expectations", (n_candidates,), N, lanes_of(n_candidates), terms.linear, self.slab_mean, candidates,
            *tables, weights, tops, *sizes, float(self.beta), log_normaliser, energy, values, s, x,
        )  # fmt: skip
        return log_normaliser, energy
