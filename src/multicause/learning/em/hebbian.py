"""Learning from one pattern after the other, in blocks that leave the same records as EM does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk, for_kernels
from multicause.execution.in_process import InProcess
from multicause.execution.reproducible_matmul import tiled_product
from multicause.learning.records import Record, Stopwatch
from multicause.models.base import DataMoments
from multicause.models.few_maximal_causes import RestrictedCauses, RestrictedParams
from multicause.posteriors.base import Posterior

N_BLOCKS = 20  # records of a fit: the free energy of all data is measured so often
PARTS = 5  # of a block, each at a temperature of its own where it falls
_NOISE_BYTES = 16 * 2**20  # of the noise drawn at once


def default_presentations(n_samples: int) -> int:
    """A hundred per data point: most trials need two, but a few need many more (MCA §6.5)."""
    return min(max(100 * n_samples, 10_000), 200_000)


@dataclass(frozen=True)
class HebbianRule:
    """How the network R-MCA_NN learns (MCA eq. 25 and §6.4).

    Parameters
    ----------
    temperature : float
        T of the competition between latents.
    learning_rate : float
        epsilon.
    weight_noise : float
        Standard deviation of the noise on the components at each pattern, in the units of the data.
    final_temperature : float or None
        To which T falls in equal steps while the patterns are presented; None: it does not.
    """

    temperature: float = 16.0
    learning_rate: float = 1.0
    weight_noise: float = 0.02
    final_temperature: float | None = None

    def at(self, share: float) -> "HebbianRule":
        """The rule once this share of the patterns, from 0 to 1, has been presented."""
        if self.final_temperature is None:
            return self
        return replace(self, temperature=self.temperature + share * (self.final_temperature - self.temperature))

    def present(
        self, model: RestrictedCauses, params: RestrictedParams, Y: np.ndarray, rng: np.random.Generator
    ) -> RestrictedParams:
        """The parameters after the patterns Y, in their order."""
        kernel = numba_cpu.load("restricted_mca")
        beta = 1.0 / self.temperature
        odds = (params.activation[0] / (1.0 - params.activation[0])) ** beta
        components = np.ascontiguousarray(params.components, dtype=np.float64).copy()
        size = max(_NOISE_BYTES // (8 * components.size), 1)
        for start in range(0, len(Y), size):
            block = for_kernels(Y[start : start + size])
            noise = self.weight_noise * rng.standard_normal((len(block), *components.shape))
            kernel.present(block, noise, components, model.field_sum, model.floor, (self.learning_rate, beta, odds))
        return params._replace(components=components)


@dataclass(frozen=True)
class RowSampler:
    """Draws rows in proportion to their weights; neither their order nor a row given twice makes a difference."""

    X: Any  # all data
    rows: np.ndarray  # (N,) all rows, in an order that follows from their values
    reached: np.ndarray  # (N,) running sum of their weights

    @classmethod
    def of(cls, chunks: Sequence[Chunk], direction: np.ndarray) -> "RowSampler":
        """Rows in their order along a random direction (D, 1): those that differ differ along it."""
        place = np.concatenate([tiled_product(chunk.rows(), direction)[:, 0] for chunk in chunks])
        weights = np.concatenate([chunk.row_weights() for chunk in chunks])
        rows = np.argsort(place, kind="stable")
        return cls(chunks[0].X, rows, np.cumsum(weights[rows]))

    def draw(self, n_patterns: int, rng: np.random.Generator) -> np.ndarray:
        drawn = np.searchsorted(self.reached, rng.random(n_patterns) * self.reached[-1], side="right")
        return self.X[self.rows[np.minimum(drawn, len(self.rows) - 1)]]


class HebbianState(NamedTuple):
    """From which learning can go on, given the position of the random numbers."""

    number: int  # of blocks presented
    params: RestrictedParams
    direction: np.ndarray  # by which rows are ordered


@dataclass(frozen=True)
class HebbianLearning:
    """Patterns drawn at random, in proportion to their weights, and presented one by one."""

    model: RestrictedCauses
    posterior: Posterior
    rule: HebbianRule
    n_presentations: int
    executor: InProcess
    chunks: Sequence[Chunk]
    moments: DataMoments

    @property
    def n_steps(self) -> int:
        return min(N_BLOCKS, self.n_presentations)

    def stopping_rule(self, tol: float) -> None:
        """All patterns are presented."""

    def steps(
        self,
        params: RestrictedParams,
        rng: np.random.Generator,
        restart: int = 0,
        state: HebbianState | None = None,
    ) -> Iterator[Record]:
        """One record before each block of presentations, and a last one that belongs to the learned parameters."""
        clock = Stopwatch()
        if state is None:
            state = HebbianState(0, params, rng.standard_normal((self.chunks[0].X.shape[1], 1)))
        sampler = RowSampler.of(self.chunks, state.direction)
        ends = np.linspace(0, self.n_presentations, self.n_steps + 1).astype(int)
        for n_patterns in np.diff(ends)[state.number :]:
            number, params, value = state.number, state.params, self._free_energy(state.params)
            rules = self._rules(number)
            for rule, patterns in zip(
                rules, np.array_split(sampler.draw(int(n_patterns), rng), len(rules)), strict=True
            ):
                state = state._replace(params=rule.present(self.model, state.params, patterns, rng))
            state = state._replace(number=number + 1)
            temperature = rules[0].temperature
            yield Record(number, params, value, float(n_patterns), clock(), restart, temperature, state=state)
        value, weight = self._free_energy(state.params), self.moments.weight
        yield Record(self.n_steps, state.params, value, weight, clock(), restart, final=True)

    def _rules(self, number: int) -> list[HebbianRule]:
        """Of the parts of a block; the first begins at the initial temperature, the last ends at the final one."""
        if self.rule.final_temperature is None:
            return [self.rule]
        last = max(PARTS * self.n_steps - 1, 1)
        return [self.rule.at((PARTS * number + part) / last) for part in range(PARTS)]

    def _free_energy(self, params: RestrictedParams) -> float:
        prepared = self.posterior.prepare(self.model, params)
        totals = self.executor.map(lambda chunk: prepared.free_energies(chunk) @ chunk.row_weights(), self.chunks)
        return float(sum(totals)) / self.moments.weight
