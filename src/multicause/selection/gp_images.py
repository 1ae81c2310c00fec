"""GP-select for places, from whole images: the table of components and places is regressed on the image (GPS §5.3).

f_hx(y) ~ GP(0, k),   h component, x place, y all pixels of the image

Nothing is shared between places, so that an object must have been seen at a place to be looked for there. It is what
the paper does; `gp_places`, one regression of windows, is what serves for images that are new.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments
from multicause.selection.base import Selector
from multicause.selection.gp_places import PlacedMeans, PlaceSelect, sparse_places
from multicause.selection.gp_select import GPSelection, Observed, SelectionFunction


@dataclass(frozen=True)
class ImageSelect(PlaceSelect):
    """How places are learned from whole images; the kernel compares images, and no rank means 128 pivots."""

    @property
    def n_placements(self) -> int:
        (height, width, _), (h, w) = self.image_shape, self.component_shape
        return (height - h + 1) * (width - w + 1)

    def begin(
        self, executor: InProcess, chunks: Sequence[Chunk], moments: DataMoments, n_components: int, seed: int
    ) -> Selector:
        """A selection that is to be learned jointly with a fit."""
        return LearnedFromImages(self, executor, chunks, moments, n_components, seed)


@dataclass(frozen=True)
class ImageSelectionFunction(SelectionFunction):
    """What was learned: for each component at each placement a function of the whole image.

    Parameters
    ----------
    places : ImageSelect
        How it was learned.
    """

    places: ImageSelect

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """About the probability that component h is at placement x, (N, H, P)."""
        return super().__call__(np.asarray(Y, dtype=np.float64)).reshape(len(Y), -1, self.places.n_placements)

    def check(self, n_components: int, n_features: int) -> None:
        if type(self.places) is not ImageSelect:
            raise ValueError(f"The selection function's places are no ImageSelect, but {type(self.places).__name__}")
        super().check(n_components * self.places.n_placements, n_features)


class LearnedFromImages(GPSelection):
    """The state of the selection during a fit: its latents are pairs of a component and a placement."""

    def __init__(
        self,
        places: ImageSelect,
        executor: InProcess,
        chunks: Sequence[Chunk],
        moments: DataMoments,
        n_components: int,
        seed: int,
    ):
        super().__init__(places.gp, executor, chunks, moments, n_components * places.n_placements, seed)
        self.places = places

    def scores(self, chunk: Chunk) -> np.ndarray | None:
        """What the other images predict of each place, (n, H, P); None before anything was learned."""
        scores = super().scores(chunk)
        return None if scores is None else scores.reshape(len(scores), -1, self.places.n_placements)

    def observe(self, chunk: Chunk, means: PlacedMeans) -> None:
        chunk.remember(Observed(sparse_places(means, self.places.n_placements)))

    def _made(self, weights: np.ndarray) -> ImageSelectionFunction:
        learned = (self.selection, self.kernel.theta, self.mean, self._pivots, weights)
        return ImageSelectionFunction(*learned, self.places)
