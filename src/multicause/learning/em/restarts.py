"""Which of several fits to keep."""

from typing import Any

import numpy as np

from multicause.learning.driver import Outcome
from multicause.learning.em.em import keep_best

WELL_EXPLAINED = 0.5  # share of the data that judges


def score_of_well_explained(em: Any, outcome: Outcome) -> float:
    """Mean F_n of the better-explained half of the data that is not all zero.

    With at most two or three active latents the bound is far below the likelihood of data that have more: summed over
    all data it prefers components that merge two causes, so that three of them explain four causes or more.
    """
    prepared = em.posterior.prepare(em.model, outcome.params)
    free_energies = np.concatenate(list(em.executor.map(prepared.free_energies, em.chunks)))
    weights = np.concatenate([chunk.row_weights() * chunk.rows().any(axis=1) for chunk in em.chunks])
    kept = keep_best(free_energies, weights, WELL_EXPLAINED * weights.sum())
    return float(kept @ free_energies / kept.sum()) if kept.any() else 0.0
