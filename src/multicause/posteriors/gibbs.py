"""The posterior by Gibbs sampling among the candidates: for coefficients that no sum over states can integrate out."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.spike_slab_linear import SpikeSlabParams
from multicause.models.spike_slab_max import SpikeSlabMax, SpikeSlabMaxStatistics, component_norms
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior, free_energy
from multicause.selection.base import Selection, Selector, selector_of


@dataclass(frozen=True)
class GibbsPosterior(Posterior):
    """Samples of p(s, z | y) with s_h = 0 outside the H' candidates, each coefficient drawn from its exact conditional.

    A row's random numbers follow from its values, the seed and the temperature alone: its answers depend neither on
    the other rows nor on the iteration, so that EM at one temperature is a deterministic ascent and converges.

    Parameters
    ----------
    n_candidates : int
        H'.
    n_sweeps : int
        Updates of every candidate over which expectations are taken.
    n_burn_in : int
        Updates before them, from all latents off, in which the likelihood is raised to a power that grows to 1.
    seed : int
        Of the random numbers.
    selection : Selection or None
        Learn which latents to consider; None asks the model's own selection function.
    """

    n_candidates: int
    n_sweeps: int = 10
    n_burn_in: int = 10
    seed: int = 0
    selection: Selection | None = None

    is_sampled: ClassVar[bool] = True

    def keeps_all(self, model: Any) -> bool:
        return self.n_candidates == model.n_components

    def prepare(
        self, model: SpikeSlabMax, params: SpikeSlabParams, beta: float = 1.0, selector: Selector | None = None
    ) -> "PreparedGibbs":
        """Everything that all chunks of one iteration share; beta is a power of the likelihood, not of the prior."""
        selector = selector_of(self.keeps_all(model), model.n_components, selector)
        return PreparedGibbs(self, model, params, beta, selector)


class PreparedGibbs(PreparedPosterior):
    """A sampled posterior at given parameters: the task that each chunk carries out."""

    def __init__(
        self,
        posterior: GibbsPosterior,
        model: SpikeSlabMax,
        params: SpikeSlabParams,
        beta: float,
        selector: Selector,
    ):
        self.posterior, self.model, self.params, self.beta, self.selector = posterior, model, params, beta, selector
        self.kernel = numba_cpu.load("spike_slab_max")
        self.unit = np.sqrt(params.slab_covariance)
        self.scale = float(np.sqrt(beta / params.noise_variance))
        scaled = np.ascontiguousarray(self.scale * self.unit[:, None] * params.components)
        self.latents = self.kernel.Causes(scaled, params.slab_mean / self.unit, logit(params.activation), self.scale)
        self.transposed = np.ascontiguousarray(params.components.T)
        self.norms = component_norms(params.components)

    def statistics(self, chunk: Chunk) -> EStepResult:
        """The E-step of a chunk, which remembers <s> for a selection function that is learned."""
        weights, Y = chunk.row_weights(), chunk.rows()
        answers = self._sample(Y, self._candidates(Y, chunk), weights)
        self.selector.observe(chunk, answers.s)
        statistics = SpikeSlabMaxStatistics(
            float(weights.sum()),
            weights @ answers.s,
            self.unit * (weights @ answers.x),
            self.unit**2 * answers.xx,
            self.unit[:, None] * answers.axy / self.scale,
            self.unit[:, None] ** 2 * answers.axx,
            float(weights @ answers.distance) / self.scale**2,
        )
        return EStepResult(float(self._free_energies(Y, answers) @ weights), statistics)

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """An estimate of log p(y), with all latents but the candidates off, of each row."""
        Y = chunk.rows()
        return self._free_energies(Y, self._sample(Y, self._candidates(Y, chunk)))

    def means(self, chunk: Chunk) -> np.ndarray:
        """<s>_n of each row, (N, H)."""
        return self._ask(chunk).s

    def codes(self, chunk: Chunk) -> np.ndarray:
        """<s*z>_n of each row, (N, H)."""
        return self._ask(chunk).x * self.unit

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the noiseless data of each row, (N, D)."""
        return self._ask(chunk).rebuilt / self.scale

    def _ask(self, chunk: Chunk) -> Any:
        Y = chunk.rows()
        return self._sample(Y, self._candidates(Y, chunk), wants_evidence=False)

    def _sample(
        self, Y: np.ndarray, candidates: np.ndarray, weights: np.ndarray | None = None, wants_evidence: bool = True
    ) -> Any:
        n, (H, D), zeros = len(Y), self.params.components.shape, np.zeros
        answers = self.kernel.Answers(
            zeros(n), zeros((n, H)), zeros((n, H)), zeros((n, D)), zeros(n), zeros(H), zeros((H, D)), zeros((H, D))
        )
        key = np.array([self.beta]).view(np.uint64)[0] ^ np.uint64(self.posterior.seed)
        chain = self.kernel.Chain(self.posterior.n_burn_in, self.posterior.n_sweeps, key, wants_evidence)
        self.kernel.sample_rows(Y, candidates, np.ones(n) if weights is None else weights, self.latents, chain, answers)
        return answers

    def _free_energies(self, Y: np.ndarray, answers: Any) -> np.ndarray:
        """The likelihood alone is tempered: q ~ p(x) p(y | x)^beta."""
        log_empty = np.log1p(-self.params.activation).sum()
        log_noise = self.model.log_noise(self.params, Y, np.zeros(self.model.n_features))
        log_scale = 0.5 * self.model.n_features * np.log(2.0 * np.pi * self.params.noise_variance)
        log_likelihood = -log_scale - 0.5 * answers.distance / self.beta
        return free_energy(answers.evidence + log_empty + self.beta * log_noise, log_likelihood, self.beta)

    def _candidates(self, Y: np.ndarray, chunk: Chunk) -> np.ndarray:
        chosen = self.selector.candidates(chunk, self.posterior.n_candidates, partial(self._select, Y))
        return np.ascontiguousarray(chosen, dtype=np.int32)

    def _select(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        scores = tiled_product(Y, self.transposed)
        zeros = np.zeros(self.model.n_components)
        return numba_cpu.load("selection").top_candidates(scores, zeros, 1.0 / self.norms, n_candidates)
