"""The posterior by Gibbs sampling among the candidates: for strengths that no sum over states can integrate out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.backends.tiles import tiled_product
from multicause.execution.chunks import Chunk
from multicause.models.spike_slab_linear import SpikeSlabParams
from multicause.models.spike_slab_max import SpikeSlabMax, SpikeSlabMaxStatistics, field_norms
from multicause.posteriors.truncated import Candidates, EStep
from multicause.selection.gp_select import GPSelect, remember


@dataclass(frozen=True)
class GibbsPosterior:
    """Samples of p(s, z | y) with s_h = 0 outside the H' candidates, each strength drawn from its exact conditional.

    A row's random numbers follow from its values, the seed and the temperature alone: its answers depend neither on
    the rows beside it nor on the iteration, so that EM at one temperature is a deterministic ascent and comes to rest.

    Parameters
    ----------
    n_candidates : int
        H'.
    n_sweeps : int
        Updates of every candidate over which expectations are taken.
    n_burn_in : int
        Updates before them, from all causes off, in which the likelihood is raised to a power that grows to 1.
    seed : int
        Of the random numbers.
    selection : GPSelect or None
        Learn which causes to consider; None asks the model's own selection function.
    """

    n_candidates: int
    n_sweeps: int = 10
    n_burn_in: int = 10
    seed: int = 0
    selection: GPSelect | None = None

    def prepare(
        self, model: SpikeSlabMax, params: SpikeSlabParams, beta: float = 1.0, affinity: Candidates | None = None
    ) -> "PreparedGibbs":
        """Everything that all chunks of one iteration share; beta is a power of the likelihood, not of the prior."""
        return PreparedGibbs(self, model, params, beta, affinity)


class PreparedGibbs:
    """A sampled posterior at given parameters: the task that each chunk carries out."""

    def __init__(
        self,
        posterior: GibbsPosterior,
        model: SpikeSlabMax,
        params: SpikeSlabParams,
        beta: float,
        affinity: Candidates | None,
    ):
        self.posterior, self.model, self.params, self.beta, self.affinity = posterior, model, params, beta, affinity
        self.kernel = numba_cpu.load("spike_slab_max")
        self.unit = np.sqrt(params.slab_covariance)
        self.scale = float(np.sqrt(beta / params.noise_variance))
        fields = np.ascontiguousarray(self.scale * self.unit[:, None] * params.components)
        self.causes = self.kernel.Causes(fields, params.slab_mean / self.unit, logit(params.activation), self.scale)
        self.transposed = np.ascontiguousarray(params.components.T)
        self.norms = field_norms(params.components)

    def statistics(self, chunk: Chunk) -> EStep:
        """The E-step of a chunk, which remembers <s> for those who learn to select."""
        weights, Y = chunk.row_weights(), chunk.rows()
        answers = self._explore(Y, self._candidates(Y, chunk), weights)
        if self.posterior.selection is not None:
            remember(chunk, answers.s)
        statistics = SpikeSlabMaxStatistics(
            float(weights.sum()),
            weights @ answers.s,
            self.unit * (weights @ answers.x),
            self.unit**2 * answers.xx,
            self.unit[:, None] * answers.axy / self.scale,
            self.unit[:, None] ** 2 * answers.axx,
            float(weights @ answers.distance) / self.scale**2,
        )
        return EStep(float(self._bound(Y, answers) @ weights), statistics)

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """An estimate of log p(y), all causes but the candidates being off, of each row."""
        Y = chunk.rows()
        return self._bound(Y, self._explore(Y, self._candidates(Y, chunk)))

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
        return self._explore(Y, self._candidates(Y, chunk), wants_evidence=False)

    def _explore(
        self, Y: np.ndarray, candidates: np.ndarray, weights: np.ndarray | None = None, wants_evidence: bool = True
    ) -> Any:
        n, (H, D), zeros = len(Y), self.params.components.shape, np.zeros
        Y = Y if Y.flags.writeable else Y.copy()  # of a memory-mapped array: another type, for which to compile anew
        answers = self.kernel.Answers(
            zeros(n), zeros((n, H)), zeros((n, H)), zeros((n, D)), zeros(n), zeros(H), zeros((H, D)), zeros((H, D))
        )
        key = np.array([self.beta]).view(np.uint64)[0] ^ np.uint64(self.posterior.seed)
        chain = self.kernel.Chain(self.posterior.n_burn_in, self.posterior.n_sweeps, key, wants_evidence)
        self.kernel.explore(Y, candidates, np.ones(n) if weights is None else weights, self.causes, chain, answers)
        return answers

    def _bound(self, Y: np.ndarray, answers: Any) -> np.ndarray:
        """F_n = <log p(x, y)>_q + H(q) = log Z_beta + (1 - beta) <log p(y | x)>_q for q ~ p(x) p(y | x)^beta."""
        silence = np.log1p(-self.params.activation).sum()
        log_noise = self.model.log_noise(self.params, Y, np.zeros(self.model.n_features))
        log_scale = 0.5 * self.model.n_features * np.log(2.0 * np.pi * self.params.noise_variance)
        log_likelihood = -log_scale - 0.5 * answers.distance / self.beta
        return answers.evidence + silence + self.beta * log_noise + (1.0 - self.beta) * log_likelihood

    def _candidates(self, Y: np.ndarray, chunk: Chunk) -> np.ndarray:
        n_candidates, H = self.posterior.n_candidates, self.model.n_components
        if n_candidates == H:
            return np.tile(np.arange(H, dtype=np.int32), (len(Y), 1))
        if self.affinity is not None:
            return np.ascontiguousarray(self.affinity.candidates(chunk, n_candidates), dtype=np.int32)
        scores = tiled_product(Y, self.transposed)
        return numba_cpu.load("selection").top_candidates(scores, np.zeros(H), 1.0 / self.norms, n_candidates)
