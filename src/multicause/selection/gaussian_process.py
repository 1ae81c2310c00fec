"""Gaussian-process regression of all latents' posterior means on the data: one kernel, one matrix, H targets.

s_h ~ N(0, K),   K = k(Y, Y) + tau^2 I       for every latent h, given its <s_h> as a vector over the data points
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Kernel, WhiteKernel

from multicause.models.base import DataMoments

KERNELS = ("composition", "linear", "rbf")
_LEAST_NOISE = 1e-3  # of a kernel that brings none: targets lie between 0 and 1
_JITTER = 1e-10  # of the largest variance, so that a matrix of pivots has its Cholesky factor
_LEAST_SPREAD = 1e-250  # of data that do not vary: what is divided by it must not overflow


class MarginalLikelihood(NamedTuple):
    """log p(S | Y) of all targets together, and its gradient in the logarithms of the kernel's parameters."""

    value: float
    gradient: np.ndarray


def named_kernel(name: str, moments: DataMoments) -> Kernel:
    """A kernel whose first length and variances suit the data; "composition" is RBF + linear + bias + noise.

    Targets lie between 0 and 1, and so do the parts' first variances.
    """
    spread = max(float(moments.variance.sum()), _LEAST_SPREAD)
    square = spread + float(np.square(moments.mean).sum())
    length = np.sqrt(2.0 * spread)  # the root mean square distance of two data points
    smooth = ConstantKernel(0.1) * RBF(length, (1e-2 * length, 1e2 * length))
    linear = ConstantKernel(0.1 / square, (1e-6 / square, 1e3 / square)) * DotProduct(0.0, "fixed")
    noise = WhiteKernel(0.1, (1e-4, 1e1))
    parts = {"rbf": smooth, "linear": linear, "composition": smooth + linear + ConstantKernel(0.1)}
    return parts[name] + noise


def with_noise(kernel: Kernel, row: np.ndarray) -> Kernel:
    """The kernel, with noise of its own if it has none: <s> is no smooth function of y to the last digit."""
    return kernel if noise_variance(kernel, row) > 0.0 else kernel + WhiteKernel(_LEAST_NOISE, (1e-4, 1e1))


def noise_variance(kernel: Kernel, row: np.ndarray) -> float:
    """tau^2: what the kernel adds where a point meets itself, but not where it meets its twin."""
    point = row.reshape(1, -1)
    difference = float(kernel.diag(point)[0] - kernel(point, point.copy())[0, 0])
    return difference if difference > 1e-12 * float(kernel.diag(point)[0]) else 0.0


def hyperparameters(kernel: Kernel) -> dict[str, Any]:
    """The kernel's free parameters by name: to the bit, which their logarithms `theta` would not be."""
    values = kernel.get_params()
    return {h.name: values[h.name] for h in kernel.hyperparameters if not h.fixed}


def with_hyperparameters(kernel: Kernel, values: dict[str, Any]) -> Kernel:
    """A copy of the kernel with these parameters."""
    return clone(kernel).set_params(**values)


def leave_one_out(K: np.ndarray, S: np.ndarray) -> np.ndarray:
    """What all other points predict of each: <s> - (K^-1 <s>) / diag(K^-1), (N, H) (GPS eq. 4.1)."""
    inverse = linalg.inv(K)
    return S - (inverse @ S) / np.diag(inverse)[:, None]


def log_marginal_likelihood(kernel: Kernel, Y: np.ndarray, S: np.ndarray) -> MarginalLikelihood:
    """sum_h log N(s_h; 0, K), and its derivatives tr[(a a^T - H K^-1) dK] / 2 with a = K^-1 S."""
    K, dK = kernel(Y, eval_gradient=True)
    factor = linalg.cho_factor(K + _JITTER * K.diagonal().max() * np.eye(len(K)), lower=True)
    a = linalg.cho_solve(factor, S)
    log_determinant = 2.0 * np.log(np.diag(factor[0])).sum()
    value = -0.5 * (np.vdot(S, a) + S.shape[1] * (log_determinant + len(Y) * np.log(2.0 * np.pi)))
    inner = a @ a.T - S.shape[1] * linalg.cho_solve(factor, np.eye(len(K)))
    return MarginalLikelihood(float(value), 0.5 * np.einsum("ij,ijp->p", inner, dK))


def fit_kernel(kernel: Kernel, Y: np.ndarray, S: np.ndarray, n_steps: int) -> Kernel:
    """The kernel whose parameters have the largest marginal likelihood that L-BFGS finds with `n_steps` gradients."""
    if kernel.n_dims == 0:
        return kernel
    scale = S.size  # so that the optimiser's tolerances are per target

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        found = log_marginal_likelihood(kernel.clone_with_theta(theta), Y, S)
        return -found.value / scale, -found.gradient / scale

    start = np.clip(kernel.theta, *kernel.bounds.T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = optimize.minimize(loss, start, jac=True, bounds=kernel.bounds, options={"maxfun": n_steps})
    better = np.isfinite(found.fun) and found.fun <= loss(start)[0]
    return kernel.clone_with_theta(found.x) if better else kernel


def pivots(kernel: Kernel, Y: np.ndarray, rank: int, tolerance: float) -> np.ndarray:
    """Rows of Y that explain the others: the pivots of an incomplete Cholesky factorisation of k(Y, Y).

    Each is the row with the largest variance left; they end at `rank`, or where the variance left of all rows together
    is `tolerance` of what it was.
    """
    residual = kernel.diag(Y) - noise_variance(kernel, Y[0])
    trace, largest = residual.sum(), residual.max()
    factor = np.zeros((rank, len(Y)))
    chosen: list[int] = []
    while len(chosen) < rank:
        i = int(np.argmax(residual))
        if residual.sum() <= tolerance * trace or residual[i] <= 100.0 * _JITTER * largest:
            break
        q = len(chosen)
        column = kernel(Y[i : i + 1], Y)[0] - factor[:q, i] @ factor[:q]
        factor[q] = column / np.sqrt(residual[i])
        residual = np.maximum(residual - factor[q] ** 2, 0.0)
        residual[i] = 0.0
        chosen.append(i)
    return np.array(chosen[:rank] or [0])


def features(kernel: Kernel, Y: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """phi with phi(y) . phi(y') = k(y, P) k(P, P)^-1 k(P, y'): rows of the Cholesky factor, for any data, (N, Q)."""
    return linalg.solve_triangular(pivot_factor(kernel, pivots), kernel(pivots, Y), lower=True, check_finite=False).T


def pivot_factor(kernel: Kernel, pivots: np.ndarray) -> np.ndarray:
    """The lower Cholesky factor of k(P, P), without noise."""
    K = kernel(pivots, pivots.copy())
    return linalg.cholesky(K + _JITTER * np.diag(K).max() * np.eye(len(K)), lower=True)
