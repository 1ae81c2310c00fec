"""The E-step by the model's definition, state by state: slow, for any model, and the truth for every kernel."""

from collections.abc import Iterator
from functools import lru_cache, partial, reduce
from typing import Any

import numpy as np
from scipy.special import logsumexp

from multicause.backends.numba_cpu.subset_tree import count_subsets, subset_tree
from multicause.models.base import GenerativeModel, HasStrengths, combine, heated_log_joint
from multicause.selection.hand_derived import top_candidates
from multicause.selection.pursuit import pursue

_BLOCK_NUMBERS = 2**21  # of the states, or of the data they cause, that are written out at once


@lru_cache(maxsize=32)
def candidate_states(n_candidates: int, max_active: int) -> np.ndarray:
    """All subsets of the candidates with at most `max_active` members, as rows of 0 and 1, (K, n_candidates)."""
    tree = subset_tree(n_candidates, max_active)
    states = np.zeros((len(tree.depth), n_candidates))
    for row, (size, members) in enumerate(zip(tree.depth, tree.members, strict=True)):
        states[row, members[:size]] = 1.0
    return states


def truncated_states(candidates: np.ndarray, n_components: int, max_active: int, singletons: bool) -> np.ndarray:
    """K_n for each row of candidates (N, H'), as (N, K, H); with `singletons` the single causes outside are added."""
    few = candidate_states(candidates.shape[1], max_active)
    n_rows, n_few = len(candidates), len(few)
    n_outside = n_components - candidates.shape[1] if singletons else 0
    states = np.zeros((n_rows, n_few + n_outside, n_components))
    np.put_along_axis(states[:, :n_few], candidates[:, None, :].astype(np.int64), few, axis=2)
    if n_outside:
        inside = np.zeros((n_rows, n_components), dtype=bool)
        np.put_along_axis(inside, candidates.astype(np.int64), True, axis=1)
        outside = np.nonzero(~inside)[1].reshape(n_rows, n_outside)
        np.put_along_axis(states[:, n_few:], outside[:, :, None], 1.0, axis=2)
    return states


class DefinitionWalk:
    """Truncated expectations of any `GenerativeModel` from its `log_joint` and `accumulate` alone."""

    def __init__(self, model: GenerativeModel, params: Any, max_active: int, singletons: bool, beta: float):
        self.model, self.params = model, params
        self.max_active, self.singletons, self.beta = max_active, singletons, beta

    def evidence(self, Y: np.ndarray) -> np.ndarray:
        return Y

    def subset(self, Y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return Y[rows]

    def select(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        return top_candidates(self.model.selection_scores(self.params, Y), n_candidates)

    def pursue(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        model: Any = self.model  # one that has pursuit_scores
        return pursue(partial(model.pursuit_scores, self.params, Y), len(Y), model.n_components, n_candidates)

    def free_energies(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return np.concatenate([self._weigh(*block)[0] for block in self._blocks(Y, candidates)])

    def means(self, Y: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [self._weigh(*block) for block in self._blocks(Y, candidates)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([_mean(q, s) for _, s, q in parts])

    def codes(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Posterior means of the causes' strengths; of the causes themselves where they have none."""
        parts = ((y, *self._weigh(y, chosen)) for y, chosen in self._blocks(Y, candidates))
        return np.concatenate([_mean(q, self._strengths(y, states)) for y, _, states, q in parts])

    def reconstruct(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        parts = ((y, *self._weigh(y, chosen)) for y, chosen in self._blocks(Y, candidates))
        superpose = self.model.superpose
        return np.concatenate(
            [_mean(q, superpose(self.params, self._strengths(y, states))) for y, _, states, q in parts]
        )

    def accumulate(
        self, Y: np.ndarray, candidates: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, Any, np.ndarray]:
        free_energies, statistics, means, done = [], [], [], 0
        for y, chosen in self._blocks(Y, candidates):
            bound, states, q = self._weigh(y, chosen)
            block_weights = weights[done : done + len(y), None]
            statistics.append(self.model.accumulate(self.params, y, states, block_weights * q, self.beta))
            free_energies.append(bound)
            means.append(_mean(q, states))
            done += len(y)
        return np.concatenate(free_energies), reduce(combine, statistics), np.concatenate(means)

    def _strengths(self, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        return self.model.codes(self.params, Y, states) if isinstance(self.model, HasStrengths) else states

    def _blocks(self, Y: np.ndarray, candidates: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Few rows at a time: their states and the data that these cause are written out."""
        n_states = count_subsets(candidates.shape[1], self.max_active) + self.singletons * self.model.n_components
        size = max(_BLOCK_NUMBERS // (n_states * (self.model.n_components + Y.shape[1])), 1)
        for start in range(0, len(Y), size):
            yield Y[start : start + size], candidates[start : start + size]

    def _weigh(self, Y: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q proportional to p(s, y)^beta over K_n, and the bound F_n = <log p(s, y)>_q + H(q) that it attains."""
        states = truncated_states(candidates, self.model.n_components, self.max_active, self.singletons)
        log_joint = heated_log_joint(self.model, self.params, Y, states, self.beta)
        log_q = self.beta * log_joint
        log_normaliser = logsumexp(log_q, axis=1, keepdims=True)
        q = np.exp(log_q - log_normaliser)
        energy = (q * np.where(q > 0.0, log_joint, 0.0)).sum(axis=1)
        return log_normaliser[:, 0] + (1.0 - self.beta) * energy, states, q


def _mean(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum_k q_nk values_nk, (N, ...)."""
    return np.einsum("nk,nkh->nh", q, values)
