"""Under-complete product of experts: probabilistic sequential independent components analysis."""

import os
import warnings
from contextlib import ExitStack, closing
from dataclasses import replace
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from multicause._compat import (
    CallbackSupportMixin,
    Interval,
    IterationCallbacks,
    StrOptions,
    check_sample_weight,
    fit_with_callbacks,
)
from multicause.backends.tiles import tiled_product
from multicause.estimators.component_estimator import _seed, refuse_extreme
from multicause.execution import InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.learning import Outcome, Stop, run
from multicause.learning.batches import Seen, learn_batch, moments_of
from multicause.learning.parallel import OneByOne, Together
from multicause.learning.records import Progress, Record, Trace
from multicause.learning.sequential import Pursuit, enough_points
from multicause.learning.white_data import WhiteData, as_it_is, block_rows, make_white
from multicause.models.experts import Expert, StudentT, StudentTMixture
from multicause.models.product_of_experts import (
    ProductParams,
    Whitening,
    expected_data,
    log_density,
    mixing,
    normalised,
    project,
    projection_indices,
    sample,
    whiten,
)

_ALGORITHMS = {"pursuit": Pursuit, "parallel": Together, "sequential": OneByOne}
_EXPERTS = {"student-t": StudentT(), "student-t-mixture": StudentTMixture()}


class UPoE(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):
    """Under-complete product of experts: independent components with a density, found one after the other.

        p(x) = prod_i N(v_i^T x; 0, 1) prod_j T_j(w_j^T x) |W W^T|^(1/2)                        [UPoE eq. 16]

    x is the data made white. Each expert T_j is a density of one projection of it; directions without an expert are
    Gaussian. With as many experts as dimensions this is independent components analysis.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of experts, at most the rank of the data. None adds experts as long as each makes the data more likely
        than a Gaussian in its place (the projection index is negative).
    algorithm : {"pursuit", "parallel", "sequential"}, default="pursuit"
        One expert after the other in orthogonal directions; or all at once from there on, free of orthogonality; or
        each freed of orthogonality while the earlier ones stay.
    expert : {"student-t", "student-t-mixture"} or Expert, default="student-t"
        What each projection is modelled by: heavy tails, or two modes. An Expert of `multicause.models`, or one
        of your own, is where the search starts: it says what to look for, and is then fitted to what was found.
    whiten : bool, default=True
        Whether to make the data white. False takes them to be white, with mean 0 and covariance 1.
    n_dimensions : int or None, default=None
        Principal directions of the data that are kept; densities are then those of the data projected on them. None
        keeps all in which the data vary.
    validation_fraction : float or None, default=None
        Share of the rows, drawn at random, that is held out: with n_components=None an expert must make these more
        likely, too, by 1.5 standard errors.
    max_iter : int, default=200
        Most iterations for each expert, or for all of them at once.
    tol : float, default=1e-6
        Stop when an iteration gains less log-likelihood per data point.
    n_init : int, default=1
        Directions that the search for each expert starts from; the best one found is taken.
    random_state : int, RandomState instance or None, default=None
        Seed of the directions that searches start from.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per expert, and per iteration of algorithm="parallel".
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The projections: z = components_ @ (y - mean_).
    mixing_ : ndarray of shape (n_features, n_components)
        What each projection adds to the data: the pseudo-inverse, in the white space.
    experts_ : tuple of Expert
        The density of each projection.
    projection_index_ : ndarray of shape (n_components,)
        By how much each expert lowered the negative log-likelihood per data point, when it joined those before it.
    mean_ : ndarray of shape (n_features,)
        The mean of the data.
    whitening_ : ndarray of shape (n_dimensions, n_features)
        White data are whitening_ @ (y - mean_).
    dewhitening_ : ndarray of shape (n_features, n_dimensions)
        The way back.
    directions_ : ndarray of shape (n_components, n_dimensions)
        The directions W in the white space.
    free_energy_ : ndarray
        Mean log-likelihood without experts and after each one, and after each iteration of algorithm="parallel"; the
        last value is that of the learned model. It is exact.
    n_iter_ : int
        Number of iterations done, over all experts.
    n_samples_seen_ : float
        Total weight of the data points seen.
    covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the data seen; only after `partial_fit`.
    stop_ : Stop
        Why the fit ended.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.

    References
    ----------
    M. Welling, R. S. Zemel, G. E. Hinton. Probabilistic Sequential Independent Components Analysis. IEEE Transactions
    on Neural Networks 15, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from multicause import UPoE
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(500, 3)) @ rng.normal(size=(3, 3))
    >>> UPoE(n_components=2, random_state=0).fit_transform(X).shape
    (500, 2)
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "algorithm": [StrOptions(set(_ALGORITHMS))],
        "expert": [StrOptions(set(_EXPERTS)), Expert],
        "whiten": ["boolean"],
        "n_dimensions": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "n_jobs": [Interval(Integral, 1, None, closed="left"), Interval(Integral, None, -1, closed="right"), None],
        "trace": [str, os.PathLike, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        algorithm="pursuit",
        expert="student-t",
        whiten=True,
        n_dimensions=None,
        validation_fraction=None,
        max_iter=200,
        tol=1e-6,
        n_init=1,
        random_state=None,
        n_jobs=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.algorithm = algorithm
        self.expert = expert
        self.whiten = whiten
        self.n_dimensions = n_dimensions
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.trace = trace
        self.verbose = verbose

    @fit_with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Learn the experts of the data.

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
        self.__dict__.pop("_latest", None)
        self.__dict__.pop("covariance_", None)
        outcome = self._learn(X, self._weights(X, sample_weight))
        if outcome.stop is Stop.INTERRUPTED:
            raise KeyboardInterrupt
        if outcome.stop is Stop.ITERATIONS_RAN_OUT:
            warnings.warn(f"{type(self).__name__}: {outcome.stop.value}.", ConvergenceWarning, stacklevel=2)
        return self

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from a batch of data, given once; how many batches follow need not be known.

        The first batch is fitted like `fit` does, and decides on the number of experts: give more rows than features.
        Each later one renews the whitening, which is that of all data seen, turns the directions, which stay
        orthogonal, and fits the experts to the latest ten thousand projections.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the data points.

        Returns
        -------
        self : object
            The estimator.
        """
        if not hasattr(self, "components_"):
            self.fit(X, sample_weight=sample_weight)
            X = self._validate(X, reset=False)
            self.covariance_ = moments_of(X.astype(np.float64), self._weights(X, sample_weight)).covariance
            return self
        self._validate_params()
        X = self._validate(X, reset=False)
        weights, dtype = self._weights(X, sample_weight), self.components_.dtype
        Y, params = X.astype(np.float64), self._params()
        new = moments_of(Y, weights)
        seen = self._seen().joined(new)
        whitening = seen.whitening(self.n_dimensions, type(self).__name__) if self.whiten else params.whitening
        latest = getattr(self, "_latest", np.empty((len(params.experts), 0)))
        params, self._latest = learn_batch(params, whitening, Y, weights, new.weight / seen.weight, latest)
        params = normalised(params)
        indices = weights @ projection_indices(params.directions, params.experts, whiten(whitening, Y)) / new.weight
        self._keep(params, indices, dtype)
        self.covariance_, self.n_samples_seen_ = seen.covariance, seen.weight
        self.n_iter_ += 1
        return self

    def transform(self, X):
        """The projections of the data that have an expert.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            components_ @ (y - mean_) for each row y.
        """
        X = self._validate_fitted(X)
        return self._per_chunk(project, X).astype(X.dtype, copy=False)

    def inverse_transform(self, Z):
        """The data expected of given projections; directions without an expert are at their mean.

        Parameters
        ----------
        Z : array-like of shape (n_samples, n_components)
            Projections.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            mean_ + mixing_ @ z for each row z.
        """
        check_is_fitted(self)
        Z = check_array(Z, dtype=[np.float64, np.float32], input_name="Z", ensure_min_features=0)
        if Z.shape[1] != len(self.components_):
            raise ValueError(
                f"Z must have one column per component: {len(self.components_)} of them. Got {Z.shape[1]} instead."
            )
        return expected_data(self._params(), Z.astype(np.float64)).astype(Z.dtype, copy=False)

    def reconstruct(self, X):
        """The data with the directions that have no expert at their mean.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            The same as inverse_transform(transform(X)).
        """
        return self.inverse_transform(self.transform(X))

    def score_samples(self, X):
        """Log-density of each data point: normalised, and of the data as they are, not made white.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        log_densities : ndarray of shape (n_samples,)
            log p(y) in nats. Where directions were left out, the density is that of the others.
        """
        return self._per_chunk(log_density, self._validate_fitted(X))

    def score(self, X, y=None):
        """Mean log-density per data point.

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
        Z : ndarray of shape (n_samples, n_components)
            Their projections, as `transform` would give them.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be an int in the range [1, inf). Got {n_samples!r} instead.")
        return sample(self._params(), int(n_samples), np.random.default_rng(_seed(random_state)))

    @property
    def _n_features_out(self):
        return len(self.components_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _learn(self, X, weights) -> Outcome:
        """Fit, and keep what was learned also where the fit was interrupted."""
        rng = np.random.default_rng(np.random.SeedSequence(_seed(self.random_state)))
        held_out = self._held_out(len(X), rng)
        last: list[Record] = []
        with InProcess(effective_threads(self.n_jobs)) as executor:
            chunks = split(
                X[~held_out] if held_out.any() else X, X.shape[1], block_rows(X.shape[1]), weights[~held_out]
            )
            data, whitening, frame = self._white(executor, chunks, X.shape[1])
            learner = self._learner(data, whitening, frame)
            if held_out.any():
                rest = split(X[held_out], X.shape[1], len(X), weights[held_out])
                learner = replace(learner, held_out=WhiteData.of(executor, rest, whitening))
            nothing = ProductParams(whitening, np.empty((0, data.n_dimensions)), ())
            with ExitStack() as stack:
                consumers = [stack.enter_context(closing(c)) for c in self._consumers(learner.plan)]
                attributes = lambda params: self._attributes(normalised(params), X.dtype)  # noqa: E731
                callbacks = IterationCallbacks(self, X, learner.plan.n_steps + 1, attributes)
                stack.enter_context(closing(callbacks))
                outcome = run(learner, nothing, rng, consumers=[*consumers, last.append], wants_stop=callbacks)
            params = normalised(outcome.params)
            turned = params.directions @ data.turn.T
            indices = data.mean_over_points(lambda points: projection_indices(turned, params.experts, points))
        self._keep(params, indices, X.dtype)
        self.free_energy_, self.stop_, self.n_iter_ = outcome.free_energy, outcome.stop, max(last[-1].n_iter or 0, 1)
        self.n_samples_seen_ = data.total
        return outcome

    def _white(self, executor: InProcess, chunks, n_features: int) -> tuple[WhiteData, Whitening, np.ndarray]:
        who = type(self).__name__
        if self.whiten:
            return make_white(executor, chunks, self.n_dimensions, who)
        if self.n_dimensions is not None:
            raise ValueError(
                f"{who}(whiten=False) keeps all dimensions of the data. Leave out n_dimensions={self.n_dimensions}, or "
                "set whiten=True."
            )
        whitening = as_it_is(n_features)
        return WhiteData.of(executor, chunks, whitening), whitening, whitening.forward

    def _learner(self, data: WhiteData, whitening: Whitening, frame: np.ndarray) -> Pursuit:
        if self.n_components is not None and self.n_components > data.n_dimensions:
            raise ValueError(
                f"The 'n_components' parameter of {type(self).__name__} must be at most the {data.n_dimensions} "
                f"dimensions in which X varies. Got {self.n_components} instead."
            )
        return _ALGORITHMS[self.algorithm](
            data,
            whitening,
            frame,
            _EXPERTS[self.expert] if isinstance(self.expert, str) else self.expert,
            self.n_components,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            white=bool(self.whiten),
            few=data.thinned(enough_points(data.n_dimensions)),
        )

    def _held_out(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Which rows are held out."""
        chosen = np.zeros(n_samples, dtype=bool)
        if self.validation_fraction is not None:
            n_held = int(np.ceil(self.validation_fraction * n_samples))
            if not 1 <= n_held <= n_samples - 2:
                raise ValueError(
                    f"The 'validation_fraction' of {type(self).__name__} leaves {n_samples - n_held} of {n_samples} "
                    "samples to learn from. Give more data, or hold out less."
                )
            chosen[rng.permutation(n_samples)[:n_held]] = True
        return chosen

    def _consumers(self, plan) -> list:
        consumers: list = [] if self.trace is None else [Trace(self.trace)]
        return [*consumers, Progress(plan.n_steps, 1, type(self).__name__)] if self.verbose else consumers

    def _keep(self, params: ProductParams, indices: np.ndarray, dtype) -> None:
        for name, value in self._attributes(params, dtype).items():
            setattr(self, name, np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
        self.projection_index_ = indices

    def _attributes(self, params: ProductParams, dtype) -> dict:
        whitening = params.whitening
        return {
            "components_": (params.directions @ whitening.forward).astype(dtype),
            "mixing_": mixing(params).astype(dtype),
            "experts_": params.experts,
            "mean_": whitening.mean,
            "whitening_": whitening.forward,
            "dewhitening_": whitening.backward,
            "directions_": params.directions,
        }

    def _params(self) -> ProductParams:
        return ProductParams(
            Whitening(self.mean_, self.whitening_, self.dewhitening_), self.directions_, tuple(self.experts_)
        )

    def _seen(self) -> Seen:
        """The moments of all data so far; after `fit`, those of the directions kept."""
        covariance = getattr(self, "covariance_", self.dewhitening_ @ self.dewhitening_.T)
        return Seen(float(self.n_samples_seen_), self.mean_, covariance)

    def _weights(self, X, sample_weight) -> np.ndarray:
        if sample_weight is None:
            return np.ones(len(X))
        return check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _validate(self, X, reset: bool) -> np.ndarray:
        fewest = 2 if reset else 1
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset, ensure_min_samples=fewest)
        refuse_extreme(X)
        return X

    def _validate_fitted(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._validate(X, reset=False)

    def _per_chunk(self, answer, X: np.ndarray) -> np.ndarray:
        """What a function of the model says of each row; its bits do not depend on the rows beside it."""
        params = self._params()
        with InProcess(effective_threads(self.n_jobs)) as executor:
            task = lambda chunk: answer(params, chunk.rows(), tiled_product)  # noqa: E731
            return np.concatenate(list(executor.map(task, split(X, X.shape[1]))))
