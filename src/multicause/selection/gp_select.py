"""GP-select: learn from the data which latents to consider, whatever the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.gaussian_process.kernels import Kernel

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments
from multicause.selection.base import ModelBased, Selector, are_indices
from multicause.selection.gaussian_process import (
    KERNELS,
    features,
    fit_kernel,
    hyperparameters,
    named_kernel,
    noise_variance,
    pivot_factor,
    pivots,
    with_hyperparameters,
    with_noise,
)

SMALLEST_TARGET = 1e-4  # posterior means below it say nothing to the regression
MOST_PIVOTS = 128  # where the user gives no rank
LARGEST_VALUE, LARGEST_LOGARITHM = 1e150, 500.0  # whose squares, and exponentials, are numbers
FIRST = ("random", "model-based")
_POOL = 2048  # rows among which the pivots are looked for
_SAMPLE = 300  # rows whose marginal likelihood the kernel's parameters maximise


@dataclass(frozen=True)
class GPSelect:
    """Selection by Gaussian-process regression: f_h(y) predicts <s_h>; the H' latents with the largest f_h are kept.

        f_h ~ GP(0, k),   p_nh = <s_h>_n - (K^-1 <s_h>)_n / (K^-1)_nn                                 [GPS eq. 4.1]

    A model needs no selection function of its own. In each E-step, a data point gets the leave-one-out prediction from
    all *other* data points; new data get the ordinary prediction. The kernel matrix is represented as
    K = Phi Phi^T + tau^2 I, with the features Phi of an incomplete Cholesky factorisation: memory is N x rank.

    Parameters
    ----------
    kernel : {"composition", "linear", "rbf"} or a kernel of sklearn.gaussian_process, default="composition"
        "composition" is RBF + linear + bias + noise, weighted by parameters that are fitted. Noise is added to a kernel
        of your own if it has none.
    update_every : int, default=10
        Number of iterations between fits of the kernel's parameters, by maximising the marginal likelihood.
    rank : int or None, default=None
        Largest number of pivots; None is 128, or the number of data points if that is smaller.
    random_fraction : float, default=0.1
        Share of the candidates, at least one but never the only one, that is drawn at random from the other latents, so
        that all of them stay in play. 0 draws none.
    tolerance : float, default=1e-2
        Share of the trace of the kernel matrix that the pivots may leave unexplained.
    max_steps : int, default=20
        Largest number of gradient evaluations per fit of the kernel.
    first : {"random", "model-based"}, default="random"
        Candidates of the first iteration, before anything was learned: drawn at random, or chosen by the model's own
        selection function, for a fit that starts near its optimum.
    whole_images : bool, default=False
        For InvECA only: regress the presence of each component at each placement on the whole image, as in the paper,
        instead of one regression on windows that all placements share. It reproduces the training images, but
        generalises poorly to new ones.

    References
    ----------
    J. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> from multicause import LinCA
    >>> from multicause.datasets import make_bars
    >>> from multicause.selection import GPSelect
    >>> X = make_bars(n_samples=300, size=4, signed=True, random_state=0).X
    >>> linca = LinCA(8, n_candidates=4, max_active=3, selection=GPSelect(), max_iter=20, tol=0, random_state=0).fit(X)
    >>> linca.transform(X).shape
    (300, 8)
    """

    kernel: str | Kernel = "composition"
    update_every: int = 10
    rank: int | None = None
    random_fraction: float = 0.1
    tolerance: float = 1e-2
    max_steps: int = 20
    first: str = "random"
    whole_images: bool = False

    def __post_init__(self) -> None:
        vectors = isinstance(self.kernel, Kernel) and self.kernel.requires_vector_input
        if not (vectors or self.kernel in KERNELS):
            raise ValueError(
                f"The 'kernel' of GPSelect must be one of {KERNELS} or a kernel of sklearn.gaussian_process.kernels "
                f"that compares vectors. Got {self.kernel!r} instead."
            )
        for name in ("update_every", "max_steps"):
            _check_count(name, getattr(self, name))
        if self.rank is not None:
            _check_count("rank", self.rank)
        if self.first not in FIRST:
            raise ValueError(f"The 'first' of GPSelect must be one of {FIRST}. Got {self.first!r} instead.")
        if not isinstance(self.whole_images, bool):
            raise ValueError(f"The 'whole_images' of GPSelect must be a bool. Got {self.whole_images!r} instead.")
        for name in ("random_fraction", "tolerance"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0.0 <= float(value) <= 1.0:
                raise ValueError(f"The '{name}' of GPSelect must be between 0 and 1. Got {value!r} instead.")

    def first_kernel(self, n_features: int, moments: DataMoments | None = None) -> Kernel:
        """The kernel before it is fitted; its parameters do not depend on `moments` once theta is set."""
        if moments is None:
            moments = DataMoments(1.0, np.zeros(n_features), np.ones(n_features))
        if isinstance(self.kernel, str):
            return named_kernel(self.kernel, moments)
        return with_noise(self.kernel, moments.mean)

    def begin(
        self, executor: InProcess, chunks: Sequence[Chunk], moments: DataMoments, n_components: int, seed: int
    ) -> "GPSelection":
        """A selection that is to be learned jointly with a fit."""
        if self.whole_images:
            raise ValueError("GPSelect(whole_images=True) looks for places, which InvECA alone has. Leave it out.")
        return GPSelection(self, executor, chunks, moments, n_components, seed)


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, Integral) or value < 1:
        raise ValueError(f"The '{name}' of GPSelect must be an int in the range [1, inf). Got {value!r} instead.")


@dataclass(frozen=True)
class Features:
    """A chunk's rows as the regression sees them."""

    phi: np.ndarray  # (n, Q)
    leverage: np.ndarray | None = None  # (n,) e_n

    made_again: ClassVar[bool] = True  # from the kernel and the pivots


class Observed(NamedTuple):
    """The posterior means that the last E-step found in a chunk's rows."""

    targets: Any  # the kernel's

    def fits(self, n_rows: int, n_targets: int) -> bool:
        """Whether what a file holds may be given to kernels."""
        if not (isinstance(self.targets, tuple) and all(isinstance(part, np.ndarray) for part in self.targets)):
            return False
        starts, latents, values = self.targets
        if (starts.dtype, latents.dtype, values.dtype) != (np.int64, np.int32, np.float64) or latents.ndim != 1:
            return False
        ordered = starts.shape == (n_rows + 1,) and starts[0] == 0 and starts[-1] == len(latents) == values.size
        return bool(ordered and (np.diff(starts) >= 0).all() and are_indices(latents, n_targets))


class GPSelectionState(NamedTuple):
    """From which a selection that is being learned can go on."""

    seed: int
    iteration: int
    hyperparameters: dict[str, Any]  # of the kernel
    pivots: np.ndarray


class LearnedFunction(Selector):
    """A selection function that was learned: it scores the rows of any data, and the largest scores are chosen."""

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def scores(self, chunk: Chunk) -> np.ndarray:
        return self(chunk.rows())

    def choose(self, scores: np.ndarray, chunk: Chunk, n_candidates: int) -> np.ndarray:
        """The columns of each row's largest scores, (n, n_candidates)."""
        return numba_cpu.load("gp_select").pick(scores, n_candidates, 0, 0, 0)


@dataclass(frozen=True)
class SelectionFunction(LearnedFunction):
    """What was learned: f_h(y) = sum_q k(y, pivot_q) weight_qh, for data of any kind.

    Parameters
    ----------
    selection : GPSelect
        How it was learned.
    theta : ndarray
        Logarithms of the kernel's parameters.
    mean : ndarray of shape (D,)
        What stands for missing entries.
    pivots : ndarray of shape (Q, D)
        The data points that the kernel is compared with.
    weights : ndarray of shape (Q, H)
        How much each speaks for each latent.
    """

    selection: GPSelect
    theta: np.ndarray
    mean: np.ndarray
    pivots: np.ndarray
    weights: np.ndarray

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """f_h(y), (N, H): about the probability that latent h is active."""
        return self.kernel()(np.where(np.isnan(Y), self.mean, Y), self.pivots) @ self.weights

    def check(self, n_components: int, n_features: int) -> None:
        """Refuse what a file, or a hand, made of it: kernels index unchecked."""
        arrays = (self.mean, self.pivots, self.weights)
        shapes = tuple(np.shape(array) for array in arrays)
        n_pivots = np.shape(self.pivots)[0]
        if shapes != ((n_features,), (n_pivots, n_features), (n_pivots, n_components)) or n_pivots < 1:
            raise ValueError(f"The selection function's mean, pivots and weights have shapes {shapes}")
        check_function(self.selection, GPSelect, self.theta, *arrays)
        wanted = self.selection.first_kernel(n_features).theta.shape
        if self.theta.shape != wanted:
            raise ValueError(f"The selection function's theta has shape {self.theta.shape} instead of {wanted}")

    def kernel(self) -> Kernel:
        return self.selection.first_kernel(self.pivots.shape[1]).clone_with_theta(self.theta)


def check_function(selection: Any, kind: type, theta: Any, *arrays: Any) -> None:
    """What functions that were learned have in common."""
    if type(selection) is not kind:
        raise ValueError(f"The selection function's selection is no {kind.__name__}, but {type(selection).__name__}")
    for array in (theta, *arrays):
        if not isinstance(array, np.ndarray) or array.dtype != np.float64 or not (np.abs(array) <= LARGEST_VALUE).all():
            raise ValueError("The selection function's arrays must hold finite numbers of double precision")
    if np.abs(theta).max(initial=0.0) > LARGEST_LOGARITHM:
        raise ValueError(f"The selection function's theta must be at most {LARGEST_LOGARITHM:g} in magnitude")


class GPSelection(Selector):
    """The state of GP-select during a fit; what belongs to a data point is remembered by its chunk.

    With A = tau^2 I + sum_n phi_n phi_n^T the others
    predict of a row (f_n - e_n <s>_n) / (1 - e_n), where f_n = phi_n A^-1 sum_m phi_m^T <s>_m and its leverage is
    e_n = phi_n A^-1 phi_n^T. Candidates need the order of these numbers alone: the denominator is left out.
    """

    def __init__(
        self,
        selection: GPSelect,
        executor: InProcess,
        chunks: Sequence[Chunk],
        moments: DataMoments,
        n_components: int,
        seed: int,
    ):
        X = chunks[0].X
        self.selection, self.executor, self.chunks = selection, executor, chunks
        self.n_components, self.seed, self.iteration = n_components, seed, 0
        self.mean = moments.mean
        rows = np.flatnonzero(np.concatenate([chunk.row_weights() for chunk in chunks]) > 0.0)
        if selection.rank is not None and selection.rank > len(rows):
            raise ValueError(
                f"The 'rank' of GPSelect must be at most the number of data points, {len(rows)}. "
                f"Got {selection.rank} instead."
            )
        self.kernel = selection.first_kernel(X.shape[1], moments)
        self._rows = rows
        self._kernels = numba_cpu.load("gp_select")
        self.function: SelectionFunction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What choosing and observing need of it, wherever that is done."""
        return {name: value for name, value in vars(self).items() if name not in ("executor", "chunks", "_rows")}

    def candidates(self, chunk: Chunk, n_candidates: int, model_based: ModelBased) -> np.ndarray:
        """Candidates by what the other rows predict for each row, some drawn at random; the first as was asked for."""
        if self.function is None and self.selection.first == "random":
            scores = np.zeros((chunk.stop - chunk.start, self.n_components))
            everything = replace(self.selection, random_fraction=1.0)
            return with_random_ones(everything, scores, chunk, n_candidates, (self.seed, self.iteration))
        return super().candidates(chunk, n_candidates, model_based)

    def choose(self, scores: np.ndarray, chunk: Chunk, n_candidates: int) -> np.ndarray:
        """The columns of each row's largest scores, but for the share that is drawn at random."""
        return with_random_ones(self.selection, scores, chunk, n_candidates, (self.seed, self.iteration))

    def scores(self, chunk: Chunk) -> np.ndarray | None:
        """What the other rows predict of each row, but for a positive factor; None before anything was learned."""
        features, observed = chunk.recall(Features), chunk.recall(Observed)
        if self.function is None or features is None or observed is None:
            return None
        scores = features.phi @ self._coefficients
        self._kernels.leave_out(scores, observed.targets, features.leverage)
        return scores

    def observe(self, chunk: Chunk, means: Any) -> None:
        chunk.remember(Observed(self._kernels.sparse_targets(means, SMALLEST_TARGET)))

    def learn(self, iteration: int) -> SelectionFunction:
        """Take in the posterior means that the E-step left, and now and then the kernel's parameters."""
        due = iteration > 0 and iteration % self.selection.update_every == 0
        if due:
            self._fit_kernel()
        if due or self.function is None:
            self._place_pivots()
        return self._regress(iteration)

    def state(self) -> GPSelectionState:
        return GPSelectionState(self.seed, self.iteration, hyperparameters(self.kernel), self._pivots)

    def restore(self, state: GPSelectionState) -> SelectionFunction:
        self.kernel = with_hyperparameters(self.kernel, state.hyperparameters)
        self._pivots = state.pivots
        self._prepare_features()
        return self._regress(state.iteration - 1)

    def _regress(self, iteration: int) -> SelectionFunction:
        """The function that predicts what the E-step of this iteration found."""
        targets = self.executor.map_reduce(self._project, self.chunks, np.add)
        self._coefficients = linalg.cho_solve(self._normal, targets.T)  # (Q, H)
        weights = linalg.solve_triangular(self._factor, self._coefficients, lower=True, trans="T")
        self.iteration = iteration + 1
        self.function = self._made(weights)
        return self.function

    def _made(self, weights: np.ndarray) -> SelectionFunction:
        return SelectionFunction(self.selection, self.kernel.theta, self.mean, self._pivots, weights)

    def _fit_kernel(self) -> None:
        """On some of the rows, spread over all of them: their number bounds the cost."""
        rows = _spread(self._rows, _SAMPLE)
        found = self.executor.map(partial(targets_among, rows), self.chunks)
        S = np.zeros((len(rows), self.n_components))
        for i, latents, values in chain.from_iterable(found):
            S[i, latents] = values
        self.kernel = fit_kernel(self.kernel, self._inputs(rows), S, self.selection.max_steps)

    def _place_pivots(self) -> None:
        """Pivots for the present kernel, and what follows from them."""
        rank = min(self.selection.rank or MOST_PIVOTS, len(self._rows))
        pool = self._inputs(_spread(self._rows, max(_POOL, rank)))
        self._pivots = pool[pivots(self.kernel, pool, rank, self.selection.tolerance)]
        self._prepare_features()

    def _prepare_features(self) -> None:
        """The features of all rows, and A."""
        self._factor = pivot_factor(self.kernel, self._pivots)
        gram = self.executor.map_reduce(self._make_features, self.chunks, np.add)
        noise = noise_variance(self.kernel, self.mean)
        self._normal = linalg.cho_factor(gram + noise * np.eye(len(gram)), lower=True)
        for _ in self.executor.map(self._make_leverage, self.chunks):
            pass

    def _make_features(self, chunk: Chunk) -> np.ndarray:
        phi = features(self.kernel, self._filled(chunk.rows()), self._pivots)
        phi = np.ascontiguousarray(phi)
        chunk.remember(Features(phi))
        return (chunk.row_weights()[:, None] * phi).T @ phi

    def _make_leverage(self, chunk: Chunk) -> None:
        features = recalled(chunk, Features)
        half = linalg.solve_triangular(self._normal[0], features.phi.T, lower=True)
        leverage = chunk.row_weights() * np.einsum("qn,qn->n", half, half)
        chunk.remember(replace(features, leverage=leverage))

    def _project(self, chunk: Chunk) -> np.ndarray:
        targets, phi = recalled(chunk, Observed).targets, recalled(chunk, Features).phi
        return self._kernels.project(targets, phi, chunk.row_weights(), self.n_components)

    def _inputs(self, rows: np.ndarray) -> np.ndarray:
        return self._filled(np.asarray(self.chunks[0].X[rows], dtype=np.float64))

    def _filled(self, Y: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(Y), self.mean, Y)


def recalled(chunk: Chunk, kind: type) -> Any:
    """What a chunk is known to remember."""
    value = chunk.recall(kind)
    assert value is not None
    return value


def targets_among(rows: np.ndarray, chunk: Chunk) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """What is remembered of those rows that are the chunk's: their place among `rows`, the latents that matter, and
    their posterior means."""
    targets, found = recalled(chunk, Observed).targets, []
    for i in np.flatnonzero((rows >= chunk.start) & (rows < chunk.stop)):
        span = slice(*targets.starts[rows[i] - chunk.start : rows[i] - chunk.start + 2])
        found.append((int(i), targets.latents[span], targets.values[span]))
    return found


def with_random_ones(
    selection: GPSelect, scores: np.ndarray, chunk: Chunk, n_candidates: int, seeds: tuple[int, int]
) -> np.ndarray:
    """The columns of the largest scores, and random ones, which depend on the row and the seeds alone."""
    fraction = selection.random_fraction
    most = n_candidates if fraction == 1.0 else n_candidates - 1
    n_random = min(max(round(fraction * n_candidates), 1), most) if fraction > 0.0 else 0
    key = np.random.SeedSequence(seeds).generate_state(1, np.uint64)[0]
    return numba_cpu.load("gp_select").pick(scores, n_candidates, n_random, key, chunk.start)


def _spread(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the rows, evenly spread."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
