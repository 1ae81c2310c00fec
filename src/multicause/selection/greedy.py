"""Greedy selection: each candidate is the latent that explains a data point best, given those chosen before it."""

from collections.abc import Callable

import numpy as np


def select_greedily(
    score: Callable[[np.ndarray], np.ndarray], n_rows: int, n_components: int, n_candidates: int
) -> np.ndarray:
    """The latents chosen for each row, in rising order; `score` turns states (N, K, H) into log p(y | s) (N, K).

    A selection that judges each latent by itself misses weak latents that strong ones cover, and chooses latents that
    explain the same twice. Among equals the first wins, as in `top_candidates`.
    """
    state = np.zeros((n_rows, n_components))
    for _ in range(n_candidates):
        grown = np.maximum(state[:, None, :], np.eye(n_components))
        gain = np.where(state > 0.0, -np.inf, score(grown) - score(state[:, None, :]))
        state[np.arange(n_rows), gain.astype(np.float32).argmax(axis=1)] = 1.0
    return np.nonzero(state)[1].reshape(n_rows, n_candidates).astype(np.int32)


def grow_and_judge(
    log_joint: Callable[[np.ndarray, np.ndarray], np.ndarray], Y: np.ndarray, n_components: int, n_candidates: int
) -> np.ndarray:
    """The latents chosen for each row, in rising order; `log_joint` is that of rows (N, D) and states (K, H).

    First those of a state that grows one by one, as long as its log joint rises; the others by the log joint of the
    best state that they make of it, joining it or in the place of one of its latents.
    """
    chosen = np.empty((len(Y), n_candidates), dtype=np.int32)
    for n, y in enumerate(Y[:, None, :]):
        state, height = np.zeros(n_components), float(log_joint(y, np.zeros((1, n_components)))[0, 0])
        while state.sum() < n_candidates:
            gain = np.where(state > 0.0, 0.0, log_joint(y, np.maximum(state, np.eye(n_components)))[0] - height)
            best = int(gain.astype(np.float32).argmax())
            if gain[best].astype(np.float32) <= 0.0:
                break
            state[best], height = 1.0, height + gain[best]
        lessened = [state, *(state * (np.arange(n_components) != h) for h in np.flatnonzero(state))]
        score = np.max([log_joint(y, np.maximum(fewer, np.eye(n_components)))[0] for fewer in lessened], axis=0)
        relative = np.where(state > 0.0, np.inf, score - height).astype(np.float32)
        chosen[n] = np.sort(np.argsort(-relative, kind="stable")[:n_candidates])
    return chosen
