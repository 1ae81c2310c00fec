"""Maximal causes analysis, trained by Expectation Truncation."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from multicause._compat import StrOptions
from multicause.estimators.dictionary_estimator import TruncatedDictionaryEstimator
from multicause.estimators.documentation import documented
from multicause.estimators.parameter_checks import refuse_negative
from multicause.models import BernoulliNoise, DictionaryParams, GaussianNoise, MaximalCauses, MeanParams
from multicause.models.noises import NOISES
from multicause.models.superpositions import Smoothing


@documented
@dataclass(eq=False, repr=False)
class MCA(TruncatedDictionaryEstimator):
    """Maximal causes analysis: in each dimension, the strongest active cause determines the mean.

        s_h ~ Bernoulli(pi_h),   y_d ~ p(y_d | mean max_h s_h W_hd),   W >= 0           [ET eq. 22, 29-31; MCA eq. 1-3]

    The M-step W_hd = sum <A_hd> y_d / sum <A_hd>, the same for all kinds of noise, weights each data point by the
    degree to which latent h is the maximum there; the smooth maximum behind A sharpens as the temperature of
    `annealing` falls. It is a fixed-point step in an ascent direction that may overshoot; steps that do are halved (see
    `monotone`).

    With Gaussian noise, annealing differs from the papers: at high temperatures latents add up rather than hide one
    another, and components learn most from data points that a single one explains; `smoothing` undoes this. Until the
    temperature is 1, free energies are those of this modified model. Data that never show a cause alone are better
    learned with Poisson noise, or from several starts without annealing.

    Parameters
    ----------
    noise : {"gaussian", "gaussian-diagonal", "poisson", "bernoulli", "exponential"}, default="gaussian"
        The noise around the maximum: Gaussian with one variance, or one for each feature; Poisson for counts; Bernoulli
        for zeros and ones; exponential for powers and waiting times. Data must lie in its range, but need not be
        integers.
    smoothing : multicause.models.Smoothing or None, default=None
        How the maximum is smoothed at temperatures above 1. `Smoothing(judging=False, emphasis=False)` is exactly that
        of the paper, `Smoothing(learning=False)` that of the paper of 2008. None is `Smoothing()`.

    Attributes
    ----------
    components_
    activation_
    noise_variance_ : float or ndarray of shape (n_features,)
        The noise variance sigma^2, with Gaussian noise.
    background_ : float
        The mean when no latent is active, with other noise. It is not learned: 0 for Poisson noise, 0.001 for Bernoulli
        noise, a thousandth of the mean of the data for exponential noise, unless `init` gives it.
    truncation_

    References
    ----------
    J. Lücke, J. Eggert. Expectation Truncation and the Benefits of Preselection in Training Generative Models. JMLR 11,
    2010.

    Examples
    --------
    >>> from multicause import MCA
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=400, size=4, superposition="max", noise=1.0, random_state=0).X
    >>> mca = MCA(n_components=8, random_state=0).fit(X)
    >>> mca.reconstruct(X).shape
    (400, 16)
    """

    _: KW_ONLY
    noise: Any = "gaussian"
    smoothing: Any = None

    _parameter_names: ClassVar[tuple[str, ...]] = ("components", "activation", "noise_variance", "background")
    _parameter_constraints = {
        **TruncatedDictionaryEstimator._parameter_constraints,
        "noise": [StrOptions(set(NOISES))],
        "smoothing": [Smoothing, None],
    }

    @property
    def _noise(self):
        return NOISES[self.noise]

    @property
    def _params_type(self):
        return DictionaryParams if isinstance(self._noise, GaussianNoise) else MeanParams

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        noise = replace(self._noise, floor=noise_floor) if isinstance(self._noise, GaussianNoise) else self._noise
        return MaximalCauses(
            n_components,
            n_features,
            self._prior(truncated_at),
            noise=noise,
            fixed=frozenset(self._held),
            smoothing=self.smoothing or Smoothing(),
        )

    @property
    def _defaults(self):
        backgrounds = {"poisson": 0.0, "bernoulli": BernoulliNoise.BACKGROUND}
        return {"background": backgrounds[self.noise]} if self.noise in backgrounds else {}

    @property
    def _needs_background(self) -> bool:
        return self.noise == "exponential"

    def _without_kernel(self) -> str | None:
        gaussian = isinstance(self._noise, GaussianNoise)
        return super()._without_kernel() if gaussian else f"noise={self.noise!r}"

    def _check_range(self, X, reset, start=0):
        name = f"MCA(noise={self.noise!r})"
        if self._noise.lowest == 0.0:
            refuse_negative(X, "X", name, "Shift or clip the data, or use noise='gaussian'.", start)
        if (self._noise.highest < X).any():
            row, column = np.unravel_index(np.argmax(X), X.shape)
            raise ValueError(
                f"{name} needs data between 0 and {self._noise.highest:g}, but X holds {X.max():.3g} at row "
                f"{start + row}, column {column}. Rescale the data, or use other noise."
            )

    def _check_components(self, components, shape, name):
        components = super()._check_components(components, shape, name)
        refuse_negative(components, name, "MCA", "They are means: clip them.")
        highest = self._noise.highest
        if (components > highest).any():
            raise ValueError(
                f"'{name}' of MCA(noise={self.noise!r}) must hold means between 0 and {highest}. "
                f"Got {components.max():.3g} instead."
            )
        return np.minimum(components, self._noise.largest_mean)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self._noise.lowest == 0.0
        return tags
