"""Nonlinear spike-and-slab sparse coding: causes with strengths of which the strongest wins in each dimension."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp

from multicause.models.base import DataMoments
from multicause.models.bernoulli_prior import log_prior
from multicause.models.field_model import UNUSED, FieldModel
from multicause.models.spike_slab_linear import SMALLEST_SPREAD, SpikeSlabParams

SMALLEST_FIELD = 1e-9  # of the largest entry of all fields: one that is exactly 0 could never win, nor grow again
_SMALLEST = 1e-100


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
    """p(s_h, z_h | y, all other causes): off, or on with a strength whose density is Gaussian on each of J pieces."""

    log_off: float  # log p(s_h = 0)
    log_mass: np.ndarray  # (J,) log p(s_h = 1, z_h in the piece)
    lower: np.ndarray  # (J,) the piece's ends
    upper: np.ndarray  # (J,)
    mean: np.ndarray  # (J,) of the Gaussian before it is cut to the piece
    precision: np.ndarray  # (J,)


@dataclass(frozen=True)
class SpikeSlabMax(FieldModel):
    """Causes with strengths that combine by their maximum.

    s_h ~ Bernoulli(pi_h),   z_h ~ N(mu_h, psi_h),   y ~ N(max(0, max_h s_h z_h W_h), sigma^2 I)     [GPS §5.1, model C]

    The fields are non-negative, and 0 always takes part in the maximum: a strength below 0 is as silent as no cause.
    What is called strengths, x = s*z, is 0 where a cause is off.
    """

    kernel: ClassVar[str | None] = "spike_slab_max"

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> SpikeSlabParams:
        """Two causes active on average, of strengths N(1, 1/4); the noise has the data's variance."""
        H = self.n_components
        activation = np.full(H, min(2.0 / H, 0.5))
        noise = max(float(moments.variance.mean()), self.noise_floor)
        fields = self.draw_components(moments, rng, H)
        return SpikeSlabParams(fields, activation, np.ones(H), np.full(H, 0.25), noise)

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """|N(1, 1/3)| times the data's mean over all dimensions, as for maximal causes (MCA Appendix E.1)."""
        level = max(float(np.abs(moments.mean).mean()), float(np.sqrt(moments.variance.mean())), _SMALLEST)
        return floored(np.abs(rng.normal(1.0, 1.0 / 3.0, size=(n, self.n_features))) * level)

    def sample(self, params: SpikeSlabParams, n_samples: int, rng: np.random.Generator):
        """Data points, and the strengths s*z that caused them."""
        states = self.draw_states(params, n_samples, rng)
        spread = np.sqrt(params.slab_covariance)
        strengths = states * (params.slab_mean + spread * rng.standard_normal(states.shape))
        mean = self.superpose(params, strengths)
        return mean + np.sqrt(params.noise_variance) * rng.standard_normal(mean.shape), strengths

    def superpose(self, params: SpikeSlabParams, states: np.ndarray) -> np.ndarray:
        """max(0, max_h x_h W_h): the data that strengths x = s*z cause, without noise."""
        return np.maximum((states[..., None] * params.components).max(axis=-2), 0.0)

    def log_joint(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s) p(z_h of all active causes) p(y | s, z) of strengths x = s*z, (K, H) or (N, K, H); gives (N, K)."""
        active = states != 0.0
        squares = np.square(states - params.slab_mean) / params.slab_covariance
        log_slab = -0.5 * (squares + np.log(2.0 * np.pi * params.slab_covariance))
        log_causes = log_prior(params.activation, active) + np.where(active, log_slab, 0.0).sum(axis=-1)
        return log_causes + self.log_noise(params, Y[:, None, :], self.superpose(params, states))

    def log_noise(self, params: SpikeSlabParams, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """log N(y; mean, sigma^2 I), over the last axis."""
        log_scale = 0.5 * self.n_features * np.log(2.0 * np.pi * params.noise_variance)
        return -log_scale - 0.5 * np.square(y - mean).sum(axis=-1) / params.noise_variance

    def conditional(
        self, params: SpikeSlabParams, y: np.ndarray, x: np.ndarray, h: int, beta: float = 1.0
    ) -> PiecewiseConditional:
        """p(s_h, z_h | y, x_k for k != h) with the likelihood to the power beta: MATH §6.

        With m_d the maximum of the others, cause h wins dimension d where z_h > t_d = m_d / W_hd. Between two
        neighbouring thresholds the same dimensions are won, and the log density of z_h is quadratic.
        """
        field, slab_mean, slab_variance = params.components[h], params.slab_mean[h], params.slab_covariance[h]
        others = self.superpose(params, np.where(np.arange(self.n_components) == h, 0.0, x))  # m
        thresholds = np.divide(others, field, out=np.full(self.n_features, np.inf), where=field > 0.0)
        lower = np.concatenate([[-np.inf], np.unique(thresholds[np.isfinite(thresholds)])])
        upper = np.concatenate([lower[1:], [np.inf]])
        wins = thresholds <= lower[:, None]  # (J, D)
        precision = 1.0 / slab_variance + beta * wins @ field**2 / params.noise_variance
        mean = (slab_mean / slab_variance + beta * wins @ (field * y) / params.noise_variance) / precision
        # log of the density of z_h and y, at its Gaussian's mean, and of the likelihood where h is off
        log_off = np.log1p(-params.activation[h]) + beta * self.log_noise(params, y, others)
        height = (
            np.log(params.activation[h])
            - 0.5 * np.square(mean - slab_mean) / slab_variance
            - 0.5 * np.log(2.0 * np.pi * slab_variance)
            + beta * self.log_noise(params, y, np.where(wins, mean[:, None] * field, others))
        )
        a, b = np.sqrt(precision) * (lower - mean), np.sqrt(precision) * (upper - mean)
        log_mass = height + 0.5 * np.log(2.0 * np.pi / precision) + log_normal_mass(a, b)
        log_total = logsumexp(np.append(log_mass, log_off))
        return PiecewiseConditional(log_off - log_total, log_mass - log_total, lower, upper, mean, precision)

    def selection_scores(self, params: SpikeSlabParams, Y: np.ndarray) -> np.ndarray:
        """W_h . y / |W_h| (GPS §5.1)."""
        return Y @ params.components.T / field_norms(params.components)

    def accumulate(
        self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> SpikeSlabMaxStatistics:
        """Sums over data points n and strengths x_k, each weighted by weights (N, K) = w_n q_n(x_k)."""
        x = np.broadcast_to(states, (*weights.shape, self.n_components))
        fields = x[..., None] * params.components  # (N, K, H, D)
        wins = (fields == fields.max(axis=-2, keepdims=True)) & (fields > 0.0)
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

    def m_step(
        self, params: SpikeSlabParams, statistics: SpikeSlabMaxStatistics, step: Any, rng: np.random.Generator
    ) -> SpikeSlabParams:
        """W_hd = <A x_h> y_d / <A x_h^2>, a fixed-point step as in maximal causes; the prior from all active strengths.

        Unlike GPS §5.1 the slab's moments are not restricted to where h is the maximum: that would bias them.
        """
        if statistics.weight <= 0.0:
            return params
        components, _, slab_mean, slab_variance, noise = params
        if "components" not in self.fixed:
            components = self._new_fields(params, statistics)
        if not {"slab_mean", "slab_covariance"} <= self.fixed:
            slab_mean, slab_variance = self._new_slab(params, statistics)
        if "noise_variance" not in self.fixed:
            noise = self._new_noise(params, components, statistics)
        activation = self.next_activation(params.activation, statistics)
        return SpikeSlabParams(components, activation, slab_mean, slab_variance, noise)

    def _new_fields(self, params: SpikeSlabParams, statistics: SpikeSlabMaxStatistics) -> np.ndarray:
        """Where a cause hardly ever wins, its old entry stays."""
        unit = params.slab_mean**2 + params.slab_covariance
        teaches = statistics.axx > UNUSED * statistics.weight * unit[:, None]
        return floored(np.divide(statistics.axy, statistics.axx, out=params.components.copy(), where=teaches))

    def _new_slab(self, params: SpikeSlabParams, statistics: SpikeSlabMaxStatistics) -> tuple[np.ndarray, np.ndarray]:
        used = statistics.s > UNUSED * statistics.weight
        count = np.where(used, statistics.s, 1.0)
        mean = np.where(used, statistics.x / count, params.slab_mean)
        mean = params.slab_mean if "slab_mean" in self.fixed else mean
        second = statistics.xx / count - 2.0 * mean * statistics.x / count + mean**2
        variance = np.where(used, second, params.slab_covariance)
        variance = np.maximum(variance, np.maximum(SMALLEST_SPREAD**2 * (variance + mean**2), 1e-300))
        return mean, params.slab_covariance if "slab_covariance" in self.fixed else variance

    def _new_noise(self, params: SpikeSlabParams, components: np.ndarray, statistics: SpikeSlabMaxStatistics) -> float:
        """The mean squared residual of the new fields, where each dimension keeps its winner."""
        moved = components - params.components
        change = (moved * ((components + params.components) * statistics.axx - 2.0 * statistics.axy)).sum()
        return max(float(statistics.distance + change) / (statistics.weight * self.n_features), self.noise_floor)

    def redraw_unused(
        self,
        params: SpikeSlabParams,
        statistics: SpikeSlabMaxStatistics,
        moments: DataMoments,
        rng: np.random.Generator,
    ) -> SpikeSlabParams:
        """Draw anew the field of every cause that no data point uses, with a slab of its own."""
        redrawn = super().redraw_unused(params, statistics, moments, rng)
        if redrawn is params or self.fixed & {"slab_mean", "slab_covariance"}:
            return redrawn
        unused = statistics.s < UNUSED * statistics.weight
        return redrawn._replace(
            slab_mean=np.where(unused, 1.0, params.slab_mean),
            slab_covariance=np.where(unused, 0.25, params.slab_covariance),
        )

    def perturb(self, params: SpikeSlabParams, scale: float, rng: np.random.Generator) -> SpikeSlabParams:
        moved = super().perturb(params, scale, rng)
        return moved if moved is params else moved._replace(components=floored(moved.components))


def floored(components: np.ndarray) -> np.ndarray:
    """The fields with no entry at or below 0."""
    return np.maximum(components, max(SMALLEST_FIELD * float(components.max()), _SMALLEST))


def field_norms(components: np.ndarray) -> np.ndarray:
    """|W_h|, (H,); not quite 0 for a field of zeros, whose score is then 0."""
    return np.maximum(np.linalg.norm(components, axis=1), _SMALLEST)


def log_normal_mass(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(Phi(b) - Phi(a)) for a < b, in the tail in which the difference keeps its digits."""
    flip = a > 0.0
    low, high = np.where(flip, -b, a), np.where(flip, -a, b)
    return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))
