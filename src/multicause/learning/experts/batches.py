"""Products of experts from one batch of data after the other."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from multicause.learning.experts.white_data import column_scale, fit_whitening
from multicause.models.base import DataMoments
from multicause.models.experts import terms_of_all
from multicause.models.product_of_experts import ProductParams, Whitening, normalised, projection_indices, whiten

REMEMBERED = 10_000  # projections that the experts' shapes are fitted to: the latest
EAGERNESS = 2.0  # of the share 1/t that a batch has in all data: twice forgets a bad start sooner
_VANISHED = 1e-10  # of the longest: a direction that is lost in rounding errors
LONGEST = 0.5  # of a row's step; directions have length one


class RunningMoments(NamedTuple):
    """The moments of all data points so far."""

    weight: float
    mean: np.ndarray  # (D,)
    covariance: np.ndarray  # (D, D)

    def joined(self, other: "RunningMoments") -> "RunningMoments":
        """Of both sets together (Chan, Golub and LeVeque's update)."""
        weight = self.weight + other.weight
        share = other.weight / weight
        shift = other.mean - self.mean
        covariance = (1.0 - share) * self.covariance + share * other.covariance
        covariance += share * (1.0 - share) * np.outer(shift, shift)
        return RunningMoments(weight, self.mean + share * shift, covariance)

    def whitening(self, n_dimensions: int | None, name: str) -> Whitening:
        moments = DataMoments(self.weight, self.mean, np.diag(self.covariance).copy())
        scale = column_scale(moments, n_dimensions)
        shrink = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
        return fit_whitening(moments, shrink[:, None] * self.covariance * shrink, n_dimensions, name)[0]


def moments_of(Y: np.ndarray, weights: np.ndarray) -> RunningMoments:
    total = float(weights.sum())
    mean = weights @ Y / total
    centred = Y - mean
    return RunningMoments(total, mean, (centred * weights[:, None]).T @ centred / total)


class Batch(NamedTuple):
    """The model after a batch."""

    params: ProductParams
    seen: RunningMoments  # of all data, this batch included
    latest: np.ndarray  # (J, n) projections
    projection_indices: np.ndarray  # (J,) of the batch


def learn_batch(
    params: ProductParams,
    seen: RunningMoments,
    Y: np.ndarray,
    weights: np.ndarray,
    latest: np.ndarray,
    renew: Callable[[RunningMoments, Whitening], Whitening],
) -> Batch:
    """Learn from a batch, given the moments of earlier data; `renew` adapts the whitening to all data."""
    new = moments_of(Y, weights)
    seen = seen.joined(new)
    whitening = renew(seen, params.whitening)
    X = whiten(whitening, Y)
    params = batch_step(carried_over(params, whitening), X, weights, new.weight / seen.weight)
    latest = np.hstack([latest, params.directions @ X.T])[:, -REMEMBERED:]
    equal = np.full(latest.shape[1], 1.0 / latest.shape[1])
    experts = tuple(expert.fit(z, equal, 1) for expert, z in zip(params.experts, latest, strict=True))
    params = normalised(params._replace(experts=experts))
    indices = weights @ projection_indices(params.directions, params.experts, X) / new.weight
    return Batch(params, seen, latest, indices)


def carried_over(params: ProductParams, whitening: Whitening) -> ProductParams:
    """The same projections of the data under another whitening, made orthonormal again."""
    components = params.directions @ params.whitening.forward @ whitening.backward
    lengths = np.linalg.svd(components, compute_uv=False)
    if len(lengths) < len(components) or (lengths < _VANISHED * lengths.max(initial=0.0)).any():
        raise ValueError(
            "Beside this batch the data seen before hardly vary: the projections learned from them cannot be told "
            "apart any more. Scale batches alike, remove outliers, or begin anew with fit."
        )
    return ProductParams(whitening, orthonormal(components), params.experts)


def orthonormal(W: np.ndarray) -> np.ndarray:
    """The orthonormal rows nearest to those of W."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return left @ right


def batch_step(params: ProductParams, X: np.ndarray, weights: np.ndarray, share: float) -> ProductParams:
    """Orthonormal directions moved by `share` of a Newton step towards what the white batch X (N, K) asks for.

    The Hessian assumes independent projections, as in Picard-O: pairs of rows rotate against each other with the
    curvature (h_i + h_j) / 2, and row i rotates out of the span with the curvature h_i = <E''_i> - <E'_i z_i>.
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
    rotation = 0.5 * (within - within.T) / np.maximum(pairs, pairs.T)
    out = (slope - within @ W) / np.maximum(curvature, floor)[:, None]
    step = min(1.0, share * EAGERNESS) * (rotation @ W + out)
    lengths = np.linalg.norm(step, axis=1, keepdims=True)
    step *= np.minimum(1.0, LONGEST / np.maximum(lengths, 1e-300))
    return params._replace(directions=orthonormal(W - step))
