"""What all estimators of binary causes share: validation, restarts, and the questions one asks of a fitted model."""

import os
import warnings
from contextlib import ExitStack, closing
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from multicause._compat import (
    CallbackSupportMixin,
    Interval,
    IterationCallbacks,
    StrOptions,
    check_sample_weight,
    fit_with_callbacks,
)
from multicause.estimators.truncation import Truncation
from multicause.execution import InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.learning import EM, Annealing, DataClassification, Outcome, Plan, Stop, run
from multicause.learning.annealing import Schedule
from multicause.learning.moments import data_moments
from multicause.learning.records import Progress, Trace
from multicause.models import DataMoments
from multicause.selection import GPSelect

LARGEST = 1e100  # beyond this, sums of squares overflow


class ComponentEstimator(
    CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator
):
    """Base of the estimators with binary causes; subclasses say which model they learn."""

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "max_active": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "selection": [StrOptions({"hand-derived"}), GPSelect],
        "singletons": ["boolean"],
        "activation_type": [StrOptions({"individual", "shared"})],
        "fixed": ["array-like"],
        "components_init": ["array-like", None],
        "activation_init": ["array-like", Interval(Real, 0, 1, closed="neither"), None],
        "noise_variance_init": [Interval(Real, 0, None, closed="neither"), None],
        "annealing": [Annealing, None],
        "data_classification": ["boolean", DataClassification],
        "monotone": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Interval(Integral, None, -1, closed="right"), None],
        "chunk_size": [Interval(Integral, 1, None, closed="left"), None],
        "trace": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    @fit_with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the causes of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, one row per data point.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the data points; a weight of two is a row given twice.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        X = self._validate(X, reset=True)
        if sample_weight is not None:
            sample_weight = check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        n_components = self._count_causes(X.shape[1])
        chunks = split(X, n_components, self._rows_at_once, sample_weight)
        with InProcess(effective_threads(self.n_jobs)) as executor:
            moments = data_moments(executor, chunks)
            _warn_of_offset(moments)
            plan = self._plan(moments)
            model = self._model(n_components, X.shape[1], moments)
            posterior = self._posterior(n_components, bool(self.monotone))
            em = EM(model, posterior, plan, executor, chunks, moments)
            outcome = self._best_of_restarts(em, X)
        self._keep(outcome, X.dtype)
        if outcome.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if outcome.stop is Stop.ITERATIONS_RAN_OUT:
            warnings.warn(f"{type(self).__name__}: {outcome.stop.value}.", ConvergenceWarning, stacklevel=2)
        return self

    def transform(self, X):
        """Posterior means <s> of the causes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        means : ndarray of shape (n_samples, n_components)
            The probability of each cause, given the data point.
        """
        return self._collect("means", X)

    def predict_proba(self, X):
        """p(s_h = 1 | y): for binary causes the same as their posterior means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_components)
            The probability of each cause, given the data point.
        """
        return self._collect("means", X)

    def inverse_transform(self, S):
        """The data that causes of given strength produce, without noise.

        Parameters
        ----------
        S : array-like of shape (n_samples, n_components)
            States, or strengths between 0 and 1.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            sum_h s_h W_h, or max_h s_h W_h for maximal causes.
        """
        check_is_fitted(self)
        S = self._check_states(S)
        return self._fitted_model().superpose(self._params(), S).astype(S.dtype, copy=False)

    def reconstruct(self, X):
        """Posterior mean of the data without its noise.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            <sum_h s_h W_h>, or <max_h s_h W_h> for maximal causes.
        """
        return self._collect("reconstructions", X)

    def score_samples(self, X):
        """Truncated log-likelihood F_n of each data point: a lower bound of log p(y_n).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        free_energies : ndarray of shape (n_samples,)
            F_n in nats.
        """
        X = self._validate_fitted(X)
        return np.concatenate([values for _, values in self._per_chunk("free_energies", X)])

    def score(self, X, y=None):
        """Mean truncated log-likelihood per data point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        y : None
            Ignored.

        Returns
        -------
        score : float
            The mean of `score_samples`.
        """
        return float(self.score_samples(X).mean())

    def log_joint(self, X, S):
        """log p(s, y) of given states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.
        S : array-like of shape (n_states, n_components)
            States of zeros and ones.

        Returns
        -------
        log_joint : ndarray of shape (n_samples, n_states)
            For each data point the log joint of each state, in nats.
        """
        X = self._validate_fitted(X)
        return self._fitted_model().log_joint(self._params(), X.astype(np.float64), self._check_states(S))

    def sample(self, n_samples=1, random_state=None):
        """Draw data from the learned model.

        Parameters
        ----------
        n_samples : int, default=1
            How many data points.
        random_state : int, RandomState instance or None, default=None
            Seed of the draw.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data points.
        S : ndarray of shape (n_samples, n_components)
            The states that caused them.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an int in the range [1, inf). Got {n_samples!r} instead.")
        rng = np.random.default_rng(_seed(random_state))
        return self._fitted_model().sample(self._params(), int(n_samples), rng)

    @property
    def _n_features_out(self):
        return len(self.components_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    def _best_of_restarts(self, em: EM, X: np.ndarray) -> Outcome:
        warm = self._warm(em) if self.warm_start and hasattr(self, "stop_") else None
        n_init = 1 if warm is not None else self.n_init
        n_records = n_init * (em.plan.n_steps + 1)
        best = None
        with ExitStack() as stack:
            consumers = [stack.enter_context(closing(c)) for c in self._consumers(em.plan, n_init)]
            callbacks = IterationCallbacks(self, X, n_records, lambda params: self._attributes(params, X.dtype))
            stack.enter_context(closing(callbacks))
            for restart, seeds in enumerate(np.random.SeedSequence(_seed(self.random_state)).spawn(n_init)):
                rng = np.random.default_rng(seeds)
                for chunk in em.chunks:
                    chunk.memory.clear()
                params = warm if warm is not None else self._initial(em, rng)
                try:
                    outcome = run(
                        em, params, rng, tol=self.tol, consumers=consumers, wants_stop=callbacks, restart=restart
                    )
                except KeyboardInterrupt:  # in the first E-step of a later restart: the earlier ones stand
                    if best is None:
                        raise
                    return best._replace(stop=Stop.INTERRUPTED)
                if best is None or self._merit(em, outcome) > self._merit(em, best):
                    best = outcome
                if outcome.stop in (Stop.INTERRUPTED, Stop.CALLBACK):
                    return best._replace(stop=outcome.stop)
        assert best is not None
        return best

    def _merit(self, em: EM, outcome: Outcome) -> float:
        """What the fit that is kept, of several, has most of."""
        return outcome.free_energy[-1]

    def _keep(self, outcome: Outcome, dtype):
        for name, value in self._attributes(outcome.params, dtype).items():
            setattr(self, name, np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
        self.free_energy_, self.n_iter_, self.stop_ = outcome.free_energy, outcome.n_iter, outcome.stop
        if outcome.affinity is not None:
            self.affinity_ = outcome.affinity
        elif hasattr(self, "affinity_"):  # of an earlier fit
            del self.affinity_
        return self

    def _consumers(self, plan: Schedule, n_init: int) -> list:
        consumers: list = []
        if self.trace is not None:
            consumers.append(Trace(self.trace))
        if self.verbose:
            consumers.append(Progress(plan.n_steps, n_init, type(self).__name__))
        return consumers

    def _plan(self, moments: DataMoments) -> Schedule:
        classification = DataClassification() if self.data_classification is True else self.data_classification or None
        return Plan(self.max_iter, self.annealing, classification)

    def _truncation(self, n_components: int) -> Truncation:
        return Truncation.resolve(
            type(self).__name__, n_components, self.n_candidates, self.max_active, bool(self.singletons)
        )

    @property
    def _allows_missing(self) -> bool:
        """Whether an entry of X may be NaN."""
        return False

    def _posterior(self, n_components: int, monotone: bool):
        return self._truncation(n_components).posterior(monotone, self._learned_selection())

    @property
    def _rows_at_once(self) -> int | None:
        return self.chunk_size

    def _learned_selection(self) -> GPSelect | None:
        return self.selection if isinstance(self.selection, GPSelect) else None

    def _count_causes(self, n_features: int) -> int:
        return n_features if self.n_components is None else int(self.n_components)

    def _validate(self, X, reset: bool) -> np.ndarray:
        finite = "allow-nan" if self._allows_missing else True
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_all_finite=finite)
        refuse_extreme(X)
        return X

    def _validate_fitted(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._validate(X, reset=False)

    def _check_states(self, S) -> np.ndarray:
        S = check_array(S, dtype=[np.float64, np.float32], input_name="S")
        if S.shape[1] != self._n_features_out:
            raise ValueError(
                f"S must have one column per component: {self._n_features_out} of them. Got {S.shape[1]} instead."
            )
        return S

    def _collect(self, question: str, X) -> np.ndarray:
        """The answers to `question` for all rows of X, in X's precision."""
        X = self._validate_fitted(X)
        return np.concatenate([values.astype(X.dtype, copy=False) for _, values in self._per_chunk(question, X)])

    def _per_chunk(self, question: str, X: np.ndarray):
        """Ask the posterior `question` of every chunk of X; yields (chunk, answer)."""
        n_components = self._n_features_out
        posterior = self._posterior(n_components, False)
        chunks = split(X, n_components, self._rows_at_once)
        with InProcess(effective_threads(self.n_jobs)) as executor:
            affinity = getattr(self, "affinity_", None)
            prepared = posterior.prepare(self._fitted_model(), self._params(), affinity=affinity)
            yield from zip(chunks, executor.map(getattr(prepared, question), chunks), strict=True)


def _warn_of_offset(moments: DataMoments) -> None:
    """Squares of a mean far larger than the spread swallow the digits that tell data points apart."""
    spread = float(np.sqrt(moments.variance.mean()))
    offset = float(np.abs(moments.mean).max())
    if spread > 0.0 and offset > 1e5 * spread:
        warnings.warn(
            f"The mean of X is {offset / spread:.1g} times its spread, so that rounding errors show in the posterior. "
            "Subtract the mean first, for instance with StandardScaler.",
            stacklevel=4,
        )


def refuse_extreme(X: np.ndarray) -> None:
    """Data whose squares overflow, or vanish, cannot be learned from."""
    largest = max(float(np.fmax.reduce(X, axis=None, initial=0.0)), -float(np.fmin.reduce(X, axis=None, initial=0.0)))
    if largest > LARGEST or 0.0 < largest < 1.0 / LARGEST:
        raise ValueError(
            f"The largest magnitude in X is {largest:.3g}, whose square leaves the range of floating-point "
            "numbers. Rescale the data, for instance with StandardScaler."
        )


def _seed(random_state) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
