"""Binary causes that add up under Gaussian noise: LinCA (binary sparse coding), and ET-NMF with non-negative fields."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from multicause.models.base import DataMoments, FieldParams
from multicause.models.bernoulli_prior import log_prior
from multicause.models.field_model import FieldModel
from multicause.models.field_regression import regress_fields


class BinaryLinearStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    ss: np.ndarray  # (H, H) sum_n w_n <s s^T>
    sy: np.ndarray  # (H, D) sum_n w_n <s> y^T
    yy: float  # sum_n w_n |y|^2


@dataclass(frozen=True)
class BinaryLinear(FieldModel):
    """Linear causes with Gaussian noise (LinCA).

    s_h ~ Bernoulli(pi_h),   y ~ N(sum_h s_h W_h, sigma^2 I)                          [ET eq. 22, 24, 25]

    Entries of y that are not a number are missing.
    """

    kernel: ClassVar[str | None] = "binary_linear"
    selection: ClassVar[Literal["cosine", "upper_bound"]] = "cosine"

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> FieldParams:
        """Two causes active on average; fields spread about the field that explains the mean; all variance is noise."""
        activation = min(2.0 / self.n_components, 0.5)
        components = self.draw_components(moments, rng, self.n_components)
        noise = max(float(moments.variance.mean()), self.noise_floor)
        return FieldParams(components, np.full(self.n_components, activation), noise)

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        expected_active = min(2.0, 0.5 * self.n_components)
        spread = np.sqrt(moments.variance) / 3.0
        return moments.mean / expected_active + spread * rng.standard_normal((n, self.n_features))

    def sample(self, params: FieldParams, n_samples: int, rng: np.random.Generator):
        states = self.draw_states(params, n_samples, rng)
        noise = np.sqrt(params.noise_variance) * rng.standard_normal((n_samples, self.n_features))
        return self.superpose(params, states) + noise, states

    def superpose(self, params: FieldParams, states: np.ndarray) -> np.ndarray:
        """sum_h s_h W_h: the data that states cause, without noise."""
        return states @ params.components

    def log_joint(self, params: FieldParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s, y) = log p(s) - D/2 log(2 pi sigma^2) - |y - sum_h s_h W_h|^2 / (2 sigma^2), (N, K).

        Both terms are those of the entries of y that are numbers; the others are missing.
        """
        seen = ~np.isnan(Y)
        residual = np.where(seen[:, None, :], Y[:, None, :] - self.superpose(params, states), 0.0)  # (N, K, D)
        distance = np.einsum("nkd,nkd->nk", residual, residual)
        n_seen = np.count_nonzero(seen, axis=1)[:, None]
        log_noise = -0.5 * n_seen * np.log(2.0 * np.pi * params.noise_variance)
        return log_prior(params.activation, states) + log_noise - 0.5 * distance / params.noise_variance

    def selection_scores(self, params: FieldParams, Y: np.ndarray) -> np.ndarray:
        """W_h^T y / |W_h|: the cosine of ET eq. 33, whose factor 1/|y| changes no ranking."""
        return (np.where(np.isnan(Y), 0.0, Y) @ params.components.T) * inverse_norms(params.components)

    def accumulate(
        self, params: FieldParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> BinaryLinearStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k).

        A missing entry of y is expected to be sum_h s_h W_h, give or take the noise.
        """
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        mean = np.einsum("nk,nkh->nh", weights, states)
        ss = np.einsum("nk,nkh,nkg->hg", weights, states, states, optimize=True)
        row_weights = weights.sum(axis=1)
        missing = np.isnan(Y)
        seen = np.where(missing, 0.0, Y)
        sy, yy = mean.T @ seen, float(row_weights @ np.einsum("nd,nd->n", seen, seen))
        if missing.any():
            rebuilt = self.superpose(params, states) * missing[:, None, :]  # (N, K, D)
            sy += np.einsum("nk,nkh,nkd->hd", weights, states, rebuilt, optimize=True)
            yy += float(np.einsum("nk,nkd->", weights, rebuilt**2))
            yy += params.noise_variance * float(row_weights @ missing.sum(axis=1))
        return BinaryLinearStatistics(float(row_weights.sum()), mean.sum(axis=0), ss, sy, yy)

    def m_step(
        self, params: FieldParams, statistics: BinaryLinearStatistics, step: Any, rng: np.random.Generator
    ) -> FieldParams:
        if statistics.weight <= 0.0:
            return params
        components, activation, noise = params
        if "components" not in self.fixed:
            components = self._new_components(components, statistics)
        if "noise_variance" not in self.fixed:
            noise = max(mean_squared_error(components, statistics), self.noise_floor)
        return FieldParams(components, self.next_activation(activation, statistics), noise)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> np.ndarray:
        """W = (sum <s s^T>)^-1 sum <s> y^T (ET eq. 26)."""
        return regress_fields(old, statistics.ss, statistics.sy)


@dataclass(frozen=True)
class NonnegativeLinear(BinaryLinear):
    """Linear causes with non-negative fields (ET-NMF).

    Parameters
    ----------
    field_update : {"multiplicative", "clamped"}
        Twenty multiplicative steps towards the M-step's solution (ET eq. 27), or the free solution clamped at 0.
    """

    field_update: Literal["multiplicative", "clamped"] = "multiplicative"

    selection: ClassVar[Literal["cosine", "upper_bound"]] = "upper_bound"
    n_partial_steps: ClassVar[int] = 20

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Small fields, a third of the data's spread: parts grow from them more reliably than from the mean."""
        spread = np.sqrt(moments.variance) / 3.0
        return np.abs(spread * rng.standard_normal((n, self.n_features)))

    def selection_scores(self, params: FieldParams, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log N(y; max(y, W_h), sigma^2), up to a constant: the upper bound of ET eq. 28."""
        excess = np.maximum(params.components - Y[:, None, :], 0.0)  # (N, H, D)
        return np.log(params.activation) - np.einsum("nhd,nhd->nh", excess, excess) / (2.0 * params.noise_variance)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> np.ndarray:
        if self.field_update == "clamped":
            return np.maximum(super()._new_components(old, statistics), 0.0)
        components, target = old, np.maximum(statistics.sy, 0.0)  # data below zero ask for a field of zero
        for _ in range(self.n_partial_steps):
            current = statistics.ss @ components
            share = np.divide(components, current, out=np.zeros_like(components), where=current > 0.0)
            components = share * target  # in this order nothing overflows: a share is at most 1 / <s_h s_h>
        return components

    def perturb(self, params: FieldParams, scale: float, rng: np.random.Generator) -> FieldParams:
        moved = super().perturb(params, scale, rng)
        return moved._replace(components=np.maximum(moved.components, 0.0))


def inverse_norms(components: np.ndarray) -> np.ndarray:
    """1 / |W_h|, and 0 for a field that is zero."""
    norms = np.linalg.norm(components, axis=1)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)


def mean_squared_error(components: np.ndarray, statistics: BinaryLinearStatistics) -> float:
    """<|y - sum_h s_h W_h|^2> / D, from the statistics alone."""
    explained = 2.0 * np.vdot(components, statistics.sy) - np.vdot(components, statistics.ss @ components)
    return float(statistics.yy - explained) / (statistics.weight * components.shape[1])
