"""The E-step by the model's definition, state by state: slow, for any model, and the truth for every kernel."""

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp

from multicause.backends.numba_cpu.subset_tree import subset_tree
from multicause.models.base import GenerativeModel, HasStrengths
from multicause.selection.hand_derived import top_candidates


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
    n_outside = n_components - candidates.shape[1] if singletons else 0
    states = np.zeros((len(candidates), len(few) + n_outside, n_components))
    for n, chosen in enumerate(candidates):
        states[n, : len(few), chosen] = few.T
        if n_outside:
            outside = np.setdiff1d(np.arange(n_components), chosen)
            states[n, len(few) + np.arange(n_outside), outside] = 1.0
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

    def free_energies(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return self._weigh(Y, candidates)[0]

    def means(self, Y: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        free_energies, states, q = self._weigh(Y, candidates)
        return free_energies, np.einsum("nk,nkh->nh", q, states)

    def codes(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """Posterior means of the causes' strengths; of the causes themselves where they have none."""
        _, states, q = self._weigh(Y, candidates)
        return np.einsum("nk,nkh->nh", q, self._strengths(Y, states))

    def reconstruct(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        _, states, q = self._weigh(Y, candidates)
        return np.einsum("nk,nkd->nd", q, self.model.superpose(self.params, self._strengths(Y, states)))

    def _strengths(self, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        return self.model.codes(self.params, Y, states) if isinstance(self.model, HasStrengths) else states

    def accumulate(self, Y: np.ndarray, candidates: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, Any]:
        free_energies, states, q = self._weigh(Y, candidates)
        return free_energies, self.model.accumulate(self.params, Y, states, weights[:, None] * q, self.beta)

    def _weigh(self, Y: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q proportional to p(s, y)^beta over K_n, and the bound F_n = <log p(s, y)>_q + H(q) that it attains."""
        states = truncated_states(candidates, self.model.n_components, self.max_active, self.singletons)
        log_joint = self.model.log_joint(self.params, Y, states)
        log_q = self.beta * log_joint
        log_normaliser = logsumexp(log_q, axis=1, keepdims=True)
        q = np.exp(log_q - log_normaliser)
        energy = (q * np.where(q > 0.0, log_joint, 0.0)).sum(axis=1)
        return log_normaliser[:, 0] + (1.0 - self.beta) * energy, states, q
