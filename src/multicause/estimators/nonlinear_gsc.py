"""Nonlinear spike-and-slab sparse coding."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

from multicause._compat import Interval, StrOptions
from multicause.estimators.base import TEMPERATURE
from multicause.estimators.dictionary_estimator import DictionaryEstimator
from multicause.estimators.documentation import documented
from multicause.estimators.parameter_checks import refuse_negative
from multicause.estimators.truncation import Truncation
from multicause.learning import Annealing, Plan
from multicause.models import GaussianNoise, SpikeSlabMax, SpikeSlabParams, SpikeSlabPrior
from multicause.posteriors import GibbsPosterior

MOST_SWEEPS = 10_000  # a thousand times the default: beyond it no one waits
COOLING = Annealing(initial=3.0, hold=0.0, settle=0.4)


@documented
@dataclass(eq=False, repr=False)
class NonlinearGSC(DictionaryEstimator):
    """Nonlinear spike-and-slab sparse coding: latents with coefficients that combine by their maximum.

        s_h ~ Bernoulli(pi_h),   z_h ~ N(mu_h, psi_h),   y ~ N(max(0, max_h s_h z_h W_h), sigma^2 I),   W >= 0
                                                                                          [GPS §5.1, model C]

    The expectations of its E-step are estimated by Gibbs sampling among the candidates of each data point; each
    coefficient is drawn from its exact conditional distribution, which is Gaussian on each of up to D + 1 pieces. The
    random numbers of a data point are derived from its values, so that its posterior depends neither on other data
    points nor on `random_state`.

    Parameters
    ----------
    selection : {"model-based"} or GPSelect, default="model-based"
        How candidates are chosen: by the model's own selection function, or by one that is learned jointly.
    n_sweeps : int, default=10
        Number of Gibbs sweeps over the candidates from which expectations are computed.
    n_burn_in : int, default=10
        Number of Gibbs sweeps before these, starting with all latents off; the likelihood is phased in meanwhile.
    annealing : Annealing, float, "auto" or None, default="auto"
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`. Only the likelihood is raised to
        the power of the inverse temperature. "auto" is Annealing(3.0, hold=0.0, settle=0.4), or None for a fit that
        starts from given components (`init`, `warm_start`). On bars, two fits in five without it merge components.
    n_init : int, default=1
        Number of fits from different starts; the one with the largest free energy is kept. Worth its time if
        coefficients vary widely (with a standard deviation of half their mean).

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The components W. Only the product of a component and its coefficients is determined.
    activation_
    slab_mean_
    slab_covariance_
    noise_variance_
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean estimated log-likelihood at each E-step; the last value belongs to the learned parameters.

    References
    ----------
    J. A. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> from multicause import NonlinearGSC
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=200, size=3, superposition="max", noise=1.0, random_state=0).X
    >>> nonlinear = NonlinearGSC(n_components=6, max_iter=10, random_state=0).fit(X)
    >>> nonlinear.transform(X).shape
    (200, 6)
    """

    _: KW_ONLY
    n_sweeps: Any = 10
    n_burn_in: Any = 10
    annealing: Any = "auto"
    max_iter: Any = 40

    _parameter_names: ClassVar[tuple[str, ...]] = SpikeSlabParams._fields
    _parameter_constraints = {
        **DictionaryEstimator._parameter_constraints,
        "annealing": [Annealing, TEMPERATURE, StrOptions({"auto"}), None],
        "n_sweeps": [Interval(Integral, 1, MOST_SWEEPS, closed="both")],
        "n_burn_in": [Interval(Integral, 0, MOST_SWEEPS, closed="both")],
    }

    @property
    def _chunk_size(self) -> int:
        return 256  # rows take long to sample: small chunks keep all threads busy

    @property
    def _defaults(self):
        return {"slab_mean": 1.0, "slab_covariance": 0.25}

    @property
    def _params_type(self):
        return SpikeSlabParams

    def _build(self, n_components, n_features, noise_floor, truncated_at):
        prior, noise = SpikeSlabPrior(**self._prior_settings(None)), GaussianNoise(floor=noise_floor)
        return SpikeSlabMax(n_components, n_features, prior, noise=noise, fixed=frozenset(self._held))

    def _schedule(self) -> Plan:
        if self.annealing != "auto":
            annealing = Annealing.of(self.annealing)
            if annealing is not None and annealing.classification is not None:
                raise ValueError("NonlinearGSC has no largest number of active latents by which to classify data.")
            return super()._schedule()
        given = "components" in (self.init or {}) or self._is_warm
        return Plan(self.max_iter, None if given else COOLING)

    def _truncation(self, n_components: int) -> Truncation:
        return Truncation.resolve(type(self).__name__, n_components, self.n_candidates, 1, False)

    def _posterior(self, n_components: int) -> GibbsPosterior:
        n_candidates, selection = self._truncation(n_components).n_candidates, self._learned_selection()
        return GibbsPosterior(n_candidates, int(self.n_sweeps), int(self.n_burn_in), selection=selection)

    def _check_components(self, components, shape, name):
        components = super()._check_components(components, shape, name)
        refuse_negative(components, name, type(self).__name__, "They are intensities: clip them.")
        return components
