"""Maximal causes analysis over all states of at most three latents."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from multicause._compat import StrOptions
from multicause.estimators.documentation import documented
from multicause.estimators.poisson_mca_estimator import PoissonMCAEstimator
from multicause.learning import Annealing, ConditionalCooling, Plan
from multicause.learning.em.hebbian import HebbianLearning, HebbianRule, default_presentations
from multicause.learning.em.schedules import Schedule
from multicause.models.few_maximal_causes import (
    RestrictedCauses,
    ThirdOrderCauses,
    ThirdOrderParams,
    expected_brightness,
    expected_field_sum,
)
from multicause.models.superpositions import SMALLEST_MEAN
from multicause.posteriors.enumerated import EnumeratedPosterior

FINAL = 1.5  # temperature
PARAMETER_NOISE = 0.18  # while components cool, of their brightness
MOST_COOLED = 200  # iterations that it takes to cool


@documented
@dataclass(eq=False, repr=False)
class MCA3(PoissonMCAEstimator):
    """Maximal causes analysis with Poisson noise, by a third-order truncation.

        s_h ~ Bernoulli(pi_h),   y_d ~ Poisson(max_h s_h W_hd)                                    [MCA eq. 1-3]

    Every state of at most three active latents is evaluated for every data point; the number of states grows with the
    cube of `n_components`.

    Parameters
    ----------
    cooling : Annealing, ConditionalCooling, "auto" or None, default="auto"
        Temperatures of the fit. "auto" cools from 0.4 D + 1 to 1.5 in at most 200 iterations, with parameter noise of
        0.18 of a component's brightness until the last temperature: without it, a fifth of the fits on bars end in a
        local optimum. After init="online" it cools from at most 6, lowering the temperature whenever the components
        have converged, as in the paper: `ConditionalCooling(0.4 * D + 1)`. None learns at temperature 1.
    init : {"random", "online"} or dict, default="random"
        Initial components: drawn at random, |N(1, 1/3)| scaled to twice the mean that a component should have if two of
        equal brightness are active on average (4 for the standard bars of value 10); or learned beforehand by
        `RestrictedMCA(solver="online")`. Or a dict of initial values of "components" and "activation". Unless given,
        the activation is such that one latent is active on average.
    max_iter : int, default=1000
        Most EM iterations; replaces the `n_steps` of a `ConditionalCooling`, and is the length of an `Annealing`.
    n_init : int, default=1
        Number of fits from different starts. The one with the largest free energy over the better-explained half of the
        data is kept: over all data, points with many active latents would favour components that merge several.

    Attributes
    ----------
    components_
    activation_
    alpha_ : float
        The factor on states of three latents in the update of `activation_`, which corrects for data points with more.

    References
    ----------
    J. Lücke, M. Sahani. Maximal Causes for Non-linear Component Extraction. JMLR 9, 2008.

    Examples
    --------
    >>> from multicause import MCA3
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=300, size=3, superposition="max", noise="poisson", random_state=0).X
    >>> MCA3(n_components=6, random_state=0).fit_transform(X).shape
    (300, 6)
    """

    _: KW_ONLY
    init: Any = "random"

    _max_active: ClassVar[int] = 3
    _parameter_names: ClassVar[tuple[str, ...]] = ("components", "activation")
    _parameter_constraints = {
        **PoissonMCAEstimator._parameter_constraints,
        "init": [StrOptions({"random", "online"}), dict],
    }

    @property
    def _params_type(self):
        return ThirdOrderParams

    def _build(self, n_components, n_features, moments):
        return ThirdOrderCauses(n_components, n_features)

    def _own_cooling(self, moments) -> Schedule:
        initial = max(0.4 * len(moments.mean) + 1.0, FINAL)
        if self.init == "online":
            return ConditionalCooling(initial=min(initial, 6.0), final=FINAL, n_steps=self.max_iter)
        noise = PARAMETER_NOISE * expected_brightness(moments)
        return Plan(min(self.max_iter, MOST_COOLED), Annealing(initial, FINAL, parameter_noise=noise, noise_scale=1.0))

    def _start(self, em, rng) -> ThirdOrderParams:
        drawn = em.model.init_params(em.moments, rng)
        given = self._given_components(drawn.components.shape)
        if given is not None:
            drawn = drawn._replace(components=np.maximum(given, SMALLEST_MEAN))
        elif self.init == "online":
            drawn = drawn._replace(components=self._learned_online(em, rng))
        activation = self._initial_values.get("activation")
        if activation is not None:
            checked = self._check_activation(activation, len(drawn.activation), "init['activation']")
            drawn = drawn._replace(activation=checked)
        return drawn

    def _learned_online(self, em, rng) -> np.ndarray:
        n_components, n_features = em.model.n_components, em.model.n_features
        field_sum = expected_field_sum(em.moments, n_components)
        network = RestrictedCauses(n_components, n_features, field_sum=field_sum)
        n_presentations = default_presentations(em.chunks[-1].stop)
        posterior = EnumeratedPosterior(2)
        online = HebbianLearning(network, posterior, HebbianRule(), n_presentations, em.executor, em.chunks, em.moments)
        *_, last = online.steps(network.init_params(em.moments, rng), rng)
        return last.params.components
