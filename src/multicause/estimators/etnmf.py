"""Non-negative matrix factorisation as a generative model with binary latents."""

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

from scipy.sparse import issparse

from multicause._compat import StrOptions
from multicause.estimators.dictionary_estimator import TruncatedDictionaryEstimator
from multicause.estimators.documentation import documented
from multicause.estimators.parameter_checks import refuse_negative
from multicause.execution.sources import CsrRows
from multicause.models import (
    DictionaryParams,
    GaussianNoise,
    MeanParams,
    NonnegativeLinear,
    PoissonLinear,
    PoissonNoise,
)
from multicause.models.poisson_linear import DARKEST


@documented
@dataclass(eq=False, repr=False)
class ETNMF(TruncatedDictionaryEstimator):
    """Non-negative matrix factorisation with binary latents, trained by Expectation Truncation.

        s_h ~ Bernoulli(pi_h),   y ~ N(sum_h s_h W_h, sigma^2 I),   W >= 0                [ET eq. 22-27]
                          or   y_d ~ Poisson(b + sum_h s_h W_hd)

    Poisson noise is for counts that add up: photons, words, spikes. The model then corresponds to non-negative matrix
    factorisation with the Kullback-Leibler loss.

    Parameters
    ----------
    noise : {"gaussian", "poisson"}, default="gaussian"
        The noise around the sum. Poisson noise needs non-negative data, not necessarily integers.
    field_update : {"multiplicative", "clamped"}, default="multiplicative"
        M-step of the components with Gaussian noise: twenty multiplicative steps, which never lower the free energy, or
        the unconstrained solution with negative entries set to zero.
    allow_negative : bool, default=False
        Accept negative data: with Gaussian noise, half of the values of a zero background are negative. The components
        stay non-negative.

    Attributes
    ----------
    components_
    activation_
    noise_variance_ : float
        The noise variance sigma^2, with Gaussian noise.
    background_ : float
        The rate b when no latent is active, with Poisson noise.
    truncation_

    References
    ----------
    J. Lücke, J. Eggert. Expectation Truncation and the Benefits of Preselection in Training Generative Models. JMLR 11,
    2010.

    Examples
    --------
    >>> from multicause import ETNMF
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=400, size=4, noise=0.0, random_state=0).X
    >>> etnmf = ETNMF(n_components=8, random_state=0).fit(X)
    >>> etnmf.reconstruct(X).shape
    (400, 16)
    """

    _: KW_ONLY
    noise: Any = "gaussian"
    field_update: Any = "multiplicative"
    allow_negative: Any = False

    _parameter_names: ClassVar[tuple[str, ...]] = ("components", "activation", "noise_variance", "background")
    _parameter_constraints = {
        **TruncatedDictionaryEstimator._parameter_constraints,
        "noise": [StrOptions({"gaussian", "poisson"})],
        "field_update": [StrOptions({"multiplicative", "clamped"})],
        "allow_negative": ["boolean"],
    }

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        shape, prior, fixed = (n_components, n_features), self._prior(truncated_at), frozenset(self._held)
        if self.noise == "poisson":
            return PoissonLinear(*shape, prior, fixed=fixed)
        noise = GaussianNoise(floor=noise_floor)
        return NonnegativeLinear(*shape, prior, noise=noise, fixed=fixed, field_update=self.field_update)

    def _fit_of(self, n_components, moments):
        fit = super()._fit_of(n_components, moments)
        if self.noise == "poisson":
            darkest = max(DARKEST * float(moments.mean.mean()), fit.model.darkest)
            return fit._replace(model=replace(fit.model, darkest=darkest))
        return fit

    @property
    def _params_type(self):
        return MeanParams if self.noise == "poisson" else DictionaryParams

    @property
    def _can_select_greedily(self) -> bool:
        return self.noise == "gaussian"

    @property
    def _noise(self):
        return PoissonNoise() if self.noise == "poisson" else GaussianNoise()

    @property
    def _needs_background(self) -> bool:
        return True

    def _without_kernel(self) -> str | None:
        return "noise='poisson'" if self.noise == "poisson" else super()._without_kernel()

    def _source_of(self, X):
        return CsrRows(X) if self.noise == "poisson" and issparse(X) else super()._source_of(X)

    def _check_range(self, X, reset, start=0):
        if self.noise == "poisson":
            way_out = "Shift or clip the data, or use noise='gaussian'."
            refuse_negative(X, "X", "ETNMF(noise='poisson')", way_out, start)
        elif reset and not self.allow_negative:  # samples of the model itself may be negative
            way_out = "Shift or clip the data, set allow_negative=True, or use LinCA."
            refuse_negative(X, "X", "ETNMF", way_out, start)

    def _check_components(self, components, shape, name):
        components = super()._check_components(components, shape, name)
        refuse_negative(components, name, "ETNMF", "Clip them, or use LinCA.")
        return components

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.noise == "poisson"
        tags.input_tags.positive_only = self.noise == "poisson" or not self.allow_negative
        return tags
