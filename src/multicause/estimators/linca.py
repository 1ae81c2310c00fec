"""Linear components analysis, also known as binary sparse coding."""

from dataclasses import dataclass
from typing import ClassVar

from multicause.estimators.dictionary_estimator import TruncatedDictionaryEstimator
from multicause.estimators.documentation import documented
from multicause.models import BinaryLinear, GaussianNoise


@documented
@dataclass(eq=False, repr=False)
class LinCA(TruncatedDictionaryEstimator):
    """Linear components analysis: binary sparse coding with an exact posterior among preselected latents.

        s_h ~ Bernoulli(pi_h),   y ~ N(sum_h s_h W_h, sigma^2 I)                          [ET eq. 22, 24, 25]

    Entries of X that are NaN are missing: they take no part in the likelihood, and `reconstruct` fills them in.
    There is no offset: subtract a background first, for instance the median, by `RobustScaler(with_scaling=False)`.

    Attributes
    ----------
    components_
    activation_
    noise_variance_

    References
    ----------
    J. Lücke, J. Eggert. Expectation Truncation and the Benefits of Preselection in Training Generative Models. JMLR 11,
    2010.

    Examples
    --------
    >>> from multicause import LinCA
    >>> from multicause.datasets import make_bars
    >>> bars = make_bars(n_samples=400, size=4, signed=True, random_state=0)
    >>> linca = LinCA(n_components=8, random_state=0).fit(bars.X)
    >>> linca.transform(bars.X).shape
    (400, 8)
    """

    _is_about_zero: ClassVar[bool] = True

    @property
    def _allows_missing(self) -> bool:
        return True

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        noise = GaussianNoise(floor=noise_floor)
        return BinaryLinear(
            n_components, n_features, self._prior(truncated_at), noise=noise, fixed=frozenset(self._held)
        )
