"""Which latents are considered for a data point: one contract for selections, learned or not."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments
from multicause.selection.model_based import top_candidates

ModelBased = Callable[[int], np.ndarray]  # candidates by the model itself, as many as it is told


class Selector:
    """Chooses candidates. This one leaves the choice to the model; others derive from it, and some of them learn."""

    keeps_all = False

    def candidates(self, chunk: Chunk, n_candidates: int, model_based: ModelBased) -> np.ndarray:
        """The candidates of each row, (n, n_candidates), in rising order."""
        scores = self.scores(chunk)
        return model_based(n_candidates) if scores is None else self.choose(scores, chunk, n_candidates)

    def scores(self, chunk: Chunk) -> np.ndarray | None:
        """How much speaks for each target in each row, (n, targets); None leaves that to the model."""
        return None

    def choose(self, scores: np.ndarray, chunk: Chunk, n_candidates: int) -> np.ndarray:
        """The columns of each row's largest scores, in rising order."""
        return top_candidates(scores, n_candidates)

    def check(self, n_components: int, n_features: int) -> None:
        """Refuse what was learned for other data, or of another model."""

    def observe(self, chunk: Chunk, means: Any) -> None:
        """Hear what the E-step found in a chunk."""

    def learn(self, iteration: int) -> "Selector | None":
        """Take in what was observed; gives the selection function as learned so far."""
        return None

    def state(self) -> Any:
        """What it knows, besides what chunks remember."""
        return None

    def restore(self, state: Any) -> "Selector | None":
        """Go on from a state, once chunks remember what they did then; gives the selection function."""
        return None


class AllCandidates(Selector):
    """Every target is a candidate."""

    keeps_all = True

    def __init__(self, n_targets: int):
        self.n_targets = n_targets

    def candidates(self, chunk: Chunk, n_candidates: int, model_based: ModelBased) -> np.ndarray:
        return np.tile(np.arange(self.n_targets, dtype=np.int32), (chunk.stop - chunk.start, 1))


class Selection(Protocol):
    """How candidates are learned."""

    @property
    def update_every(self) -> int: ...  # iterations between larger changes

    def begin(
        self, executor: InProcess, chunks: Sequence[Chunk], moments: DataMoments, n_components: int, seed: int
    ) -> Selector: ...


def selector_of(keeps_all: bool, n_targets: int, learned: Selector | None = None) -> Selector:
    """What chooses: nothing where all are kept, a selection function where one was learned, else the model."""
    if keeps_all:
        return AllCandidates(n_targets)
    return Selector() if learned is None else learned


def are_indices(array: np.ndarray, below: int) -> bool:
    """Whether all entries are indices of something that has so many."""
    return (
        isinstance(array, np.ndarray)
        and array.dtype.kind == "i"
        and (array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < below))
    )
