"""Binary latents whose rates add up: counts are shared out among them (ET-NMF with Poisson noise)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from multicause.models.base import DataMoments
from multicause.models.dictionary_model import DictionaryModel, MeanParams, upper_bound_scores
from multicause.models.noises import Noise, PoissonNoise
from multicause.models.superpositions import SMALLEST_MEAN, Sum

SPARSE = 0.2  # shape of the gamma distribution of the factors that a start draws
DARKEST = 1e-9  # background at the least, of the data's mean: a count that no part explains is unlikely, not impossible


class PoissonLinearStatistics(NamedTuple):
    """Sums over data points. The counts of a dimension are shared out in proportion to the active latents' rates."""

    weight: float  # sum_n w_n
    s: np.ndarray  # (H,) sum_n w_n <s>
    counts: np.ndarray  # (H, D) sum_n w_n <s_h W_hd y_d / mean_d>: what each latent caused
    background: float  # sum_n w_n <b y_d / mean_d> over all dimensions


@dataclass(frozen=True)
class PoissonLinear(DictionaryModel):
    """Rates that add up.

    s_h ~ Bernoulli(pi_h),   y_d ~ Poisson(b + sum_h s_h W_hd),   W >= 0

    The truncated sibling of non-negative matrix factorisation with the Kullback-Leibler loss.

    Parameters
    ----------
    darkest : float
        Smallest background b.
    """

    noise: Noise = PoissonNoise()  # noqa: RUF009  (a frozen value)
    darkest: float = SMALLEST_MEAN

    takes_superpositions: ClassVar[tuple[type, ...]] = (Sum,)
    takes_noises: ClassVar[tuple[type, ...]] = (PoissonNoise,)

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> MeanParams:
        """Two latents active on average; a tenth of the data's mean is background."""
        level = float(moments.mean.mean())
        return super().init_params(moments, rng)._replace(background=max(0.1 * level, self.darkest))

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """Rates, two of which explain the mean, concentrated on a few entries each, so that parts hardly overlap."""
        expected_active = min(2.0, 0.5 * self.n_components)
        level = np.maximum(moments.mean, 1e-3 * moments.mean.mean()) / expected_active
        return np.maximum(level * rng.gamma(SPARSE, 1.0 / SPARSE, size=(n, self.n_features)), SMALLEST_MEAN)

    def selection_scores(self, params: MeanParams, Y: np.ndarray) -> np.ndarray:
        """log pi_h + log Poisson(y; max(y, W_h)), up to a constant: the upper bound of ET eq. 28."""
        return upper_bound_scores(self, params, Y)

    def accumulate(
        self, params: MeanParams, Y: np.ndarray, states: np.ndarray, weights: np.ndarray
    ) -> PoissonLinearStatistics:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        states = np.broadcast_to(states, (*weights.shape, self.n_components))
        mean = self.superpose(params, states)  # (N, K, D)
        per_rate = np.divide(Y[:, None, :], mean, out=np.zeros_like(mean), where=mean > 0.0)
        shared = np.einsum("nk,nkh,nkd->hd", weights, states, per_rate, optimize=True)
        background = params.background * float(np.einsum("nk,nkd->", weights, per_rate))
        s = np.einsum("nk,nkh->h", weights, states)
        return PoissonLinearStatistics(float(weights.sum()), s, params.components * shared, background)

    def m_step(self, params: MeanParams, statistics: PoissonLinearStatistics) -> MeanParams:
        """W_hd = counts of latent h in dimension d / <s_h>; the background likewise: the free energy never falls."""
        if statistics.weight <= 0.0:
            return params
        components, background = params.components, params.background
        if "components" not in self.fixed:
            used = np.broadcast_to(statistics.s[:, None] > 0.0, components.shape)
            new = np.divide(statistics.counts, statistics.s[:, None], out=components.copy(), where=used)
            components = self.admissible(params, new)
        if "background" not in self.fixed:
            background = max(statistics.background / (statistics.weight * self.n_features), self.darkest)
        return MeanParams(components, self.next_activation(params, statistics), background)

    def admissible(self, params: MeanParams, components: np.ndarray) -> np.ndarray:
        return np.maximum(components, SMALLEST_MEAN)
