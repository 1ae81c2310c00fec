"""The truncated E-step of binary latents that add up under Gaussian noise."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Parts
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.binary_linear import BinaryLinearStatistics
from multicause.models.dictionary_model import inverse_norms
from multicause.models.intercept import NO_SUM, centred, has_intercept, intercept_of, lifted
from multicause.models.subsets import subset_tree
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated, SharedSums, Totals, TruncatedEStep, added_up
from multicause.posteriors.e_steps.upper_bound import UpperBound

_NOTHING = np.zeros((0, 0))
_COMPLETE = np.zeros(0, dtype=bool)


class RowTerms(NamedTuple):
    """What a chunk's rows contribute, once the matrix product is done."""

    Y: np.ndarray  # (N, D) with 0 for missing entries
    linear: np.ndarray  # (N, H) beta * a
    constant: np.ndarray  # (N,) log p(s=0, y)
    unseen: np.ndarray  # (N, H) half of what missing entries take off the diagonal of beta G, or (0, 0)
    overlaps: Any  # the kernel's


class BinaryLinearEStep(TruncatedEStep):
    """After one matrix product nothing depends on D: see `backends.numba_cpu.binary_linear`."""

    def __init__(self, model, params, max_active, singletons, beta):
        super().__init__(model, params, max_active, singletons, beta)
        self.kernel = numba_cpu.load("binary_linear")
        self.tempered_precision = beta / params.noise_variance
        self.projection = np.ascontiguousarray(params.components.T) * self.tempered_precision  # (D, H)
        self.gram = params.components @ params.components.T  # of a matrix and itself: half of a product
        self.gram *= self.tempered_precision
        self.offset = beta * logit(params.activation) - 0.5 * np.diag(self.gram)
        self.log_noise = 0.5 * np.log(2.0 * np.pi * params.noise_variance)
        self.log_empty = np.log1p(-params.activation).sum() - model.n_features * self.log_noise

    def terms(self, Y: np.ndarray) -> RowTerms:
        missing, Y = np.isnan(Y), centred(self.params, Y)
        Overlaps = self.kernel.Overlaps
        if not missing.any():
            return self._terms(Y, _NOTHING, Overlaps(self.gram, _NOTHING, _NOTHING, _COMPLETE))
        components = np.sqrt(self.tempered_precision) * self.params.components
        unseen = 0.5 * tiled_product(missing.astype(np.float64), np.ascontiguousarray(np.square(components).T))
        overlaps = Overlaps(self.gram, components, (~missing).astype(np.float64), missing.any(axis=1))
        terms = self._terms(np.where(missing, 0.0, Y), unseen, overlaps)
        np.add(terms.linear, unseen, out=terms.linear)
        np.add(terms.constant, missing.sum(axis=1) * self.log_noise, out=terms.constant)
        return terms

    def _terms(self, Y: np.ndarray, unseen: np.ndarray, overlaps: Any) -> RowTerms:
        linear = tiled_product(Y, self.projection)
        linear += self.offset
        distance = np.einsum("nd,nd->n", Y, Y) / (2.0 * self.params.noise_variance)
        return RowTerms(Y, linear, self.log_empty - distance, unseen, overlaps)

    def subset(self, terms: RowTerms, rows: np.ndarray) -> RowTerms:
        overlaps, unseen = terms.overlaps, terms.unseen
        if overlaps.partial.size:
            overlaps = overlaps._replace(observed=overlaps.observed[rows], partial=overlaps.partial[rows])
            unseen = unseen[rows]
        return RowTerms(terms.Y[rows], terms.linear[rows], terms.constant[rows], unseen, overlaps)

    def select(self, terms: RowTerms, n_candidates: int) -> np.ndarray:
        if self.model.selection_rule == "upper_bound":
            return self._upper_bound.select(terms.Y, n_candidates)
        linear = terms.linear - terms.unseen if terms.unseen.size else terms.linear
        return numba_cpu.load("selection").top_candidates(linear, self.offset, self._cosine_scale, n_candidates)

    def select_greedily(self, terms: RowTerms, n_candidates: int) -> np.ndarray:
        """Latents of a state that grows by them, then those that might join it or take a place in it."""
        return numba_cpu.load("selection").select_binary_greedily(terms.linear, terms.overlaps, n_candidates)

    @cached_property
    def _cosine_scale(self) -> np.ndarray:
        """1 / |W_h|, times what keeps scores within float32."""
        components, noise_variance = self.params.components, self.params.noise_variance
        level = np.sqrt(self.model.n_features * noise_variance + np.square(components).sum(axis=1).max())
        return inverse_norms(components) / (self.tempered_precision * level)

    @cached_property
    def _upper_bound(self) -> UpperBound:
        return UpperBound(self.model, self.params)

    def free_energies(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normaliser, energy = self.kernel.log_normalisers(
            terms.linear, terms.overlaps, candidates, tree, self.singletons
        )
        return self._free_energies(terms, log_normaliser, energy)

    def means(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        means = np.empty_like(terms.linear)
        self._expectations(terms, candidates, np.zeros(len(candidates)), means)
        return means

    def reconstruct(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        mean = tiled_product(self.means(terms, candidates), np.ascontiguousarray(self.params.components))
        return lifted(self.params, mean)

    def accumulate(self, terms: RowTerms, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        means = terms.linear  # which is not needed any more: a chunk's largest array is not made twice
        free_energies, sums = self._expectations(terms, candidates, weights, means)
        weighted = weights[:, None] * means if (weights != 1.0).any() else means
        s = weighted.sum(axis=0)
        np.fill_diagonal(sums.ss, s)
        sy = weighted.T @ terms.Y
        yy = float(weights @ np.einsum("nd,nd->n", terms.Y, terms.Y))
        if terms.overlaps.partial.size:
            n_missing = weights @ (terms.overlaps.observed == 0.0).sum(axis=1)
            sy += sums.sy / np.sqrt(self.tempered_precision)
            yy += float(sums.yy[0] / self.tempered_precision + n_missing * self.params.noise_variance)
        y = NO_SUM
        if has_intercept(self.params):
            y = weights @ terms.Y
            if terms.overlaps.partial.size:
                y += ((weighted @ self.params.components) * (terms.overlaps.observed == 0.0)).sum(axis=0)
        return Accumulated(free_energies, BinaryLinearStatistics(float(weights.sum()), s, sums.ss, sy, yy, y), means)

    def shared_sums(
        self, X: np.ndarray, weights: np.ndarray, parts: Parts, n_candidates: int, greedy: bool, n_threads: int
    ) -> SharedSums | None:
        if self.model.selection_rule == "upper_bound" and not greedy:
            return None
        D, H = self.projection.shape
        precision = np.full(D, 1.0 / self.params.noise_variance)
        intercept = intercept_of(self.params)
        constants = self.projection, self.offset, self._cosine_scale, precision, intercept, n_candidates, greedy
        overlaps = self.kernel.Overlaps(self.gram, _NOTHING, _NOTHING, _COMPLETE)
        tree, size = subset_tree(n_candidates, self.max_active), H + H * H + H * D + intercept.size
        arguments = X, weights, constants, overlaps, tree, self.singletons
        return SharedSums.of("binary", arguments, self._finish, parts, size, (1, H), n_threads)

    def _finish(self, totals: Totals, sums: np.ndarray) -> tuple[np.ndarray, BinaryLinearStatistics]:
        H = len(self.offset)
        s, ss, sy, y = np.split(sums, np.cumsum([H, H * H, H * self.model.n_features]))
        constant = self.log_empty * totals.weight - 0.5 * totals.white
        relative = free_energy(totals.log_normaliser, totals.energy / self.beta, self.beta)
        weight, yy = added_up(totals.weight), added_up(totals.yy)
        return constant + relative, BinaryLinearStatistics(weight, s, ss.reshape(H, H), sy.reshape(H, -1), yy, y)

    def _expectations(self, terms: RowTerms, candidates: np.ndarray, weights: np.ndarray, means: np.ndarray):
        """F_n and the sums over all rows; <s> goes to `means`."""
        H = len(self.offset)
        sums = self.kernel.Sums(np.zeros((H, H)), np.zeros_like(terms.overlaps.components), np.zeros(1))
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normaliser, energy = self.kernel.expectations(
            terms.linear, terms.overlaps, candidates, tree, self.singletons, weights, sums, means
        )
        return self._free_energies(terms, log_normaliser, energy), sums

    def _free_energies(self, terms: RowTerms, log_normaliser: np.ndarray, energy: np.ndarray) -> np.ndarray:
        """The kernel's log joints are relative to the empty state's, and multiplied by beta."""
        relative = free_energy(log_normaliser, energy / self.beta, self.beta)
        return terms.constant + relative
