"""The truncated E-step of latents that combine by their maximum, under noise of any exponential family."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Parts
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.maximal_causes import MaximalCausesStatistics
from multicause.models.noises import LOG_2PI, GaussianNoise
from multicause.models.subsets import subset_tree
from multicause.models.superpositions import SMALLEST_MEAN
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated, SharedSums, Totals, added_up
from multicause.posteriors.e_steps.mean_noise import MeanNoiseEStep, RowTerms

DEEPEST = -640.0  # exponent below which scaled powers of components are cut off
_NONE = np.zeros((0, 0))


class MaximalCausesEStep(MeanNoiseEStep):
    """States by their running maxima: see `backends.numba_cpu.maximal_causes`."""

    def __init__(self, model, params, max_active, singletons, beta):
        super().__init__(model, params, max_active, singletons, beta)
        self.kernel = numba_cpu.load("maximal_causes")
        noise = model.noise
        background = float(getattr(params, "background", 0.0))
        components = np.maximum(params.components, max(background, SMALLEST_MEAN))
        log_components = np.log(components)
        log_largest = log_components.max(axis=0)
        rho, hard = model.sharing.rho, model.sharing.is_hard
        scaled = np.zeros_like(log_components) if hard else log_components - log_largest
        self.gaussian = isinstance(noise, GaussianNoise)
        self.impossible = background == 0.0 and not self.gaussian  # an empty state allows nothing but 0
        precision = np.zeros(0)
        if self.gaussian:
            precision = np.broadcast_to(1.0 / np.asarray(params.noise_variance), (model.n_features,)).copy()
        self.tables = self.kernel.Tables(
            np.ascontiguousarray(components),
            np.ascontiguousarray(noise.natural(params, components)),
            np.ascontiguousarray(noise.log_partition(params, components)),
            logit(params.activation),
            np.exp(np.maximum((0.0 if hard else rho) * scaled, DEEPEST)),
            np.exp(np.maximum((0.0 if hard else rho - 1.0) * scaled, DEEPEST)),
            np.exp(log_largest),
            precision,
            background,
            float(self.kernel.OFF if self.impossible else np.max(noise.natural(params, np.asarray(background)))),
            float(np.max(noise.log_partition(params, np.asarray(background)))),
            float(beta),
            0.0 if hard else 1.0 / rho,
            bool(not model.superposition.is_hard),
        )
        self.projection = np.ascontiguousarray(self.tables.natural.T)  # (D, H)
        self.offset = self.tables.log_odds - self.tables.partition.sum(axis=1)
        self.log_empty = np.log1p(-params.activation).sum()

    def terms(self, Y: np.ndarray) -> RowTerms:
        tables = self.tables
        singles = tiled_product(Y, self.projection)
        singles += self.offset
        if self.impossible:
            empty = np.where((Y == 0.0).all(axis=1), 0.0, self.kernel.OFF)
        else:
            n_features = Y.shape[1]
            empty = tables.background_natural * Y.sum(axis=1) - n_features * tables.background_partition
        return RowTerms(Y, singles, empty, self.log_empty + self.model.noise.log_carrier(self.params, Y))

    def free_energies(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        return self._expectations(terms, candidates, np.zeros(len(candidates)))[0]

    def means(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        return self._expectations(terms, candidates, np.zeros(len(candidates)))[1]

    def reconstruct(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        rebuilt = np.zeros_like(terms.Y)
        sums = self.kernel.Sums(_NONE, _NONE, np.zeros(0), rebuilt)
        alone = self._expectations(terms, candidates, np.zeros(len(candidates)), sums)[2]
        np.put_along_axis(alone, candidates.astype(np.int64), 0.0, axis=1)  # they are in `rebuilt` already
        return rebuilt + tiled_product(alone, self.tables.components)

    def accumulate(self, terms: RowTerms, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        components, Y = self.tables.components, terms.Y
        squares = np.zeros(components.shape[1])
        sums = self.kernel.Sums(np.zeros_like(components), np.zeros_like(components), squares, _NONE)
        free_energies, means, alone = self._expectations(terms, candidates, weights, sums)
        if (weights != 1.0).any():
            alone *= weights[:, None]
        single, single_ay = alone.sum(axis=0)[:, None], alone.T @ Y
        a, ay = sums.a + single, sums.ay + single_ay
        if self.gaussian and not self.model.sharing.is_hard:  # those of several latents are there already
            squares += self._squares(alone.sum(axis=1), Y, single, single_ay)
        elif self.gaussian:
            squares += self._squares(weights, Y, a, ay)
        emphasis = self.model.weight_of_singles - 1.0
        if emphasis != 0.0:
            a += emphasis * single
            ay += emphasis * single_ay
        statistics = MaximalCausesStatistics(float(weights.sum()), weights @ means, a, ay, squares)
        return Accumulated(free_energies, statistics, means)

    def shared_sums(
        self, X: np.ndarray, weights: np.ndarray, parts: Parts, n_candidates: int, greedy: bool, n_threads: int
    ) -> SharedSums | None:
        if not self.gaussian:
            return None
        H, D = self.tables.components.shape
        constants = (*self._constants, n_candidates)
        tree, size = subset_tree(n_candidates, self.max_active), H + D + 2 * H * D
        arguments = X, weights, self.tables, constants, tree, self.singletons
        return SharedSums.of("maxima", arguments, self._finish, parts, size, (1, H), n_threads)

    def _finish(self, totals: Totals, sums: np.ndarray) -> tuple[np.ndarray, MaximalCausesStatistics]:
        H, D = self.tables.components.shape
        a, ay = sums[H + D :].reshape(2, H, D)
        carrier = totals.white + totals.weight * np.sum(LOG_2PI - np.log(self.tables.precision))
        constant = totals.weight * self.log_empty - 0.5 * carrier
        free_energies = constant + free_energy(totals.log_normaliser, totals.energy, self.beta)
        return free_energies, MaximalCausesStatistics(added_up(totals.weight), sums[:H], a, ay, sums[H : H + D])

    @cached_property
    def _constants(self) -> tuple[Any, ...]:
        bound = self._upper_bound
        spread = np.broadcast_to(bound.spread, (self.model.n_features,)).copy()
        emphasis = self.model.weight_of_singles - 1.0
        return self.projection, self.offset, spread, bound.white, bound.log_activation, emphasis

    def _squares(self, weights: np.ndarray, Y: np.ndarray, a: np.ndarray, ay: np.ndarray) -> np.ndarray:
        """sum_n w_n <(y - mean)^2> over states whose mean is in each dimension the one latent's that A is 1 for."""
        components = self.tables.components
        return weights @ np.square(Y) + np.einsum("hd,hd->d", components, a * components - 2.0 * ay)

    def _expectations(self, terms: RowTerms, candidates: np.ndarray, weights: np.ndarray, sums: Any = None):
        """F_n, <s>, and the weights of single latents."""
        tree = subset_tree(candidates.shape[1], self.max_active)
        sums = self.kernel.Sums(_NONE, _NONE, np.zeros(0), _NONE) if sums is None else sums
        data = (terms.Y, terms.singles, terms.empty)
        log_normaliser, energy, means, alone = self.kernel.expectations(
            self.tables, tree, data, candidates, self.singletons, weights, sums
        )
        return terms.constant + free_energy(log_normaliser, energy, self.beta), means, alone
