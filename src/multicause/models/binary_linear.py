"""Binary latents that add up under Gaussian noise: LinCA (binary sparse coding), and ET-NMF with W >= 0."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import (
    DictionaryModel,
    DictionaryParams,
    InterceptParams,
    explained_by_regression,
    inverse_norms,
    regress,
    upper_bound_scores,
)
from multicause.models.intercept import NO_SUM, centred, regress_with_constant
from multicause.models.noises import GaussianNoise
from multicause.models.superpositions import Sum


class BinaryLinearStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    ss: np.ndarray  # (H, H) sum_n w_n <s s^T>
    sy: np.ndarray  # (H, D) sum_n w_n <s> y^T
    yy: float  # sum_n w_n |y|^2
    y: np.ndarray = NO_SUM  # (D,) sum_n w_n y, where an intercept is learned; all of them are then about it


@dataclass(frozen=True)
class BinaryLinear(DictionaryModel):
    """Linear components with Gaussian noise (LinCA).

    s_h ~ Bernoulli(pi_h),   y ~ N(sum_h s_h W_h, sigma^2 I)                          [ET eq. 22, 24, 25]

    Entries of y that are not a number are missing.

    Parameters
    ----------
    intercept : bool
        Whether the mean is b + sum_h s_h W_h, with a b that is learned.
    """

    noise: GaussianNoise = GaussianNoise()  # noqa: RUF009  (a frozen value)
    intercept: bool = False

    selection_rule: ClassVar[Literal["cosine", "upper_bound"]] = "cosine"
    takes_superpositions: ClassVar[tuple[type, ...]] = (Sum,)
    takes_noises: ClassVar[tuple[type, ...]] = (GaussianNoise,)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> Any:
        """Two latents active on average; all that the data vary is noise; an intercept is the mean."""
        drawn = super().init_params(moments, rng)
        return InterceptParams(**drawn._asdict(), intercept=moments.mean.copy()) if self.intercept else drawn

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Spread about the component that explains the mean, if no intercept does."""
        expected_active = min(2.0, 0.5 * self.n_components)
        spread = np.sqrt(moments.variance) / 3.0
        mean = np.zeros_like(moments.mean) if self.intercept else moments.mean
        return mean / expected_active + spread * rng.standard_normal((n, self.n_features))

    def selection_scores(self, params: DictionaryParams, Y: np.ndarray) -> np.ndarray:
        """W_h^T y / |W_h|: the cosine of ET eq. 33, whose factor 1/|y| changes no ranking."""
        Y = centred(params, Y)
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
        seen = np.where(missing, 0.0, centred(params, Y))
        sy, yy = mean.T @ seen, float(row_weights @ np.einsum("nd,nd->n", seen, seen))
        if missing.any():
            rebuilt = (states @ params.components) * missing[:, None, :]  # (N, K, D)
            sy += np.einsum("nk,nkh,nkd->hd", weights, states, rebuilt, optimize=True)
            yy += float(np.einsum("nk,nkd->", weights, rebuilt**2))
            yy += params.noise_variance * float(row_weights @ missing.sum(axis=1))
        y = NO_SUM
        if self.intercept:
            y = row_weights @ seen + np.einsum("nh,hd,nd->d", mean, params.components, missing, optimize=True)
        return BinaryLinearStatistics(float(row_weights.sum()), mean.sum(axis=0), ss, sy, yy, y)

    def m_step(self, params: Any, statistics: BinaryLinearStatistics) -> Any:
        if statistics.weight <= 0.0:
            return params
        new: dict[str, Any] = {"activation": self.next_activation(params, statistics)}
        if self.intercept:
            sums = statistics.weight, statistics.s, statistics.ss, statistics.sy, statistics.y
            components, all_ss, all_sy = regress_with_constant(params.components, *sums, self.fixed)
            new |= {"components": components[:-1], "intercept": params.intercept + components[-1]}
            explained = explained_squares(components, statistics._replace(ss=all_ss, sy=all_sy))
        elif "components" in self.fixed:
            explained = explained_squares(params.components, statistics)
        else:
            new["components"], explained = self._new_components(params.components, statistics)
        if "noise_variance" not in self.fixed:
            squares = (statistics.yy - explained) / self.n_features
            new["noise_variance"] = self.noise.new_variance(squares, statistics.weight)
        return params._replace(**new)

    def recentre(self, statistics: BinaryLinearStatistics, before: Any, after: Any) -> BinaryLinearStatistics:
        """The same sums, about another intercept."""
        if not self.intercept:
            return statistics
        by = after.intercept - before.intercept
        yy = statistics.yy - 2.0 * float(by @ statistics.y) + statistics.weight * float(by @ by)
        sy = statistics.sy - np.outer(statistics.s, by)
        return statistics._replace(sy=sy, yy=yy, y=statistics.y - statistics.weight * by)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> tuple[np.ndarray, float]:
        """W = (sum <s s^T>)^-1 sum <s> y^T (ET eq. 26), and what it explains of the data's squares."""
        components = regress(old, statistics.ss, statistics.sy)
        explained = explained_by_regression(old, components, statistics.ss, statistics.sy)
        return components, float(np.vdot(components, explained))


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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intercept:
            raise TypeError(
                "NonnegativeLinear takes no intercept: the M-step with one does not keep components non-negative. "
                "Use BinaryLinear."
            )

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Small entries, a third of the data's spread: parts grow from them more reliably than from the mean."""
        spread = np.sqrt(moments.variance) / 3.0
        return np.abs(spread * rng.standard_normal((n, self.n_features)))

    def selection_scores(self, params: DictionaryParams, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log N(y; max(y, W_h), sigma^2), up to a constant: the upper bound of ET eq. 28."""
        return upper_bound_scores(self, params, Y)

    def _new_components(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> tuple[np.ndarray, float]:
        components = self._nearer_to_optimum(old, statistics)
        return components, explained_squares(components, statistics)

    def _nearer_to_optimum(self, old: np.ndarray, statistics: BinaryLinearStatistics) -> np.ndarray:
        if self.field_update == "clamped":
            return np.maximum(regress(old, statistics.ss, statistics.sy), 0.0)
        components, target = old, np.maximum(statistics.sy, 0.0)  # data below zero ask for an entry of zero
        for _ in range(self.n_partial_steps):
            current = statistics.ss @ components
            share = np.divide(components, current, out=np.zeros_like(components), where=current > 0.0)
            components = share * target  # in this order nothing overflows: a share is at most 1 / <s_h s_h>
        return components

    def admissible(self, params: DictionaryParams, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, 0.0)


def explained_squares(components: np.ndarray, statistics: BinaryLinearStatistics) -> float:
    """sum_n w_n (|y|^2 - <|y - sum_h s_h W_h|^2>), from the statistics alone."""
    return float(2.0 * np.vdot(components, statistics.sy) - np.vdot(components, statistics.ss @ components))
