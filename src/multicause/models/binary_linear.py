"""Binary latents that add up under Gaussian noise: LinCA (binary sparse coding), and ET-NMF with W >= 0."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import (
    DictionaryModel,
    DictionaryParams,
    inverse_norms,
    regress,
    upper_bound_scores,
)
from multicause.models.noises import GaussianNoise
from multicause.models.superpositions import Sum


class BinaryLinearStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    ss: np.ndarray  # (H, H) sum_n w_n <s s^T>
    sy: np.ndarray  # (H, D) sum_n w_n <s> y^T
    yy: float  # sum_n w_n |y|^2


@dataclass(frozen=True)
class BinaryLinear(DictionaryModel):
    """Linear components with Gaussian noise (LinCA).

    s_h ~ Bernoulli(pi_h),   y ~ N(sum_h s_h W_h, sigma^2 I)                          [ET eq. 22, 24, 25]

    Entries of y that are not a number are missing.
    """

    noise: GaussianNoise = GaussianNoise()  # noqa: RUF009  (a frozen value)

    selection_rule: ClassVar[Literal["cosine", "upper_bound"]] = "cosine"
    takes_superpositions: ClassVar[tuple[type, ...]] = (Sum,)
    takes_noises: ClassVar[tuple[type, ...]] = (GaussianNoise,)

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Spread about the component that explains the mean."""
        expected_active = min(2.0, 0.5 * self.n_components)
        spread = np.sqrt(moments.variance) / 3.0
        return moments.mean / expected_active + spread * rng.standard_normal((n, self.n_features))

    def selection_scores(self, params: DictionaryParams, Y: np.ndarray) -> np.ndarray:
        """W_h^T y / |W_h|: the cosine of ET eq. 33, whose factor 1/|y| changes no ranking."""
        return (np.where(np.isnan(Y), 0.0, Y) @ params.components.T) * inverse_norms(params.components)

    def accumulate(
        self, params: DictionaryParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
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

    def m_step(self, params: DictionaryParams, statistics: BinaryLinearStatistics) -> DictionaryParams:
        if statistics.weight <= 0.0:
            return params
        components, noise = params.components, params.noise_variance
        if "components" not in self.fixed:
            components = self._new_components(components, statistics)
        if "noise_variance" not in self.fixed:
            noise = self.noise.new_variance(squared_error(components, statistics) / self.n_features, statistics.weight)
        return DictionaryParams(components, self.next_activation(params, statistics), noise)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> np.ndarray:
        """W = (sum <s s^T>)^-1 sum <s> y^T (ET eq. 26)."""
        return regress(old, statistics.ss, statistics.sy)


@dataclass(frozen=True)
class NonnegativeLinear(BinaryLinear):
    """Linear components that are not negative (ET-NMF).

    Parameters
    ----------
    field_update : {"multiplicative", "clamped"}
        Twenty multiplicative steps towards the M-step's solution (ET eq. 27), or the free solution clamped at 0.
    """

    field_update: Literal["multiplicative", "clamped"] = "multiplicative"

    selection_rule: ClassVar[Literal["cosine", "upper_bound"]] = "upper_bound"
    n_partial_steps: ClassVar[int] = 20

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Small entries, a third of the data's spread: parts grow from them more reliably than from the mean."""
        spread = np.sqrt(moments.variance) / 3.0
        return np.abs(spread * rng.standard_normal((n, self.n_features)))

    def selection_scores(self, params: DictionaryParams, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log N(y; max(y, W_h), sigma^2), up to a constant: the upper bound of ET eq. 28."""
        return upper_bound_scores(self, params, Y)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> np.ndarray:
        if self.field_update == "clamped":
            return np.maximum(super()._new_components(old, statistics), 0.0)
        components, target = old, np.maximum(statistics.sy, 0.0)  # data below zero ask for an entry of zero
        for _ in range(self.n_partial_steps):
            current = statistics.ss @ components
            share = np.divide(components, current, out=np.zeros_like(components), where=current > 0.0)
            components = share * target  # in this order nothing overflows: a share is at most 1 / <s_h s_h>
        return components

    def admissible(self, params: DictionaryParams, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, 0.0)


def squared_error(components: np.ndarray, statistics: BinaryLinearStatistics) -> float:
    """sum_n w_n <|y - sum_h s_h W_h|^2>, from the statistics alone."""
    explained = 2.0 * np.vdot(components, statistics.sy) - np.vdot(components, statistics.ss @ components)
    return float(statistics.yy - explained)
