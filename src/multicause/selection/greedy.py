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
