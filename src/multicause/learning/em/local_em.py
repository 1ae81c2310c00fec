"""Plain EM on a sample of the rows, for those who look for a start."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.learning.em.widening import Widening
from multicause.learning.stopping import GainBelow
from multicause.models.base import combine
from multicause.posteriors.base import EStepResult
from multicause.posteriors.truncated import TruncatedPosterior

_REST = 1e-3  # gain of the free energy per data point below which EM is at rest


class Standing(NamedTuple):
    """Parameters, and the E-step at them."""

    params: Any
    e_step: EStepResult


@dataclass(frozen=True)
class LocalEM:
    """Plain EM on the sample."""

    model: Any
    posterior: TruncatedPosterior
    executor: InProcess
    chunks: Sequence[Chunk]

    def e_step(self, params: Any) -> Standing:
        prepared = self.posterior.prepare(self.model, params)
        return Standing(params, self.executor.map_reduce(prepared.statistics, self.chunks, combine, prepared.together))

    def steps(self, standing: Standing, n_steps: int) -> Standing:
        for _ in range(n_steps):
            standing = self.e_step(self.model.m_step(standing.params, standing.e_step.statistics))
        return standing

    def best_of_steps(self, params: Any, n_steps: int) -> Any:
        """The parameters with the largest free energy on the way to rest, on which it may fall."""
        standing = best = self.e_step(params)
        weight = sum(chunk.row_weights().sum() for chunk in self.chunks)
        at_rest = GainBelow(_REST)
        for _ in range(n_steps):
            if at_rest(standing.e_step.free_energy / weight):
                break
            standing = self.steps(standing, 1)
            best = max(best, standing, key=lambda one: one.e_step.free_energy)
        return best.params

    def widened(self, widening: Widening, params: Any, weights: np.ndarray) -> "LocalEM":
        """With as many states as the data points want at these parameters."""

        def free_energies(posterior: TruncatedPosterior) -> np.ndarray:
            return replace(self, posterior=posterior).ask(params, "free_energies")

        return replace(self, posterior=widening(self.posterior, self.model.n_components, free_energies, weights))

    def ask(self, params: Any, question: str) -> np.ndarray:
        prepared = self.posterior.prepare(self.model, params)
        return np.concatenate(list(self.executor.map(getattr(prepared, question), self.chunks)))
