"""Spike-and-slab sparse coding: causes that are on or off, each with a strength of its own (GSC)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.bernoulli_prior import log_prior
from multicause.models.field_model import UNUSED, FieldModel
from multicause.models.field_regression import regress_fields

SMALLEST_SPREAD = 1e-3  # of a strength, relative to its size: beyond it a slab is a spike, and digits cancel
Noise = Literal["isotropic", "diagonal", "full"]
Slab = Literal["diagonal", "full"]


class SpikeSlabParams(NamedTuple):
    components: np.ndarray  # (H, D) one generative field per cause
    activation: np.ndarray  # (H,) pi
    slab_mean: np.ndarray  # (H,) mu
    slab_covariance: np.ndarray  # (H,) or (H, H) Psi
    noise_variance: Any  # sigma^2, (D,) or (D, D) Sigma


class SpikeSlabStatistics(NamedTuple):
    """Sums over data points; a missing entry of y stands for its expectation. x = s*z."""

    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) <s>
    x: np.ndarray  # (H,) <x>
    xx: np.ndarray  # (H, H) <x x^T>
    xy: np.ndarray  # (H, D) <x y^T>
    yy: np.ndarray  # () |y|^2, (D,) y^2 or (D, D) y y^T, as the noise needs it
    z: np.ndarray  # (H,) <z - mu>, active or not, where strengths are correlated; else (0,)
    zz: np.ndarray  # (H, H) <(z - mu)(z - mu)^T>; else (0, 0)


class Conditional(NamedTuple):
    """One data point given each of K states."""

    log_joint: np.ndarray  # (K,)
    mean: np.ndarray  # (K, H) E[z | s, y], of inactive strengths too
    covariance: np.ndarray  # (K, H, H)


@dataclass(frozen=True)
class SpikeSlabLinear(FieldModel):
    """Spike-and-slab sparse coding.

    s_h ~ Bernoulli(pi_h),   z ~ N(mu, Psi),   y ~ N(sum_h s_h z_h W_h, Sigma)          [GSC eq. 1-3]

    Entries of y that are not a number are missing.

    Parameters
    ----------
    noise : {"isotropic", "diagonal", "full"}
        Sigma: sigma^2 I, a variance per feature, or any covariance.
    slab : {"diagonal", "full"}
        Psi: independent or correlated strengths.
    """

    noise: Noise = "isotropic"
    slab: Slab = "diagonal"

    kernel: ClassVar[str | None] = "spike_slab_linear"

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> SpikeSlabParams:
        """Two causes active on average, of strengths N(0, 1); the noise has the data's variance."""
        H = self.n_components
        covariance = np.ones(H) if self.slab == "diagonal" else np.eye(H)
        activation = np.full(H, min(2.0 / H, 0.5))
        fields = self.draw_components(moments, rng, H)
        return SpikeSlabParams(fields, activation, rng.standard_normal(H), covariance, self._first_noise(moments))

    def _first_noise(self, moments: DataMoments) -> Any:
        variance = np.maximum(moments.variance, self.noise_floor)
        if self.noise == "isotropic":
            return float(variance.mean())
        return variance if self.noise == "diagonal" else np.diag(variance)

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Fields of the size of the data, about its mean."""
        spread = np.sqrt(moments.variance + moments.mean**2)
        return spread * rng.standard_normal((n, self.n_features)) / np.sqrt(2.0)

    def sample(self, params: SpikeSlabParams, n_samples: int, rng: np.random.Generator):
        """Data points, and the strengths s*z that caused them."""
        states = self.draw_states(params, n_samples, rng)
        strengths = params.slab_mean + rng.standard_normal(states.shape) @ root(params.slab_covariance)
        noise = rng.standard_normal((n_samples, self.n_features)) @ root(self.noise_matrix(params))
        return self.superpose(params, states * strengths) + noise, states * strengths

    def superpose(self, params: SpikeSlabParams, states: np.ndarray) -> np.ndarray:
        """sum_h x_h W_h: the data that strengths x = s*z cause, without noise."""
        return states @ params.components

    def noise_matrix(self, params: SpikeSlabParams) -> np.ndarray:
        """Sigma as a variance per feature, (D,), or as a matrix, (D, D)."""
        return np.full(self.n_features, params.noise_variance) if self.noise == "isotropic" else params.noise_variance

    def condition(self, params: SpikeSlabParams, y: np.ndarray, states: np.ndarray) -> Conditional:
        """p(y, s) = p(s) N(y; W_s mu_s, C_s), C_s = Sigma + W_s Psi_s W_s^T, and p(z | s, y), from y's entries."""
        seen = ~np.isnan(y)
        fields = states[:, :, None] * params.components[:, seen]  # (K, H, D)
        slab = as_matrix(params.slab_covariance)
        loaded = slab @ fields  # (K, H, D)
        noise = as_matrix(self.noise_matrix(params))[np.ix_(seen, seen)]
        factor = np.linalg.cholesky(noise + np.swapaxes(fields, 1, 2) @ loaded)
        residual = y[seen] - np.einsum("khd,h->kd", fields, params.slab_mean)
        white = np.linalg.solve(factor, np.concatenate([residual[:, :, None], np.swapaxes(loaded, 1, 2)], axis=2))
        distance = np.square(white[:, :, 0]).sum(axis=1)
        log_det = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
        log_normal = -0.5 * (seen.sum() * np.log(2.0 * np.pi) + log_det + distance)
        gain = np.swapaxes(white[:, :, 1:], 1, 2)  # (K, H, D)
        return Conditional(
            log_prior(params.activation, states) + log_normal,
            params.slab_mean + np.einsum("khd,kd->kh", gain, white[:, :, 0]),
            slab - gain @ np.swapaxes(gain, 1, 2),
        )

    def log_joint(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s, y), the slab integrated out (GSC eq. 11), (N, K)."""
        return np.array([self.condition(params, y, few).log_joint for y, few in self._pairs(Y, states)])

    def codes(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """E[s*z | s, y], (N, K, H) (GSC eq. 15)."""
        return np.array([few * self.condition(params, y, few).mean for y, few in self._pairs(Y, states)])

    def _pairs(self, Y: np.ndarray, states: np.ndarray):
        """Each data point with its states."""
        return zip(Y, np.broadcast_to(states, (len(Y), *states.shape[-2:])), strict=True)

    def selection_scores(self, params: SpikeSlabParams, Y: np.ndarray) -> np.ndarray:
        """log p(y | singleton h), without its prior (GSC eq. 25)."""
        singletons = np.eye(self.n_components)
        return self.log_joint(params, Y, singletons) - log_prior(params.activation, singletons)

    def pursuit_scores(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(y | s), (N, K), as though strengths were independent, which keeps the pursuit of candidates cheap."""
        slab = params.slab_covariance
        independent = params._replace(slab_covariance=np.diag(slab) if self.slab == "full" else slab)
        log_joint = replace(self, slab="diagonal").log_joint(independent, Y, states)
        return log_joint - log_prior(params.activation, states)

    def accumulate(
        self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> SpikeSlabStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        H, D = self.n_components, self.n_features
        s, x, xx, xy, yy = np.zeros(H), np.zeros(H), np.zeros((H, H)), np.zeros((H, D)), np.zeros((D, D))
        z, zz = np.zeros(H), np.zeros((H, H))
        for (y, few), w in zip(self._pairs(Y, states), weights, strict=True):
            _, mean, covariance = self.condition(params, y, few)
            centred = mean - params.slab_mean
            x_n = w @ (few * mean)
            xx_n = np.einsum("k,kh,kg,khg->hg", w, few, few, covariance + mean[:, :, None] * mean[:, None, :])
            xy_n, yy_n = self.complete(params, y, w.sum(), x_n, xx_n)
            s, x, xx, xy, yy = s + w @ few, x + x_n, xx + xx_n, xy + xy_n, yy + yy_n
            z = z + w @ centred
            zz = zz + np.einsum("k,khg->hg", w, covariance + centred[:, :, None] * centred[:, None, :])
        if self.slab == "diagonal":
            z, zz = np.zeros(0), np.zeros((0, 0))
        return SpikeSlabStatistics(float(weights.sum()), s, x, xx, xy, self.reduce_noise(yy), z, zz)

    def complete(
        self, params: SpikeSlabParams, y: np.ndarray, weight: float, x: np.ndarray, xx: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """<x y^T> and <y y^T> of one data point: y_m | x, y_o ~ N(x W_m + (y_o - x W_o) B, Sigma_mm - Sigma_mo B)."""
        noise = as_matrix(self.noise_matrix(params))
        seen, missing = np.flatnonzero(~np.isnan(y)), np.flatnonzero(np.isnan(y))
        B = np.linalg.solve(noise[np.ix_(seen, seen)], noise[np.ix_(seen, missing)])  # (o, m)
        slope = params.components.copy()  # y = base + x slope + noise; an observed entry is its base
        slope[:, missing] -= params.components[:, seen] @ B
        slope[:, seen] = 0.0
        base = np.where(np.isnan(y), 0.0, y)
        base[missing] = y[seen] @ B
        rest = np.zeros_like(noise)
        rest[np.ix_(missing, missing)] = noise[np.ix_(missing, missing)] - noise[np.ix_(missing, seen)] @ B
        xy = np.outer(x, base) + xx @ slope
        cross = np.outer(base, x @ slope)
        yy = weight * (np.outer(base, base) + rest) + cross + cross.T + slope.T @ xx @ slope
        return xy, yy

    def reduce_noise(self, matrix: np.ndarray) -> np.ndarray:
        """The part of a sum of (D, D) matrices that the noise's shape needs: trace, diagonal, or all."""
        if self.noise == "full":
            return matrix
        return np.diag(matrix).copy() if self.noise == "diagonal" else np.asarray(np.trace(matrix))

    def m_step(
        self, params: SpikeSlabParams, statistics: SpikeSlabStatistics, step: Any, rng: np.random.Generator
    ) -> SpikeSlabParams:
        """GSC eq. 6-10, with the second moment of x in eq. 10: it is what makes the free energy rise."""
        if statistics.weight <= 0.0:
            return params
        components, _, slab_mean, slab_covariance, noise = params
        if "components" not in self.fixed:
            components = regress_fields(components, statistics.xx, statistics.xy)
        if not {"slab_mean", "slab_covariance"} <= self.fixed:
            slab_mean, slab_covariance = self._new_slab(params, statistics)
        if "noise_variance" not in self.fixed:
            noise = self._new_noise(components, statistics)
        activation = self.next_activation(params.activation, statistics)
        return SpikeSlabParams(components, activation, slab_mean, slab_covariance, noise)

    def _new_slab(self, params: SpikeSlabParams, statistics: SpikeSlabStatistics) -> tuple[np.ndarray, np.ndarray]:
        """The slab of the active strengths (GSC eq. 8, 9), or of all strengths where they are correlated."""
        if self.slab == "diagonal":
            used = statistics.s > UNUSED * statistics.weight
            count = np.where(used, statistics.s, 1.0)
            mean = np.where(used, statistics.x / count, params.slab_mean)
            mean = params.slab_mean if "slab_mean" in self.fixed else mean
            second = np.diag(statistics.xx) / count - 2.0 * mean * statistics.x / count + mean**2
            variance = np.where(used, second, params.slab_covariance)
            floor = SMALLEST_SPREAD**2 * np.maximum(mean**2, variance + mean**2)
            variance = np.maximum(variance, np.maximum(floor, 1e-300))
            return mean, params.slab_covariance if "slab_covariance" in self.fixed else variance
        moved = np.zeros_like(params.slab_mean) if "slab_mean" in self.fixed else statistics.z / statistics.weight
        if "slab_covariance" in self.fixed:
            return params.slab_mean + moved, params.slab_covariance
        cross = np.outer(statistics.z / statistics.weight, moved)
        covariance = statistics.zz / statistics.weight - cross - cross.T + np.outer(moved, moved)
        mean = params.slab_mean + moved
        return mean, floored(covariance, SMALLEST_SPREAD**2 * (np.diag(covariance) + mean**2))

    def _new_noise(self, components: np.ndarray, statistics: SpikeSlabStatistics) -> Any:
        """Sigma = <(y - x W)(y - x W)^T>, as much of it as the noise's shape has."""
        if self.noise == "full":
            explained = components.T @ statistics.xy
            rebuilt = components.T @ statistics.xx @ components
            covariance = (statistics.yy - explained - explained.T + rebuilt) / statistics.weight
            return floored(covariance, np.full(self.n_features, self.noise_floor))
        explained = 2.0 * statistics.xy - statistics.xx @ components
        per_feature = np.einsum("hd,hd->d", components, explained)
        if self.noise == "diagonal":
            return np.maximum((statistics.yy - per_feature) / statistics.weight, self.noise_floor)
        variance = (float(statistics.yy) - per_feature.sum()) / (statistics.weight * self.n_features)
        return max(float(variance), self.noise_floor)

    def redraw_unused(
        self, params: SpikeSlabParams, statistics: SpikeSlabStatistics, moments: DataMoments, rng: np.random.Generator
    ) -> SpikeSlabParams:
        """Draw anew the field of every cause that no data point uses, with a slab of its own where strengths allow."""
        redrawn = super().redraw_unused(params, statistics, moments, rng)
        if redrawn is params or self.slab == "full" or self.fixed & {"slab_mean", "slab_covariance"}:
            return redrawn
        unused = statistics.s < UNUSED * statistics.weight
        return redrawn._replace(
            slab_mean=np.where(unused, rng.standard_normal(self.n_components), params.slab_mean),
            slab_covariance=np.where(unused, 1.0, params.slab_covariance),
        )


def as_matrix(covariance: np.ndarray) -> np.ndarray:
    return np.diag(covariance) if np.ndim(covariance) == 1 else covariance


def root(covariance: np.ndarray) -> np.ndarray:
    """R with R^T R = covariance: rows of N(0, I) times R have it."""
    return np.linalg.cholesky(as_matrix(covariance)).T


def floored(covariance: np.ndarray, smallest: np.ndarray) -> np.ndarray:
    """The covariance with no eigenvalue below 1, once each variable is in units of its smallest standard deviation."""
    scale = np.sqrt(np.maximum(smallest, 1e-300))
    values, vectors = np.linalg.eigh((covariance + covariance.T) / (2.0 * np.outer(scale, scale)))
    if values[0] >= 1.0:
        return 0.5 * (covariance + covariance.T)
    return np.outer(scale, scale) * ((vectors * np.maximum(values, 1.0)) @ vectors.T)
