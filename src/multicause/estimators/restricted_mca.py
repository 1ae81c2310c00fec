"""Maximal causes analysis of causes that are alike: R-MCA2 in batches, R-MCA_NN pattern by pattern."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from multicause import interrupts
from multicause._compat import Interval, StrOptions
from multicause.estimators.base import POSITIVE, seed_of
from multicause.estimators.documentation import documented
from multicause.estimators.em_estimator import Fit
from multicause.estimators.kept_fits import Keeping
from multicause.estimators.learned_checks import check_count, check_number
from multicause.estimators.poisson_mca_estimator import PoissonMCAEstimator
from multicause.execution import InProcess, split
from multicause.learning import EM, ConditionalCooling, Outcome, Stop
from multicause.learning.em.hebbian import HebbianLearning, HebbianRule, default_presentations
from multicause.learning.em.schedules import Schedule
from multicause.learning.initialisation.moments import data_moments
from multicause.models.few_maximal_causes import (
    RestrictedCauses,
    RestrictedParams,
    expected_brightness,
    expected_field_sum,
)
from multicause.models.superpositions import SMALLEST_MEAN

PARAMETER_NOISE = 3e-4  # while components cool, of their brightness


@documented
@dataclass(eq=False, repr=False)
class RestrictedMCA(PoissonMCAEstimator):
    """Maximal causes analysis with Poisson noise, for causes that are equally frequent and equally strong.

        s_h ~ Bernoulli(pi),   y_d ~ Poisson(max_h s_h W_hd),   sum_d W_hd = C                [MCA eq. 1-3, 19]

    Every state of at most two active latents is evaluated for every data point. Batch learning is R-MCA2 (eq. 21, 22),
    online learning R-MCA_NN (eq. 25).

    Parameters
    ----------
    solver : {"batch", "online"}, default="batch"
        Annealed EM over all data, or updates from one randomly drawn pattern at a time.
    activation : float or None, default=None
        The fixed activation probability pi of every latent; None is such that two are active on average.
    field_sum : float or "auto", default="auto"
        The fixed sum C of every component. "auto" is the sum that explains the mean and variance of the data if two
        latents of equal brightness are active on average: 50 for the standard bars of value 10.
    cooling : ConditionalCooling, Annealing, "auto" or None, default="auto"
        Temperatures of solver="batch". "auto" cools from 0.7 D + 1 to 1.5, lowering the temperature whenever the
        components have converged, with parameter noise of 0.0003 of a component's brightness, so that components that
        became equal at high temperatures can separate again; None learns at temperature 1.
    temperature : float, default=16.0
        The temperature of solver="online".
    final_temperature : float or None, default=None
        The temperature that solver="online" ends with, after equal steps over the patterns that `fit` presents; with a
        small `learning_rate`, the network then finds what the batch algorithm finds. None keeps it constant, as
        `partial_fit` always does.
    learning_rate : float, default=1.0
        Step of solver="online": the share of a pattern that is added to the component that explains it.
    weight_noise : float, default=0.02
        Standard deviation of the noise on the components at each pattern of solver="online", in the units of the data.
    n_presentations : int or "auto", default="auto"
        Patterns presented by solver="online"; "auto" means a hundred per data point, from 10,000 to 200,000.
    init : dict or None, default=None
        Initial "components", scaled to the sum C; None draws |N(1, 1/3)|.
    max_iter : int, default=1000
        Most EM iterations of solver="batch"; replaces the `n_steps` of a `ConditionalCooling`, and is the length of an
        `Annealing`.
    n_init : int, default=1
        Number of fits from different starts. The one with the largest free energy over the better-explained half of the
        data is kept: over all data, points with many active latents would favour components that merge several.

    Attributes
    ----------
    components_
    activation_ : ndarray of shape (n_components,)
        The activation probabilities, all equal.
    field_sum_ : float
        The sum C of every component.
    n_presentations_ : int
        Number of patterns presented so far by online learning.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step, or after each of up to twenty blocks of presentations; the last
        value belongs to the learned parameters.

    References
    ----------
    J. Lücke, M. Sahani. Maximal Causes for Non-linear Component Extraction. JMLR 9, 2008.

    Examples
    --------
    >>> from multicause import RestrictedMCA
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=300, size=3, superposition="max", noise="poisson", random_state=0).X
    >>> RestrictedMCA(n_components=6, random_state=0).fit_transform(X).shape
    (300, 6)
    """

    _: KW_ONLY
    solver: Any = "batch"
    activation: Any = None
    field_sum: Any = "auto"
    temperature: Any = 16.0
    learning_rate: Any = 1.0
    weight_noise: Any = 0.02
    n_presentations: Any = "auto"
    final_temperature: Any = None

    _max_active: ClassVar[int] = 2
    _private_state: ClassVar[tuple[str, ...]] = ("_generator",)  # that `partial_fit` goes on from, also after a file
    _parameter_constraints = {
        **PoissonMCAEstimator._parameter_constraints,
        "solver": [StrOptions({"batch", "online"})],
        "activation": [Interval(Real, 0, 1, closed="neither"), None],
        "field_sum": [POSITIVE, StrOptions({"auto"})],
        "temperature": [Interval(Real, 1, None, closed="left")],
        "final_temperature": [Interval(Real, 1, None, closed="left"), None],
        "learning_rate": [POSITIVE],
        "weight_noise": [Interval(Real, 0, None, closed="left")],
        "n_presentations": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }

    def partial_fit(self, X, y=None):
        """Learn from the rows of X in their order, one pattern after the other, whatever the solver.

        The first call draws the components; with field_sum="auto" it also fixes their sum, from its rows alone: give
        `field_sum` where the first rows are few. How rows are shared out among calls makes no difference after that.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            One pattern or more.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator.
        """
        first = not hasattr(self, "components_")
        with interrupts.watched(), self._kept_on_errors():
            if first:
                self._validate_params()
            else:
                self._check_fitted()
            X = self._validate(X, reset=first)
            if first:
                self._begin(X)
            elif not hasattr(self, "_generator"):
                self._generator = self._stream(self.n_presentations_)
            model = self._build(len(self.components_), X.shape[1], None)
            params = self._rule().present(model, self._params(), X, self._generator)
            self.components_ = params.components.astype(self.components_.dtype)
            self.n_presentations_ += len(X)
        return self

    def _begin(self, X) -> None:
        """Initial components, from what the first patterns tell."""
        self._check_names()
        n_components = self._count_components(X.shape[1])
        self._posterior(n_components)
        with InProcess() as executor:
            moments = data_moments(executor, split(X, n_components))
        self._generator = self._stream(0)
        model = self._build(n_components, X.shape[1], moments)
        params = self._first_params(model, moments, self._generator)
        self._keep(Outcome(params, np.array([]), 0, Stop.SCHEDULE_ENDED), X.dtype)

    def _stream(self, position: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(seed_of(self.random_state), spawn_key=(position,)))

    @property
    def _params_type(self):
        return RestrictedParams

    def _build(self, n_components, n_features, moments) -> RestrictedCauses:
        if moments is None:
            field_sum = self.field_sum_
        else:
            automatic = self.field_sum == "auto"
            field_sum = expected_field_sum(moments, n_components) if automatic else float(self.field_sum)
        return RestrictedCauses(n_components, n_features, field_sum=field_sum, activation=self.activation)

    def _own_cooling(self, moments) -> Schedule:
        noise = PARAMETER_NOISE * expected_brightness(moments)
        initial = 0.7 * len(moments.mean) + 1.0
        return ConditionalCooling(initial, n_steps=self.max_iter, parameter_noise=noise, noise_scale=1.0)

    def _rule(self) -> HebbianRule:
        final = None if self.final_temperature is None else float(self.final_temperature)
        return HebbianRule(float(self.temperature), float(self.learning_rate), float(self.weight_noise), final)

    def _fit_of(self, n_components, moments) -> Fit:
        fit = super()._fit_of(n_components, moments)
        return fit._replace(learner=self._online) if self.solver == "online" else fit

    def _online(self, em: EM) -> HebbianLearning:
        n_rows = em.chunks[-1].stop
        n = default_presentations(n_rows) if self.n_presentations == "auto" else self.n_presentations
        return HebbianLearning(em.model, em.posterior, self._rule(), n, em.executor, em.chunks, em.moments)

    def _best_of_restarts(self, em: EM, fit: Fit, X: np.ndarray, keeping: Keeping) -> Outcome:
        self.__dict__.pop("_generator", None)
        self.n_presentations_ = 0
        outcome = super()._best_of_restarts(em, fit, X, keeping)
        if self.solver == "online":
            online = self._online(em)
            self.n_presentations_ = online.n_presentations * outcome.n_iter // online.n_steps
        return outcome

    def _start(self, em, rng) -> RestrictedParams:
        return self._first_params(em.model, em.moments, rng)

    def _first_params(self, model, moments, rng) -> RestrictedParams:
        drawn = model.init_params(moments, rng)
        given = self._given_components(drawn.components.shape)
        return drawn if given is None else drawn._replace(components=model.normalise(given))

    def _check_activation(self, activation, n_components, name) -> np.ndarray:
        activations = super()._check_activation(activation, n_components, name)
        if not (activations == activations[0]).all():
            raise ValueError(
                f"The '{name}' of RestrictedMCA must be one probability for all latents. Got {activations} instead. "
                "Use MCA3 for latents of different frequency."
            )
        return activations

    def _check_learned(self) -> None:
        check_number("field_sum_", self.field_sum_, least=SMALLEST_MEAN)
        check_count("n_presentations_", self.n_presentations_, least=0)
        if not isinstance(getattr(self, "_generator", np.random.default_rng(0)), np.random.Generator):
            raise ValueError("the generator of random numbers must be one of NumPy's")
        super()._check_learned()

    def _attributes(self, params, dtype) -> dict[str, Any]:
        return {
            **super()._attributes(params, dtype),
            "field_sum_": float(params.components.sum(axis=1).mean()),
            "n_presentations_": getattr(self, "n_presentations_", 0),
        }
