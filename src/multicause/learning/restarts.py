"""Which of several fits to keep."""

from typing import Any

import numpy as np

from multicause.learning.em import keep_best

WELL_EXPLAINED = 0.5  # share of the data that judges


def merit_among_well_explained(em: Any, params: Any) -> float:
    """Mean F_n of the better-explained half of the data that is not all zero.

    The bound of a model of at most two or three causes is far below the likelihood for data of more causes: summed over
    all data it prefers fields that merge two causes, so that three such fields explain four or more.
    """
    prepared = em.posterior.prepare(em.model, params)
    free_energies = np.concatenate(list(em.executor.map(prepared.free_energies, em.chunks)))
    weights = np.concatenate([chunk.row_weights() * chunk.rows().any(axis=1) for chunk in em.chunks])
    kept = keep_best(free_energies, weights, WELL_EXPLAINED * weights.sum())
    return float(kept @ free_energies / kept.sum()) if kept.any() else 0.0
