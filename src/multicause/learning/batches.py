"""Products of experts from one batch of data after the other."""

from typing import NamedTuple

import numpy as np

from multicause.learning.white_data import column_scale, fit_whitening
from multicause.models.base import DataMoments
from multicause.models.experts import terms_of_all
from multicause.models.product_of_experts import ProductParams, Whitening, whiten

REMEMBERED = 10_000  # projections that the experts' shapes are fitted to: the latest
EAGERNESS = 2.0  # of the share 1/t that a batch has in all data: twice forgets a bad start sooner
LONGEST = 0.5  # of a row's step; directions have length one


class Seen(NamedTuple):
    """The moments of all data points so far."""

    weight: float
    mean: np.ndarray  # (D,)
    covariance: np.ndarray  # (D, D)

    def joined(self, other: "Seen") -> "Seen":
        """Of both sets together (Chan, Golub and LeVeque's update)."""
        weight = self.weight + other.weight
        share = other.weight / weight
        shift = other.mean - self.mean
        covariance = (1.0 - share) * self.covariance + share * other.covariance
        covariance += share * (1.0 - share) * np.outer(shift, shift)
        return Seen(weight, self.mean + share * shift, covariance)

    def whitening(self, n_dimensions: int | None, who: str) -> Whitening:
        moments = DataMoments(self.weight, self.mean, np.diag(self.covariance).copy())
        scale = column_scale(moments, n_dimensions)
        shrink = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        return fit_whitening(moments, shrink[:, None] * self.covariance * shrink, n_dimensions, who)[0]


def moments_of(Y: np.ndarray, weights: np.ndarray) -> Seen:
    total = float(weights.sum())
    mean = weights @ Y / total
    centred = Y - mean
    return Seen(total, mean, (centred * weights[:, None]).T @ centred / total)


def learn_batch(
    params: ProductParams, whitening: Whitening, Y: np.ndarray, weights: np.ndarray, share: float, latest: np.ndarray
) -> tuple[ProductParams, np.ndarray]:
    """The model after a batch that makes up `share` of all data, and the latest projections."""
    params = carried_over(params, whitening)
    X = whiten(whitening, Y)
    params = batch_step(params, X, weights, share)
    latest = np.hstack([latest, params.directions @ X.T])[:, -REMEMBERED:]
    equal = np.full(latest.shape[1], 1.0 / latest.shape[1])
    experts = tuple(expert.fit(z, equal, 1) for expert, z in zip(params.experts, latest, strict=True))
    return params._replace(experts=experts), latest


def carried_over(params: ProductParams, whitening: Whitening) -> ProductParams:
    """The same projections of the data under another whitening, made orthonormal again."""
    components = params.directions @ params.whitening.forward
    return ProductParams(whitening, orthonormal(components @ whitening.backward), params.experts)


def orthonormal(W: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to those of W."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return left @ right


def batch_step(params: ProductParams, X: np.ndarray, weights: np.ndarray, share: float) -> ProductParams:
    """Orthonormal directions moved by `share` of a Newton step towards what the white batch X (N, K) asks for.

    The Hessian is that of independent projections, as in Picard-O: pairs of rows turn against each other with the
    curvature (h_i + h_j) / 2, and row i turns out of the span with the curvature h_i = <E''_i> - <E'_i z_i>.
    """
    W = params.directions
    Z = W @ X.T
    terms = terms_of_all(params.experts, Z)
    weights = weights / weights.sum()
    slope = (terms.derivative * weights) @ X  # (J, K)
    within = slope @ W.T
    curvature = terms.second_derivative @ weights - np.diag(within)
    floor = 0.1 * np.abs(terms.second_derivative @ weights) + 0.01
    pairs = np.maximum(0.5 * (curvature[:, None] + curvature), floor[:, None])
    turn = 0.5 * (within - within.T) / np.maximum(pairs, pairs.T)
    out = (slope - within @ W) / np.maximum(curvature, floor)[:, None]
    step = min(1.0, share * EAGERNESS) * (turn @ W + out)
    lengths = np.linalg.norm(step, axis=1, keepdims=True)
    step *= np.minimum(1.0, LONGEST / np.maximum(lengths, 1e-300))
    return params._replace(directions=orthonormal(W - step))
