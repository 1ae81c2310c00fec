"""The posterior over states that all data points share: no selection, one matrix product per chunk."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from multicause.execution.chunks import Chunk
from multicause.execution.reproducible_matmul import TILE, tiled_product
from multicause.models.base import combine, heated
from multicause.models.few_maximal_causes import FewMaximalCauses
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior, free_energy
from multicause.selection.base import Selector

_BLOCK_BYTES = 32 * 2**20  # of one (rows, S) work array
IMPOSSIBLE = -1e300  # the log joint of the empty state with a count above 0: finite, so that 0 times it is 0


@dataclass(frozen=True)
class EnumeratedPosterior(Posterior):
    """q_n(s) = p(s, y_n)^beta / Z_n for the states s that the model lists, the same for every n.

    Parameters
    ----------
    max_active : int
        Most latents of a state.
    """

    max_active: int

    def keeps_all(self, model: Any) -> bool:
        return True  # all points share all states

    def prepare(
        self, model: FewMaximalCauses, params: Any, beta: float = 1.0, selector: Selector | None = None
    ) -> "PreparedEnumerated":
        """Everything that all chunks of one iteration share."""
        states = model.states()
        return PreparedEnumerated(heated(model, beta), params, beta, states, LogJointTable.of(model, params, states))


@dataclass(frozen=True)
class LogJointTable:
    """log p(s, y_n) of states that all data points share: one matrix product.

    log p(s, y) = log p(s) + sum_d [ y_d log Wbar_d(s) - Wbar_d(s) ] - log y_d!
    """

    rates: np.ndarray  # (S, D) Wbar(s); the first state is the empty one
    log_rates: np.ndarray  # (D, S) log Wbar(s), 0 for the empty state
    log_scale: np.ndarray  # (S,) log p(s) - sum_d Wbar_d(s)

    @classmethod
    def of(cls, model: FewMaximalCauses, params: Any, states: np.ndarray) -> "LogJointTable":
        rates = model.superpose(params, states)
        log_rates = np.zeros_like(rates)
        np.log(rates[1:], out=log_rates[1:])
        log_prior = model.prior.log_density(params, states)
        return cls(rates, np.ascontiguousarray(log_rates.T), log_prior - rates.sum(axis=1))

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """(N, S), the same bits for a row, whatever the other rows."""
        log_joint = tiled_product(Y, self.log_rates)
        log_joint += self.log_scale
        log_joint -= gammaln(Y + 1.0).sum(axis=1, keepdims=True)
        log_joint[Y.any(axis=1), 0] = IMPOSSIBLE
        return log_joint


@dataclass(frozen=True)
class PreparedEnumerated(PreparedPosterior):
    """The posterior at given parameters: the task that each chunk carries out, a block of rows at a time."""

    model: FewMaximalCauses
    params: Any
    beta: float
    states: np.ndarray  # (S, H)
    table: LogJointTable

    def statistics(self, chunk: Chunk) -> EStepResult:
        """The E-step of a chunk."""
        weights, total = chunk.row_weights(), None
        for rows, Y in self._blocks(chunk):
            free_energies, q = self._weigh(Y)
            q *= weights[rows, None]
            statistics = self.model.accumulate(self.params, Y, self.states, q)
            part = EStepResult(float(free_energies @ weights[rows]), statistics)
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

    def _blocks(self, chunk: Chunk) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of the chunk and their rows: whole tiles, as many as a work array of moderate size holds."""
        Y = chunk.rows()
        size = max(_BLOCK_BYTES // (8 * TILE * len(self.states)), 1) * TILE
        for start in range(0, len(Y), size):
            rows = slice(start, min(start + size, len(Y)))
            yield rows, Y[rows]

    def _weigh(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F_n, and q proportional to p(s, y)^beta, (N, S)."""
        log_joint = self.table(Y)
        top = log_joint.max(axis=1)
        q = log_joint - top[:, None]
        q *= self.beta
        np.exp(q, out=q)
        normaliser = q.sum(axis=1, keepdims=True)
        q /= normaliser
        tempered = np.einsum("ns,ns->n", q, log_joint)
        return free_energy(self.beta * top + np.log(normaliser[:, 0]), tempered, self.beta), q
