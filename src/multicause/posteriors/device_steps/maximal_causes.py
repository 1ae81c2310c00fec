"""The truncated E-step of latents that combine by their maximum, on a device, under Gaussian noise."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from multicause.models.maximal_causes import MaximalCausesStatistics
from multicause.models.noises import LOG_2PI
from multicause.models.subsets import tree_subsets
from multicause.posteriors.base import free_energy
from multicause.posteriors.device_steps.base import LANES, MOST_CANDIDATES, DeviceEStep, Unsupported, check_candidates
from multicause.posteriors.device_steps.upper_bound import UpperBoundOnDevice


class RowTerms(NamedTuple):
    Y: Any  # (N, D)
    singles: Any  # (N, H) log joints of single latents, relative to that of none


class Found(NamedTuple):
    log_normaliser: Any  # (N,)
    energy: Any  # (N,)
    q: Any  # (N, S) of every state
    means: Any  # (N, H)
    alone: Any  # (N, H) of single latents


class MaximalCausesOnDevice(DeviceEStep):
    """See `backends/cuda/maximal_causes.cuh`.

    While latents share smoothly what they explain, the maximum is a root of a sum of high powers, for which single
    precision is too narrow: that much is computed in double precision, whatever the data are.
    """

    def __init__(self, host, runtime, dtype):
        super().__init__(host, runtime, dtype if host.tables.root == 0.0 else np.float64)
        if not host.gaussian:
            raise Unsupported(f"{self.model.noise} has no kernel for a GPU. Use Gaussian noise, or device='cpu'.")
        tables = host.tables
        (
            self.projection, self.offset, self.components, self.precision, self.log_odds, self.largest, self.u, self.v,
        ) = self.put_all(
            host.projection, host.offset, tables.components, tables.precision, tables.log_odds, tables.largest,
            tables.u, tables.v,
        )  # fmt: skip

    def numbers_per_row(self, n_candidates, n_features):
        """q of all states, and what each candidate has of each dimension."""
        return len(tree_subsets(n_candidates, self.max_active)) + n_candidates * n_features

    def terms(self, Y):
        Y = Y.astype(self.dtype, copy=False)
        singles = Y @ self.projection
        singles += self.offset
        return RowTerms(Y, singles)

    def select(self, terms, n_candidates):
        return self._upper_bound.select(terms.Y, n_candidates)

    @cached_property
    def _upper_bound(self):
        return UpperBoundOnDevice(self, self.host._upper_bound)

    def free_energies(self, terms, candidates):
        found = self._weights(terms, candidates)
        precision = self.host.tables.precision
        constant = self.host.log_empty - 0.5 * np.sum(LOG_2PI - np.log(precision))
        distance = self.row_squares(terms.Y, self.put(np.sqrt(precision)))
        return constant - 0.5 * distance + free_energy(found.log_normaliser, found.energy, self.beta)

    def means(self, terms, candidates):
        return self._weights(terms, candidates).means

    def reconstruct(self, terms, candidates):
        found, N, n_candidates = self._weights(terms, candidates), len(candidates), candidates.shape[1]
        states, rebuilt = self._states(n_candidates), self.empty(*terms.Y.shape)
        sizes = len(states), N, terms.Y.shape[1]
        self.launch(
            "maximal_rebuilt", (n_candidates,), rebuilt.size, 1, found.q, candidates, self.components, states, *sizes,
            rebuilt,
        )  # fmt: skip
        found.alone[self.xp.arange(N)[:, None], candidates] = 0.0  # they are in `rebuilt` already
        return rebuilt + found.alone @ self.components

    def statistics(self, terms, candidates, weights):
        found, H = self._weights(terms, candidates), self.model.n_components
        weights = weights.astype(self.dtype, copy=False)
        sums, squares = self._shares(terms.Y, found.q, candidates, weights)
        alone = found.alone
        alone *= weights[:, None]
        of_singles = alone.sum(axis=1)
        found.means[...] *= weights[:, None]
        double = weights.astype(np.float64, copy=False)
        parts = found.log_normaliser, found.energy
        totals = self.xp.stack([double.sum(), *(double @ part.astype(np.float64, copy=False) for part in parts)])
        whole = self.square_sums(terms.Y, weights)
        explained = whole if self.model.sharing.is_hard else squares + self.square_sums(terms.Y, of_singles)
        read = self.read(
            totals, self.column_totals(found.means), self.column_totals(alone), sums, self.cross_sums(alone, terms.Y),
            whole, explained,
        )  # fmt: skip
        assert read[3].shape == (2, H, terms.Y.shape[1])
        return self._settled(*read)

    def _settled(self, totals, s, single, sums, single_ay, whole, squares):
        """F and statistics: states of one latent, whose mean is its component, join those of several."""
        weight, log_normaliser, energy = map(float, totals)
        single, W = single[:, None], self.host.tables.components
        a, ay = sums[0] + single, sums[1] + single_ay
        explaining = (a, ay) if self.model.sharing.is_hard else (single, single_ay)
        squares = squares + np.einsum("hd,hd->d", W, explaining[0] * W - 2.0 * explaining[1])
        emphasis = self.model.weight_of_singles - 1.0
        statistics = MaximalCausesStatistics(weight, s, a + emphasis * single, ay + emphasis * single_ay, squares)
        precision = self.host.tables.precision
        carrier = whole @ precision + weight * np.sum(LOG_2PI - np.log(precision))
        constant = weight * self.host.log_empty - 0.5 * carrier
        return float(constant + free_energy(log_normaliser, energy, self.beta)), statistics

    def _weights(self, terms, candidates):
        N, H = terms.singles.shape
        n_candidates, D = candidates.shape[1], terms.Y.shape[1]
        states, tables = self._states(n_candidates), self.host.tables
        root = float(tables.root) if tables.smooth else 0.0
        found = Found(self.empty(N), self.empty(N), self.empty(N, len(states)), self.empty(N, H), self.empty(N, H))
        judged = self.u if tables.smooth else self.components
        sizes = len(states), N, D, H, self.singletons
        self.launch(
            "maximal_weights", (n_candidates,), N, LANES, terms.Y, terms.singles, candidates, judged, self.largest,
            self.precision, self.log_odds, states, *sizes, root, float(self.beta), *found,
        )  # fmt: skip
        return found

    def _shares(self, Y, q, candidates, weights):
        """Sums of w_n <A> and of w_n <A> y, (2, H, D), over states of several latents; and their squares, (D,)."""
        (N, D), n_candidates, H = Y.shape, candidates.shape[1], self.model.n_components
        states, tables = self._states(n_candidates), self.host.tables
        shares, squares = self.empty(N, n_candidates, D), self.empty(N, D)
        known = self.components, self.u, self.v, self.largest, weights, states
        sizes = len(states), N, D, float(tables.root), bool(tables.smooth)
        self.launch("maximal_shares", (n_candidates,), N * D, 1, Y, q, candidates, *known, *sizes, shares, squares)
        n_parts = self.parts(H * D, N)
        sums = self.xp.empty((n_parts, 2, H, D))
        where = n_candidates, D, H, n_parts
        self.launch("share_sums", (), n_parts * H * D, 1, Y, shares, *self.by_latent(candidates, H), *where, sums)
        return sums.sum(axis=0), self.column_totals(squares)

    def _states(self, n_candidates):
        """All states of the candidates as bits, the empty one first."""
        check_candidates(n_candidates, MOST_CANDIDATES)
        bits = tree_subsets(n_candidates, self.max_active) @ 2.0 ** np.arange(n_candidates)
        return self.xp.asarray(bits.astype(np.int32))
