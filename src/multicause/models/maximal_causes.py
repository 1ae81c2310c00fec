"""Binary causes of which the strongest wins in each dimension: maximal causes analysis (MCA)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy

from multicause.models.base import DataMoments, FieldParams
from multicause.models.bernoulli_prior import log_prior
from multicause.models.field_model import UNUSED, FieldModel

SMALLEST_FIELD = 1e-100  # keeps logarithms of fields finite
SHARPEST = 50.0  # beyond this power the smooth maximum is replaced by the maximum itself


class MaximalCausesStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    a: np.ndarray  # (H, D) sum_n w_n <A>
    ay: np.ndarray  # (H, D) sum_n w_n <A> y
    distance: float  # sum_n w_n <|y - max_h s_h W_h|^2>


@dataclass(frozen=True)
class MaximalCauses(FieldModel):
    """Causes that combine by their maximum.

        s_h ~ Bernoulli(pi_h),   Wbar_d(s) = max_h s_h W_hd,   y_d ~ N(Wbar_d, sigma^2) or Poisson(Wbar_d)
                                                                                     [MCA eq. 1-3; ET eq. 29]

    While annealing is hot, fields learn by a smooth maximum, Wbar^rho = (sum_h (s_h W_h)^rho)^(1/rho) with
    rho = T / (T - 1), from a sum to the maximum (ET eq. 31). With Gaussian noise states are judged by it as well, and
    those of a single cause teach T times as much: which of several causes a value comes from is guesswork then. With
    Poisson noise they are judged by the maximum throughout (MCA Appendix E). All is the same at T = 1.

    Parameters
    ----------
    noise : {"gaussian", "poisson"}
        The noise about the maximum.
    """

    noise: Literal["gaussian", "poisson"] = "gaussian"

    kernel: ClassVar[str | None] = "maximal_causes"

    @property
    def is_smooth(self) -> bool:
        """Whether states are judged by the smooth maximum while hot."""
        return self.noise == "gaussian"

    def weight_of_singles(self, beta: float) -> float:
        """How much more the fields learn from states of one cause than from others."""
        return 1.0 / beta if self.is_smooth else 1.0

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> FieldParams:
        """Two causes active on average; fields about twice the mean; for Gaussian noise all variance is noise."""
        activation = np.full(self.n_components, min(2.0 / self.n_components, 0.5))
        components = self.draw_components(moments, rng, self.n_components)
        noise = max(float(moments.variance.mean()), self.noise_floor) if self.noise == "gaussian" else 1.0
        return FieldParams(components, activation, noise)

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """|N(1, 1/3)| times the data's mean over all dimensions (MCA Appendix E.1)."""
        level = max(float(np.abs(moments.mean).mean()), float(np.sqrt(moments.variance.mean())), SMALLEST_FIELD)
        return np.maximum(np.abs(rng.normal(1.0, 1.0 / 3.0, size=(n, self.n_features))) * level, SMALLEST_FIELD)

    def sample(self, params: FieldParams, n_samples: int, rng: np.random.Generator):
        states = self.draw_states(params, n_samples, rng)
        mean = superpose(params.components, states)
        if self.noise == "poisson":
            return rng.poisson(mean).astype(float), states
        return mean + np.sqrt(params.noise_variance) * rng.standard_normal(mean.shape), states

    def superpose(self, params: FieldParams, states: np.ndarray) -> np.ndarray:
        """max_h s_h W_h: the data that states cause, without noise."""
        return superpose(params.components, states)

    def log_joint(self, params: FieldParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s) + sum_d log p(y_d | Wbar_d(s)), (N, K); a rate of 0 allows nothing but 0."""
        return self.heated_log_joint(params, Y, states, 1.0)

    def heated_log_joint(self, params: FieldParams, Y: np.ndarray, states: np.ndarray, beta: float) -> np.ndarray:
        """The same with the smooth maximum that belongs to an inverse temperature."""
        mean = self._superpose(params, states, beta)  # (K, D) or (N, K, D)
        return log_prior(params.activation, states) + self._log_noise(params, Y[:, None, :], mean)

    def _superpose(self, params: FieldParams, states: np.ndarray, beta: float) -> np.ndarray:
        return superpose(params.components, states, sharpness(beta) if self.is_smooth else np.inf)

    def _log_noise(self, params: FieldParams, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        if self.noise == "poisson":
            return (xlogy(y, mean) - mean - gammaln(y + 1.0)).sum(axis=-1)
        log_scale = 0.5 * self.n_features * np.log(2.0 * np.pi * params.noise_variance)
        return -log_scale - 0.5 * np.square(y - mean).sum(axis=-1) / params.noise_variance

    def selection_scores(self, params: FieldParams, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log p(y | max(y, W_h)), up to a constant of y: the upper bound of ET eq. 28."""
        y = Y[:, None, :]
        larger = np.maximum(y, params.components)  # (N, H, D)
        if self.noise == "poisson":
            bound = xlogy(y, larger) - larger - (xlogy(y, y) - y)
        else:
            bound = -np.square(larger - y) / (2.0 * params.noise_variance)
        return np.log(params.activation) + bound.sum(axis=-1)

    def accumulate(
        self, params: FieldParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray, beta: float = 1.0
    ) -> MaximalCausesStatistics:
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        shares = responsibilities(params.components, states, sharpness(beta))  # (N, K, H, D)
        emphasis = np.where(states.sum(axis=-1) == 1.0, self.weight_of_singles(beta), 1.0)
        a = np.einsum("nk,nkhd->nhd", weights * emphasis, shares)
        distance = np.square(Y[:, None, :] - self._superpose(params, states, beta)).sum(axis=-1)
        return MaximalCausesStatistics(
            float(weights.sum()),
            np.einsum("nk,nkh->h", weights, states),
            a.sum(axis=0),
            np.einsum("nhd,nd->hd", a, Y),
            float((weights * distance).sum()),
        )

    def m_step(
        self, params: FieldParams, statistics: MaximalCausesStatistics, step: Any, rng: np.random.Generator
    ) -> FieldParams:
        """W = sum <A> y / sum <A> (ET eq. 30): a fixed-point step, since <A> belongs to the old fields."""
        if statistics.weight <= 0.0:
            return params
        components, activation, noise = params
        if "components" not in self.fixed:
            mean = np.divide(
                statistics.ay, statistics.a, out=components.copy(), where=statistics.a > UNUSED * statistics.weight
            )
            components = np.maximum(mean, SMALLEST_FIELD)
        if "noise_variance" not in self.fixed and self.noise == "gaussian":
            noise = max(statistics.distance / (statistics.weight * self.n_features), self.noise_floor)
        return FieldParams(components, self.next_activation(activation, statistics), noise)

    def perturb(self, params: FieldParams, scale: float, rng: np.random.Generator) -> FieldParams:
        moved = super().perturb(params, scale, rng)
        return moved._replace(components=np.maximum(moved.components, SMALLEST_FIELD))


def superpose(components: np.ndarray, states: np.ndarray, rho: float = np.inf) -> np.ndarray:
    """Wbar_d(s) = max_h s_h W_hd, or (sum_h (s_h W_hd)^rho)^(1/rho); 0 where no cause is active."""
    active = states[..., None] * components
    top = active.max(axis=-2)
    if np.isinf(rho):
        return top
    share = np.divide(active, top[..., None, :], out=np.zeros_like(active), where=active > 0.0)
    return top * (share**rho).sum(axis=-2) ** (1.0 / rho)


def sharpness(beta: float) -> float:
    """rho = T / (T - 1) = 1 / (1 - beta): the smooth maximum sharpens as the temperature falls."""
    rho = 1.0 / (1.0 - beta) if beta < 1.0 else np.inf
    return rho if rho <= SHARPEST else np.inf


def responsibilities(components: np.ndarray, states: np.ndarray, rho: float) -> np.ndarray:
    """A_hd(s) = d Wbar^rho_d / d W_hd with Wbar^rho = (sum_h (s_h W_hd)^rho)^(1/rho), (..., H, D); ties share.

    In logs, log A = (rho - 1) (log W_hd - log Wbar^rho_d).
    """
    log_fields = np.where(states[..., None] > 0.0, np.log(np.maximum(components, SMALLEST_FIELD)), -np.inf)
    active = np.isfinite(log_fields)
    if np.isinf(rho):
        top = active & (log_fields == log_fields.max(axis=-2, keepdims=True))
        return top / np.maximum(top.sum(axis=-2, keepdims=True), 1)
    with np.errstate(invalid="ignore"):
        log_max = logsumexp(rho * log_fields, axis=-2, keepdims=True) / rho
        return np.where(active, np.exp((rho - 1.0) * (log_fields - log_max)), 0.0)
