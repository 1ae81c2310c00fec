"""The truncated E-step of binary latents that add up, on a device."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from multicause.models.binary_linear import BinaryLinearStatistics
from multicause.posteriors.base import free_energy
from multicause.posteriors.device_steps.base import (
    MISSING,
    NORMALISERS,
    ROWS,
    STATISTICS,
    DeviceEStep,
    Unsupported,
    lanes_of,
)
from multicause.posteriors.device_steps.upper_bound import UpperBoundOnDevice


class RowTerms(NamedTuple):
    Y: Any  # (N, D)
    linear: Any  # (N, H) beta * a


class BinaryLinearOnDevice(DeviceEStep):
    """See `backends/cuda/binary_linear.cuh`."""

    def __init__(self, host, runtime, dtype):
        super().__init__(host, runtime, dtype)
        self.projection, self.offset, self.gram = self.put_all(host.projection, host.offset, host.gram)

    def terms(self, Y):
        Y = self.centred(Y)
        linear = Y @ self.projection
        linear += self.offset
        return RowTerms(Y, linear)

    def select(self, terms, n_candidates):
        if self.model.selection_rule == "upper_bound":
            return self._upper_bound.select(terms.Y, n_candidates)
        return self.top_candidates(terms.linear, self.offset, self._cosine_scale, n_candidates)

    def select_greedily(self, terms, n_candidates):
        return self.choose_greedily("greedy_binary_candidates", terms.linear, (self.gram,), 2, n_candidates)

    @cached_property
    def _cosine_scale(self):
        return self.put(self.host._cosine_scale)

    @cached_property
    def _upper_bound(self):
        return UpperBoundOnDevice(self, self.host._upper_bound)

    def free_energies(self, terms, candidates):
        nothing = self.empty(1)
        log_normaliser, energy = self._expectations(terms, candidates, nothing, NORMALISERS, nothing, nothing)
        distance = self.row_squares(terms.Y, self._noise_scale)
        relative = free_energy(log_normaliser, energy / self.beta, self.beta)
        return self.host.log_empty - 0.5 * distance + relative

    @cached_property
    def _noise_scale(self):
        return self.put(np.full(self.model.n_features, 1.0 / np.sqrt(self.params.noise_variance)))

    def means(self, terms, candidates):
        s, nothing = terms.linear.copy(), self.empty(1)
        self._expectations(terms, candidates, nothing, ROWS, nothing, s)
        return s

    def reconstruct(self, terms, candidates):
        return self.lifted(self.means(terms, candidates) @ self.put(self.params.components))

    def statistics(self, terms, candidates, weights):
        N, H = terms.linear.shape
        n_candidates = candidates.shape[1]
        values = self.empty(N, 2 + n_candidates * (n_candidates + 1) // 2)
        s = terms.linear  # which is not needed any more, once its row is read
        log_normaliser, energy = self._expectations(terms, candidates, weights, STATISTICS, values, s)
        D = terms.Y.shape[1]
        results = self.results((H, D), (H, H), (D,), (H,), (3,), (1, self.intercept.size))
        sy, ss, squares, sums, totals, y = results.parts
        self.pair_sums(values, candidates, weights, -1, 2, (sums, ss))
        self.weighted_totals(weights, log_normaliser, energy, totals)
        self.column_totals(s, sums)
        self.cross_sums(s, terms.Y, sy)
        self.square_sums(terms.Y, weights, squares)
        self.row_sum(terms.Y, weights, y)
        return self._settled(*self.read_results(results))

    def _settled(self, sy, ss, squares, s, totals, y):
        weight, log_normaliser, energy = map(float, totals)
        yy = float(squares.sum())
        if np.isnan(yy):
            raise Unsupported(MISSING)
        np.fill_diagonal(ss, s)
        constant = self.host.log_empty * weight - yy / (2.0 * self.params.noise_variance)
        relative = free_energy(log_normaliser, energy / self.beta, self.beta)
        return constant + relative, BinaryLinearStatistics(weight, s, ss, sy, yy, y.ravel())

    def _expectations(self, terms, candidates, weights, mode, values, s):
        """log Z_n and beta <x>_n; arrays are filled in as `mode` says."""
        N, H = terms.linear.shape
        n_candidates = candidates.shape[1]
        tops, log_normaliser, energy = self.tops(n_candidates), self.empty(N), self.empty(N)
        sizes = len(tops), N, H, self.max_active, self.singletons, mode
        self.launch(
            "binary_expectations", (n_candidates,), N, lanes_of(n_candidates), terms.linear, candidates, self.gram,
            weights, tops, *sizes, log_normaliser, energy, values, s,
        )  # fmt: skip
        return log_normaliser, energy
