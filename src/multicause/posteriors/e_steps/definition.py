"""The E-step by the model's definition, state by state: slow, for any model, and the truth for every kernel."""

from collections.abc import Iterator
from functools import partial, reduce

import numpy as np
from scipy.special import logsumexp

from multicause.models.base import Cleans, HasCoefficients, calling, combine
from multicause.models.subsets import count_subsets, tree_subsets
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated, TruncatedEStep
from multicause.selection.greedy import grow_and_judge, select_greedily
from multicause.selection.model_based import top_candidates

_BLOCK_NUMBERS = 2**21  # of the states, or of the data they cause, that are written out at once


def truncated_states(candidates: np.ndarray, n_components: int, max_active: int, singletons: bool) -> np.ndarray:
    """K_n for each row of candidates (N, H'), as (N, K, H); with `singletons` the single latents outside are added."""
    subsets = tree_subsets(candidates.shape[1], max_active)
    n_rows, n_subsets = len(candidates), len(subsets)
    n_outside = n_components - candidates.shape[1] if singletons else 0
    states = np.zeros((n_rows, n_subsets + n_outside, n_components))
    np.put_along_axis(states[:, :n_subsets], candidates[:, None, :].astype(np.int64), subsets, axis=2)
    if n_outside:
        inside = np.zeros((n_rows, n_components), dtype=bool)
        np.put_along_axis(inside, candidates.astype(np.int64), True, axis=1)
        outside = np.nonzero(~inside)[1].reshape(n_rows, n_outside)
        np.put_along_axis(states[:, n_subsets:], outside[:, :, None], 1.0, axis=2)
    return states


class DefinitionEStep(TruncatedEStep):
    """Truncated expectations of any `GenerativeModel` from `log_joint` and `accumulate` alone; terms are the data."""

    def terms(self, Y: np.ndarray) -> np.ndarray:
        return Y

    def subset(self, Y: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return Y[rows]

    def select(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        with calling(self.model, "selection_scores"):
            scores = self.model.selection_scores(self.params, Y)
        return top_candidates(scores, n_candidates)

    def select_greedily(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        if hasattr(self.model, "greedy_scores"):
            scores = partial(self.model.greedy_scores, self.params, Y)
            return select_greedily(scores, len(Y), self.model.n_components, n_candidates)
        log_joint = partial(self.model.log_joint, self.params)
        return grow_and_judge(log_joint, Y, self.model.n_components, n_candidates)

    def free_energies(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        return np.concatenate([self._weigh(*block)[0] for block in self._blocks(Y, candidates)])

    def means(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        parts = (self._weigh(*block) for block in self._blocks(Y, candidates))
        return np.concatenate([_mean(q, states) for _, states, q in parts])

    def codes(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        parts = ((y, *self._weigh(y, chosen)) for y, chosen in self._blocks(Y, candidates))
        return np.concatenate([_mean(q, self._coefficients(y, states)) for y, _, states, q in parts])

    def reconstruct(self, Y: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        parts = ((y, *self._weigh(y, chosen)) for y, chosen in self._blocks(Y, candidates))
        return np.concatenate([_mean(q, self._noiseless(y, states)) for y, _, states, q in parts])

    def accumulate(self, Y: np.ndarray, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        free_energies, statistics, means, done = [], [], [], 0
        for y, chosen in self._blocks(Y, candidates):
            bound, states, q = self._weigh(y, chosen)
            block_weights = weights[done : done + len(y), None]
            with calling(self.model, "accumulate"):
                statistics.append(self.model.accumulate(self.params, y, states, block_weights * q))
            free_energies.append(bound)
            means.append(_mean(q, states))
            done += len(y)
        return Accumulated(np.concatenate(free_energies), reduce(combine, statistics), np.concatenate(means))

    def _noiseless(self, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """The data without noise given each state, (N, K, D)."""
        if isinstance(self.model, Cleans):
            return self.model.clean(self.params, Y, states)
        return self.model.superpose(self.params, self._coefficients(Y, states))

    def _coefficients(self, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        return self.model.codes(self.params, Y, states) if isinstance(self.model, HasCoefficients) else states

    def _blocks(self, Y: np.ndarray, candidates: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Few rows at a time: their states and the data that these cause are written out."""
        n_states = count_subsets(candidates.shape[1], self.max_active) + self.singletons * self.model.n_components
        size = max(_BLOCK_NUMBERS // (n_states * (self.model.n_components + Y.shape[1])), 1)
        for start in range(0, len(Y), size):
            yield Y[start : start + size], candidates[start : start + size]

    def _weigh(self, Y: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F_n, the states K_n, and q proportional to p(s, y)^beta over them."""
        states = truncated_states(candidates, self.model.n_components, self.max_active, self.singletons)
        with calling(self.model, "log_joint"):
            log_joint = self.model.log_joint(self.params, Y, states)
            if np.shape(log_joint) != states.shape[:2]:
                raise ValueError(f"log_joint must be (N, K) = {states.shape[:2]}. Got {np.shape(log_joint)} instead.")
        log_q = self.beta * log_joint
        log_normaliser = logsumexp(log_q, axis=1, keepdims=True)
        q = np.exp(log_q - log_normaliser)
        energy = (q * np.where(q > 0.0, log_joint, 0.0)).sum(axis=1)
        return free_energy(log_normaliser[:, 0], energy, self.beta), states, q


def _mean(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum_k q_nk values_nk, (N, ...)."""
    return np.einsum("nk,nkh->nh", q, values)
