"""How strong the noise of an image is, when texture is everywhere: noise is flat over frequencies, texture falls.

Patches belong to classes of more and less texture, all with the same noise. A patch's cosine coefficient at horizontal
and vertical frequencies u, v, which are f = log(√(u² + v²) / 2) and θ in polar coordinates, has a mean square of

    σ² (1 + exp(s)),   s = a_k (1 + γ f) - α f - β f² + δ cos 2θ + ε sin 2θ

in class k. Class probabilities, a_k, σ and the spectrum's shape maximise the likelihood, by EM. Where that fits badly,
the first guess stays.
"""

from typing import Any

import numpy as np
from scipy.optimize import minimize

_N_CLASSES, _ROUNDS = 6, 10
_LOWEST = 4  # sum of a coefficient's row and column: what is below is the image
_EXACT = {"maxiter": 300, "ftol": 1e-13, "gtol": 1e-8}  # so that the last bits of an image do not matter
_LEAST_FALL = 1.5  # alpha: less would pass for noise, and images have 2
_STIFFNESS = 0.1  # of gamma, per patch: classes may differ little in shape
_MOST, _FEWEST = 20_000, 2_000  # patches
_SMALLEST_SIZE = 8  # of a patch: smaller ones have too few frequencies
_LEVELS = (-2.8, 0.4)  # logarithms of the variance over that of the first guess
_LEAST_TEXTURE = -6.0  # a_k
_TOLERATED_MISFIT = 0.03  # photographs have less than 0.025, checkerboards 0.01 to 0.6


def level_beside_texture(powers: np.ndarray, size: int, guess: float) -> float:
    """Standard deviation of white noise from squared cosine coefficients of patches (n, size²), near a first guess."""
    if len(powers) < _FEWEST or size < _SMALLEST_SIZE or guess <= 0.0:
        return guess
    rows, columns = (axis.reshape(-1) for axis in np.indices((size, size), dtype=float))
    used = rows + columns >= _LOWEST
    some = some_powers(powers)[:, used].astype(np.float64) / guess**2
    shapes = _shapes(rows[used], columns[used])
    class_of = np.argsort(np.argsort(some.mean(axis=1))) * _N_CLASSES // len(some)
    shares = np.eye(_N_CLASSES)[class_of]
    unknown = _first_guess(shares.T @ some / shares.sum(axis=0)[:, None])
    for _ in range(_ROUNDS):
        counts = shares.sum(axis=0) / len(some)
        squares = shares.T @ some / (len(some) * np.maximum(counts, 1e-9)[:, None])
        unknown = _fitted(unknown, counts, squares, shapes)
        variances = np.exp(unknown[0]) * (1.0 + np.exp(_texture(unknown, shapes)))
        shares = _shares(some, counts, variances)
    return float(guess * np.exp(unknown[0] / 2.0 * _trust(counts, squares / variances)))


def some_powers(powers: Any) -> Any:
    """Every so many of the patches, about as many as are made use of."""
    return powers[:: max(len(powers) // _MOST, 1)]


def _trust(counts: np.ndarray, relative: np.ndarray) -> float:
    """From 1, where spectra fall as the model says, to 0, where they do not: checkerboards, drawings.

    Measured by how far mean squares are from the model's: the divergence of two normal densities, twice, on average.
    """
    misfit = counts @ (relative - 1.0 - np.log(np.maximum(relative, 1e-12))).mean(axis=1)
    return float(np.exp(-((misfit / _TOLERATED_MISFIT) ** 4)))


def _shapes(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """What the logarithm of a spectrum is made of, (4, n_coefficients): log f, its square, and two of direction."""
    radius = np.hypot(rows, columns)
    falling = -np.log(radius / 2.0)
    return np.stack([falling, -(falling**2), (rows**2 - columns**2) / radius**2, 2.0 * rows * columns / radius**2])


def _first_guess(squares: np.ndarray) -> np.ndarray:
    """log σ², a_k, (α, β, δ, ε), γ, from mean squares of classes of more and more power."""
    least = 0.9 * np.median(np.sort(squares[0])[: squares.shape[1] // 4])
    amounts = np.log(np.maximum(0.9 * squares.mean(axis=1) / least - 0.9, 0.02))
    return np.concatenate([[np.clip(np.log(least), *_LEVELS)], amounts, [2.0, 0.3, 0.0, 0.0], [0.0]])


def _texture(unknown: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """s, the logarithm of texture over noise, (n_classes, n_coefficients)."""
    amounts, shape, tilt = unknown[1 : 1 + _N_CLASSES, None], unknown[1 + _N_CLASSES : -1], unknown[-1]
    return np.minimum(amounts * (1.0 - tilt * shapes[0]) + shape @ shapes, 30.0)


def _fitted(unknown: np.ndarray, counts: np.ndarray, squares: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """The M-step: all but the class probabilities, from the mean squares of each class."""

    def loss(unknown: np.ndarray) -> tuple[float, np.ndarray]:
        texture, tilt = np.exp(_texture(unknown, shapes)), unknown[-1]
        relative = squares * np.exp(-unknown[0]) / (1.0 + texture)
        total = 0.5 * counts @ (unknown[0] + np.log1p(texture) + relative).sum(axis=1) + 0.5 * _STIFFNESS * tilt**2
        slope = 0.5 * counts[:, None] * (1.0 - relative)
        by_texture = slope * texture / (1.0 + texture)
        by_amounts = (by_texture * (1.0 - tilt * shapes[0])).sum(axis=1)
        by_tilt = _STIFFNESS * tilt - unknown[1 : 1 + _N_CLASSES] @ by_texture @ shapes[0]
        return total, np.concatenate([[slope.sum()], by_amounts, shapes @ by_texture.sum(axis=0), [by_tilt]])

    of_shape = [(_LEAST_FALL, 8.0), (0.0, 8.0), (-3.0, 3.0), (-3.0, 3.0), (-1.0, 1.0)]
    bounds = [_LEVELS, *[(_LEAST_TEXTURE, None)] * _N_CLASSES, *of_shape]
    return minimize(loss, unknown, jac=True, method="L-BFGS-B", bounds=bounds, options=_EXACT).x


def _shares(some: np.ndarray, counts: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """The E-step: probabilities of the classes, (n_patches, n_classes)."""
    logs = np.log(counts + 1e-12) - 0.5 * (some @ (1.0 / variances).T + np.log(variances).sum(axis=1))
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
