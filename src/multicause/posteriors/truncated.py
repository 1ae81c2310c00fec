"""The truncated posterior: exact inference among the causes that a selection function picks."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.models.base import GenerativeModel
from multicause.posteriors.definition import DefinitionWalk
from multicause.selection.gp_select import GPSelect, remember


class EStep(NamedTuple):
    """What one chunk adds to an iteration."""

    free_energy: float  # sum_n w_n F_n
    statistics: Any  # the model's own


class Walk(Protocol):
    """Expectations over the truncated states, for one set of parameters.

    `evidence` is what it derives from Y once; `means` and `accumulate` use it up.
    """

    def evidence(self, Y: np.ndarray) -> Any: ...

    def subset(self, evidence: Any, rows: np.ndarray) -> Any: ...

    def select(self, evidence: Any, n_candidates: int) -> np.ndarray: ...

    def pursue(self, evidence: Any, n_candidates: int) -> np.ndarray: ...  # of models with pursuit_scores

    def free_energies(self, evidence: Any, candidates: np.ndarray) -> np.ndarray: ...

    def means(self, evidence: Any, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...

    def codes(self, evidence: Any, candidates: np.ndarray) -> np.ndarray: ...  # of models with strengths

    def reconstruct(self, evidence: Any, candidates: np.ndarray) -> np.ndarray: ...

    def accumulate(
        self, evidence: Any, candidates: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, Any, np.ndarray]: ...  # F_n, the sums of all rows, and <s> of each


class Candidates(Protocol):
    """Chooses the causes to consider for each row of a chunk."""

    def candidates(self, chunk: Chunk, n_candidates: int) -> np.ndarray: ...


@dataclass(frozen=True)
class TruncatedPosterior:
    """q_n(s) = p(s, y_n)^beta / Z_n for s in K_n = {s : |s| <= gamma, s_h = 0 outside the H' candidates}, else 0.

    Parameters
    ----------
    n_candidates, max_active : int
        H' and gamma.
    singletons : bool
        Keep every single cause in K_n, candidate or not.
    monotone : bool
        Per data point, keep the last iteration's candidates where they give the larger F_n: F then never falls.
    use_kernel : bool
        Use the model's fused kernel where it has one; otherwise its definition.
    selection : GPSelect or None
        Learn which causes to consider; None asks the model's own selection function.
    pursuit : bool
        Choose candidates one by one, each beside those before, instead of each by itself.
    """

    n_candidates: int
    max_active: int
    singletons: bool = True
    monotone: bool = False
    use_kernel: bool = True
    selection: GPSelect | None = None
    pursuit: bool = False

    def prepare(
        self, model: GenerativeModel, params: Any, beta: float = 1.0, affinity: Candidates | None = None
    ) -> "PreparedPosterior":
        """Everything that all chunks of one iteration share; `affinity` chooses in place of the model."""
        singletons = self.singletons and self.n_candidates < model.n_components
        kernel = getattr(model, "kernel", None) if self.use_kernel else None
        if kernel is not None:
            walk: Walk = numba_cpu.load(kernel).Walk(model, params, self.max_active, singletons, beta)
        else:
            walk = DefinitionWalk(model, params, self.max_active, singletons, beta)
        return PreparedPosterior(self, walk, model.n_components, affinity)


@dataclass(frozen=True)
class PreparedPosterior:
    """A truncated posterior at given parameters: the task that each chunk carries out."""

    posterior: TruncatedPosterior
    walk: Walk
    n_components: int
    affinity: Candidates | None = None

    def statistics(self, chunk: Chunk) -> EStep:
        """The E-step of a chunk, which remembers what the next selection wants to know of this one."""
        weights = chunk.row_weights()
        evidence = self.walk.evidence(chunk.rows())
        candidates = self._candidates(evidence, chunk)
        free_energies, statistics, means = self.walk.accumulate(evidence, candidates, weights)
        if self.posterior.selection is not None:
            remember(chunk, means)
        return EStep(float(free_energies @ weights), statistics)

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """F_n of each row."""
        evidence = self.walk.evidence(chunk.rows())
        return self.walk.free_energies(evidence, self._candidates(evidence, chunk))

    def means(self, chunk: Chunk) -> np.ndarray:
        """<s>_n of each row, (N, H)."""
        evidence = self.walk.evidence(chunk.rows())
        return self.walk.means(evidence, self._candidates(evidence, chunk))[1]

    def codes(self, chunk: Chunk) -> np.ndarray:
        """<s*z>_n of each row, (N, H), for a model whose causes have strengths."""
        evidence = self.walk.evidence(chunk.rows())
        return self.walk.codes(evidence, self._candidates(evidence, chunk))

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the noiseless data of each row, (N, D)."""
        evidence = self.walk.evidence(chunk.rows())
        return self.walk.reconstruct(evidence, self._candidates(evidence, chunk))

    def _candidates(self, evidence: Any, chunk: Chunk) -> np.ndarray:
        fresh = self._select(evidence, chunk)
        if not self.posterior.monotone or self.posterior.n_candidates == self.n_components:
            return fresh
        kept = chunk.memory.get("candidates")
        if kept is not None:
            fresh = self._better(evidence, kept, fresh)
        chunk.memory["candidates"] = fresh
        return fresh

    def _better(self, evidence: Any, kept: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Per row the candidates with the larger F_n; the fresh ones where both agree to rounding."""
        rows = np.flatnonzero((kept != fresh).any(axis=1))
        if rows.size:
            differing = self.walk.subset(evidence, rows)
            before = self.walk.free_energies(differing, kept[rows])
            after = self.walk.free_energies(differing, fresh[rows])
            rows = rows[before - after > 1e-13 * np.abs(after)]
            fresh[rows] = kept[rows]
        return fresh

    def _select(self, evidence: Any, chunk: Chunk) -> np.ndarray:
        if self.posterior.n_candidates == self.n_components:
            return np.tile(np.arange(self.n_components, dtype=np.int32), (chunk.stop - chunk.start, 1))
        if self.affinity is not None:
            return self.affinity.candidates(chunk, self.posterior.n_candidates)
        choose = self.walk.pursue if self.posterior.pursuit else self.walk.select
        return choose(evidence, self.posterior.n_candidates)
