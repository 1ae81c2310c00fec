"""The truncated E-step of binary latents whose rates add up under Poisson noise."""

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.poisson_linear import PoissonLinearStatistics
from multicause.models.subsets import subset_tree
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated
from multicause.posteriors.e_steps.mean_noise import MeanNoiseEStep, RowTerms

_NONE = np.zeros((0, 0))


class PoissonLinearEStep(MeanNoiseEStep):
    """States by their running sums of rates: see `backends.numba_cpu.poisson_linear`."""

    def __init__(self, model, params, max_active, singletons, beta):
        super().__init__(model, params, max_active, singletons, beta)
        self.kernel = numba_cpu.load("poisson_linear")
        components = np.ascontiguousarray(params.components)
        self.rates_alone = params.background + components  # (H, D)
        offset = logit(params.activation) - components.sum(axis=1)
        self.tables = self.kernel.Tables(components, offset, float(params.background), float(beta))
        self.log_empty = np.log1p(-params.activation).sum() - model.n_features * params.background

    def terms(self, Y: np.ndarray) -> RowTerms:
        singles = tiled_product(Y, np.ascontiguousarray(np.log(self.rates_alone).T))
        singles += self.tables.offset
        empty = np.log(self.params.background) * Y.sum(axis=1)
        return RowTerms(Y, singles, empty, self.log_empty + self.model.noise.log_carrier(self.params, Y))

    def free_energies(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        log_normaliser, energy = self._expectations(terms, candidates)[:2]
        return terms.constant + free_energy(log_normaliser, energy, self.beta)

    def means(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        return self._expectations(terms, candidates)[2]

    def reconstruct(self, terms: RowTerms, candidates: np.ndarray) -> np.ndarray:
        return self.params.background + tiled_product(self.means(terms, candidates), self.tables.components)

    def accumulate(self, terms: RowTerms, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        components, background, Y = self.tables.components, self.params.background, terms.Y
        shared = np.zeros_like(components)
        log_normaliser, energy, means, alone, none, per_rate = self._expectations(terms, candidates, weights, shared)
        alone *= weights[:, None]
        single = (alone.T @ Y) / self.rates_alone
        of_background = background * (per_rate + float(single.sum())) + float((weights * none) @ Y.sum(axis=1))
        statistics = PoissonLinearStatistics(
            float(weights.sum()), weights @ means, components * (shared + single), of_background
        )
        return Accumulated(terms.constant + free_energy(log_normaliser, energy, self.beta), statistics, means)

    def _expectations(self, terms: RowTerms, candidates: np.ndarray, weights=None, shared: np.ndarray = _NONE):
        tree = subset_tree(candidates.shape[1], self.max_active)
        weights = np.zeros(len(candidates)) if weights is None else weights
        data = (terms.Y, terms.singles, terms.empty)
        return self.kernel.expectations(self.tables, tree, data, candidates, self.singletons, weights, shared)
