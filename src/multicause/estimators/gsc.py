"""Spike-and-slab sparse coding."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from multicause._compat import StrOptions
from multicause.estimators.documentation import documented
from multicause.estimators.intercept import InterceptEstimator
from multicause.estimators.truncation import GREEDY_CANDIDATES, Truncation
from multicause.models import GaussianNoise, SpikeSlabLinear, SpikeSlabParams, SpikeSlabPrior
from multicause.models.spike_slab_linear import SpikeSlabInterceptParams
from multicause.posteriors import FactoredPosterior


@documented
@dataclass(eq=False, repr=False)
class GSC(InterceptEstimator):
    """Spike-and-slab sparse coding: latents that are on or off, each with a coefficient.

        s_h ~ Bernoulli(pi_h),   z ~ N(mu, Psi),   y ~ N(b + sum_h s_h z_h W_h, Sigma)      [GSC eq. 1-3]

    NaN entries of X are missing values: they are left out of the likelihood, and `reconstruct` fills them in.
    (This does not work with both posterior="factored" and noise="full".) The intercept b is learned along with the
    components; `fit_intercept=False` keeps it at 0, as in the paper.

    Parameters
    ----------
    n_candidates : int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer), or six by greedy selection; None
        keeps all.
    posterior : {"truncated", "exact", "factored"}, default="truncated"
        Exact among the candidates; exact over all 2^H states; or a product over the latents (mean field), which is fast
        but cannot represent explaining away. The last two ignore `n_candidates` and `max_active`.
    noise : {"isotropic", "diagonal", "full"}, default="isotropic"
        Sigma: one variance, one per feature, or any covariance.
    slab : {"diagonal", "full"}, default="diagonal"
        Psi: independent or correlated coefficients.
    slab_update : {"exact", "moments"}, default="exact"
        How `slab_mean_` and a full Psi are learned: by the M-step, which never lowers the free energy; or as in the
        paper, by matching the moments of the active coefficients (GSC eq. 8, 9), which may. With slab="diagonal" both
        are the same.

    Attributes
    ----------
    components_
    activation_
    slab_mean_
    slab_covariance_ : ndarray of shape (n_components,) or (n_components, n_components)
        The variances of the coefficients, or their covariance Psi if slab="full".
    noise_variance_ : float or ndarray of shape (n_features,)
        The noise variance; the diagonal of Sigma if noise="full".
    noise_covariance_ : ndarray of shape (n_features, n_features)
        Sigma, only if noise="full".
    intercept_
    truncation_

    References
    ----------
    A.-S. Sheikh, J. A. Shelton, J. Lücke. A Truncated EM Approach for Spike-and-Slab Sparse Coding. JMLR 15, 2014.

    Examples
    --------
    >>> from multicause import GSC
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=400, size=4, random_state=0).X
    >>> gsc = GSC(n_components=8, random_state=0).fit(X)
    >>> gsc.transform(X).shape
    (400, 8)
    """

    _: KW_ONLY
    posterior: Any = "truncated"
    noise: Any = "isotropic"
    slab: Any = "diagonal"
    slab_update: Any = "exact"

    _is_about_zero: ClassVar[bool] = True
    _parameter_names: ClassVar[tuple[str, ...]] = SpikeSlabInterceptParams._fields
    _types_of_params: ClassVar[tuple[Any, Any]] = (SpikeSlabParams, SpikeSlabInterceptParams)
    _parameter_constraints = {
        **InterceptEstimator._parameter_constraints,
        "posterior": [StrOptions({"truncated", "exact", "factored"})],
        "noise": [StrOptions({"isotropic", "diagonal", "full"})],
        "slab": [StrOptions({"diagonal", "full"})],
        "slab_update": [StrOptions({"exact", "moments"})],
    }

    @property
    def _allows_missing(self) -> bool:
        return self.posterior != "factored" or self.noise != "full"

    @property
    def _noise(self):
        return GaussianNoise(self.noise)

    @property
    def _slab_shape(self):
        return self.slab

    @property
    def _defaults(self):
        return {"slab_mean": 0.0, "slab_covariance": 1.0, "intercept": 0.0}

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        prior = SpikeSlabPrior(**self._prior_settings(truncated_at), slab=self.slab, slab_update=self.slab_update)
        noise = GaussianNoise(self.noise, noise_floor)
        shape, fixed = (n_components, n_features), frozenset(self._held)
        return SpikeSlabLinear(*shape, prior, noise=noise, fixed=fixed, intercept=self._has_intercept)

    @property
    def _can_select_greedily(self) -> bool:
        return True

    def _truncation(self, n_components: int) -> Truncation:
        everything = self.posterior == "exact"
        n_candidates, max_active = (None, "auto") if everything else (self.n_candidates, self.max_active)
        asked = n_candidates, max_active, bool(self.singletons), self._selects_greedily, GREEDY_CANDIDATES
        return Truncation.resolve(type(self).__name__, n_components, *asked)

    def _posterior(self, n_components: int):
        if self.posterior != "factored":
            return super()._posterior(n_components)
        refused = {
            "slab='full'": self.slab == "full",
            "annealing": self.annealing is not None,
            "a selection": self.selection not in ("auto", "model-based"),
            "monotone": self._keeps_candidates,
        }
        for what, wanted in refused.items():
            if wanted:
                raise ValueError(
                    f"GSC(posterior='factored') treats latents independently and does not support {what}. "
                    "Use posterior='truncated'."
                )
        return FactoredPosterior()

    def _without_kernel(self) -> str | None:
        settings = {
            "posterior='factored'": self.posterior == "factored",
            "slab='full'": self.slab == "full",
        }
        return next((what for what, asked in settings.items() if asked), super()._without_kernel())

    def _attributes(self, params: SpikeSlabParams, dtype) -> dict[str, Any]:
        attributes = super()._attributes(params, dtype)
        if self.noise == "full":
            attributes |= {
                "noise_covariance_": params.noise_variance,
                "noise_variance_": np.diag(params.noise_variance),
            }
        return attributes

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.noise == "full" and not np.array_equal(self.noise_variance_, np.diag(self.noise_covariance_)):
            raise ValueError("noise_variance_ must be the diagonal of noise_covariance_")

    def _params(self) -> SpikeSlabParams:
        params = super()._params()
        if self.noise != "full":
            return params
        if not hasattr(self, "noise_covariance_"):
            raise ValueError("This GSC was fitted with other noise: it has no noise_covariance_. Fit it again.")
        return params._replace(noise_variance=self.noise_covariance_)
