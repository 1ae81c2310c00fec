"""Data made white once and kept in blocks, in coordinates that are rotated as directions are found."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess
from multicause.learning.initialisation.moments import data_moments
from multicause.models.base import DataMoments
from multicause.models.product_of_experts import Whitening

BLOCK_BYTES = 4 * 2**20
_EPS = float(np.finfo(np.float64).eps)


def block_rows(n_dimensions: int) -> int:
    """Data points of a block: enough to make a matrix product worth its call, few enough to stay in a cache."""
    return max(BLOCK_BYTES // (8 * max(n_dimensions, 1)), 256)


class _Spectrum(NamedTuple):
    """The data's principal directions, in units of `scale`."""

    scale: np.ndarray  # (D,) 0 for a column that is constant
    values: np.ndarray  # (K,) variances, largest first
    vectors: np.ndarray  # (D, K)


def fit_whitening(
    moments: DataMoments, covariance: np.ndarray, n_dimensions: int | None, name: str
) -> tuple[Whitening, np.ndarray]:
    """The whitening of data with these moments, and an orthonormal frame (K, D) in which it starts to look.

    `covariance` is that of the data divided by `column_scale`. Directions without variance are dropped, and a warning
    says so; of the others the `n_dimensions` with the largest variance are kept.
    """
    scale = column_scale(moments, n_dimensions)
    spectrum = _spectrum(scale, covariance)
    rank, n_features = len(spectrum.values), len(scale)
    if rank == 0:
        raise ValueError(f"{name} needs data that vary, but all rows of X are equal. Check how X was read.")
    if n_dimensions is not None and n_dimensions > rank:
        raise ValueError(
            f"The 'n_dimensions' parameter of {name} must be at most the rank of X, which is {rank} for "
            f"{n_features} columns. Got {n_dimensions} instead."
        )
    if rank < n_features:
        _warn_of_rank(rank, moments, scale, name)
    values, vectors = spectrum.values[:n_dimensions], spectrum.vectors[:, :n_dimensions]
    root = np.sqrt(values)
    shrink = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    forward = (vectors / root).T * shrink
    backward = scale[:, None] * vectors * root
    return Whitening(moments.mean, np.ascontiguousarray(forward), np.ascontiguousarray(backward)), vectors.T


def as_it_is(n_features: int) -> Whitening:
    """The whitening of data that are white."""
    return Whitening(np.zeros(n_features), np.eye(n_features), np.eye(n_features))


def column_scale(moments: DataMoments, n_dimensions: int | None) -> np.ndarray:
    """Units in which a column's variance is measured: its own, or one for all where the largest variances are kept."""
    spread = np.sqrt(moments.variance)
    spread = np.where(spread > 8.0 * _EPS * np.abs(moments.mean), spread, 0.0)
    if n_dimensions is None:
        return spread
    return np.where(spread > 0.0, np.sqrt(np.mean(spread**2)), 0.0)


def _spectrum(scale: np.ndarray, covariance: np.ndarray) -> _Spectrum:
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > 10.0 * max(len(scale), 10) * _EPS * max(values[0], 0.0)
    return _Spectrum(scale, values[kept], vectors[:, kept])


def _warn_of_rank(rank: int, moments: DataMoments, scale: np.ndarray, name: str) -> None:
    constant = np.flatnonzero(scale == 0.0)
    named = f" (among them the constant columns {', '.join(map(str, constant[:5]))})" if len(constant) else ""
    warnings.warn(
        f"{name}: X varies in {rank} of {len(scale)} directions only{named}. The others are left out of the model, and "
        "densities are those within the space that the data span. More samples than columns, or fewer columns that "
        "follow from each other, would make X of full rank.",
        stacklevel=4,
    )


def second_moment(
    executor: InProcess, chunks: Sequence[Chunk], mean: np.ndarray, scale: np.ndarray, weight: float
) -> np.ndarray:
    """<(y - mean) (y - mean)^T> in units of `scale`, (D, D)."""
    shrink = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)

    def sum_of(chunk: Chunk) -> np.ndarray:
        rows = (chunk.rows() - mean) * shrink
        return (rows * chunk.row_weights()[:, None]).T @ rows

    return executor.map_reduce(sum_of, chunks, np.add) / weight


@dataclass
class WhiteData:
    """White data x as blocks (K, n), one column per point, in coordinates `rotation @ x`.

    The first `n_found` rows of the blocks are projections that have been found; the search goes on among the others,
    which are contiguous: each expert makes the next one cheaper.
    """

    blocks: list[np.ndarray]
    weights: np.ndarray  # (N,) they sum to one
    executor: InProcess
    rotation: np.ndarray  # (K, K) orthogonal
    total: float  # weight, before it was made one
    n_found: int = 0
    accepted: tuple[np.ndarray, ...] = ()  # unit vectors, or directions (J, K), that led to these coordinates

    @classmethod
    def of(cls, executor: InProcess, chunks: Sequence[Chunk], whitening: Whitening) -> "WhiteData":
        def white(chunk: Chunk) -> np.ndarray:
            return whitening.forward @ (chunk.rows() - whitening.mean).T

        weights = np.concatenate([chunk.row_weights() for chunk in chunks])
        blocks = list(executor.map(white, chunks))
        return cls(blocks, weights / weights.sum(), executor, np.eye(len(whitening.forward)), float(weights.sum()))

    @property
    def n_dimensions(self) -> int:
        return len(self.rotation)

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Cut an array (…, N) at the borders of the blocks."""
        borders = np.cumsum([block.shape[1] for block in self.blocks])[:-1]
        return np.split(values, borders, axis=-1)

    def thinned(self, n_points: int) -> "WhiteData | None":
        """About `n_points` of the data points, evenly spread; None where that would save little."""
        stride = len(self.weights) // n_points
        if stride < 4:
            return None
        blocks = [np.ascontiguousarray(block[:, ::stride]) for block in self.blocks]
        weights = np.concatenate([part[::stride] for part in self.split(self.weights)])
        if not np.count_nonzero(weights) > n_points // 2:
            return None
        return WhiteData(blocks, weights / weights.sum(), self.executor, self.rotation.copy(), self.total, self.n_found)

    def is_simplex(self) -> bool:
        """Whether the distinct data points are no more than the dimensions and one.

        White points of that kind are the corners of a simplex, x^T x' = -1 for any two: each is told from all others by
        one direction, and nothing can be learned from how directions go together.
        """
        first = self.blocks[0][:, int(np.argmax(self.weights[: self.blocks[0].shape[1]] > 0.0))]
        products = np.concatenate([first @ block for block in self.blocks])[self.weights > 0.0] + 1.0
        scale = float(first @ first) + 1.0
        return bool(np.all(np.minimum(np.abs(products), np.abs(products - scale)) < 1e-6 * scale))

    def second_moment(self) -> np.ndarray:
        """<x x^T> in the present coordinates, (K, K)."""
        pairs = list(zip(self.blocks, self.split(self.weights), strict=True))
        return self.executor.map_reduce(lambda pair: (pair[0] * pair[1]) @ pair[0].T, pairs, np.add)

    def mean_over_points(self, answer: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The weighted mean of what `answer` gives, (n, …), for x (n, K) in the present coordinates."""
        pairs = list(zip(self.blocks, self.split(self.weights), strict=True))
        return self.executor.map_reduce(lambda pair: pair[1] @ answer(pair[0].T), pairs, np.add)

    def transform(self, matrix: np.ndarray) -> None:
        """x -> matrix x, in place."""

        def replace(block: np.ndarray) -> None:
            block[:] = matrix @ block

        list(self.executor.map(replace, self.blocks))

    def project(self, w: np.ndarray) -> np.ndarray:
        """w^T x in the coordinates not found yet, (N,)."""
        return np.concatenate(list(self.executor.map(lambda block: w @ block[self.n_found :], self.blocks)))

    def pull(self, values: np.ndarray) -> np.ndarray:
        """<values x> in the coordinates not found yet, (K - n_found,)."""
        pairs = list(zip(self.blocks, self.split(self.weights * values), strict=True))
        return self.executor.map_reduce(lambda pair: pair[0][self.n_found :] @ pair[1], pairs, np.add)

    def remaining(self, x: np.ndarray) -> np.ndarray:
        """A vector of the white space in the coordinates not found yet."""
        return self.rotation[self.n_found :] @ x

    def accept(self, w: np.ndarray) -> np.ndarray:
        """Rotate the coordinates so that the next row is w^T x, and count it as found; gives w in the white space."""
        sign = 1.0 if w[0] >= 0.0 else -1.0
        v = w.copy()
        v[0] += sign  # reflects w to -sign e_1
        v /= np.linalg.norm(v)

        def reflect(block: np.ndarray) -> None:
            rest = block[self.n_found :]
            rest -= np.outer(2.0 * v, v @ rest)
            rest[0] *= -sign

        list(self.executor.map(reflect, self.blocks))
        reflect(self.rotation)
        self.n_found += 1
        self.accepted = (*self.accepted, w)
        return self.rotation[self.n_found - 1].copy()

    def turn_towards(self, directions: np.ndarray) -> None:
        """Turn the coordinates so that the first rows span these directions of the white space, (J, K), all found."""
        basis = np.linalg.qr(directions.T, mode="complete")[0].T
        self.transform(basis @ self.rotation.T)
        self.rotation[:] = basis
        self.n_found = len(directions)
        self.accepted = (*self.accepted, directions)


def make_white(
    executor: InProcess, chunks: Sequence[Chunk], n_dimensions: int | None, name: str
) -> tuple[WhiteData, Whitening, np.ndarray]:
    """White data, the whitening, and the frame that directions are drawn in.

    Rounding leaves data of widely different variances not quite white: what is left is taken out in a second round.
    """
    moments = data_moments(executor, chunks)
    scale = column_scale(moments, n_dimensions)
    covariance = second_moment(executor, chunks, moments.mean, scale, moments.weight)
    whitening, frame = fit_whitening(moments, covariance, n_dimensions, name)
    data = WhiteData.of(executor, chunks, whitening)
    left = data.second_moment()
    if np.max(np.abs(left - np.eye(len(left)))) > 1e-11:
        values, vectors = np.linalg.eigh(left)
        inverse_root, root = ((vectors * values**power) @ vectors.T for power in (-0.5, 0.5))
        data.transform(inverse_root)
        whitening = Whitening(whitening.mean, inverse_root @ whitening.forward, whitening.backward @ root)
    return data, whitening, frame
