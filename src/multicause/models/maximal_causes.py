"""Binary latents, the largest of which wins in each dimension: maximal causes analysis (MCA)."""

from dataclasses import astuple, dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from multicause.models.base import DataMoments, Params
from multicause.models.dictionary_model import DictionaryModel, brightness, upper_bound_scores
from multicause.models.noises import GaussianNoise
from multicause.models.superpositions import SMALLEST_MEAN, Maximum, Smoothing, Sum


class MaximalCausesStatistics(NamedTuple):
    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    a: np.ndarray  # (H, D) sum_n w_n <A>
    ay: np.ndarray  # (H, D) sum_n w_n <A> y
    squares: np.ndarray  # (D,) sum_n w_n <(y - mean)^2> of Gaussian noise


_SEEN = 1e-8  # share of the data that must see an entry to change it: kernels leave states of weights below 1e-14 out


@dataclass(frozen=True)
class MaximalCauses(DictionaryModel):
    """Latents that combine by their maximum.

        s_h ~ Bernoulli(pi_h),   Wbar_d(s) = max_h s_h W_hd,   y_d ~ p(y_d | mean Wbar_d)       [MCA eq. 1-3; ET eq. 29]

    The noise is any exponential family. While annealing is hot, components learn by a smooth maximum,
    Wbar^rho = (sum_h (s_h W_h)^rho)^(1/rho) with rho = T / (T - 1), from a sum to the maximum (ET eq. 31). `smoothing`
    says what else is replaced by it; by default, with Gaussian noise, states are judged by it as well, and those of a
    single latent contribute T times as much. All is the same at T = 1.

    Parameters
    ----------
    sharing : Maximum
        By which components learn.
    weight_of_singles : float
        How much more components learn from states of one latent than from others.
    smoothing : Smoothing
        What becomes of the maximum while annealing is hot.
    """

    superposition: Sum | Maximum = Maximum()  # noqa: RUF009  (frozen values)
    sharing: Maximum = Maximum()  # noqa: RUF009
    weight_of_singles: float = 1.0
    smoothing: Smoothing = Smoothing()  # noqa: RUF009

    takes_superpositions: ClassVar[tuple[type, ...]] = (Maximum,)
    takes_shapes: ClassVar[tuple[str, ...]] = ("isotropic", "diagonal")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.smoothing.judging and not isinstance(self.noise, GaussianNoise):
            raise TypeError(
                f"Smoothing(judging=True) is for Gaussian noise. Got {self.noise} instead: leave out judging=True."
            )

    def heated(self, beta: float) -> "MaximalCauses":
        learning, judging, emphasis = astuple(self.smoothing)
        gaussian, smooth = isinstance(self.noise, GaussianNoise), Maximum.at(beta)
        return replace(
            self,
            sharing=smooth if learning else self.sharing,
            superposition=smooth if learning and (gaussian if judging is None else judging) else self.superposition,
            weight_of_singles=1.0 / beta if (gaussian if emphasis is None else emphasis) else 1.0,
        )

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """|N(1, 1/3)| times the data's mean over all dimensions (MCA Appendix E.1)."""
        drawn = np.abs(rng.normal(1.0, 1.0 / 3.0, size=(n, self.n_features))) * brightness(moments)
        return np.clip(drawn, max(self.noise.background(moments), SMALLEST_MEAN), self.noise.largest_mean)

    def selection_scores(self, params: Params, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log p(y | max(y, W_h)), up to a constant of y: the upper bound of ET eq. 28."""
        return upper_bound_scores(self, params, Y)

    def accumulate(
        self, params: Params, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> MaximalCausesStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        shares = self.sharing.shares(params.components, states)  # (N, K, H, D)
        emphasis = np.where(states.sum(axis=-1) == 1.0, self.weight_of_singles, 1.0)
        a = np.einsum("nk,nkhd->nhd", weights * emphasis, shares)
        return MaximalCausesStatistics(
            float(weights.sum()),
            np.einsum("nk,nkh->h", weights, states),
            a.sum(axis=0),
            np.einsum("nhd,nd->hd", a, Y),
            self._squares(params, Y, states, weights),
        )

    def _squares(self, params: Params, Y: np.ndarray, states: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """sum_n w_n <(y - mean)^2>, (D,); 0 for noise without a variance."""
        if not isinstance(self.noise, GaussianNoise):
            return np.zeros(self.n_features)
        return np.einsum("nk,nkd->d", weights, np.square(Y[:, None, :] - self.superpose(params, states)))

    def m_step(self, params: Params, statistics: MaximalCausesStatistics) -> Params:
        """W = sum <A> y / sum <A> (ET eq. 30), whatever the noise.

        The mean of an exponential family is estimated by the mean of its data. It is a fixed-point step, since <A>
        belongs to the old components; it goes uphill, but may go too far.
        """
        if statistics.weight <= 0.0:
            return params
        new = {"activation": self.next_activation(params, statistics)}
        if "components" not in self.fixed:
            contributes = statistics.a > _SEEN * statistics.weight
            mean = np.divide(statistics.ay, statistics.a, out=params.components.copy(), where=contributes)
            new["components"] = self.admissible(params, mean)
        if isinstance(self.noise, GaussianNoise) and "noise_variance" not in self.fixed:
            isotropic = self.noise.shape == "isotropic"
            squares = statistics.squares.sum() / self.n_features if isotropic else statistics.squares
            new["noise_variance"] = self.noise.new_variance(squares, statistics.weight)
        return params._replace(**new)

    def admissible(self, params: Params, components: np.ndarray) -> np.ndarray:
        lowest = max(getattr(params, "background", 0.0), SMALLEST_MEAN)
        return np.clip(components, lowest, self.noise.largest_mean)
