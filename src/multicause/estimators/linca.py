"""Linear components analysis, also known as binary sparse coding."""

from dataclasses import dataclass
from typing import Any, ClassVar

from multicause.estimators.documentation import documented
from multicause.estimators.intercept import InterceptEstimator
from multicause.models import BinaryLinear, DictionaryParams, GaussianNoise
from multicause.models.dictionary_model import InterceptParams


@documented
@dataclass(eq=False, repr=False)
class LinCA(InterceptEstimator):
    """Linear components analysis: binary sparse coding with an exact posterior among preselected latents.

        s_h ~ Bernoulli(pi_h),   y ~ N(b + sum_h s_h W_h, sigma^2 I)                      [ET eq. 22, 24, 25]

    NaN entries of X are missing values: they are left out of the likelihood, and `reconstruct` fills them in.
    The intercept b is learned along with the components; `fit_intercept=False` keeps it at 0, as in the paper.

    Attributes
    ----------
    components_
    activation_
    noise_variance_
    intercept_
    truncation_

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
    _parameter_names: ClassVar[tuple[str, ...]] = InterceptParams._fields
    _types_of_params: ClassVar[tuple[Any, Any]] = (DictionaryParams, InterceptParams)

    @property
    def _defaults(self):
        return {"intercept": 0.0}

    @property
    def _allows_missing(self) -> bool:
        return True

    @property
    def _can_select_greedily(self) -> bool:
        return True

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        noise = GaussianNoise(floor=noise_floor)
        shape, prior, fixed = (n_components, n_features), self._prior(truncated_at), frozenset(self._held)
        return BinaryLinear(*shape, prior, noise=noise, fixed=fixed, intercept=self._has_intercept)
