"""The truncated posterior of objects at places: a few components, each at a few placements, all their combinations."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.models.pixel_functions import between, window_pixels
from multicause.models.subsets import count_subsets
from multicause.models.translated_occlusion import (
    ABSENT,
    OcclusionParams,
    OcclusionStatistics,
    TranslatedOcclusion,
    empty_statistics,
)
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior, free_energy
from multicause.selection.base import Selection, Selector, selector_of
from multicause.selection.gp_places import PlacedMeans

_TRIED = 3  # times as many placements as are kept: what others explain may have hidden the right one


class Places(NamedTuple):
    """The candidates of each row."""

    components: np.ndarray  # (n, H') in rising order
    placements: np.ndarray  # (n, H', R) the best of each, best first


@dataclass(frozen=True)
class PlacedPosterior(Posterior):
    """q_n over states of at most gamma of the H' candidate components, each at one of its R best placements.

    Parameters
    ----------
    n_candidates, n_placements, max_active : int
        H', R and gamma.
    selection : Selection or None
        Learn where components are; None looks for them at every place of the image.
    """

    n_candidates: int
    n_placements: int
    max_active: int
    selection: Selection | None = None

    @property
    def n_states(self) -> int:
        """1 + H' R + C(H', 2) R^2 + ..."""
        return count_subsets(self.n_candidates, self.max_active, self.n_placements)

    def keeps_all(self, model: TranslatedOcclusion) -> bool:
        return self.n_candidates == model.n_components and self.n_placements == model.n_placements

    def prepare(
        self, model: TranslatedOcclusion, params: OcclusionParams, beta: float = 1.0, selector: Selector | None = None
    ) -> "PreparedPlaced":
        """Everything that all chunks of one iteration share; what was learned tells of places without a scan."""
        selector = selector_of(self.keeps_all(model), model.n_components, selector)
        return PreparedPlaced(self, model, params, beta, selector)


class PreparedPlaced(PreparedPosterior):
    """The posterior at given parameters: the task that each chunk carries out."""

    def __init__(
        self,
        posterior: PlacedPosterior,
        model: TranslatedOcclusion,
        params: OcclusionParams,
        beta: float,
        selector: Selector,
    ):
        self.posterior, self.model, self.params, self.beta, self.selector = posterior, model, params, beta, selector
        self.kernel = numba_cpu.load("translated_occlusion")
        self._functions = model.selection_functions(params)
        (h, w), (starts, offsets) = model.component_shape, window_pixels(model.image_shape, model.component_shape)
        H, F = model.n_components, model.n_channels
        self.scene = self.kernel.Scene(
            np.ascontiguousarray(params.components.reshape(H, h * w, F)),
            np.ascontiguousarray(params.masks.reshape(H, h * w)),
            logit(params.activation) - np.log(model.n_placements),
            params.background,
            1.0 / params.noise_variance,
            beta,
            offsets,
            starts,
        )

    def statistics(self, chunk: Chunk) -> EStepResult:
        """The E-step of a chunk, which remembers where objects were, for a selection function that is learned."""
        weights, images = chunk.row_weights(), self._images(chunk)
        places = self._places(images, chunk)
        shape = empty_statistics(self.model)
        sums = self.kernel.Sums(
            shape.s,
            shape.r.reshape(len(shape.s), -1),
            shape.ry.reshape(*self.scene.components.shape),
            shape.contests.reshape(len(shape.s), -1),
            np.array([weights.sum() * images.shape[1]]),
            np.einsum("n,ndf->f", weights, images),
            np.array([weights @ np.square(images - self.params.background).sum(axis=(1, 2))]),
        )
        answers = self._enumerate(images, places, weights, sums)
        self.selector.observe(chunk, PlacedMeans(places.components, places.placements, answers.placed))
        statistics = OcclusionStatistics(
            float(weights.sum()), weights @ answers.means, shape.r, shape.ry, shape.contests,
            float(sums.background[0]), sums.background_y, float(sums.distance[0]),
        )  # fmt: skip
        return EStepResult(float(self._free_energies(images, answers) @ weights), statistics)

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """F_n of each row."""
        images = self._images(chunk)
        return self._free_energies(images, self._enumerate(images, self._places(images, chunk)))

    def means(self, chunk: Chunk) -> np.ndarray:
        """p(s_h = 1 | y) of each row, (n, H)."""
        images = self._images(chunk)
        return self._enumerate(images, self._places(images, chunk)).means

    def placements(self, chunk: Chunk) -> np.ndarray:
        """The most probable placement of each component, (n, H); -1 where it is absent, more likely than not."""
        images = self._images(chunk)
        places = self._places(images, chunk)
        answers = self._enumerate(images, places)
        best = np.take_along_axis(places.placements, answers.placed.argmax(axis=2)[:, :, None], axis=2)[:, :, 0]
        found = np.full((len(images), self.model.n_components), ABSENT)
        np.put_along_axis(found, places.components, np.where(answers.placed.sum(axis=2) > 0.5, best, ABSENT), axis=1)
        return found

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the images without noise, (n, D)."""
        images = self._images(chunk)
        rebuilt = np.tile(self.params.background, (*images.shape[:2], 1))
        answers = self._enumerate(images, self._places(images, chunk), rebuilt=rebuilt)
        return answers.rebuilt.reshape(len(images), -1)

    def scan(self, images: np.ndarray) -> np.ndarray:
        """How much each placement speaks for each component by the model's own functions, (n, H, P)."""
        return self._functions.scores(images.reshape(len(images), *self.model.image_shape, -1))

    def _images(self, chunk: Chunk) -> np.ndarray:
        return chunk.rows().reshape(chunk.stop - chunk.start, -1, self.model.n_channels)

    def _places(self, images: np.ndarray, chunk: Chunk) -> Places:
        """The best placements of each component, and the components that explain most there."""
        n, H, P = len(images), self.model.n_components, self.model.n_placements
        H_, R = self.posterior.n_candidates, self.posterior.n_placements
        if self.selector.keeps_all:
            return Places(np.tile(np.arange(H), (n, 1)), np.tile(np.arange(P), (n, H, 1)))
        learned = self.selector.scores(chunk)
        table = self.scan(images) if learned is None else learned
        ranks, placements = self._rank(images, _largest(table, min(_TRIED * R, P)))
        components = self.selector.choose(ranks, chunk, H_).astype(np.int64)
        return Places(components, np.take_along_axis(placements, components[:, :, None], axis=1))

    def _rank(self, images: np.ndarray, placements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Scores by which the H' components that explain most come first, (n, H), and the R best placements of each."""
        knots, values = self._functions
        lower, fraction = between(images, knots)
        return numba_cpu.load("places").rank_objects(
            np.ascontiguousarray(values.reshape(len(values), -1, *values.shape[3:])),
            lower,
            fraction,
            images,
            placements,
            self.scene,
            self.posterior.n_candidates,
            self.posterior.n_placements,
        )

    def _enumerate(
        self,
        images: np.ndarray,
        places: Places,
        weights: np.ndarray | None = None,
        sums: Any = None,
        rebuilt: np.ndarray | None = None,
    ) -> Any:
        n, nothing = len(images), np.zeros(0)
        if sums is None:
            sums = self.kernel.Sums(
                nothing, nothing[None], nothing[None, None], nothing[None], nothing, nothing, nothing
            )
        answers = self.kernel.Answers(
            np.empty(n),
            np.empty(n),
            np.zeros((n, self.model.n_components)),
            np.zeros(places.placements.shape),
            np.zeros((0, 0, 0)) if rebuilt is None else rebuilt,
        )
        self.kernel.enumerate_states(
            self.scene,
            images,
            places.components,
            np.ascontiguousarray(places.placements),
            self.posterior.max_active,
            self.posterior.n_states,
            np.zeros(n) if weights is None else weights,
            sums,
            answers,
        )
        return answers

    def _free_energies(self, images: np.ndarray, answers: Any) -> np.ndarray:
        """The kernel's log joints are relative to the empty state's."""
        model, params = self.model, self.params
        distance = np.square(images - params.background).sum(axis=(1, 2))
        empty = -0.5 * distance / params.noise_variance + np.log1p(-params.activation).sum()
        empty -= 0.5 * model.n_features * np.log(2.0 * np.pi * params.noise_variance)
        return empty + free_energy(answers.log_normaliser, answers.energy, self.beta)


def _largest(table: np.ndarray, n: int) -> np.ndarray:
    """Where the n largest values of the last axis are, the largest first."""
    places = np.argpartition(-table, n - 1, axis=-1)[..., :n]
    order = np.argsort(-np.take_along_axis(table, places, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(places, order, axis=-1)
