"""Estimators that learn by EM: a subclass says what its fits are made of."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from multicause import interrupts
from multicause._compat import CALLER, StrOptions
from multicause.backends.cuda import DeviceError
from multicause.estimators.base import COUNT, NOT_NEGATIVE, MulticauseEstimator, seed_of
from multicause.estimators.data_checks import refuse_too_many
from multicause.estimators.kept_fits import Keeping
from multicause.estimators.learned_checks import check_floats
from multicause.learning import EM, Outcome, Stop, run
from multicause.learning.checkpoints import digest_of_value
from multicause.learning.driver import Learner, Progress, only_begun
from multicause.learning.em.em import Started
from multicause.learning.em.restarts import best_of_restarts
from multicause.learning.em.schedules import Schedule
from multicause.learning.initialisation.moments import data_moments
from multicause.learning.not_finite import NotFinite
from multicause.learning.resumed import check_iterate, check_kept, check_outcome
from multicause.models import DataMoments
from multicause.models.base import calling
from multicause.posteriors.base import Posterior, PreparedPosterior
from multicause.selection import GPSelect, SelectionFunction

FAR_FROM_ZERO = 2.0  # standard deviations, of the mean of data with a background

Start = Callable[[EM, np.random.Generator], Any]


def final_free_energy(em: EM, outcome: Outcome) -> float:
    return float(outcome.free_energy[-1])


class Fit(NamedTuple):
    """All that a fit by EM is made of."""

    model: Any
    posterior: Posterior
    schedule: Schedule
    start: Start  # first parameters
    tol: float = 0.0  # gain of the free energy below which the fit has converged
    score: Callable[[EM, Outcome], float] = final_free_energy  # what the best of several fits has most of
    monotone: bool = False  # the free energy must not fall
    keeps_best: bool = True  # where it fell all the same; else the last parameters are kept
    learner: Callable[[EM], Learner] = lambda em: em  # EM itself, or what learns in its place

    def begin(self, em: EM, rng: np.random.Generator) -> Started:
        """First parameters, and how to learn on from them."""
        started = self.start(em, rng)
        return started if isinstance(started, Started) else Started(started, em.posterior)


class FittedModel(NamedTuple):
    """A model of `multicause.models`, and the parameters that were learned."""

    model: Any
    params: Any


@dataclass(eq=False, repr=False)
class EMEstimator(MulticauseEstimator):
    """Base of the estimators with latents that are on or off."""

    _: KW_ONLY
    warm_start: Any = False

    _selection_function_types: ClassVar[tuple[type, ...]] = ()
    _is_about_zero: ClassVar[bool] = False  # data of which no latent is active are 0, give or take

    _parameter_constraints = {
        **MulticauseEstimator._parameter_constraints,
        "warm_start": ["boolean"],
    }

    def predict_proba(self, X):
        """p(s_h = 1 | y): for binary latents the same as their posterior means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            The probability of each latent, given the data point.
        """
        return self._ask(X, lambda posterior, chunk: posterior.means(chunk))

    def log_joint(self, X, S):
        """log p(s, y) of given states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        S : array-like of shape (n_states, n_components)
            States of zeros and ones; coefficients where these are not summed out.

        Returns
        -------
        log_joint : ndarray of shape (n_samples, n_states)
            For each data point the log joint of each state, in nats.
        """
        X = self._validate_fitted(X)
        model, params = self.fitted_model()
        S = self._check_latents(S)
        if not getattr(model, "states_have_coefficients", False) and not np.isin(S, (0.0, 1.0)).all():
            raise ValueError("S must hold states of zeros and ones. Got other numbers: round them, S > 0.5.")
        return model.log_joint(params, np.asarray(X, dtype=np.float64), S)

    def fitted_model(self):
        """The generative model and its parameters, as `multicause.models` and `multicause.testing` know them.

        Returns
        -------
        fitted : FittedModel
            A named tuple of `model` and `params`.
        """
        self._check_fitted()
        return FittedModel(self._fitted_model(), self._params())

    @abstractmethod
    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        """What a fit to data of these moments is made of."""

    @abstractmethod
    def _posterior(self, n_components: int) -> Posterior:
        """How the latents of a data point are inferred."""

    @abstractmethod
    def _fitted_model(self) -> Any:
        """The model, as the learned attributes describe it."""

    @property
    @abstractmethod
    def _params_type(self) -> Any:
        """The NamedTuple of the model's parameters; an attribute is called as its field, with an underscore."""

    @abstractmethod
    def _count_components(self, n_features: int) -> int:
        """H."""

    @abstractmethod
    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> Any:
        """A parameter that was given, checked and made into an array of its full shape; (H, D) is `shape`."""

    def _as_before(self, model: Any) -> Any:
        """The model, as what is gone on from was learned with it."""
        return model

    def _learned_posterior(self) -> Posterior:
        """How latents are inferred once the model is learned."""
        return self._posterior(self._n_features_out)

    @property
    def _given_start(self) -> str:
        """The arguments that give first parameters, if any."""
        return ""

    @property
    def _is_warm(self) -> bool:
        """Whether a fit goes on from the last one."""
        return bool(self.warm_start) and hasattr(self, "stop_")

    def _learn(self, X: np.ndarray, weights: np.ndarray | None, keeping: Keeping) -> Stop:
        n_components = self._count_components(X.shape[1])
        try:
            return self._learn_components(n_components, X, weights, keeping)
        except MemoryError as error:
            raise MemoryError(
                f"{type(self).__name__} ran out of memory for n_components={n_components:,} and the "
                f"{X.shape[1]:,} columns of X ({error}). Ask for fewer components."
            ) from error

    def _learn_components(self, n_components: int, X: np.ndarray, weights: np.ndarray | None, keeping: Keeping) -> Stop:
        refuse_too_many(type(self).__name__, n_components, X.shape[1])
        with self._executor(X) as executor:
            chunks = executor.split(X, n_components, self._chunk_size, weights)
            moments = data_moments(executor, chunks)
            fit = self._fit_of(n_components, moments)
            fit = fit._replace(model=self._as_before(fit.model)) if self._is_warm else fit
            if not (self._is_about_zero and fit.model.intercept):
                _warn_of_offset(moments)
                if self._is_about_zero and is_far_from_zero(moments):
                    _warn_of_background(type(self).__name__)
            em = EM(fit.model, fit.posterior, fit.schedule, executor, chunks, moments, fit.monotone)
            try:
                outcome = self._best_of_restarts(em, fit, X, keeping)
            except DeviceError as error:
                if error.outcome is not None:
                    self._keep(error.outcome, X.dtype)
                raise
        unused = unused_components(outcome.params, moments.weight)
        if unused.size and outcome.stop is Stop.CONVERGED:
            outcome = outcome._replace(stop=Stop.COMPONENTS_UNUSED)
        self._keep(outcome, X.dtype)
        self.unused_components_ = unused
        return outcome.stop

    def _best_of_restarts(self, em: EM, fit: Fit, X: np.ndarray, keeping: Keeping) -> Outcome:
        warm = self._warm(em) if self._is_warm else None
        n_init, learner = 1 if warm is not None else self.n_init, fit.learner(em)
        start = {} if warm is None else {"the warm start": digest_of_value(tuple(warm))}
        with calling(em.model, "init_params"):
            like = em.model.init_params(em.moments, np.random.default_rng(0))
        checkpoint = self._checkpoint(keeping, em.chunks, like, start)
        progress = checkpoint.load() if checkpoint is not None and keeping.resume else None
        if progress is not None and progress.best is not None:
            check_outcome(progress.best, like)
            check_kept(progress.best.kept, em.posterior, em.model.n_components)
        if progress is not None and progress.iterate is not None:
            check_iterate(progress.iterate, like)
        seed = seed_of(self.random_state) if progress is None else progress.seed
        with self._readers(X, learner.n_steps, n_init, keeping.trace, checkpoint, progress) as readers:

            def learner_from(started: Started) -> Learner:
                return fit.learner(replace(em, posterior=started.posterior))

            def one_fit(restart: int, rng: np.random.Generator, progress: Progress | None) -> Outcome:
                em.executor.forget(em.chunks)
                given = em.posterior if warm is None else self._learned_posterior()
                is_given = warm is not None or progress is not None
                try:
                    with interrupts.raised():
                        started = Started(warm, given) if is_given else fit.begin(em, rng)
                except interrupts.Interrupted as interrupted:
                    return only_begun(learner_from(interrupted.found), interrupted.found.params, rng)
                try:
                    return run(
                        learner_from(started), started.params, rng, tol=fit.tol, restart=restart, progress=progress,
                        keeps_best=fit.keeps_best, **readers._asdict(),
                    )  # fmt: skip
                except NotFinite as error:
                    _blame_start(error, em, "the last fit (warm_start)" if warm is not None else self._given_start)
                    raise

            return best_of_restarts(n_init, seed, one_fit, partial(fit.score, em), checkpoint, progress)

    def _warm(self, em: EM) -> Any:
        """The last fit's parameters, where they fit the data and the settings of this one."""
        params, wanted = self._params(), em.model.init_params(em.moments, np.random.default_rng(0))
        for name, old, new in zip(params._fields, params, wanted, strict=True):
            if np.shape(old) != np.shape(new):
                asked = "warm_start=True" if self.warm_start else "partial_fit"
                way_out = "Set warm_start=False to start anew." if self.warm_start else "Start anew with a clone."
                raise ValueError(
                    f"{asked} continues from {name}_ of shape {np.shape(old)}, but the settings and the columns of X "
                    f"now ask for {np.shape(new)}. {way_out}"
                )
        return params

    def _check_learned(self) -> None:
        params, shape = self._params(), (self._n_features_out, int(self.n_features_in_))
        n_features = self._fitted_model().n_features
        if n_features != shape[1]:
            raise ValueError(f"the learned parameters are of {n_features} features, n_features_in_ is {shape[1]}")
        for name, value in params._asdict().items():
            label, kept = f"{name}_", getattr(self, f"{name}_")
            check_floats(label, kept, np.shape(kept))
            check_floats(label, value, np.shape(self._checked(name, value, shape, label)))
        self._learned_posterior()
        self._check_selection(*shape)

    def _check_selection(self, n_components: int, n_features: int) -> None:
        if not hasattr(self, "selection_function_"):
            return
        function = self.selection_function_
        if type(function) not in self._selection_function_types:
            raise ValueError(f"selection_function_ cannot be an instance of {type(function).__name__}")
        function.check(n_components, n_features)

    def _keep(self, outcome: Outcome, dtype) -> None:
        super()._keep(outcome, dtype)
        self.__dict__.pop("unused_components_", None)  # of an earlier fit
        if outcome.selection_function is not None:
            self.selection_function_ = outcome.selection_function
        elif hasattr(self, "selection_function_"):  # of an earlier fit
            del self.selection_function_

    def _attributes(self, params: Any, dtype) -> dict[str, Any]:
        return {f"{name}_": _kept(name, value, dtype) for name, value in params._asdict().items()}

    def _params(self) -> Any:
        missing = [f"{name}_" for name in self._params_type._fields if not hasattr(self, f"{name}_")]
        if missing:
            raise ValueError(
                f"This {type(self).__name__} was fitted with other settings: it has no {', '.join(missing)}. "
                "Fit it again, with warm_start=False."
            )
        values = (getattr(self, f"{name}_") for name in self._params_type._fields)
        return self._params_type(*(v.astype(np.float64) if isinstance(v, np.ndarray) else v for v in values))

    def _prepared(self) -> PreparedPosterior:
        posterior = self._learned_posterior()
        learned = None if posterior.selection is None else getattr(self, "selection_function_", None)
        return posterior.prepare(self._fitted_model(), self._params(), selector=learned)

    def _superpose(self, S: np.ndarray) -> np.ndarray:
        return self._fitted_model().superpose(self._params(), S)

    def _sample(self, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return self._fitted_model().sample(self._params(), n_samples, rng)


@dataclass(eq=False, repr=False)
class SelectingEstimator(EMEstimator):
    """Base of those that consider a few candidates for each data point."""

    _: KW_ONLY
    n_candidates: Any = "auto"
    selection: Any = "model-based"
    tol: Any = 1e-3

    _selection_function_types: ClassVar[tuple[type, ...]] = (SelectionFunction,)
    _parameter_constraints = {
        **EMEstimator._parameter_constraints,
        "n_candidates": [COUNT, StrOptions({"auto"}), None],
        "selection": [StrOptions({"model-based"}), GPSelect],
        "tol": [NOT_NEGATIVE],
    }

    def _learned_selection(self) -> GPSelect | None:
        return self.selection if isinstance(self.selection, GPSelect) else None


def unused_components(params: Any, weight: float) -> np.ndarray:
    """Latents that are expected to be active in less than one data point, of data with this total weight."""
    shares = getattr(params, "activation", getattr(params, "weights", np.ones(0)))
    return np.flatnonzero(np.atleast_1d(shares) * weight < 1.0)


def _kept(name: str, value: Any, dtype) -> Any:
    """A parameter as it is kept: numbers as floats, and what lies in the space of the data in the data's precision."""
    if np.ndim(value) == 0:
        return float(value)
    return value.astype(dtype) if name in ("components", "means") else value


def _blame_start(error: NotFinite, em: EM, given: str) -> None:
    """Say so where the start is at fault: one that the model draws itself leads to finite numbers."""
    if not given:
        return
    for chunk in em.chunks:
        chunk.forget()
    try:
        drawn = em.model.init_params(em.moments, np.random.default_rng(0))
        first = next(em.steps(drawn, np.random.default_rng(0))).free_energy
    except NotFinite:
        return
    if np.isfinite(first):
        raise NotFinite(
            error.what,
            f"The start that {given} gives is too extreme for the data: drawn by the model itself, it has a free "
            f"energy of {first:.4g} per data point. Give values of the data's magnitude.",
        ) from error


def _warn_of_offset(moments: DataMoments) -> None:
    """Squares of a mean far larger than the spread swallow the digits that tell data points apart."""
    spread = float(np.sqrt(moments.variance.mean()))
    offset = float(np.abs(moments.mean).max())
    if spread > 0.0 and offset > 1e5 * spread:
        warnings.warn(
            f"The mean of X is {offset / spread:.1g} times its spread, so that rounding errors show in the posterior. "
            "Subtract the mean first, for instance with StandardScaler.",
            stacklevel=CALLER + 4,
        )


def is_far_from_zero(moments: DataMoments) -> bool:
    """Whether no feature is ever near 0: latents would be spent on what all data points share."""
    spread = np.sqrt(moments.variance)
    return bool((spread > 0.0).any() and (np.abs(moments.mean) > FAR_FROM_ZERO * spread).all())


def _warn_of_background(name: str) -> None:
    warnings.warn(
        f"All features of X lie far from 0, where {name} expects data points without active latents. Set "
        "fit_intercept=True, or subtract the background first, for instance with RobustScaler(with_scaling=False), "
        "which takes the median.",
        stacklevel=CALLER + 4,
    )
