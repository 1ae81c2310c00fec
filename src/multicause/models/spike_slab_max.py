"""Nonlinear spike-and-slab sparse coding: latents with coefficients; the largest product wins each dimension."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import DictionaryModel, brightness
from multicause.models.noises import GaussianNoise
from multicause.models.priors import UNUSED, SpikeSlabPrior
from multicause.models.spike_slab_linear import SpikeSlabParams
from multicause.models.superpositions import SMALLEST_MEAN, Maximum, Sum

SMALLEST_SHARE = 1e-9  # of the largest entry: one that is exactly 0 could never win, nor grow again


class SpikeSlabMaxStatistics(NamedTuple):
    """Sums over data points n of weight w_n; x = s*z, and A_hd = 1 where x_h W_hd is positive and the largest."""

    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) <s>
    x: np.ndarray  # (H,) <x>
    xx: np.ndarray  # (H,) <x^2>
    axy: np.ndarray  # (H, D) <A x> y
    axx: np.ndarray  # (H, D) <A x^2>
    distance: float  # <|y - max_h x_h W_h|^2>


class PiecewiseConditional(NamedTuple):
    """p(s_h, z_h | y, all other latents): off, or on with z_h of a density that is Gaussian on each of J pieces."""

    log_off: float  # log p(s_h = 0)
    log_mass: np.ndarray  # (J,) log p(s_h = 1, z_h in the piece)
    lower: np.ndarray  # (J,) the piece's ends
    upper: np.ndarray  # (J,)
    mean: np.ndarray  # (J,) of the Gaussian before it is cut to the piece
    precision: np.ndarray  # (J,)


@dataclass(frozen=True)
class SpikeSlabMax(DictionaryModel):
    """Spike-and-slab latents that combine by their maximum.

    s_h ~ Bernoulli(pi_h),   z_h ~ N(mu_h, psi_h),   y ~ N(max(0, max_h s_h z_h W_h), sigma^2 I)     [GPS §5.1, model C]

    The components are non-negative, and 0 always takes part in the maximum: a latent with a negative coefficient adds
    as little as one that is off. The coefficients x = s*z are 0 where a latent is off.
    """

    prior: SpikeSlabPrior = SpikeSlabPrior()  # noqa: RUF009  (frozen values)
    superposition: Sum | Maximum = Maximum()  # noqa: RUF009
    noise: GaussianNoise = GaussianNoise()  # noqa: RUF009

    takes_superpositions: ClassVar[tuple[type, ...]] = (Maximum,)
    takes_noises: ClassVar[tuple[type, ...]] = (GaussianNoise,)
    states_have_coefficients: ClassVar[bool] = True

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> SpikeSlabParams:
        """Two latents active on average, of coefficients N(1, 1/4); the noise has the data's variance."""
        H = self.n_components
        components = self.draw_components(moments, rng, H)
        slab = np.ones(H), np.full(H, 0.25)
        return SpikeSlabParams(components, self.prior.initial(H), *slab, **self.noise.initial(moments))

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """|N(1, 1/3)| times the data's mean over all dimensions, as for maximal causes (MCA Appendix E.1)."""
        return positive(np.abs(rng.normal(1.0, 1.0 / 3.0, size=(n, self.n_features))) * brightness(moments))

    def log_noise(self, params: SpikeSlabParams, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """log N(y; mean, sigma^2 I), over the last axis."""
        return self.noise.log_density(params, y, mean)

    def conditional(
        self, params: SpikeSlabParams, y: np.ndarray, x: np.ndarray, h: int, beta: float = 1.0
    ) -> PiecewiseConditional:
        """p(s_h, z_h | y, x_k for k != h) with the likelihood to the power beta.

        With m_d the maximum of the others, latent h wins dimension d where z_h > t_d = m_d / W_hd. Between two
        neighbouring thresholds the same dimensions are won, and the log density of z_h is quadratic.
        """
        component, slab_mean, slab_variance = params.components[h], params.slab_mean[h], params.slab_covariance[h]
        others = self.superpose(params, np.where(np.arange(self.n_components) == h, 0.0, x))  # m
        thresholds = np.divide(others, component, out=np.full(self.n_features, np.inf), where=component > 0.0)
        lower = np.concatenate([[-np.inf], np.unique(thresholds[np.isfinite(thresholds)])])
        upper = np.concatenate([lower[1:], [np.inf]])
        wins = thresholds <= lower[:, None]  # (J, D)
        precision = 1.0 / slab_variance + beta * wins @ component**2 / params.noise_variance
        mean = (slab_mean / slab_variance + beta * wins @ (component * y) / params.noise_variance) / precision
        # log of the density of z_h and y, at its Gaussian's mean, and of the likelihood where h is off
        log_off = np.log1p(-params.activation[h]) + beta * self.log_noise(params, y, others)
        height = (
            np.log(params.activation[h])
            - 0.5 * np.square(mean - slab_mean) / slab_variance
            - 0.5 * np.log(2.0 * np.pi * slab_variance)
            + beta * self.log_noise(params, y, np.where(wins, mean[:, None] * component, others))
        )
        a, b = np.sqrt(precision) * (lower - mean), np.sqrt(precision) * (upper - mean)
        log_mass = height + 0.5 * np.log(2.0 * np.pi / precision) + log_normal_mass(a, b)
        log_total = logsumexp(np.append(log_mass, log_off))
        return PiecewiseConditional(log_off - log_total, log_mass - log_total, lower, upper, mean, precision)

    def selection_scores(self, params: SpikeSlabParams, Y: np.ndarray) -> np.ndarray:
        """W_h . y / |W_h| (GPS §5.1)."""
        return Y @ params.components.T / component_norms(params.components)

    def accumulate(
        self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> SpikeSlabMaxStatistics:
        """Sums over data points n and coefficients x_k, each weighted by weights (N, K) = w_n q_n(x_k)."""
        x = np.broadcast_to(states, (*weights.shape, self.n_components))
        parts = x[..., None] * params.components  # (N, K, H, D)
        wins = (parts == parts.max(axis=-2, keepdims=True)) & (parts > 0.0)
        residual = Y[:, None, :] - self.superpose(params, x)
        return SpikeSlabMaxStatistics(
            float(weights.sum()),
            np.einsum("nk,nkh->h", weights, x != 0.0),
            np.einsum("nk,nkh->h", weights, x),
            np.einsum("nk,nkh->h", weights, x**2),
            np.einsum("nk,nkh,nkhd,nd->hd", weights, x, wins, Y),
            np.einsum("nk,nkh,nkhd->hd", weights, x**2, wins),
            float(np.einsum("nk,nkd->", weights, residual**2)),
        )

    def m_step(self, params: SpikeSlabParams, statistics: SpikeSlabMaxStatistics) -> SpikeSlabParams:
        """W_hd = <A x_h> y_d / <A x_h^2>, a fixed-point step as in maximal causes; the prior from all active latents.

        Unlike GPS §5.1 the slab's moments are not restricted to where h is the maximum: that would bias them.
        """
        if statistics.weight <= 0.0:
            return params
        new: dict[str, Any] = {"activation": self.next_activation(params, statistics)}
        if "components" not in self.fixed:
            new["components"] = self._new_components(params, statistics)
        if not {"slab_mean", "slab_covariance"} <= self.fixed:
            new |= self.prior.new_slab(params, statistics, statistics.xx, self.fixed)
        if "noise_variance" not in self.fixed:
            squares = self._squares(params, new.get("components", params.components), statistics)
            new["noise_variance"] = self.noise.new_variance(squares / self.n_features, statistics.weight)
        return params._replace(**new)

    def _new_components(self, params: SpikeSlabParams, statistics: SpikeSlabMaxStatistics) -> np.ndarray:
        """Where a latent hardly ever wins, its old entry stays."""
        unit = params.slab_mean**2 + params.slab_covariance
        contributes = statistics.axx > UNUSED * statistics.weight * unit[:, None]
        return positive(np.divide(statistics.axy, statistics.axx, out=params.components.copy(), where=contributes))

    def _squares(self, params: SpikeSlabParams, components: np.ndarray, statistics: SpikeSlabMaxStatistics) -> Any:
        """The squared residuals of the new components, where each dimension keeps its winner."""
        moved = components - params.components
        change = (moved * ((components + params.components) * statistics.axx - 2.0 * statistics.axy)).sum()
        return statistics.distance + change

    def redraw_unused(
        self,
        params: SpikeSlabParams,
        statistics: SpikeSlabMaxStatistics,
        moments: DataMoments,
        rng: np.random.Generator,
    ) -> SpikeSlabParams:
        """Draw anew the component and the slab of every latent that no data point uses."""
        redrawn = super().redraw_unused(params, statistics, moments, rng)
        if redrawn is params or self.fixed & {"slab_mean", "slab_covariance"}:
            return redrawn
        unused = statistics.s < UNUSED * statistics.weight
        return redrawn._replace(
            slab_mean=np.where(unused, 1.0, params.slab_mean),
            slab_covariance=np.where(unused, 0.25, params.slab_covariance),
        )

    def admissible(self, params: SpikeSlabParams, components: np.ndarray) -> np.ndarray:
        return positive(components)


def positive(components: np.ndarray) -> np.ndarray:
    """The components with no entry at or below 0."""
    return np.maximum(components, max(SMALLEST_SHARE * float(components.max()), SMALLEST_MEAN))


def component_norms(components: np.ndarray) -> np.ndarray:
    """|W_h|, (H,); not quite 0 for a component of zeros, whose score is then 0."""
    return np.maximum(np.linalg.norm(components, axis=1), SMALLEST_MEAN)


def log_normal_mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(Phi(b) - Phi(a)) for a < b, in the tail in which the difference keeps its digits."""
    flip = a > 0.0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))
