"""The truncated posterior of chunks that are on a device."""

from dataclasses import dataclass
from typing import Any

from multicause.execution.on_device import DeviceChunk
from multicause.posteriors.base import EStepResult
from multicause.posteriors.device_steps import DeviceEStep


@dataclass(frozen=True)
class TruncatedOnDevice:
    """The questions of a `PreparedPosterior`; answers are on the device, sums over all rows beside the processor."""

    e_step: DeviceEStep
    n_candidates: int
    keeps_all: bool  # every latent is a candidate
    greedy: bool

    def statistics(self, chunk: DeviceChunk) -> EStepResult:
        terms, candidates = self._begin(chunk)
        weights = chunk.weights_there()
        return EStepResult(*self.e_step.statistics(terms, candidates, weights))

    def free_energies(self, chunk: DeviceChunk) -> Any:
        return self.e_step.free_energies(*self._begin(chunk))

    def means(self, chunk: DeviceChunk) -> Any:
        return self.e_step.means(*self._begin(chunk))

    def codes(self, chunk: DeviceChunk) -> Any:
        return self.e_step.codes(*self._begin(chunk))

    def reconstructions(self, chunk: DeviceChunk) -> Any:
        return self.e_step.reconstruct(*self._begin(chunk))

    def clean(self, chunk: DeviceChunk) -> Any:
        return self.e_step.clean(*self._begin(chunk))

    def _begin(self, chunk: DeviceChunk) -> tuple[Any, Any]:
        """The terms of the chunk's rows, and their candidates."""
        terms = self.e_step.terms(chunk.rows())
        if self.keeps_all:
            xp, shape = self.e_step.xp, (chunk.stop - chunk.start, self.n_candidates)
            every = xp.arange(self.n_candidates, dtype="int32")
            return terms, xp.ascontiguousarray(xp.broadcast_to(every, shape))
        select = self.e_step.select_greedily if self.greedy else self.e_step.select
        return terms, select(terms, self.n_candidates)
