"""GP-select for places: one regression that says of any window of an image which component is there.

f_h(w) ~ GP(0, k),   k(w, w') = mean over the pixels of kappa(w_d, w'_d)

All windows of all images share it, so that what is learned at one place serves at all. The kernel adds over the pixels:
hidden ones cost their own share and no more. Between knots kappa is interpolated: windows have finitely many features,
regression is exact with all of them, and prediction is one correlation of the image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments
from multicause.models.pixel_functions import N_KNOTS, PixelFunctions, between, hats, spread_knots, window_pixels
from multicause.selection.base import Selector
from multicause.selection.gaussian_process import (
    fit_kernel,
    hyperparameters,
    named_kernel,
    noise_variance,
    pivot_factor,
    pivots,
    with_hyperparameters,
    with_noise,
)
from multicause.selection.gp_select import (
    SMALLEST_TARGET,
    GPSelect,
    LearnedFunction,
    Observed,
    check_function,
    recalled,
    targets_among,
    with_random_ones,
)

_MOST_FEATURES = 4000  # of a window; components of many pixels get fewer knots
_GRAM_WORK = 1.5e11  # multiplications for the features' second moments: bounds the number of windows they are taken of
_AT_ONCE = 2048  # of these windows
_SAMPLE = 300  # windows whose marginal likelihood the kernel's parameters maximise
_POOL = 1024  # windows among which the pivots are looked for
_LIKELY = 0.5  # windows with a component at least as probable make up half of those
_SMALLEST = 1e-9  # share of the largest eigenvalue of kappa at the knots that is worth a feature


class PixelwiseKernel(Kernel):
    """The mean over the columns of a kernel of single values, interpolated between knots.

    Parameters
    ----------
    kappa : Kernel
        The kernel of single values.
    knots : ndarray of shape (K,)
        Evenly spaced values at which it is evaluated.
    """

    def __init__(self, kappa: Kernel, knots: np.ndarray):
        self.kappa, self.knots = kappa, knots

    def get_params(self, deep=True):
        params = {"kappa": self.kappa, "knots": self.knots}
        if deep:
            params |= {f"kappa__{name}": value for name, value in self.kappa.get_params().items()}
        return params

    @property
    def hyperparameters(self):
        return [Hyperparameter(f"kappa__{h.name}", *h[1:]) for h in self.kappa.hyperparameters]

    @property
    def theta(self):
        return self.kappa.theta

    @theta.setter
    def theta(self, theta):
        self.kappa.theta = theta

    @property
    def bounds(self):
        return self.kappa.bounds

    def __eq__(self, other):
        same = type(self) is type(other) and self.kappa == other.kappa
        return same and np.array_equal(self.knots, other.knots)

    def __call__(self, X, Y=None, eval_gradient=False):
        ours = hats(X, self.knots)  # (n, D, K)
        theirs = ours if Y is None else hats(Y, self.knots)
        if not eval_gradient:
            return self._compare(self.at_knots(), ours, theirs)
        values, gradients = self.kappa(self.knots[:, None], eval_gradient=True)
        slopes = [self._compare(gradient, ours, theirs) for gradient in np.moveaxis(gradients, 2, 0)]
        shape = (len(ours), len(theirs), 0)
        return self._compare(values, ours, theirs), np.stack(slopes, axis=2) if slopes else np.empty(shape)

    def diag(self, X):
        ours = hats(X, self.knots)
        return np.einsum("ndk,kl,ndl->n", ours, self.at_knots(), ours, optimize=True) / ours.shape[1]

    def is_stationary(self):
        return False

    def at_knots(self) -> np.ndarray:
        """kappa at the knots, (K, K)."""
        return self.kappa(self.knots[:, None])

    @staticmethod
    def _compare(values: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
        return (ours @ values).reshape(len(ours), -1) @ theirs.reshape(len(theirs), -1).T / ours.shape[1]


@dataclass(frozen=True)
class PlaceSelect:
    """How places are learned: GP-select for components of one shape in images of another.

    Parameters
    ----------
    gp : GPSelect
        Kernel (of pixels' values), updates, and rank; no rank means all features of a window.
    image_shape : (int, int, int)
        Height, width and channels.
    component_shape : (int, int)
        Height and width of a window.
    """

    gp: GPSelect
    image_shape: tuple[int, int, int]
    component_shape: tuple[int, int]

    @property
    def update_every(self) -> int:
        return self.gp.update_every

    def begin(
        self, executor: InProcess, chunks: Sequence[Chunk], moments: DataMoments, n_components: int, seed: int
    ) -> Selector:
        """A selection that is to be learned jointly with a fit."""
        return LearnedPlaces(self, executor, chunks, moments, n_components, seed)

    def first_kernel(self, moments: DataMoments, knots: np.ndarray) -> Kernel:
        """The kernel of windows before it is fitted."""
        if not isinstance(self.gp.kernel, str):
            return with_noise(PixelwiseKernel(self.gp.kernel, knots), np.zeros(1))
        variance = moments.variance.mean() + moments.mean.var()
        pooled = DataMoments(moments.weight, np.array([moments.mean.mean()]), np.array([variance]))
        kernel = named_kernel(self.gp.kernel, pooled)
        return PixelwiseKernel(kernel.k1, knots) + kernel.k2

    def images(self, rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(rows), *self.image_shape)


class PlacedMeans(NamedTuple):
    """How probable each of a chunk's candidate components is at each of its candidate placements."""

    components: np.ndarray  # (n, H')
    placements: np.ndarray  # (n, H', R)
    values: np.ndarray  # (n, H', R)


def sparse_places(means: PlacedMeans, n_placements: int) -> Any:
    """What the kernel takes: the pairs of component and placement that matter, in rising order, and their means."""
    n_rows = len(means.components)
    pairs = (means.components[:, :, None] * n_placements + means.placements).reshape(n_rows, -1)
    order = np.argsort(pairs, axis=1)
    pairs, values = (np.take_along_axis(a, order, axis=1) for a in (pairs, means.values.reshape(n_rows, -1)))
    kept = values > SMALLEST_TARGET
    starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return numba_cpu.load("gp_select").Targets(starts, pairs[kept].astype(np.int32), values[kept])


@dataclass(frozen=True)
class PlaceSelectionFunction(LearnedFunction):
    """What was learned: for each component a function of each of its pixels' values.

    Parameters
    ----------
    selection : PlaceSelect
        How it was learned.
    theta : ndarray
        Logarithms of the kernel's parameters.
    knots : ndarray of shape (K,)
        Values between which functions are linear.
    values : ndarray of shape (H, h, w, F, K)
        The functions at the knots.
    """

    selection: PlaceSelect
    theta: np.ndarray
    knots: np.ndarray
    values: np.ndarray

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """About the probability that component h is at placement x, (N, H, P)."""
        images = self.selection.images(np.asarray(Y, dtype=np.float64))
        return PixelFunctions(self.knots, self.values).scores(images)

    def check(self, n_components: int, n_features: int) -> None:
        """Refuse what a file, or a hand, made of it: kernels index unchecked."""
        check_function(self.selection, PlaceSelect, self.theta, self.knots, self.values)
        check_function(self.selection.gp, GPSelect, self.theta)
        height, width, channels = self.selection.image_shape
        wanted = (n_components, *self.selection.component_shape, channels, len(self.knots))
        if height * width * channels != n_features or self.values.shape != wanted or len(self.knots) < 2:
            raise ValueError(f"The selection function's values have shape {self.values.shape} instead of {wanted}")
        steps = np.diff(self.knots)
        if self.knots.ndim != 1 or not (steps > 0.0).all() or not np.allclose(steps, steps[0]):
            raise ValueError("The selection function's knots must rise evenly")
        self.kernel()  # which counts theta

    def kernel(self) -> Kernel:
        """The kernel of windows as it was fitted last."""
        standard = DataMoments(1.0, np.zeros(1), np.ones(1))  # of no importance once theta is set
        return self.selection.first_kernel(standard, self.knots).clone_with_theta(self.theta)


class LearnedPlacesState(NamedTuple):
    """From which a selection that is being learned can go on."""

    seed: int
    iteration: int
    hyperparameters: dict[str, Any]  # of the kernel
    smoother: np.ndarray  # G, of windows that were drawn when the kernel was fitted last


class LearnedPlaces(Selector):
    """The state of place selection during a fit.

    With the features psi(w) of a window, the hats of its pixels, and a basis R of functions in which the kernel is
    psi(w)^T R^T R psi(w'), regression is psi^T G B, with G = R^T (R S R^T + tau^2 I)^-1 R, the windows' second moments
    S = sum psi psi^T and B = sum psi <s>^T. B alone changes with each E-step, and only windows where something may be
    add to it. Of a window with a target <s> the others predict (f - e <s>) / (1 - e), where e = psi^T G psi.
    """

    def __init__(
        self,
        selection: PlaceSelect,
        executor: InProcess,
        chunks: Sequence[Chunk],
        moments: DataMoments,
        n_components: int,
        seed: int,
    ):
        self.selection, self.executor, self.chunks, self.seed, self.iteration = selection, executor, chunks, seed, 0
        self._starts, self._offsets = window_pixels(selection.image_shape, selection.component_shape)
        self.n_placements = len(self._starts)
        self.n_components = n_components
        n_values = len(self._offsets) * selection.image_shape[2]  # of a window
        self._rows = np.flatnonzero(np.concatenate([chunk.row_weights() for chunk in chunks]) > 0.0)
        ends = np.array([pair for pair in executor.map(_ends, chunks) if pair is not None])
        n_knots = int(np.clip(_MOST_FEATURES // n_values, 2, N_KNOTS))
        self.knots = spread_knots(ends[:, 0].min(), ends[:, 1].max(), n_knots)
        self.kernel = selection.first_kernel(moments, self.knots)
        self._kernels = numba_cpu.load("places")
        self._second_moments = self._sum_second_moments(n_values * n_knots)
        self.function: PlaceSelectionFunction | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What choosing and observing need of it, wherever that is done."""
        here = ("executor", "chunks", "_rows", "_second_moments")
        return {name: value for name, value in vars(self).items() if name not in here}

    def scores(self, chunk: Chunk) -> np.ndarray | None:
        """What the other windows predict of each window, (n, H, P); None before anything was learned."""
        if self.function is None:
            return None
        scores = self.function.scores(chunk)
        lower, fraction = self._between(chunk.rows())
        self._kernels.leave_out(
            scores,
            recalled(chunk, Observed).targets,
            lower,
            fraction,
            self._starts,
            self._offsets,
            self._smoother,
            len(self.knots),
        )
        return scores

    def choose(self, scores: np.ndarray, chunk: Chunk, n_candidates: int) -> np.ndarray:
        """The columns of each row's largest scores, but for the share that is drawn at random."""
        return with_random_ones(self.selection.gp, scores, chunk, n_candidates, (self.seed, self.iteration))

    def observe(self, chunk: Chunk, means: PlacedMeans) -> None:
        chunk.remember(Observed(sparse_places(means, self.n_placements)))

    def learn(self, iteration: int) -> PlaceSelectionFunction:
        """Take in where the E-step saw something, and now and then the kernel's parameters."""
        due = iteration > 0 and iteration % self.selection.update_every == 0
        if due or self.function is None:
            places = self._draw_places(max(_SAMPLE, _POOL), iteration)
            if due:
                self._fit_kernel(places)
            self._smoother = self._smooth(places)
        return self._regress(iteration)

    def state(self) -> LearnedPlacesState:
        return LearnedPlacesState(self.seed, self.iteration, hyperparameters(self.kernel), self._smoother)

    def restore(self, state: LearnedPlacesState) -> PlaceSelectionFunction:
        self.kernel = with_hyperparameters(self.kernel, state.hyperparameters)
        self._smoother = state.smoother
        return self._regress(state.iteration - 1)

    def _regress(self, iteration: int) -> PlaceSelectionFunction:
        """The function that predicts what the E-step of this iteration found."""
        B = self.executor.map_reduce(self._project, self.chunks, np.add)
        values = (self._smoother @ B.reshape(self.n_components, -1).T).T
        shape = (self.n_components, *self.selection.component_shape, self.selection.image_shape[2], len(self.knots))
        self.iteration = iteration + 1
        self.function = PlaceSelectionFunction(self.selection, self.kernel.theta, self.knots, values.reshape(shape))
        return self.function

    def _sum_second_moments(self, n_features: int) -> np.ndarray:
        """S, of all windows, or of as many drawn at random as the work allows."""
        n_windows, n_drawn = len(self._rows) * self.n_placements, int(_GRAM_WORK / n_features**2)
        weights = np.concatenate([chunk.row_weights() for chunk in self.chunks])
        windows = np.arange(n_windows)
        if n_drawn < n_windows:
            windows = np.random.default_rng(self.seed).integers(n_windows, size=n_drawn)
        rows, placements = self._rows[windows // self.n_placements], windows % self.n_placements
        parts = np.array_split(np.stack([rows, placements]), -(-len(windows) // _AT_ONCE), axis=1)
        total = self.executor.map_reduce(partial(self._second_moments_of, weights), parts, np.add)
        return total.astype(np.float64) * (weights.sum() * self.n_placements / weights[rows].sum())

    def _second_moments_of(self, weights: np.ndarray, windows: np.ndarray) -> np.ndarray:
        rows, placements = windows
        psi = hats(self._windows_at(rows, placements), self.knots).reshape(len(rows), -1)
        psi = (psi * np.sqrt(weights[rows])[:, None]).astype(np.float32)
        return psi.T @ psi

    def _draw_places(self, n_places: int, iteration: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and placements of windows, in random order: half of them where something is, if there are as many."""
        rng = np.random.default_rng([self.seed % 2**63, iteration])
        found = list(self.executor.map(self._likely_places, self.chunks))
        rows, placements = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        kept = rng.permutation(len(rows))[: n_places // 2]
        n_anywhere = n_places - len(kept)
        rows = np.concatenate([rows[kept], rng.choice(self._rows, n_anywhere)])
        placements = np.concatenate([placements[kept], rng.integers(self.n_placements, size=n_anywhere)])
        order = rng.permutation(n_places)
        return rows[order], placements[order]

    def _likely_places(self, chunk: Chunk) -> tuple[np.ndarray, np.ndarray]:
        targets = recalled(chunk, Observed).targets
        rows = chunk.start + np.repeat(np.arange(chunk.stop - chunk.start), np.diff(targets.starts))
        likely = targets.values > _LIKELY
        return rows[likely], targets.latents[likely] % self.n_placements

    def _fit_kernel(self, places: tuple[np.ndarray, np.ndarray]) -> None:
        rows, placements = (a[:_SAMPLE] for a in places)
        S = np.zeros((len(rows), self.n_components))
        for i, latents, values in chain.from_iterable(self.executor.map(partial(targets_among, rows), self.chunks)):
            component, placement = np.divmod(latents, self.n_placements)
            here = placement == placements[i]
            S[i, component[here]] = values[here]
        self.kernel = fit_kernel(self.kernel, self._windows_at(rows, placements), S, self.selection.gp.max_steps)

    def _smooth(self, places: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """G, in a basis of all functions, or of those of some pivots."""
        pixelwise, (h, w), channels = self.kernel.k1, self.selection.component_shape, self.selection.image_shape[2]
        values, n_pixels = pixelwise.at_knots(), h * w * channels
        if self.selection.gp.rank is None:
            scale, vectors = linalg.eigh(values / n_pixels)
            kept = scale > _SMALLEST * scale[-1]
            basis = np.kron(np.eye(n_pixels), (vectors[:, kept] * np.sqrt(scale[kept])).T)
        else:
            pool = self._windows_at(*(a[:_POOL] for a in places))
            rank = min(self.selection.gp.rank, len(pool))
            chosen = pool[pivots(self.kernel, pool, rank, self.selection.gp.tolerance)]
            reach = (hats(chosen, self.knots) @ values).reshape(len(chosen), -1) / n_pixels
            basis = linalg.solve_triangular(pivot_factor(self.kernel, chosen), reach, lower=True)
        gram = basis @ self._second_moments @ basis.T
        noise = noise_variance(self.kernel, np.zeros(n_pixels))
        return basis.T @ linalg.solve(gram + noise * np.eye(len(gram)), basis, assume_a="pos")

    def _project(self, chunk: Chunk) -> np.ndarray:
        """B of a chunk, (H, pixels, F, K)."""
        lower, fraction = self._between(chunk.rows())
        shape = (self.n_components, len(self._offsets), lower.shape[2], len(self.knots))
        total, weights = np.zeros(shape), chunk.row_weights()
        self._kernels.project(
            recalled(chunk, Observed).targets, lower, fraction, self._starts, self._offsets, weights, total
        )
        return total

    def _between(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return between(rows.reshape(len(rows), -1, self.selection.image_shape[2]), self.knots)

    def _windows_at(self, rows: np.ndarray, placements: np.ndarray) -> np.ndarray:
        """The windows' values, (n, h * w * F)."""
        channels = self.selection.image_shape[2]
        pixels = self._starts[placements][:, None] + self._offsets
        columns = (pixels[:, :, None] * channels + np.arange(channels)).reshape(len(rows), -1)
        return np.take_along_axis(np.asarray(self.chunks[0].X[rows], dtype=np.float64), columns, axis=1)


def _ends(chunk: Chunk) -> tuple[float, float] | None:
    """The smallest and the largest value of the rows that have a weight, if there are any."""
    rows = chunk.rows()[chunk.row_weights() > 0.0]
    return (float(rows.min()), float(rows.max())) if rows.size else None
