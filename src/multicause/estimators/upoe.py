"""Under-complete product of experts: probabilistic sequential independent component analysis."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from multicause._compat import Interval, StrOptions
from multicause.estimators.base import COUNT, NOT_NEGATIVE, MulticauseEstimator, seed_of
from multicause.estimators.data_checks import checked_weights, refuse_extreme, unmasked_data
from multicause.estimators.documentation import documented
from multicause.estimators.kept_fits import Keeping
from multicause.estimators.learned_checks import check_product
from multicause.execution import Chunk, InProcess, split
from multicause.execution.in_process import effective_threads
from multicause.execution.reproducible_matmul import tiled_product
from multicause.execution.sources import row_source
from multicause.learning import Outcome, Stop, run
from multicause.learning.experts.batches import RunningMoments, learn_batch, moments_of
from multicause.learning.experts.densities import fit_densities
from multicause.learning.experts.joint import Backfitted, OneByOne, Together
from multicause.learning.experts.pursuit import Pursuit, enough_points
from multicause.learning.experts.white_data import WhiteData, as_it_is, block_rows, make_white
from multicause.models.experts import Expert, StudentT, StudentTMixture
from multicause.models.product_of_experts import (
    ProductParams,
    Whitening,
    completed,
    expected_data,
    log_density,
    mixing,
    normalised,
    project,
    projection_indices,
    sample,
)

_ALGORITHMS = {"pursuit": Pursuit, "parallel": Together, "sequential": OneByOne, "backfitting": Backfitted}
LARGEST_WHITE = 1e20  # of data that are said to have a variance of 1: fourth powers must not overflow
_EXPERTS = {"student-t": StudentT(), "student-t-mixture": StudentTMixture()}


class PreparedProduct(NamedTuple):
    """A product of experts, ready to be asked; a row's answers do not depend on the rows beside it."""

    params: ProductParams

    def codes(self, chunk: Chunk) -> np.ndarray:
        """The projections, (n, J)."""
        return project(self.params, chunk.rows(), tiled_product)

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """The data with the directions that have no expert at their mean, (n, D)."""
        return expected_data(self.params, self.codes(chunk))

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """log p(y), which is exact, (n,)."""
        return log_density(self.params, chunk.rows(), tiled_product)


@documented
@dataclass(eq=False, repr=False)
class UPoE(MulticauseEstimator):
    """Under-complete product of experts: independent components with densities, found one after the other.

        p(x) = prod_i N(v_i^T x; 0, 1) prod_j T_j(w_j^T x) |W W^T|^(1/2)                        [UPoE eq. 16]

    x are the whitened data. Each expert T_j is the density of one projection of them; directions without an expert are
    Gaussian. With as many experts as dimensions this is independent component analysis.

    Parameters
    ----------
    n_components : int or None, default=None
        Largest number of experts, at most the rank of the data; None sets no limit. Experts are added as long as each
        makes the data more likely than a Gaussian in its place (the projection index is negative); `stop_` says whether
        this ended the fit.
    algorithm : {"pursuit", "parallel", "sequential", "backfitting"}, default="parallel"
        "pursuit": one expert after the other, in orthogonal directions. "parallel": continue from there with all
        experts at once, without the orthogonality constraint. "sequential": drop the constraint for each new expert
        while the earlier ones stay fixed. "backfitting": update these as well, which takes long. "parallel" explains
        data best, given a few hundred data points per dimension; with fewer, orthogonal directions guard against
        overfitting.
    expert : {"student-t", "student-t-mixture"} or Expert, default="student-t"
        Density of each projection: with heavy tails, or with two modes. An Expert of `multicause.models`, or your own,
        is the initial density of each search, and so determines what is looked for; it is then fitted to the
        projection.
    whiten : bool, default=True
        Whether to whiten the data. False takes them to be white already, with mean 0 and covariance 1.
    n_dimensions : int or None, default=None
        Number of principal directions of the data to keep; densities are then those of the data projected on them. None
        keeps all directions in which the data vary.
    validation_fraction : float or None, default=None
        Share of the rows, drawn at random, that is held out: with n_components=None, an expert must make these more
        likely as well, by 1.5 standard errors.
    max_iter : int, default=200
        Largest number of iterations for each expert, or for all of them at once.
    tol : float, default=1e-6
        Stop when the log-likelihood per data point rises by less than this in an iteration.
    n_init : int, default=1
        Number of directions that the search for each expert starts from; the best result is kept.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The projections: z = components_ @ (y - mean_).
    mixing_ : ndarray of shape (n_features, n_components)
        The contribution of each projection to the data: the pseudo-inverse, in the whitened space.
    experts_ : tuple of Expert
        The density of each projection.
    projection_index_ : ndarray of shape (n_components,)
        The change of the negative log-likelihood per data point when each expert was added to those before it.
    mean_ : ndarray of shape (n_features,)
        The mean of the data.
    whitening_ : ndarray of shape (n_dimensions, n_features)
        White data are whitening_ @ (y - mean_).
    dewhitening_ : ndarray of shape (n_features, n_dimensions)
        The pseudo-inverse of `whitening_`.
    directions_ : ndarray of shape (n_components, n_dimensions)
        The directions W in the whitened space.
    free_energy_ : ndarray
        Mean log-likelihood without experts and after each one, and after each iteration of algorithm="parallel"; the
        last value is that of the learned model. It is exact.
    n_iter_ : int
        Number of iterations, over all experts.
    n_samples_seen_ : float
        Total weight of the data points seen.
    covariance_ : ndarray of shape (n_features, n_features)
        Covariance of the data seen; only after `partial_fit`.

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

    n_components: Any = None
    _: KW_ONLY
    algorithm: Any = "parallel"
    expert: Any = "student-t"
    whiten: Any = True
    n_dimensions: Any = None
    validation_fraction: Any = None
    tol: Any = 1e-6

    _private_state: ClassVar[tuple[str, ...]] = ("_latest",)  # that `partial_fit` goes on from, also after a file
    _parameter_constraints = {
        **MulticauseEstimator._parameter_constraints,
        "n_components": [COUNT, None],
        "algorithm": [StrOptions(set(_ALGORITHMS))],
        "expert": [StrOptions(set(_EXPERTS)), Expert],
        "whiten": ["boolean"],
        "n_dimensions": [COUNT, None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "tol": [NOT_NEGATIVE],
    }

    def reconstruct(self, X):
        """The data with directions without an expert set to their mean; missing entries are filled in.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data. Only here, rows may have missing entries (NaN).

        Returns
        -------
        X_hat : ndarray of shape (n_samples, n_features)
            Rows with missing entries are returned with the most probable values filled in, given the others.
        """
        if row_source(X) is not None:
            return super().reconstruct(X)
        self._check_fitted()
        X = unmasked_data(X, type(self).__name__, True)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False, ensure_all_finite="allow-nan")
        refuse_extreme(X)
        params, gaps = self._params(), np.isnan(X).any(axis=1)
        rebuilt = np.empty_like(X)
        rebuilt[~gaps] = expected_data(params, project(params, X[~gaps], tiled_product))
        rebuilt[gaps] = np.reshape([completed(params, row) for row in X[gaps].astype(np.float64)], (-1, X.shape[1]))
        return rebuilt

    def fit_experts(self, unmixing, X):
        """Fit a density to each projection on known directions, for instance from another ICA.

        Parameters
        ----------
        unmixing : array-like of shape (n_components, n_features)
            The projections: z = unmixing @ (y - mean).
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        self : object
            The fitted estimator; its projections are those of `unmixing` up to scale and sign.
        """
        self._validate_params()
        X = self._validate(X, reset=True)
        unmixing = check_array(unmixing, dtype=np.float64, input_name="unmixing")
        if unmixing.shape[1] != X.shape[1]:
            raise ValueError(f"unmixing must have a column for each of the {X.shape[1]} features of X.")
        seen = moments_of(X.astype(np.float64), np.ones(len(X)))
        whitening = seen.whitening(self.n_dimensions, type(self).__name__)
        outcome, indices = fit_densities(unmixing, X, whitening, self._first_expert)
        self._keep_product(outcome, indices, X.dtype)
        self.n_samples_seen_ = float(len(X))
        return self

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from one batch of a stream of data.

        The first batch is fitted as by `fit`, and determines the number of experts: give more rows than features. Each
        later one updates the whitening, which is that of all data so far, and the directions, which stay orthogonal,
        and fits the experts to the latest ten thousand projections.

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
        source = row_source(X)
        X = X if source is None else np.asarray(source)  # a batch has room in memory
        if hasattr(self, "components_"):
            with self._kept_on_errors():
                self._learn_batch(X, sample_weight)
        else:
            self.fit(X, sample_weight=sample_weight)
            X = self._validate(X, reset=False)
            self.covariance_ = moments_of(X.astype(np.float64), self._weights_of(X, sample_weight)).covariance
        return self

    def _learn_batch(self, X, sample_weight) -> None:
        """A batch after the first."""
        X = self._validate_fitted(X)
        seen = self._running_moments()
        batch = learn_batch(
            self._params(), seen, X.astype(np.float64), self._weights_of(X, sample_weight), self._recent(),
            self._whitening_of_batches,
        )  # fmt: skip
        outcome = Outcome(batch.params, self.free_energy_, self.n_iter_ + 1, self.stop_)
        self._keep_product(outcome, batch.projection_indices, self.components_.dtype)
        self._latest, self.covariance_, self.n_samples_seen_ = batch.latest, batch.seen.covariance, batch.seen.weight

    def _learn(self, X: np.ndarray, weights: np.ndarray | None, keeping: Keeping) -> Stop:
        self.__dict__.pop("_latest", None)
        self.__dict__.pop("covariance_", None)
        weights = np.ones(len(X)) if weights is None else weights
        whole = split(X, X.shape[1], block_rows(X.shape[1]), weights)
        checkpoint = self._checkpoint(keeping, whole, as_it_is(1))
        progress = checkpoint.load() if checkpoint is not None and keeping.resume else None
        seed = seed_of(self.random_state) if progress is None else progress.seed
        rng = np.random.default_rng(np.random.SeedSequence(seed))
        held_out = self._held_out(len(X), rng)
        with InProcess(effective_threads(self.n_jobs)) as executor:
            kept = X[~held_out] if held_out.any() else X
            chunks = split(kept, X.shape[1], block_rows(X.shape[1]), weights[~held_out])
            data, whitening, frame = self._white(executor, chunks, X.shape[1])
            learner = self._learner(data, whitening, frame)
            if held_out.any():
                rest = split(X[held_out], X.shape[1], len(X), weights[held_out])
                learner = replace(learner, held_out=WhiteData.of(executor, rest, whitening))
            nothing = ProductParams(whitening, np.empty((0, data.n_dimensions)), ())
            if checkpoint is not None:
                checkpoint.begin(seed, 0, rng, None, progress)
            with self._readers(X, learner.n_steps, 1, keeping.trace, checkpoint, progress) as readers:
                outcome = run(learner, nothing, rng, progress=progress, **readers._asdict())
            params = normalised(outcome.params)
            turned = params.directions @ data.rotation.T
            indices = data.mean_over_points(lambda points: projection_indices(turned, params.experts, points))
        self._keep_product(outcome._replace(params=params, n_iter=max(outcome.n_iter, 1)), indices, X.dtype)
        self.n_samples_seen_ = data.total
        return outcome.stop

    def _white(self, executor: InProcess, chunks, n_features: int) -> tuple[WhiteData, Whitening, np.ndarray]:
        name = type(self).__name__
        if self.whiten:
            return make_white(executor, chunks, self.n_dimensions, name)
        if self.n_dimensions is not None:
            raise ValueError(
                f"{name}(whiten=False) keeps all dimensions of the data. Leave out n_dimensions={self.n_dimensions}, "
                "or set whiten=True."
            )
        largest = max(float(np.abs(chunk.rows()).max()) for chunk in chunks)
        if largest > LARGEST_WHITE:
            raise ValueError(
                f"{name}(whiten=False) takes X to be white, with variances of 1, but it holds {largest:.3g}. "
                "Set whiten=True."
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
            self._first_expert,
            self.n_components,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            white=bool(self.whiten),
            subsample=data.thinned(enough_points(data.n_dimensions)),
        )

    @property
    def _first_expert(self) -> Expert:
        """Where the fit of each density starts."""
        return _EXPERTS[self.expert] if isinstance(self.expert, str) else self.expert

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

    def _keep_product(self, outcome: Outcome, indices: np.ndarray, dtype) -> None:
        self._keep(outcome, dtype)
        self.projection_index_ = indices

    def _attributes(self, params: ProductParams, dtype) -> dict[str, Any]:
        params = normalised(params)
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

    def _check_learned(self) -> None:
        check_product(self, self._params())

    def _prepared(self) -> PreparedProduct:
        return PreparedProduct(self._params())

    def _superpose(self, S: np.ndarray) -> np.ndarray:
        return expected_data(self._params(), S)

    def _sample(self, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return sample(self._params(), n_samples, rng)

    def _running_moments(self) -> RunningMoments:
        """The moments of all data so far; after `fit`, those of the directions kept."""
        covariance = getattr(self, "covariance_", self.dewhitening_ @ self.dewhitening_.T)
        return RunningMoments(float(self.n_samples_seen_), self.mean_, covariance)

    def _recent(self) -> np.ndarray:
        """The latest projections, that the experts are fitted to."""
        return getattr(self, "_latest", np.empty((len(self.experts_), 0)))

    def _whitening_of_batches(self, seen: RunningMoments, old: Whitening) -> Whitening:
        return seen.whitening(self.n_dimensions, type(self).__name__) if self.whiten else old

    def _weights_of(self, X, sample_weight) -> np.ndarray:
        weights = checked_weights(sample_weight, X)
        return np.ones(len(X)) if weights is None else weights

    @property
    def _fewest_samples(self) -> int:
        return 2
