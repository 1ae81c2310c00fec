"""Maximal causes of which only a few are active at once: MCA3 and the restricted R-MCA2, under Poisson noise."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logit

from multicause.backends.tiles import tiled_product
from multicause.models.base import DataMoments
from multicause.models.bernoulli_prior import new_activation, probability_of_at_most
from multicause.models.field_model import UNUSED
from multicause.models.maximal_causes import SMALLEST_FIELD, MaximalCauses

SLOPE = 0.2  # lambda of MCA eq. 35
IMPOSSIBLE = -1e300  # the log joint of the empty state with a count above 0: finite, so that 0 times it is 0


class FewCausesParams(NamedTuple):
    """What each cause brings, how often, and the factor that makes up for data of more than three causes."""

    components: np.ndarray  # (H, D) one generative field per cause
    activation: np.ndarray  # (H,) pi
    noise_variance: float = 1.0  # Poisson noise has no parameter of its own
    alpha: float = 1.0


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
class LogJointTable:
    """log p(s, y_n) of states that all data points share: one matrix product.

    log p(s, y) = sum_h s_h logit pi_h + sum_h log(1 - pi_h) + sum_d [ y_d log Wbar_d(s) - Wbar_d(s) ] - log y_d!
    """

    rates: np.ndarray  # (S, D) Wbar(s); the first state is the empty one
    log_rates: np.ndarray  # (D, S) log Wbar(s), 0 for the empty state
    log_scale: np.ndarray  # (S,) log p(s) - sum_d Wbar_d(s)

    @classmethod
    def of(cls, params: FewCausesParams, states: np.ndarray, max_active: int) -> "LogJointTable":
        rates = _rates(params.components, max_active)
        log_rates = np.zeros_like(rates)
        np.log(rates[1:], out=log_rates[1:])
        log_prior = states @ logit(params.activation) + np.log1p(-params.activation).sum()
        return cls(rates, np.ascontiguousarray(log_rates.T), log_prior - rates.sum(axis=1))

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """(N, S), the same bits for a row whatever rows stand beside it."""
        log_joint = tiled_product(Y, self.log_rates)
        log_joint += self.log_scale
        log_joint -= gammaln(Y + 1.0).sum(axis=1, keepdims=True)
        log_joint[Y.any(axis=1), 0] = IMPOSSIBLE
        return log_joint


@dataclass(frozen=True)
class FewMaximalCauses:
    """Maximal causes with Poisson noise, of which at most `max_active` are active at once.

        s_h ~ Bernoulli(pi_h),   Wbar_d(s) = max_h s_h W_hd,   y_d ~ Poisson(Wbar_d)              [MCA eq. 1-3]

    Parameters
    ----------
    n_components, n_features : int
        H and D.
    """

    n_components: int
    n_features: int

    kernel: ClassVar[str | None] = None
    max_active: ClassVar[int] = 1

    def sample(self, params: FewCausesParams, n_samples: int, rng: np.random.Generator):
        return self._all_causes.sample(params, n_samples, rng)  # type: ignore[arg-type]

    def superpose(self, params: FewCausesParams, states: np.ndarray) -> np.ndarray:
        """max_h s_h W_hd, cause by cause: the memory of one (N, D) array."""
        rates = np.zeros((*states.shape[:-1], self.n_features))
        for strength, field in zip(np.moveaxis(states, -1, 0), params.components, strict=True):
            np.maximum(rates, strength[..., None] * field, out=rates)
        return rates

    def log_joint(self, params: FewCausesParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        return self._all_causes.log_joint(params, Y, states)  # type: ignore[arg-type]

    def selection_scores(self, params: FewCausesParams, Y: np.ndarray) -> np.ndarray:
        return self._all_causes.selection_scores(params, Y)  # type: ignore[arg-type]

    def states(self) -> np.ndarray:
        """All states of at most `max_active` causes, the sparse ones first, (S, H)."""
        return few_states(self.n_components, self.max_active)

    def tabulate(self, params: FewCausesParams) -> LogJointTable:
        return LogJointTable.of(params, self.states(), self.max_active)

    def draw_components(self, level: float, rng: np.random.Generator) -> np.ndarray:
        """|N(1, 1/3)|, scaled to the mean `level` (MCA Appendix E.1)."""
        drawn = np.abs(rng.normal(1.0, 1.0 / 3.0, size=(self.n_components, self.n_features)))
        return np.maximum(drawn * (level / drawn.mean()), SMALLEST_FIELD)

    def perturb(self, params: FewCausesParams, scale: float, rng: np.random.Generator) -> FewCausesParams:
        """Add N(0, scale^2) to every field entry; none gets below 0."""
        moved = params.components + scale * rng.standard_normal(params.components.shape)
        return params._replace(components=np.maximum(moved, SMALLEST_FIELD))

    @property
    def _all_causes(self) -> MaximalCauses:
        return MaximalCauses(self.n_components, self.n_features, noise="poisson")


@dataclass(frozen=True)
class ThirdOrderCauses(FewMaximalCauses):
    """MCA3: at most three causes; the fields learn from at most two of them.

    With q over the states of at most three causes, and S_T the Heaviside function, smoothed while T > 1,

        <A_id> = q(i) + sum_c q(ic) S_T(W_id - W_cd)                                        [MCA eq. 16, 35]
        <s_i>  = q(i) + sum_c q(ic) + alpha sum_{b<c} q(ibc)                                [MCA eq. 17]
    """

    max_active: ClassVar[int] = 3

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> FewCausesParams:
        """One cause active on average; fields twice as bright as a cause should be, on average (Appendix E.1)."""
        activation = np.full(self.n_components, min(1.0 / self.n_components, 0.5))
        level = 2.0 * expected_field_sum(moments, self.n_components) / self.n_features
        return FewCausesParams(self.draw_components(level, rng), activation)

    def accumulate(
        self, params: FewCausesParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> ThirdOrderStatistics:
        """Sums over data points n and shared states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        n_active = states.sum(axis=1)
        mass = weights.sum(axis=0)
        few = n_active <= 2.0
        s = (np.where(few, 1.0, params.alpha) * mass) @ states
        taught = weights[:, few].T @ Y  # (K up to pairs, D)
        a, ay = self._shares(params.components, states[few], mass[few], taught, beta)
        return ThirdOrderStatistics(float(mass.sum()), s, a, ay, float(mass[few].sum()))

    def _shares(self, components, states, mass, taught, beta: float) -> tuple[np.ndarray, np.ndarray]:
        """sum_n <A> and sum_n <A> y from each state's total mass and the data it is taught by."""
        n_active = states.sum(axis=1)
        single = states[n_active == 1.0]
        a = np.repeat(single.T @ mass[n_active == 1.0, None], self.n_features, axis=1)
        ay = single.T @ taught[n_active == 1.0]
        pair = n_active == 2.0
        if pair.any():
            first, second = np.nonzero(states[pair])[1].reshape(-1, 2).T
            share = step_function(components[first] - components[second], beta)  # (P, D)
            for cause, part in ((first, share), (second, 1.0 - share)):
                scatter = np.eye(self.n_components)[cause].T  # (H, P)
                a += scatter @ (part * mass[pair, None])
                ay += scatter @ (part * taught[pair])
        return a, ay

    def m_step(
        self, params: FewCausesParams, statistics: ThirdOrderStatistics, step: Any, rng: np.random.Generator
    ) -> FewCausesParams:
        """W = sum <A> y / sum <A> (eq. 9), pi = mean <s> (eq. 11), alpha by counting sparse data twice (eq. 33, 34)."""
        if statistics.weight <= 0.0:
            return params
        mean = np.divide(statistics.ay, statistics.a, out=params.components.copy(), where=statistics.a > UNUSED)
        activation = new_activation(params.activation, statistics.s, statistics.weight)
        expected = probability_of_at_most(activation, 2)
        alpha = max(params.alpha + expected - statistics.at_most_two / statistics.weight, 0.0)
        return FewCausesParams(np.maximum(mean, SMALLEST_FIELD), activation, 1.0, alpha)


@dataclass(frozen=True)
class RestrictedCauses(FewMaximalCauses):
    """R-MCA2: at most two causes, one fixed pi, fields of fixed sum; the fields learn from single causes.

        <A_id> = q(i),   W_id = C sum_n <A_id> y_d / sum_d' sum_n <A_id'> y_d'              [MCA eq. 19-22]

    Parameters
    ----------
    field_sum : float
        C, the sum of each field.
    activation : float or None
        The fixed pi; None lets two causes be active on average.
    """

    field_sum: float = 1.0
    activation: float | None = None

    max_active: ClassVar[int] = 2

    @property
    def floor(self) -> float:
        """The smallest entry that a field keeps while noise shakes it."""
        return max(1e-10 * self.field_sum / self.n_features, SMALLEST_FIELD)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> FewCausesParams:
        drawn = self.draw_components(self.field_sum / self.n_features, rng)
        return FewCausesParams(self.normalise(drawn), self.activations())

    def activations(self) -> np.ndarray:
        fixed = two_active(self.n_components) if self.activation is None else self.activation
        return np.full(self.n_components, fixed)

    def normalise(self, components: np.ndarray) -> np.ndarray:
        """Each field scaled to the sum C; one of nothing but zeros becomes even."""
        floored = np.maximum(components, SMALLEST_FIELD)
        share = floored / floored.sum(axis=1, keepdims=True)
        return np.maximum(self.field_sum * share, SMALLEST_FIELD)

    def accumulate(
        self, params: FewCausesParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> RestrictedStatistics:
        """All-zero data points teach nothing: they add nothing to <A> y."""
        single = states.sum(axis=1) == 1.0
        ay = states[single].T @ (weights[:, single].T @ Y)
        return RestrictedStatistics(float(weights[Y.any(axis=1)].sum()), ay)

    def m_step(
        self, params: FewCausesParams, statistics: RestrictedStatistics, step: Any, rng: np.random.Generator
    ) -> FewCausesParams:
        total = statistics.ay.sum(axis=1, keepdims=True)
        target = np.divide(statistics.ay, total, out=params.components.copy(), where=total > 0.0)
        return params._replace(components=self.normalise(target))

    def perturb(self, params: FewCausesParams, scale: float, rng: np.random.Generator) -> FewCausesParams:
        moved = super().perturb(params, scale, rng)
        return moved._replace(components=self.normalise(moved.components))


def step_function(x: np.ndarray, beta: float) -> np.ndarray:
    """S_T(x) = 1 / (1 + exp(-lambda x / (T - 1))) (MCA eq. 35); at T = 1 the Heaviside function, 1/2 at 0."""
    if beta >= 1.0:
        return np.heaviside(x, 0.5)
    return expit(x * (SLOPE * beta / (1.0 - beta)))


def two_active(n_components: int) -> float:
    """The activation probability with which two causes are active on average; at most 1/2."""
    return min(2.0 / n_components, 0.5)


def expected_field_sum(moments: DataMoments, n_components: int) -> float:
    """The sum of one cause's field, from the mean and the spread of the data alone.

    Let every cause have brightness v where it is on, let k causes meet in each dimension, and let two be active on
    average. Then E[y] = v (1 - (1 - pi)^k), which gives k, and k v D is shared by H causes.
    Bars of value 10 on a 5 x 5 grid: v = 10, k = 2, and a sum of 50, as in MCA Appendix E.1.
    """
    mean, brightness = float(moments.mean.mean()), expected_brightness(moments)
    if mean <= 0.0:
        return 1.0
    lit = min(mean / brightness, 1.0 - 1e-12)
    k = min(np.log1p(-lit) / np.log1p(-two_active(n_components)), n_components)
    return float(k * brightness * len(moments.mean) / n_components)


def expected_brightness(moments: DataMoments) -> float:
    """v of causes that are all as bright where they are on: y is 0 or v, so that E[y^2] = v E[y]. 10 for the bars."""
    mean = float(moments.mean.mean())
    return float((moments.variance + moments.mean**2).mean()) / mean if mean > 0.0 else 0.0


@lru_cache(maxsize=32)
def _members(n_components: int, max_active: int) -> np.ndarray:
    """The causes of each state, (S, max_active); places left over hold `n_components`."""
    sizes = range(min(max_active, n_components) + 1)
    states = [members for size in sizes for members in combinations(range(n_components), size)]
    table = np.full((len(states), max_active), n_components)
    for row, members in enumerate(states):
        table[row, : len(members)] = members
    return table


@lru_cache(maxsize=32)
def few_states(n_components: int, max_active: int) -> np.ndarray:
    """All states of at most `max_active` causes, the sparse ones first, (S, H)."""
    members = _members(n_components, max_active)
    states = np.zeros((len(members), n_components + 1))
    states[np.arange(len(members))[:, None], members] = 1.0
    return np.ascontiguousarray(states[:, :n_components])


def _rates(components: np.ndarray, max_active: int) -> np.ndarray:
    """Wbar(s) of every state, (S, D)."""
    with_none = np.vstack([components, np.zeros((1, components.shape[1]))])
    members = _members(len(components), max_active)
    rates = with_none[members[:, 0]]
    for place in range(1, max_active):
        np.maximum(rates, with_none[members[:, place]], out=rates)
    return rates
