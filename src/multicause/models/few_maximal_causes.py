"""Maximal causes analysis with few active latents: MCA3 and the restricted R-MCA2, under Poisson noise."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import DictionaryModel
from multicause.models.noises import Noise, PoissonNoise
from multicause.models.priors import UNUSED, probability_of_at_most, two_active
from multicause.models.subsets import small_subsets
from multicause.models.superpositions import SMALLEST_MEAN, Maximum, Sum

SLOPE = 0.2  # lambda of MCA eq. 35


class ThirdOrderParams(NamedTuple):
    components: np.ndarray  # (H, D) the rates of each latent
    activation: np.ndarray  # (H,) pi
    alpha: float = 1.0  # the factor that makes up for data with more than three active latents


class RestrictedParams(NamedTuple):
    components: np.ndarray  # (H, D) the rates of each latent, of equal sums
    activation: np.ndarray  # (H,) pi, all equal


class ThirdOrderStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>, with alpha
    a: np.ndarray  # (H, D) sum_n w_n <A>
    ay: np.ndarray  # (H, D) sum_n w_n <A> y
    at_most_two: float  # sum_n w_n q_n(|s| <= 2)


class RestrictedStatistics(NamedTuple):
    weight: float  # sum_n w_n over the data points that are not all zero
    ay: np.ndarray  # (H, D) sum_n w_n <A> y


@dataclass(frozen=True)
class FewMaximalCauses(DictionaryModel):
    """Maximal causes with Poisson noise, at most `max_active` of them active at once.

    s_h ~ Bernoulli(pi_h),   Wbar_d(s) = max_h s_h W_hd,   y_d ~ Poisson(Wbar_d)              [MCA eq. 1-3]
    """

    superposition: Sum | Maximum = Maximum()  # noqa: RUF009  (frozen values)
    noise: Noise = PoissonNoise()  # noqa: RUF009

    max_active: ClassVar[int] = 1
    takes_superpositions: ClassVar[tuple[type, ...]] = (Maximum,)
    takes_noises: ClassVar[tuple[type, ...]] = (PoissonNoise,)

    def states(self) -> np.ndarray:
        """All states of at most `max_active` latents, the sparse ones first, (S, H)."""
        return small_subsets(self.n_components, self.max_active)

    def draw_at(self, level: float, rng: np.random.Generator) -> np.ndarray:
        """|N(1, 1/3)|, scaled to the mean `level` (MCA Appendix E.1)."""
        drawn = np.abs(rng.normal(1.0, 1.0 / 3.0, size=(self.n_components, self.n_features)))
        return np.maximum(drawn * (level / drawn.mean()), SMALLEST_MEAN)

    def redraw_unused(self, params, statistics, moments, rng):
        """Nothing is drawn anew: the cooling is made for components that stay."""
        return params

    def admissible(self, params, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, SMALLEST_MEAN)


@dataclass(frozen=True)
class ThirdOrderCauses(FewMaximalCauses):
    """MCA3: at most three active latents; the components learn from states with at most two.

    With q over the states of at most three active latents, and S_T the Heaviside function, smoothed while T > 1,

        <A_id> = q(i) + sum_c q(ic) S_T(W_id - W_cd)                                        [MCA eq. 16, 35]
        <s_i>  = q(i) + sum_c q(ic) + alpha sum_{b<c} q(ibc)                                [MCA eq. 17]
    """

    steepness: float = np.inf  # of S_T; infinity is the step itself

    max_active: ClassVar[int] = 3

    def heated(self, beta: float) -> "ThirdOrderCauses":
        return replace(self, steepness=SLOPE * beta / (1.0 - beta) if beta < 1.0 else np.inf)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> ThirdOrderParams:
        """One latent active on average; components twice as bright as expected, on average (Appendix E.1)."""
        activation = np.full(self.n_components, min(1.0 / self.n_components, 0.5))
        level = 2.0 * expected_field_sum(moments, self.n_components) / self.n_features
        return ThirdOrderParams(self.draw_at(level, rng), activation)

    def accumulate(
        self, params: ThirdOrderParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> ThirdOrderStatistics:
        """Sums over data points n and shared states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        n_active = states.sum(axis=1)
        mass = weights.sum(axis=0)
        sparse = n_active <= 2.0
        s = (np.where(sparse, 1.0, params.alpha) * mass) @ states
        a, ay = self._shares(params.components, states[sparse], mass[sparse], weights[:, sparse].T @ Y)
        return ThirdOrderStatistics(float(mass.sum()), s, a, ay, float(mass[sparse].sum()))

    def _shares(self, components, states, mass, explained) -> tuple[np.ndarray, np.ndarray]:
        """sum_n <A> and sum_n <A> y from each state's total mass and the data it explains, (K up to pairs, D)."""
        n_active = states.sum(axis=1)
        single = states[n_active == 1.0]
        a = np.repeat(single.T @ mass[n_active == 1.0, None], self.n_features, axis=1)
        ay = single.T @ explained[n_active == 1.0]
        pair = n_active == 2.0
        if pair.any():
            first, second = np.nonzero(states[pair])[1].reshape(-1, 2).T
            share = step_function(components[first] - components[second], self.steepness)  # (P, D)
            for latent, part in ((first, share), (second, 1.0 - share)):
                scatter = np.eye(self.n_components)[latent].T  # (H, P)
                a += scatter @ (part * mass[pair, None])
                ay += scatter @ (part * explained[pair])
        return a, ay

    def m_step(self, params: ThirdOrderParams, statistics: ThirdOrderStatistics) -> ThirdOrderParams:
        """W = sum <A> y / sum <A> (eq. 9), pi = mean <s> (eq. 11), alpha by counting sparse data twice (eq. 33, 34)."""
        if statistics.weight <= 0.0:
            return params
        mean = np.divide(statistics.ay, statistics.a, out=params.components.copy(), where=statistics.a > UNUSED)
        activation = self.next_activation(params, statistics)
        expected = probability_of_at_most(activation, 2)
        alpha = max(params.alpha + expected - statistics.at_most_two / statistics.weight, 0.0)
        return ThirdOrderParams(np.maximum(mean, SMALLEST_MEAN), activation, alpha)


@dataclass(frozen=True)
class RestrictedCauses(FewMaximalCauses):
    """R-MCA2: at most two active latents, one fixed pi, components of fixed sum, learned from single active latents.

        <A_id> = q(i),   W_id = C sum_n <A_id> y_d / sum_d' sum_n <A_id'> y_d'              [MCA eq. 19-22]

    Parameters
    ----------
    field_sum : float
        C, the sum of each component.
    activation : float or None
        The fixed pi; None lets two latents be active on average.
    """

    field_sum: float = 1.0
    activation: float | None = None

    max_active: ClassVar[int] = 2

    @property
    def floor(self) -> float:
        """The smallest entry of a component under parameter noise."""
        return max(1e-10 * self.field_sum / self.n_features, SMALLEST_MEAN)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> RestrictedParams:
        drawn = self.draw_at(self.field_sum / self.n_features, rng)
        return RestrictedParams(self.normalise(drawn), self.activations())

    def activations(self) -> np.ndarray:
        fixed = two_active(self.n_components) if self.activation is None else self.activation
        return np.full(self.n_components, fixed)

    def normalise(self, components: np.ndarray) -> np.ndarray:
        """Each component scaled to the sum C; one of zeros alone becomes uniform."""
        positive = np.maximum(components, SMALLEST_MEAN)
        share = positive / positive.sum(axis=1, keepdims=True)
        return np.maximum(self.field_sum * share, SMALLEST_MEAN)

    def accumulate(
        self, params: RestrictedParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> RestrictedStatistics:
        """All-zero data points contribute nothing to <A> y."""
        single = states.sum(axis=1) == 1.0
        ay = states[single].T @ (weights[:, single].T @ Y)
        return RestrictedStatistics(float(weights[Y.any(axis=1)].sum()), ay)

    def m_step(self, params: RestrictedParams, statistics: RestrictedStatistics) -> RestrictedParams:
        total = statistics.ay.sum(axis=1, keepdims=True)
        target = np.divide(statistics.ay, total, out=params.components.copy(), where=total > 0.0)
        return params._replace(components=self.normalise(target))

    def admissible(self, params: RestrictedParams, components: np.ndarray) -> np.ndarray:
        return self.normalise(np.maximum(components, SMALLEST_MEAN))


def step_function(x: np.ndarray, steepness: float) -> np.ndarray:
    """S_T(x) = 1 / (1 + exp(-lambda x / (T - 1))) (MCA eq. 35); at T = 1 the Heaviside function, 1/2 at 0."""
    return np.heaviside(x, 0.5) if np.isinf(steepness) else expit(x * steepness)


def expected_field_sum(moments: DataMoments, n_components: int) -> float:
    """The sum of one component, from the mean and the spread of the data alone.

    Let every component be 0 or v, let k of them overlap in each dimension, and let two be active on
    average. Then E[y] = v (1 - (1 - pi)^k), which gives k, and k v D is shared by H components.
    Bars of value 10 on a 5 x 5 grid: v = 10, k = 2, and a sum of 50, as in MCA Appendix E.1.
    """
    mean, brightness = float(moments.mean.mean()), expected_brightness(moments)
    if brightness <= 0.0:  # also where the mean is so small that its square is 0
        return 1.0
    lit = min(mean / brightness, 1.0 - 1e-12)
    k = min(np.log1p(-lit) / np.log1p(-two_active(n_components)), n_components)
    return float(k * brightness * len(moments.mean) / n_components)


def expected_brightness(moments: DataMoments) -> float:
    """v of components that are 0 or v, all of one v: y is 0 or v, too, so that E[y^2] = v E[y]. 10 for the bars."""
    mean = float(moments.mean.mean())
    return float((moments.variance + moments.mean**2).mean()) / mean if mean > 0.0 else 0.0
