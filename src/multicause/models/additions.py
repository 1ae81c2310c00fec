"""One more latent beside those that a data point has already: what it gains, and what its component should be.

`mean` is what the other latents explain, (N, D). Latents to be added are parameters of the model's own type, of C
latents. Missing entries of Y are taken as explained.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from multicause.models.base import Params
from multicause.models.binary_linear import BinaryLinear, NonnegativeLinear
from multicause.models.dictionary_model import DictionaryModel
from multicause.models.intercept import has_intercept
from multicause.models.maximal_causes import MaximalCauses
from multicause.models.noises import GaussianNoise
from multicause.models.poisson_linear import PoissonLinear
from multicause.models.priors import RAREST
from multicause.models.spike_slab_linear import SpikeSlabLinear
from multicause.models.weighted_median import weighted_median

LARGEST_SHARE = 0.9  # of the data in which a latent that is put in may be active
_LEAST_SEEN = 0.05  # share of its data points in which a dimension of a maximal latent is seen, to learn it from them
_LEAST_ENTRY = 0.01  # of a component that is put in, relative to its size


@dataclass(frozen=True)
class Additions:
    """Latents whose components add up, under Gaussian noise."""

    model: Any

    has_coefficients: ClassVar[bool] = False
    most_rows: ClassVar[int | None] = None  # from which to learn, where each costs much
    n_candidates: ClassVar[int] = 8  # that do while components are looked for
    max_active: ClassVar[int] = 8  # all of them: few states more
    judging: ClassVar[tuple[int, int] | None] = None  # both, to tell what rows lack: that needs no EM steps
    may_stay_on: ClassVar[bool] = False  # whether a latent that is nearly always on may stand for a rare one
    greedy: ClassVar[bool] = True  # whether candidates may be chosen beside each other then, where that is asked for

    @property
    def learner(self) -> Any:
        """The model as it learns while components are looked for."""
        return self.model

    def lifted(self, components: np.ndarray) -> np.ndarray:
        """Components that were found, as the model can learn on from them."""
        return components

    def nothing(self, params: Params) -> Params:
        """Parameters under which no latent does anything."""
        return params._replace(
            components=np.zeros_like(params.components), activation=np.full_like(params.activation, RAREST)
        )

    def turned(self, params: Params) -> Params:
        """The same model, with latents that are mostly on as their opposites, 1 - s_h, so that few are active."""
        held = {"components", "activation", "intercept"} & self.model.fixed
        on = params.activation > 0.5
        if not has_intercept(params) or held or self.model.prior.shared or not on.any():
            return params
        return params._replace(
            components=np.where(on[:, None], -params.components, params.components),
            activation=np.where(on, 1.0 - params.activation, params.activation),
            intercept=params.intercept + params.components[on].sum(axis=0),
        )

    def at_rest(
        self, params: Params, X: np.ndarray, weights: np.ndarray, means: Any = None, codes: Any = None
    ) -> Params:
        """The same where half of the data lie below the intercept, once what latents cause is taken off.

        Most of the others are off most of the time.
        """
        if not has_intercept(params) or "intercept" in self.model.fixed:
            return params
        without = params._replace(intercept=np.zeros_like(params.intercept))
        caused = 0.0 if means is None else self.model.superpose(without, self.states(means, codes))
        middle = weighted_median(X - caused, weights)
        return params._replace(intercept=np.where(np.isnan(middle), params.intercept, middle))

    def seeds(self, params: Params, Y: np.ndarray, mean: np.ndarray, smooth: np.ndarray, rows: np.ndarray) -> Params:
        """Latents that each explain what is left of one data point; `smooth` is that with less noise, (C, D)."""
        return self._latents(params, smooth)

    def gains(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params) -> np.ndarray:
        """log p(y | mean and one latent more) - log p(y | mean), (N, C)."""
        whitened = more.components / _variance(self.model, params)
        return (Y - mean) @ whitened.T - 0.5 * np.einsum("cd,cd->c", whitened, more.components)

    def refit(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params, use: np.ndarray) -> Params:
        """The latents that explain best what is left of the data points, used as often as `use` says, (N, C)."""
        return self._latents(params, (use.T @ (Y - mean)) / _count(use))

    def put(self, params: Params, places: np.ndarray, more: Params) -> Params:
        """Parameters in which the latents at `places` are those of `more`."""
        components, activation = params.components.copy(), params.activation.copy()
        components[places] = more.components
        activation[places] = np.clip(more.activation, RAREST, LARGEST_SHARE)
        return params._replace(components=components, activation=activation)

    def states(self, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """What the superposition takes for the latents of data points."""
        return codes

    def _latents(self, params: Params, components: np.ndarray) -> Params:
        activation = np.full(len(components), 1.0 / len(params.components))
        return params._replace(components=self.model.admissible(params, components), activation=activation)


@dataclass(frozen=True)
class NonnegativeAdditions(Additions):
    """Latents whose components are not negative: the M-step multiplies, so that an entry of 0 would stay 0."""

    @property
    def learner(self) -> Any:
        return replace(self.model, field_update="clamped")

    def lifted(self, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, _LEAST_ENTRY * np.sqrt(np.square(components).mean(axis=1, keepdims=True)))


@dataclass(frozen=True)
class CountAdditions(Additions):
    """Latents whose rates add up, under Poisson noise."""

    most_rows: ClassVar[int | None] = 1000
    n_candidates: ClassVar[int] = 6
    max_active: ClassVar[int] = 4

    def gains(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params) -> np.ndarray:
        noise = self.model.noise
        before = noise.log_density(params, Y, mean)
        gains = [noise.log_density(params, Y, mean + component) - before for component in more.components]
        return np.stack(gains, axis=1)

    def lifted(self, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, _LEAST_ENTRY * np.sqrt(np.square(components).mean(axis=1, keepdims=True)))

    def _latents(self, params: Params, components: np.ndarray) -> Params:
        return super()._latents(params, self.lifted(components))


@dataclass(frozen=True)
class MaximalAdditions(Additions):
    """Latents of which the largest wins: one more explains what exceeds the mean."""

    most_rows: ClassVar[int | None] = 1000
    n_candidates: ClassVar[int] = 6
    max_active: ClassVar[int] = 4

    def nothing(self, params: Params) -> Params:
        return (
            super().nothing(params)._replace(components=self.model.admissible(params, np.zeros_like(params.components)))
        )

    def seeds(self, params: Params, Y: np.ndarray, mean: np.ndarray, smooth: np.ndarray, rows: np.ndarray) -> Params:
        noise = np.sqrt(np.mean(np.square(Y - mean), axis=0))
        return self._latents(params, np.where(smooth > noise, mean[rows] + smooth, 0.0))

    def gains(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params) -> np.ndarray:
        noise = self.model.noise
        if isinstance(noise, GaussianNoise):
            residual, precision = Y - mean, 1.0 / _variance(self.model, params)
            above = (np.maximum(component - mean, 0.0) for component in more.components)
            return np.stack([(rise * (residual - 0.5 * rise)) @ precision for rise in above], axis=1)
        lowest = self.model.admissible(params, np.zeros(1))
        mean = np.maximum(mean, lowest)
        before = noise.log_density(params, Y, mean)
        gains = [noise.log_density(params, Y, np.maximum(mean, component)) - before for component in more.components]
        return np.stack(gains, axis=1)

    def refit(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params, use: np.ndarray) -> Params:
        count, average = _count(use), (use.T @ Y) / _count(use)
        components = np.empty_like(more.components)
        for c, component in enumerate(more.components):
            seen = component >= mean
            weight = use[:, c] @ seen
            learned = (use[:, c] @ np.where(seen, Y, 0.0)) / np.maximum(weight, 1e-300)
            hidden = weight <= _LEAST_SEEN * count[c]
            components[c] = np.where(hidden, np.minimum(component, average[c]), learned)
        return self._latents(params, components)

    def states(self, means: np.ndarray, codes: np.ndarray) -> np.ndarray:
        return (means > 0.5).astype(np.float64)


@dataclass(frozen=True)
class GaussianMaximalAdditions(MaximalAdditions):
    """The same under Gaussian noise.

    Candidates are chosen by an upper bound, each by itself. Where few are kept, rows of several latents lack one that
    is known already, and look as though it had still to be found. Exponential noise gains nothing by more of them.
    """

    n_candidates: ClassVar[int] = 8
    max_active: ClassVar[int] = 5
    judging: ClassVar[tuple[int, int] | None] = (10, 10)


@dataclass(frozen=True)
class SlabAdditions(Additions):
    """Latents with coefficients: added ones have the slab N(0, 1), their components carry the scale.

    Six candidates that are chosen beside each other explain a row by anything while components are still wrong.
    """

    has_coefficients: ClassVar[bool] = True
    greedy: ClassVar[bool] = False
    may_stay_on: ClassVar[bool] = True  # with a coefficient about 0 and an intercept at the mean
    max_active: ClassVar[int] = 5

    def nothing(self, params: Params) -> Params:
        slab = np.eye(len(params.components)) if params.slab_covariance.ndim == 2 else np.ones(len(params.components))
        return super().nothing(params)._replace(slab_mean=np.zeros_like(params.slab_mean), slab_covariance=slab)

    def gains(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params) -> np.ndarray:
        """log N(r; 0, Sigma + v v^T) - log N(r; 0, Sigma) of what is left."""
        projected, energy = self._projected(params, Y, mean, more)
        return 0.5 * np.square(projected) / (1.0 + energy) - 0.5 * np.log1p(energy)

    def refit(self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params, use: np.ndarray) -> Params:
        projected, energy = self._projected(params, Y, mean, more)
        x = projected / (1.0 + energy)
        second = np.einsum("nc,nc->c", use, np.square(x) + 1.0 / (1.0 + energy))[:, None]
        return self._latents(params, ((use * x).T @ (Y - mean)) / np.maximum(second, 1e-300))

    def turned(self, params: Params) -> Params:
        """A coefficient has no opposite."""
        return params

    def put(self, params: Params, places: np.ndarray, more: Params) -> Params:
        slab_mean, slab = params.slab_mean.copy(), params.slab_covariance.copy()
        slab_mean[places] = 0.0
        if slab.ndim == 2:
            slab[places], slab[:, places], slab[places, places] = 0.0, 0.0, 1.0
        else:
            slab[places] = 1.0
        return super().put(params, places, more)._replace(slab_mean=slab_mean, slab_covariance=slab)

    def _projected(
        self, params: Params, Y: np.ndarray, mean: np.ndarray, more: Params
    ) -> tuple[np.ndarray, np.ndarray]:
        whitened = more.components / _variance(self.model, params)
        return (Y - mean) @ whitened.T, np.einsum("cd,cd->c", whitened, more.components)


def additions_to(model: Any) -> Additions | None:
    """How latents are added to a model; None where nobody has said."""
    if isinstance(model, MaximalCauses) and isinstance(model.noise, GaussianNoise):
        return GaussianMaximalAdditions(model)
    kinds = {SpikeSlabLinear: SlabAdditions, MaximalCauses: MaximalAdditions, PoissonLinear: CountAdditions}
    for kind, additions in {**kinds, NonnegativeLinear: NonnegativeAdditions, BinaryLinear: Additions}.items():
        if isinstance(model, kind):
            return additions(model)
    return None


def _variance(model: DictionaryModel, params: Params) -> np.ndarray:
    """Of each dimension's noise; what it has in common with others is left out."""
    covariance = model.noise.covariance(params, model.n_features)  # type: ignore[union-attr]
    return np.diag(covariance) if covariance.ndim == 2 else covariance


def _count(use: np.ndarray) -> np.ndarray:
    return np.maximum(use.sum(axis=0), 1e-300)[:, None]
