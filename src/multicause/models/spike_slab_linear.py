"""Spike-and-slab sparse coding: latents that are on or off, each with a coefficient (GSC)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import DictionaryModel, explained_by_regression, regress
from multicause.models.intercept import NO_SUM, centred, regress_with_constant
from multicause.models.noises import GaussianNoise
from multicause.models.priors import UNUSED, SpikeSlabPrior, as_matrix, log_prior
from multicause.models.superpositions import Sum


class SpikeSlabParams(NamedTuple):
    components: np.ndarray  # (H, D) one dictionary element per latent
    activation: np.ndarray  # (H,) pi
    slab_mean: np.ndarray  # (H,) mu
    slab_covariance: np.ndarray  # (H,) or (H, H) Psi
    noise_variance: Any  # sigma^2, (D,) or (D, D) Sigma


class SpikeSlabInterceptParams(NamedTuple):
    """The same, with what is there where no latent is active."""

    components: np.ndarray  # (H, D)
    activation: np.ndarray  # (H,) pi
    slab_mean: np.ndarray  # (H,) mu
    slab_covariance: np.ndarray  # (H,) or (H, H) Psi
    noise_variance: Any  # sigma^2, (D,) or (D, D) Sigma
    intercept: np.ndarray  # (D,) b


class SpikeSlabStatistics(NamedTuple):
    """Sums over data points; a missing entry of y stands for its expectation. x = s*z."""

    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) <s>
    x: np.ndarray  # (H,) <x>
    xx: np.ndarray  # (H, H) <x x^T>
    xy: np.ndarray  # (H, D) <x y^T>
    yy: np.ndarray  # () |y|^2, (D,) y^2 or (D, D) y y^T, as the noise needs it
    z: np.ndarray  # (H,) <z - mu>, active or not, where coefficients are correlated; else (0,)
    zz: np.ndarray  # (H, H) <(z - mu)(z - mu)^T>; else (0, 0)
    ss: np.ndarray  # (H, H) <s s^T>; else (0, 0)
    y: np.ndarray = NO_SUM  # (D,) y, where an intercept is learned; all sums of y are then about it


class Conditional(NamedTuple):
    """One data point given each of K states."""

    log_joint: np.ndarray  # (K,)
    mean: np.ndarray  # (K, H) E[z | s, y], of inactive latents too
    covariance: np.ndarray  # (K, H, H)


@dataclass(frozen=True)
class SpikeSlabLinear(DictionaryModel):
    """Spike-and-slab sparse coding.

    s_h ~ Bernoulli(pi_h),   z ~ N(mu, Psi),   y ~ N(sum_h s_h z_h W_h, Sigma)          [GSC eq. 1-3]

    Entries of y that are not a number are missing.

    The prior's slab says whether coefficients are independent, the noise's shape what Sigma is.

    Parameters
    ----------
    intercept : bool
        Whether the mean is b + sum_h s_h z_h W_h, with a b that is learned.
    """

    prior: SpikeSlabPrior = SpikeSlabPrior()  # noqa: RUF009  (frozen values)
    noise: GaussianNoise = GaussianNoise()  # noqa: RUF009
    intercept: bool = False

    takes_superpositions: ClassVar[tuple[type, ...]] = (Sum,)
    takes_noises: ClassVar[tuple[type, ...]] = (GaussianNoise,)
    takes_shapes: ClassVar[tuple[str, ...]] = ("isotropic", "diagonal", "full")

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> Any:
        """Two latents active on average, of coefficients N(0, 1); the noise has the data's variance, b their mean."""
        H = self.n_components
        covariance = np.ones(H) if self.prior.slab == "diagonal" else np.eye(H)
        components = self.draw_components(moments, rng, H)
        slab_mean = rng.standard_normal(H)
        noise = self.noise.initial(moments)["noise_variance"]
        drawn = SpikeSlabParams(components, self.prior.initial(H), slab_mean, covariance, noise)
        return SpikeSlabInterceptParams(*drawn, moments.mean.copy()) if self.intercept else drawn

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Components of the size of the data, which an intercept makes that of their spread."""
        spread = np.sqrt(moments.variance + (0.0 if self.intercept else moments.mean**2))
        return spread * rng.standard_normal((n, self.n_features)) / np.sqrt(2.0)

    def noise_covariance(self, params: SpikeSlabParams) -> np.ndarray:
        """Sigma as a variance per feature, (D,), or as a matrix, (D, D)."""
        return self.noise.covariance(params, self.n_features)

    def condition(self, params: SpikeSlabParams, y: np.ndarray, states: np.ndarray) -> Conditional:
        """p(y, s) = p(s) N(y; W_s mu_s, C_s), C_s = Sigma + W_s Psi_s W_s^T, and p(z | s, y), from y's entries."""
        seen, y = ~np.isnan(y), centred(params, y)
        active = states[:, :, None] * params.components[:, seen]  # (K, H, D)
        slab = as_matrix(params.slab_covariance)
        loaded = slab @ active  # (K, H, D)
        noise = as_matrix(self.noise_covariance(params))[np.ix_(seen, seen)]
        factor = np.linalg.cholesky(noise + np.swapaxes(active, 1, 2) @ loaded)
        residual = y[seen] - np.einsum("khd,h->kd", active, params.slab_mean)
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
        return np.array([self.condition(params, y, s_n).log_joint for y, s_n in self._pairs(Y, states)])

    def codes(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """E[s*z | s, y], (N, K, H) (GSC eq. 15)."""
        return np.array([s_n * self.condition(params, y, s_n).mean for y, s_n in self._pairs(Y, states)])

    def _pairs(self, Y: np.ndarray, states: np.ndarray):
        """Each data point with its states."""
        return zip(Y, np.broadcast_to(states, (len(Y), *states.shape[-2:])), strict=True)

    def selection_scores(self, params: SpikeSlabParams, Y: np.ndarray) -> np.ndarray:
        """log p(y | singleton h), without its prior (GSC eq. 25)."""
        singletons = np.eye(self.n_components)
        return self.log_joint(params, Y, singletons) - log_prior(params.activation, singletons)

    def greedy_scores(self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(y | s), (N, K), as though coefficients were independent, which keeps greedy selection cheap."""
        slab = params.slab_covariance
        independent = params._replace(slab_covariance=np.diag(slab) if self.prior.slab == "full" else slab)
        model = replace(self, prior=replace(self.prior, slab="diagonal"))
        return model.log_joint(independent, Y, states) - log_prior(params.activation, states)

    def accumulate(
        self, params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> SpikeSlabStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        H, D = self.n_components, self.n_features
        s, x, xx, xy, yy = np.zeros(H), np.zeros(H), np.zeros((H, H)), np.zeros((H, D)), np.zeros((D, D))
        z, zz, ss, total = np.zeros(H), np.zeros((H, H)), np.zeros((H, H)), np.zeros(D)
        for (y, s_n), w in zip(self._pairs(Y, states), weights, strict=True):
            _, mean, covariance = self.condition(params, y, s_n)
            apart = mean - params.slab_mean
            x_n = w @ (s_n * mean)
            xx_n = np.einsum("k,kh,kg,khg->hg", w, s_n, s_n, covariance + mean[:, :, None] * mean[:, None, :])
            y_n, xy_n, yy_n = self.complete(params, centred(params, y), w.sum(), x_n, xx_n)
            s, x, xx, xy, yy, total = s + w @ s_n, x + x_n, xx + xx_n, xy + xy_n, yy + yy_n, total + y_n
            z = z + w @ apart
            ss = ss + np.einsum("k,kh,kg->hg", w, s_n, s_n)
            zz = zz + np.einsum("k,khg->hg", w, covariance + apart[:, :, None] * apart[:, None, :])
        if self.prior.slab == "diagonal":
            z, zz, ss = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
        total = total if self.intercept else NO_SUM
        return SpikeSlabStatistics(float(weights.sum()), s, x, xx, xy, self.noise.reduce(yy), z, zz, ss, total)

    def complete(
        self, params: SpikeSlabParams, y: np.ndarray, weight: float, x: np.ndarray, xx: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """<y>, <x y^T> and <y y^T> of one data point, about b.

        y_m | x, y_o ~ N(x W_m + (y_o - x W_o) B, Sigma_mm - Sigma_mo B)
        """
        noise = as_matrix(self.noise_covariance(params))
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
        return weight * base + x @ slope, xy, yy

    def m_step(self, params: Any, statistics: SpikeSlabStatistics) -> Any:
        """GSC eq. 6-10, with the second moment of x in eq. 10: it is what makes the free energy rise."""
        if statistics.weight <= 0.0:
            return params
        new: dict[str, Any] = {"activation": self.next_activation(params, statistics)}
        old, regressed, learned = params.components, None, statistics
        if self.intercept:
            sums = statistics.weight, statistics.x, statistics.xx, statistics.xy, statistics.y
            old, xx, xy = regress_with_constant(old, *sums, self.fixed)
            new |= {"components": old[:-1], "intercept": params.intercept + old[-1]}
            learned = statistics._replace(xx=xx, xy=xy)
        elif "components" not in self.fixed:
            new["components"] = regressed = regress(old, statistics.xx, statistics.xy)
        if not {"slab_mean", "slab_covariance"} <= self.fixed:
            if self.prior.slab == "diagonal":
                new |= self.prior.new_slab(params, statistics, np.diag(statistics.xx), self.fixed)
            else:
                new |= self.prior.new_correlated_slab(params, statistics, self.fixed)
        if "noise_variance" not in self.fixed:
            squares = self._squares(old, regressed, learned)
            new["noise_variance"] = self.noise.new_variance(squares, statistics.weight)
        return params._replace(**new)

    def recentre(
        self, statistics: SpikeSlabStatistics, before: SpikeSlabParams, after: SpikeSlabParams
    ) -> SpikeSlabStatistics:
        """Correlated coefficients are summed about mu: z - mu grows by how far mu has moved back. Data are about b."""
        statistics = self._about(statistics, before, after)
        if self.prior.slab == "diagonal":
            return statistics
        back = before.slab_mean - after.slab_mean
        cross, weight = np.outer(statistics.z, back), statistics.weight
        zz = statistics.zz + cross + cross.T + weight * np.outer(back, back)
        return statistics._replace(z=statistics.z + weight * back, zz=zz)

    def _about(self, statistics: SpikeSlabStatistics, before: Any, after: Any) -> SpikeSlabStatistics:
        """The same sums of the data, about another intercept."""
        if not self.intercept:
            return statistics
        by, y, weight = after.intercept - before.intercept, statistics.y, statistics.weight
        cross = np.outer(by, y)
        yy = statistics.yy + self.noise.reduce(weight * np.outer(by, by) - cross - cross.T)
        return statistics._replace(xy=statistics.xy - np.outer(statistics.x, by), yy=yy, y=y - weight * by)

    def _squares(self, old: np.ndarray, new: np.ndarray | None, statistics: SpikeSlabStatistics) -> Any:
        """sum_n w_n <(y - x W)(y - x W)^T>, as much of it as the noise has; its mean diagonal for one variance.

        W are the new components, by `regress`; the old ones where there are none.
        """
        components = old if new is None else new
        if self.noise.shape == "full":
            explained = components.T @ statistics.xy
            rebuilt = components.T @ statistics.xx @ components
            return statistics.yy - explained - explained.T + rebuilt
        if new is None:
            explained = 2.0 * statistics.xy - statistics.xx @ components
        else:
            explained = explained_by_regression(old, new, statistics.xx, statistics.xy)
        per_feature = np.einsum("hd,hd->d", components, explained)
        if self.noise.shape == "diagonal":
            return statistics.yy - per_feature
        return (float(statistics.yy) - per_feature.sum()) / self.n_features

    def redraw_unused(
        self, params: SpikeSlabParams, statistics: SpikeSlabStatistics, moments: DataMoments, rng: np.random.Generator
    ) -> SpikeSlabParams:
        """Draw anew the component of every latent that no data point uses, and its slab where that is diagonal."""
        redrawn = super().redraw_unused(params, statistics, moments, rng)
        if redrawn is params or self.prior.slab == "full" or self.fixed & {"slab_mean", "slab_covariance"}:
            return redrawn
        unused = statistics.s < UNUSED * statistics.weight
        return redrawn._replace(
            slab_mean=np.where(unused, rng.standard_normal(self.n_components), params.slab_mean),
            slab_covariance=np.where(unused, 1.0, params.slab_covariance),
        )
