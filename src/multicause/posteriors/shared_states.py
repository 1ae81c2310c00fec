"""The posterior over states that all data points share: no selection, one matrix product per chunk."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from multicause.backends.tiles import TILE, tiled_product
from multicause.execution.chunks import Chunk
from multicause.models.base import combine
from multicause.models.few_maximal_causes import LogJointTable
from multicause.posteriors.truncated import EStep

_BLOCK_BYTES = 32 * 2**20  # of one (rows, S) work array


class SharedStatesModel(Protocol):
    """A model that lists its states and tabulates their log joints."""

    def states(self) -> np.ndarray: ...

    def tabulate(self, params: Any) -> LogJointTable: ...

    def accumulate(
        self, params: Any, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> tuple: ...


@dataclass(frozen=True)
class SharedStates:
    """q_n(s) = p(s, y_n)^beta / Z_n for the states s that the model lists, the same for every n.

    Parameters
    ----------
    max_active : int
        Most causes of a state.
    """

    max_active: int

    def prepare(
        self, model: SharedStatesModel, params: Any, beta: float = 1.0, affinity: None = None
    ) -> "PreparedSharedStates":
        """Everything that all chunks of one iteration share."""
        return PreparedSharedStates(model, params, beta, model.states(), model.tabulate(params))


@dataclass(frozen=True)
class PreparedSharedStates:
    """The posterior at given parameters: the task that each chunk carries out, a block of rows at a time."""

    model: SharedStatesModel
    params: Any
    beta: float
    states: np.ndarray  # (S, H)
    table: LogJointTable

    def statistics(self, chunk: Chunk) -> EStep:
        """The E-step of a chunk."""
        weights, total = chunk.row_weights(), None
        for rows, Y in self._blocks(chunk):
            free_energies, q = self._weigh(Y)
            q *= weights[rows, None]
            statistics = self.model.accumulate(self.params, Y, self.states, q, self.beta)
            part = EStep(float(free_energies @ weights[rows]), statistics)
            total = part if total is None else combine(total, part)
        assert total is not None
        return total

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """F_n of each row."""
        return np.concatenate([self._weigh(Y)[0] for _, Y in self._blocks(chunk)])

    def means(self, chunk: Chunk) -> np.ndarray:
        """<s>_n of each row, (N, H)."""
        return np.concatenate([tiled_product(self._weigh(Y)[1], self.states) for _, Y in self._blocks(chunk)])

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the noiseless data of each row, (N, D)."""
        return np.concatenate([tiled_product(self._weigh(Y)[1], self.table.rates) for _, Y in self._blocks(chunk)])

    def _blocks(self, chunk: Chunk):
        """Slices of the chunk and their rows: whole tiles, as many as a work array of moderate size holds."""
        Y = chunk.rows()
        size = max(_BLOCK_BYTES // (8 * TILE * len(self.states)), 1) * TILE
        for start in range(0, len(Y), size):
            rows = slice(start, min(start + size, len(Y)))
            yield rows, Y[rows]

    def _weigh(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bound F_n = <log p(s, y)>_q + H(q), and q proportional to p(s, y)^beta, (N, S)."""
        log_joint = self.table(Y)
        q = log_joint - log_joint.max(axis=1, keepdims=True)
        q *= self.beta
        np.exp(q, out=q)
        normaliser = q.sum(axis=1, keepdims=True)
        q /= normaliser
        top = log_joint.max(axis=1)
        free_energies = self.beta * top + np.log(normaliser[:, 0])
        if self.beta != 1.0:
            free_energies += (1.0 - self.beta) * np.einsum("ns,ns->n", q, log_joint)
        return free_energies, q
