"""Several fits from different starts, and which of them to keep."""

from collections.abc import Callable
from typing import Any

import numpy as np

from multicause.backends.cuda import DeviceError
from multicause.execution.chunks import Chunk
from multicause.learning.checkpoints import Checkpoint
from multicause.learning.driver import Outcome, Progress
from multicause.learning.em.em import keep_best
from multicause.learning.resumed import check_whole
from multicause.learning.stopping import Stop

OneFit = Callable[[int, np.random.Generator, Progress | None], Outcome]  # of a restart, from its start or its progress

WELL_EXPLAINED = 0.5  # share of the data that judges


def best_of_restarts(
    n_init: int,
    seed: int,
    one_fit: OneFit,
    score: Callable[[Outcome], float],
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """The fit with the best score; with `progress`, of those before it and those still to come."""
    first, best = (0, None) if progress is None else (progress.restart, progress.best)
    check_whole(first, 0, n_init - 1, "the number of a restart")
    for restart, seeds in enumerate(np.random.SeedSequence(seed).spawn(n_init)):
        if restart < first:
            continue
        rng = np.random.default_rng(seeds)
        if checkpoint is not None:
            checkpoint.begin(seed, restart, rng, best, progress)
        try:
            outcome = one_fit(restart, rng, progress)
        except KeyboardInterrupt:  # in the start or the first E-step of a later fit: the earlier ones stand
            if best is None:
                raise
            return best._replace(stop=Stop.INTERRUPTED)
        except DeviceError as error:  # the score might ask the device, but each has a last free energy
            error.outcome = _better(best, error.outcome)
            raise
        progress = None
        if best is None or score(outcome) > score(best):
            best = outcome
        if outcome.stop in (Stop.INTERRUPTED, Stop.CALLBACK):
            return best._replace(stop=outcome.stop)
    assert best is not None
    return best


def _better(best: Outcome | None, failed: Outcome | None) -> Outcome | None:
    """The better one of the earlier fits' best and what was learned before the device failed."""
    if best is None or (failed is not None and failed.free_energy[-1] > best.free_energy[-1]):
        return failed
    return best._replace(stop=Stop.DEVICE_FAILED)


def score_of_well_explained(em: Any, outcome: Outcome) -> float:
    """Mean F_n of the better-explained half of the data that is not all zero.

    With at most two or three active latents the bound is far below the likelihood of data that have more: summed over
    all data it prefers components that merge two causes, so that three of them explain four causes or more.
    """
    prepared = em.posterior.prepare(em.model, outcome.params)
    free_energies = np.concatenate(list(em.executor.map(prepared.free_energies, em.chunks)))
    weights = np.concatenate(list(em.executor.map(_weights_of_what_is_seen, em.chunks)))
    kept = keep_best(free_energies, weights, WELL_EXPLAINED * weights.sum())
    return float(kept @ free_energies / kept.sum()) if kept.any() else 0.0


def _weights_of_what_is_seen(chunk: Chunk) -> np.ndarray:
    return chunk.row_weights() * chunk.rows().any(axis=1)
