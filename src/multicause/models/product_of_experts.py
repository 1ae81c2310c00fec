"""The under-complete product of experts: a few projections with densities of their own, the rest Gaussian."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg, optimize

from multicause.models.experts import Expert, terms_of_all
from multicause.models.student_t_fit import LOG_2PI

STARTS = 4  # of the search for missing entries
Product = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of matrices


class Whitening(NamedTuple):
    """x = forward (y - mean): white data of K dimensions; y = mean + backward x (UPoE eq. 1-2)."""

    mean: np.ndarray  # (D,)
    forward: np.ndarray  # (K, D)
    backward: np.ndarray  # (D, K)

    @property
    def log_determinant(self) -> float:
        """log |dx/dy| within the affine space of the directions kept: the points mean + backward x.

        With the longest rows first, and columns exchanged, rows of widely different units do not drown each other.
        """
        longest_first = np.argsort(-np.linalg.norm(self.backward, axis=1))
        triangle = linalg.qr(self.backward[longest_first], mode="r", pivoting=True)[0]
        return -float(np.log(np.abs(np.diag(triangle))).sum())


class ProductParams(NamedTuple):
    """Directions W in the white space, of any length, and the expert of each."""

    whitening: Whitening
    directions: np.ndarray  # (J, K)
    experts: tuple[Expert, ...]


class Likelihood(NamedTuple):
    """A mean log-likelihood and its gradient in the directions."""

    value: float
    gradient: np.ndarray  # (J, K)


def whiten(whitening: Whitening, Y: np.ndarray, product: Product = np.matmul) -> np.ndarray:
    """(N, K)."""
    return product(Y - whitening.mean, whitening.forward.T)


def project(params: ProductParams, Y: np.ndarray, product: Product = np.matmul) -> np.ndarray:
    """z = W x, (N, J)."""
    return product(Y - params.whitening.mean, (params.directions @ params.whitening.forward).T)


def log_density(params: ProductParams, Y: np.ndarray, product: Product = np.matmul) -> np.ndarray:
    """log p(y) of the original data, (N,)                                                              [eq. 16]

        p(x) = prod_i N(v_i^T x; 0, 1) prod_j T_j(w_j^T x) |W W^T|^(1/2),   p(y) = p(x) |dx/dy|

    with V an orthonormal basis of the directions orthogonal to W. Directions that the whitening leaves out do not
    count.
    """
    X = whiten(params.whitening, Y, product)
    return white_log_density(params.directions, params.experts, X, product) + params.whitening.log_determinant


def white_log_density(
    directions: np.ndarray, experts: tuple[Expert, ...], X: np.ndarray, product: Product = np.matmul
) -> np.ndarray:
    """log p(x) of white data X (N, K)."""
    Z = product(X, directions.T)
    factor = np.linalg.cholesky(directions @ directions.T)
    inside = product(Z, np.linalg.inv(factor).T)  # orthonormal coordinates within the span of W
    outside = np.einsum("nk,nk->n", X, X) - np.einsum("nj,nj->n", inside, inside)  # |V x|^2
    n_gaussian = X.shape[1] - len(directions)
    gaussian = -0.5 * np.maximum(outside, 0.0) * (n_gaussian > 0) - 0.5 * n_gaussian * LOG_2PI
    said = sum((expert.log_density(z) for expert, z in zip(experts, Z.T, strict=True)), np.zeros(len(X)))
    return gaussian + said + np.log(np.diag(factor)).sum()


def likelihood(directions: np.ndarray, experts: tuple[Expert, ...], X: np.ndarray) -> Likelihood:
    """Mean log p(x) of the data X (N, K), and its derivative in W                                      [eq. 19]

        dL/dW = W^#T - <E'(z) x^T> + (W W^T)^-1 W C (I - P)

    P projects on the span of W. The last term, of C = <x x^T>, vanishes for white data, for which the paper has it.
    """
    value = float(white_log_density(directions, experts, X).mean())
    gram = directions @ directions.T
    pseudo = np.linalg.solve(gram, directions)  # W^#T
    second = X.T @ X / len(X)
    rest = np.eye(X.shape[1]) - directions.T @ pseudo
    slopes = terms_of_all(experts, directions @ X.T).derivative
    return Likelihood(value, pseudo - slopes @ X / len(X) + pseudo @ second @ rest)


def sample(params: ProductParams, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Data points and their projections: x = W^# z + (I - P) noise                                     [Appendix A]"""
    W = params.directions
    Z = np.array([expert.sample(n_samples, rng) for expert in params.experts]).reshape(len(W), n_samples)
    noise = rng.standard_normal((n_samples, W.shape[1]))
    pseudo = np.linalg.solve(W @ W.T, W)  # (J, K)
    X = noise + (Z.T - noise @ W.T) @ pseudo
    return params.whitening.mean + X @ params.whitening.backward.T, Z.T


def expected_data(params: ProductParams, Z: np.ndarray) -> np.ndarray:
    """E[y | z] of given projections (N, J): the Gaussian directions are zero on average."""
    return params.whitening.mean + Z @ mixing(params).T


def completed(params: ProductParams, y: np.ndarray) -> np.ndarray:
    """A data point (D,) whose missing entries, NaN, have their most probable values given the others.

    The density of heavy-tailed experts has many modes: the search starts at the values of a Gaussian, and where one of
    the projections vanishes nearby, in coordinates in which the Gaussian is white; the best of a few is taken.
    Directions that the whitening leaves out are taken to vary as little as the least of those kept.
    """
    whitening, missing = params.whitening, np.isnan(y)
    known = np.where(missing, 0.0, y - whitening.mean)
    inside, slope = whitening.forward @ known, whitening.forward[:, missing]  # x = inside + slope u
    left_out = np.eye(len(y)) - whitening.backward @ whitening.forward
    left_out /= np.sqrt(np.square(whitening.backward).sum(axis=0).min())
    outside, drift = left_out @ known, left_out[:, missing]
    rows = np.vstack([slope, drift])
    start = np.linalg.lstsq(rows, -np.concatenate([inside, outside]), rcond=None)[0]
    values, vectors = np.linalg.eigh(rows.T @ rows)
    unit = vectors / np.sqrt(np.maximum(values, 1e-12 * values.max()))  # u = start + unit v
    gram = np.linalg.solve(params.directions @ params.directions.T, params.directions)

    def loss(v: np.ndarray) -> tuple[float, np.ndarray]:
        u = start + unit @ v
        x, r = inside + slope @ u, outside + drift @ u
        z = params.directions @ x
        terms = terms_of_all(params.experts, z[:, None])
        rest = x - gram.T @ z  # of the directions without an expert
        gradient = slope.T @ (params.directions.T @ terms.derivative[:, 0] + rest) + drift.T @ r
        return float(terms.energy.sum() + 0.5 * (rest @ rest + r @ r)), unit.T @ gradient

    steps = params.directions @ slope @ unit  # (J, m) by which the projections change
    squares = np.maximum(np.square(steps).sum(axis=1), 1e-300)
    vanishing = -steps * (params.directions @ (inside + slope @ start) / squares)[:, None]
    starts = sorted([np.zeros(len(start)), *vanishing], key=lambda v: loss(v)[0])[:STARTS]
    found = min((optimize.minimize(loss, v, jac=True, method="L-BFGS-B") for v in starts), key=lambda each: each.fun)
    filled = y.copy()
    filled[missing] = whitening.mean[missing] + start + unit @ found.x
    return filled


def projection_indices(directions: np.ndarray, experts: tuple[Expert, ...], X: np.ndarray) -> np.ndarray:
    """Q_j of each data point, (N, J): their means are the changes of the mean negative log-likelihood when expert j
    joins those before it                                                                                [eq. 26]

        Q = E(z_j) - (u_j^T x)^2 / 2 + log Z_j - log |w_j - P w_j| - log(2 pi) / 2

    u_j is the unit vector along the part of w_j orthogonal to the earlier directions: for orthonormal directions w_j
    itself, and <Q> is the paper's.
    """
    factor = np.linalg.cholesky(directions @ directions.T)
    Z = X @ directions.T
    orthogonal = Z @ np.linalg.inv(factor).T
    said = np.array([expert.log_density(z) for expert, z in zip(experts, Z.T, strict=True)]).reshape(Z.T.shape).T
    return -said - 0.5 * orthogonal**2 - 0.5 * LOG_2PI - np.log(np.diag(factor))


def mixing(params: ProductParams) -> np.ndarray:
    """What each projection adds to the data, (D, J)."""
    W = params.directions
    return params.whitening.backward @ np.linalg.solve(W @ W.T, W).T


def normalised(params: ProductParams) -> ProductParams:
    """The same density with directions of length one whose largest component, in the data's space, is positive.

    Experts that cannot be rescaled keep their directions.
    """
    directions, experts = params.directions.copy(), list(params.experts)
    components = directions @ params.whitening.forward
    for j, expert in enumerate(experts):
        sign = 1.0 if components[j, np.argmax(np.abs(components[j]))] >= 0.0 else -1.0
        factor = sign / float(np.linalg.norm(directions[j]))
        scaled = expert.rescaled(factor)
        if scaled is not None and factor != 1.0:
            directions[j], experts[j] = factor * directions[j], scaled
    return params._replace(directions=directions, experts=tuple(experts))
