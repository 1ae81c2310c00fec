"""The truncated posterior of chunks that are on a device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

from multicause.execution.on_device import DeviceChunk
from multicause.models.base import combine
from multicause.posteriors.base import EStepResult
from multicause.posteriors.device_steps import DeviceEStep

_MOST_NUMBERS = 2**28  # of the arrays that an E-step says it needs for each row, at one time


@dataclass(frozen=True)
class TruncatedOnDevice:
    """The questions of a `PreparedPosterior`; answers are on the device, sums over all rows in host memory."""

    e_step: DeviceEStep
    n_candidates: int
    keeps_all: bool  # every latent is a candidate
    greedy: bool

    def statistics(self, chunk: DeviceChunk) -> EStepResult:
        Y, weights = chunk.rows(), chunk.weights_there()
        return reduce(combine, (self._sums(Y[rows], weights[rows]) for rows in self._blocks(len(Y), Y.shape[1])))

    def free_energies(self, chunk: DeviceChunk) -> Any:
        return self._answers(self.e_step.free_energies, chunk)

    def means(self, chunk: DeviceChunk) -> Any:
        return self._answers(self.e_step.means, chunk)

    def codes(self, chunk: DeviceChunk) -> Any:
        return self._answers(self.e_step.codes, chunk)

    def reconstructions(self, chunk: DeviceChunk) -> Any:
        return self._answers(self.e_step.reconstruct, chunk)

    def clean(self, chunk: DeviceChunk) -> Any:
        return self._answers(self.e_step.clean, chunk)

    def _sums(self, Y: Any, weights: Any) -> EStepResult:
        return EStepResult(*self.e_step.statistics(*self._begin(Y), weights))

    def _answers(self, question: Callable[[Any, Any], Any], chunk: DeviceChunk) -> Any:
        Y = chunk.rows()
        parts = [question(*self._begin(Y[rows])) for rows in self._blocks(len(Y), Y.shape[1])]
        return parts[0] if len(parts) == 1 else self.e_step.xp.concatenate(parts)

    def _blocks(self, n_rows: int, n_features: int) -> Iterator[slice]:
        """Rows whose states and shares, of which chunks know nothing, have room; nearly always all of them."""
        size = max(_MOST_NUMBERS // max(self.e_step.numbers_per_row(self.n_candidates, n_features), 1), 1)
        return (slice(first, first + size) for first in range(0, max(n_rows, 1), size))

    def _begin(self, Y: Any) -> tuple[Any, Any]:
        """The terms of some rows, and their candidates."""
        terms = self.e_step.terms(Y)
        if self.keeps_all:
            xp, shape = self.e_step.xp, (len(Y), self.n_candidates)
            every = xp.arange(self.n_candidates, dtype="int32")
            return terms, xp.ascontiguousarray(xp.broadcast_to(every, shape))
        select = self.e_step.select_greedily if self.greedy else self.e_step.select
        return terms, select(terms, self.n_candidates)
