"""What all estimators share: validation, callbacks, and the questions one asks of a fitted model, chunk by chunk."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import assert_all_finite, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from multicause import interrupts
from multicause._compat import (
    CALLER,
    OF_CALLBACKS,
    CallbackSupportMixin,
    Interval,
    fit_with_callbacks,
)
from multicause.backends.compilation import compilation_told
from multicause.estimators.data_checks import (
    checked_weights,
    largest_magnitude,
    naming_models_for_gaps,
    refuse_extreme,
    refuse_huge,
    refuse_magnitude,
    refuse_not_finite,
    refuse_too_small,
    refusing_endless_integers,
    unmasked,
    unmasked_data,
    warn_of_unobserved,
)
from multicause.estimators.encoder_names import EncoderNames
from multicause.estimators.kept_fits import Keeping, KeptFits
from multicause.estimators.learned_checks import check_count, check_run
from multicause.execution import Chunk, InProcess, RowSource, executor_for, on, reader_for, row_source, split
from multicause.learning import Stop
from multicause.learning.records import LOGGER

COUNT = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
TEMPERATURE = Interval(Real, 1, None, closed="left")
FALLING = {"n_candidates": "a larger n_candidates", "monotone": "monotone=True", "n_init": "a larger n_init"}
WORTH_A_WARNING: dict[Stop, dict[str, str]] = {  # and the arguments that may help
    Stop.ITERATIONS_RAN_OUT: {},
    Stop.NOT_AT_REST: {},
    Stop.FELL: FALLING,
    Stop.OSCILLATES: FALLING,
    Stop.ENDED_LOWER: {**FALLING, "monotone": "monotone='auto'"},
    Stop.COMPONENTS_UNUSED: {
        "n_init": "a larger n_init", "annealing": "annealing=Annealing(3.0)", "n_components": "a smaller n_components",
    },
}  # fmt: skip


class Answers(Protocol):
    """A fitted model, ready to be asked of chunks of data."""

    def codes(self, chunk: Chunk) -> np.ndarray: ...

    def reconstructions(self, chunk: Chunk) -> np.ndarray: ...

    def free_energies(self, chunk: Chunk) -> np.ndarray: ...


class Learned:
    """What fits set, besides the model's own parameters: no fields, since constructors do not take them."""

    n_features_in_: int
    components_: np.ndarray
    free_energy_: np.ndarray
    n_iter_: int
    stop_: Stop
    selection_function_: Any
    unused_components_: np.ndarray
    truncation_: Any


@dataclass(eq=False, repr=False)
class MulticauseEstimator(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    DensityMixin,
    EncoderNames,
    KeptFits,
    BaseEstimator,
    Learned,
    ABC,
):
    """Base of all estimators. Subclasses are dataclasses: their fields are the constructor's arguments."""

    _: KW_ONLY
    max_iter: Any = 200
    n_init: Any = 1
    random_state: Any = None
    n_jobs: Any = None
    verbose: Any = 0

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "max_iter": [COUNT],
        "n_init": [COUNT],
        "random_state": ["random_state"],
        "n_jobs": [COUNT, Interval(Integral, None, -1, closed="right"), None],
        "verbose": ["verbose"],
    }

    @fit_with_callbacks
    def fit(
        self,
        X,
        y=None,
        sample_weight=None,
        *,
        trace=None,
        checkpoint=None,
        checkpoint_every="30s",
        resume=False,
        executor=None,
    ):
        """Learn the model of the data.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data, one row per data point. The following are read chunk by chunk, never all at once: a
            `numpy.memmap`, an h5py dataset, a Zarr or dask array, a list of blocks of rows, or a function that returns
            an iterator over them.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the data points; a weight of two is the same as giving a row twice.
        trace : str, path-like or None, default=None
            File to which one line of JSON is written per iteration.
        checkpoint : str, path-like or None, default=None
            File that is written regularly, and when the fit is interrupted, so that no progress is lost.
        checkpoint_every : int or str, default="30s"
            How often the checkpoint is written: every so many iterations, or seconds, such as "30s".
        resume : bool, default=False
            Resume from `checkpoint`, with exactly the result of a fit that was never interrupted; start anew if there
            is no such file yet. A checkpoint of other data or settings is refused.
        executor : distributed.Client or None, default=None
            The cluster to run on. None uses the cluster that holds the data, or the one given by
            `multicause.execution.on`, or else this process.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        keeping = Keeping.checked(trace, checkpoint, checkpoint_every, resume)
        cluster = nullcontext() if executor is None else on(executor)
        with interrupts.watched(), cluster, self._kept_on_errors(), compilation_told():
            X = self._validate(X, reset=True)
            weights = checked_weights(sample_weight, X)
            if self._allows_missing and isinstance(X, np.ndarray):
                warn_of_unobserved(X, weights, getattr(self, "feature_names_in_", None))
            stop = self._learn(X, weights, keeping)
        LOGGER.info("%s: %s (%d iterations)", type(self).__name__, stop.value, self.n_iter_)
        if stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if stop in WORTH_A_WARNING:
            what = f"{type(self).__name__}: {stop.value}.{self._way_out(WORTH_A_WARNING[stop])}"
            warnings.warn(what, ConvergenceWarning, stacklevel=CALLER)
        return self

    def transform(self, X):
        """Posterior means of the latents of each data point.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components)
            Posterior means of the latents, or of their coefficients if the model has some.
        """
        return self._ask(X, lambda model, chunk: model.codes(chunk))

    def reconstruct(self, X):
        """The data without noise, as the model explains them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            Posterior means of the noiseless data.
        """
        return self._ask(X, lambda model, chunk: model.reconstructions(chunk))

    def score_samples(self, X):
        """Log-likelihood of each data point; if posteriors are truncated, a lower bound F_n of log p(y_n).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        free_energies : ndarray of shape (n_samples,)
            In nats.
        """
        return self._ask(X, lambda model, chunk: model.free_energies(chunk), keeps_dtype=False)

    def score(self, X, y=None):
        """Mean log-likelihood per data point.

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

    def inverse_transform(self, S):
        """The noiseless data that given latents produce.

        Parameters
        ----------
        S : array-like of shape (n_samples, n_components)
            Latents, as returned by `transform`.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data.
        """
        self._check_fitted()
        S = self._check_latents(S)
        return self._superpose(S.astype(np.float64)).astype(S.dtype, copy=False)

    def sample(self, n_samples=1, random_state=None):
        """Draw data from the learned model.

        Parameters
        ----------
        n_samples : int, default=1
            Number of data points.
        random_state : int, RandomState instance or None, default=None
            Seed of the random numbers.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The data points.
        S : ndarray of shape (n_samples, n_components)
            The latents that caused them.
        """
        self._check_fitted()
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an int in the range [1, inf). Got {n_samples!r} instead.")
        return self._sample(int(n_samples), np.random.default_rng(seed_of(random_state)))

    @abstractmethod
    def _learn(self, X: np.ndarray, weights: np.ndarray | None, keeping: Keeping) -> Stop:
        """Fit, and keep what was learned, also where the fit was interrupted."""

    @abstractmethod
    def _prepared(self) -> Answers:
        """The fitted model."""

    @abstractmethod
    def _superpose(self, S: np.ndarray) -> np.ndarray:
        """The data that latents produce."""

    @abstractmethod
    def _sample(self, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Data points and their latents."""

    @abstractmethod
    def _attributes(self, params: Any, dtype) -> dict[str, Any]:
        """What is kept of learned parameters, by the names of attributes."""

    @abstractmethod
    def _check_learned(self) -> None:
        """Refuse learned attributes that do not go together, or that the model does not allow."""

    def _table_bytes(self) -> int:
        """Memory that answers take at least, whatever the data."""
        check_count("n_features_in_", self.n_features_in_, least=1)
        return 8 * (self._n_features_out + 1) * max(self._n_features_out, int(self.n_features_in_))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    @property
    def _allows_missing(self) -> bool:
        """Whether an entry of X may be NaN."""
        return False

    @property
    def _fewest_samples(self) -> int:
        """Rows without which there is nothing to fit."""
        return 1

    @property
    def _chunk_size(self) -> int | None:
        """Rows processed at once, where the model wants other than a few megabytes' worth."""
        return None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.allow_nan = self._allows_missing
        return tags

    @contextmanager
    def _kept_on_errors(self) -> Iterator[None]:
        """A context in which an error leaves the estimator as it was: data that are refused cost no earlier fit.

        A device that fails costs nothing either: what was learned by then is kept.
        """
        before = dict(vars(self))
        try:
            yield
        except BaseException as error:
            if getattr(error, "outcome", None) is not None:
                raise
            for name in vars(self).keys() - before.keys() - set(OF_CALLBACKS):
                delattr(self, name)
            self.__dict__.update(before)
            raise

    def _validate(self, X, reset: bool) -> Any:
        """X in single or double precision: an array, or what reads its rows where it is not in memory."""
        source = self._source_of(X)
        if source is not None:
            return self._validate_source(source, reset)
        X = unmasked_data(X, type(self).__name__, self._allows_missing)
        finite, fewest = "allow-nan" if self._allows_missing else True, self._fewest_samples if reset else 1
        types = [np.float64, np.float32]
        with naming_models_for_gaps(type(self).__name__), refusing_endless_integers("X"):
            X = validate_data(self, X, dtype=types, reset=reset, ensure_all_finite=finite, ensure_min_samples=fewest)
        refuse_extreme(X)
        self._check_range(X, reset)
        return X

    def _source_of(self, X) -> RowSource | None:
        """What reads X by rows, where it is not in memory and the estimator can do without that."""
        return row_source(X)

    def _validate_source(self, X: RowSource, reset: bool) -> RowSource:
        """The same checks, chunk by chunk; the source is told whether entries are missing."""
        validate_data(self, X, reset=reset, skip_check_array=True)
        refuse_too_small(X.shape, self._fewest_samples if reset else 1)
        name, missing, check_range = type(self).__name__, self._allows_missing, self._check_range

        def looked_at(chunk: Chunk) -> np.ndarray:
            rows = chunk.rows()
            with naming_models_for_gaps(name):
                assert_all_finite(rows, allow_nan=missing, estimator_name=name, input_name="X")
            check_range(rows, reset, chunk.start)
            return np.array([largest_magnitude(rows), missing and np.isnan(rows).any()])

        with reader_for(X, self.n_jobs) as executor:
            found = executor.map_reduce(looked_at, split(X, X.shape[1], self._chunk_size), np.maximum)
        refuse_magnitude(float(found[0]))
        X.has_gaps = bool(found[1])
        return X

    def _check_range(self, X: np.ndarray, reset: bool, start: int = 0) -> None:
        """Refuse rows outside of the range that the model is for; their numbers begin at `start`."""

    def _executor(self, X: Any, learned: bool = False) -> InProcess:
        """Where the chunks of X are worked on: to fit, or to ask what was learned."""
        return executor_for(X, self.n_jobs)

    def _way_out(self, knobs: Mapping[str, str]) -> str:
        """What may help, of the arguments that this estimator has."""
        known = [advice for name, advice in knobs.items() if name in self.get_params(deep=False)]
        return f" What may help: {', or '.join(known)}." if known else ""

    def _check_fitted(self) -> None:
        """Settings and learned attributes may have been changed since the fit, and kernels index unchecked."""
        check_is_fitted(self)
        self._validate_params()
        try:
            check_run(self)
            self._check_learned()
        except AttributeError as error:  # one that is not there, or is no array
            raise NotFittedError(f"This {type(self).__name__} is not fitted as a whole: {error}. Call fit.") from error

    def _validate_fitted(self, X) -> np.ndarray:
        self._check_fitted()
        return self._validate(X, reset=False)

    def _check_latents(self, S, name: str = "S") -> np.ndarray:
        S = unmasked(S, name, way_out="Latents cannot be missing: give a number for each.")
        with refusing_endless_integers(name):
            S = check_array(S, dtype=[np.float64, np.float32], input_name=name, ensure_min_features=0)
        if S.shape[1] != self._n_features_out:
            raise ValueError(
                f"{name} must have one column per component: {self._n_features_out} of them. Got {S.shape[1]} instead."
            )
        refuse_huge(S, name)
        return S

    def _ask(self, X, question: Callable[[Any, Chunk], np.ndarray], keeps_dtype: bool = True) -> np.ndarray:
        """The answers to `question` for all rows of X, in X's precision where that is wanted."""
        X = self._validate_fitted(X)
        with self._executor(X, learned=True) as executor:
            model = self._prepared()
            chunks = executor.split(X, self._n_features_out, self._chunk_size)
            answers = executor.answers(lambda chunk: question(model, chunk), chunks)
            answer = np.concatenate([a.astype(X.dtype, copy=False) if keeps_dtype else a for a in answers])
            refuse_not_finite(answer, type(self).__name__)
        return answer


def seed_of(random_state) -> int:
    return int(check_random_state(random_state).randint(2**31 - 1))
