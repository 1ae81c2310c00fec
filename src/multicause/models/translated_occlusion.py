"""Objects at any place that occlude one another: invariant exclusive component analysis (InvECA)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logit, logsumexp

from multicause.models.base import DataMoments
from multicause.models.pixel_functions import PixelFunctions, spread_knots
from multicause.models.priors import RAREST

ABSENT = -1  # the placement of an object that is not there
HIDDEN = 0.3  # share of an object that others may cover while it is still looked for
STRANGE = 0.01  # share of the pixels that may show what no component does
UNSEEN = 1e-12  # a pixel of a component that owns less than this share of a data point keeps its value
SMALLEST_MASK, LARGEST_MASK = 1e-6, 1e6  # from hardly there to opaque


class OcclusionParams(NamedTuple):
    components: np.ndarray  # (H, h, w, F) appearance
    masks: np.ndarray  # (H, h, w) alpha; the background's is 1
    activation: np.ndarray  # (H,) pi
    background: np.ndarray  # (F,)
    noise_variance: float


class OcclusionStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    r: np.ndarray  # (H, h, w) sum_n w_n <r>: how often a pixel of a component was seen
    ry: np.ndarray  # (H, h, w, F) sum_n w_n <r> y
    contests: np.ndarray  # (H, h, w) sum_n w_n <s_h / (1 + sum of the masks there)>
    background: float  # sum of the background's r over all pixels
    background_y: np.ndarray  # (F,) the same, times y
    distance: float  # sum of <|y - w_owner|^2>


@dataclass(frozen=True)
class TranslatedOcclusion:
    """Each pixel of an image belongs to one of the objects that cover it, or to the background.

        s_h ~ Bernoulli(pi_h),   x_h uniform over the placements
        p(owner of d = h) = alpha_h(d - x_h) / (1 + sum of the masks of all objects that cover d)
        y_d ~ N(w_owner, sigma^2)

    The owner is summed out pixel by pixel. A state is the placement of each component, or -1 where it is absent:
    integers of shape (K, H), or (N, K, H). Placements are numbered row by row; a component lies inside the image.

    Parameters
    ----------
    n_components : int
        H.
    component_shape, image_shape : (int, int)
        Height and width.
    n_channels : int
        Numbers per pixel, F.
    noise_floor : float
        Smallest noise variance.
    """

    n_components: int
    component_shape: tuple[int, int]
    image_shape: tuple[int, int]
    n_channels: int = 1
    noise_floor: float = 1e-12

    @property
    def n_features(self) -> int:
        return self.image_shape[0] * self.image_shape[1] * self.n_channels

    @property
    def placement_shape(self) -> tuple[int, int]:
        """How many rows and columns a component's corner may lie in."""
        (H, W), (h, w) = self.image_shape, self.component_shape
        return H - h + 1, W - w + 1

    @property
    def n_placements(self) -> int:
        rows, columns = self.placement_shape
        return rows * columns

    def corners(self, placements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row and column of the upper left corner."""
        return np.divmod(placements, self.placement_shape[1])

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> OcclusionParams:
        """Noise about the data's mean; two objects on average. Patches of the data make a better start."""
        mean = moments.mean.reshape(-1, self.n_channels).mean(axis=0)
        variance = max(float(moments.variance.mean()), self.noise_floor)
        shape = (self.n_components, *self.component_shape)
        components = mean + np.sqrt(variance) * rng.standard_normal((*shape, self.n_channels))
        activation = np.full(self.n_components, min(2.0 / self.n_components, 0.5))
        return OcclusionParams(components, np.ones(shape), activation, mean, variance)

    def sample(self, params: OcclusionParams, n_samples: int, rng: np.random.Generator):
        """Images (N, D) and their states (N, H)."""
        present = rng.random((n_samples, self.n_components)) < params.activation
        states = np.where(present, rng.integers(self.n_placements, size=present.shape), ABSENT)
        images = np.empty((n_samples, *self.image_shape, self.n_channels))
        for image, state in zip(images, states, strict=True):
            masks, means = self.layers(params, state)
            with np.errstate(divide="ignore"):
                order = np.argmax(np.log(masks) + rng.gumbel(size=masks.shape), axis=0)
            image[:] = np.take_along_axis(means, order[None, :, :, None], axis=0)[0]
        images += np.sqrt(params.noise_variance) * rng.standard_normal(images.shape)
        return images.reshape(n_samples, -1), states

    def layers(self, params: OcclusionParams, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks (1 + A, height, width) and means (1 + A, height, width, F) of the background and the A objects."""
        present = np.flatnonzero(state != ABSENT)
        masks = np.zeros((1 + present.size, *self.image_shape))
        means = np.zeros((*masks.shape, self.n_channels))
        masks[0], means[0] = 1.0, params.background
        h, w = self.component_shape
        for layer, component in enumerate(present, start=1):
            row, column = self.corners(state[component])
            masks[layer, row : row + h, column : column + w] = params.masks[component]
            means[layer, row : row + h, column : column + w] = params.components[component]
        return masks, means

    def log_prior(self, params: OcclusionParams, states: np.ndarray) -> np.ndarray:
        present = states != ABSENT
        per_object = logit(params.activation) - np.log(self.n_placements)
        return present @ per_object + np.log1p(-params.activation).sum()

    def log_joint(self, params: OcclusionParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s, x) + sum_d log sum_owner p(owner) N(y_d; w_owner, sigma^2), (N, K)."""
        states = np.broadcast_to(states, (len(Y), *states.shape[-2:]))
        log_likelihood = [
            [self._owners(params, y, state)[0].sum() for state in row] for y, row in zip(Y, states, strict=True)
        ]
        return self.log_prior(params, states) + np.array(log_likelihood).reshape(states.shape[:2])

    def _owners(self, params: OcclusionParams, y: np.ndarray, state: np.ndarray):
        """Log densities of the pixels (height, width), the layers' responsibilities, and their masks and means."""
        image = y.reshape(*self.image_shape, self.n_channels)
        masks, means = self.layers(params, state)
        distance = np.square(image - means).sum(axis=-1)
        with np.errstate(divide="ignore"):
            log_terms = np.log(masks) - distance / (2.0 * params.noise_variance)
        log_total = logsumexp(log_terms, axis=0)
        log_noise = 0.5 * self.n_channels * np.log(2.0 * np.pi * params.noise_variance)
        return log_total - np.log(masks.sum(axis=0)) - log_noise, np.exp(log_terms - log_total), masks, distance

    def selection_functions(self, params: OcclusionParams) -> PixelFunctions:
        """How much a pixel's value speaks for a component at its place, rather than for whatever else an image shows.

            g(v) = log[1 + m (1 - hidden) (N(v; w, s^2) / p(v) - 1)],   m = alpha / (1 + alpha)

        p(v) is how often the model shows v anywhere, or anything at all. What others hide counts little against
        a component.
        """
        values = np.concatenate([params.components.ravel(), params.background])
        knots = spread_knots(values.min(), values.max())
        variance = params.noise_variance + 0.25 * (knots[1] - knots[0]) ** 2  # knots see no finer than this

        def density(means: np.ndarray) -> np.ndarray:
            return np.exp(-np.square(knots - means[..., None]) / (2.0 * variance)) / np.sqrt(2.0 * np.pi * variance)

        share = params.masks / (1.0 + params.masks)
        pixels = self.image_shape[0] * self.image_shape[1]
        shown = params.activation[:, None, None] * share / pixels  # of a pixel of the image, by a pixel of a component
        likely = density(params.components)  # (H, h, w, F, K)
        anything = np.einsum("hij,hijfk->fk", shown, likely) + max(1.0 - shown.sum(), 0.0) * density(params.background)
        anything = (1.0 - STRANGE) * anything + STRANGE / (knots[-1] - knots[0])
        ratio = likely / anything
        return PixelFunctions(knots, np.log1p((1.0 - HIDDEN) * share[..., None, None] * (ratio - 1.0)))

    def expected_image(self, params: OcclusionParams, y: np.ndarray, state: np.ndarray) -> np.ndarray:
        """The image without noise, (D,), whose pixels belong to their owners as y lets one believe."""
        owned, means = self._owners(params, y, state)[1], self.layers(params, state)[1]
        return (owned[..., None] * means).sum(axis=0).ravel()

    def superpose(self, params: OcclusionParams, states: np.ndarray) -> np.ndarray:
        """Mean images (..., D), each pixel the average over its possible owners."""
        flat = states.reshape(-1, self.n_components)
        images = np.empty((len(flat), *self.image_shape, self.n_channels))
        for image, state in zip(images, flat, strict=True):
            masks, means = self.layers(params, state)
            image[:] = (masks[..., None] * means).sum(axis=0) / masks.sum(axis=0)[..., None]
        return images.reshape(*states.shape[:-1], -1)

    def accumulate(
        self, params: OcclusionParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> OcclusionStatistics:
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        total = empty_statistics(self)
        s, r, ry, contests, background_y = total.s, total.r, total.ry, total.contests, total.background_y
        background = distance_sum = 0.0
        h, w = self.component_shape
        for y, row, row_weights in zip(Y, states, weights, strict=True):
            image = y.reshape(*self.image_shape, self.n_channels)
            for state, q in zip(row, row_weights, strict=True):
                _, owned, masks, distance = self._owners(params, y, state)
                seen = q * owned
                background += seen[0].sum()
                background_y += np.einsum("ij,ijf->f", seen[0], image)
                distance_sum += (seen * distance).sum()
                for layer, component in enumerate(np.flatnonzero(state != ABSENT), start=1):
                    i, j = self.corners(state[component])
                    patch = np.s_[i : i + h, j : j + w]
                    s[component] += q
                    r[component] += seen[layer][patch]
                    ry[component] += seen[layer][patch][..., None] * image[patch]
                    contests[component] += q / masks.sum(axis=0)[patch]
        return OcclusionStatistics(
            float(weights.sum()), s, r, ry, contests, float(background), background_y, float(distance_sum)
        )

    def m_step(self, params: OcclusionParams, statistics: OcclusionStatistics) -> OcclusionParams:
        """w = sum r y / sum r;  alpha = sum r / sum 1/(1 + masks), which never lowers the bound."""
        if statistics.weight <= 0.0:
            return params
        used = statistics.r > UNSEEN * statistics.weight
        components, masks, background = params.components.copy(), params.masks.copy(), params.background
        components[used] = statistics.ry[used] / statistics.r[used][:, None]
        contested = statistics.contests > UNSEEN * statistics.weight
        masks[contested] = statistics.r[contested] / statistics.contests[contested]
        if statistics.background > UNSEEN * statistics.weight:
            background = statistics.background_y / statistics.background
        activation = np.clip(statistics.s / statistics.weight, RAREST, 1.0 - RAREST)
        moved = statistics.r * np.square(components - params.components).sum(axis=-1)
        nearer = moved.sum() + statistics.background * np.square(background - params.background).sum()
        distance = statistics.distance - nearer  # sums of squares are smallest about the means
        noise = max(distance / (statistics.weight * self.n_features), self.noise_floor)
        return OcclusionParams(components, np.clip(masks, SMALLEST_MASK, LARGEST_MASK), activation, background, noise)


def empty_statistics(model: TranslatedOcclusion) -> OcclusionStatistics:
    shape = (model.n_components, *model.component_shape)
    F = model.n_channels
    return OcclusionStatistics(
        0.0, np.zeros(shape[0]), np.zeros(shape), np.zeros((*shape, F)), np.zeros(shape), 0.0, np.zeros(F), 0.0
    )
