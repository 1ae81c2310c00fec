"""A Gaussian of the patches that look alike, in one place of an image.

(Lebrun, Buades, Morel 2013, "A Nonlocal Bayesian Image Denoising Algorithm", the second of its two steps.)
"""

from typing import NamedTuple

import numpy as np


class Neighbourhood(NamedTuple):
    """Where alike patches are looked for, and how many.

    Attributes
    ----------
    patch_size : int
        Side length of a patch.
    reach : int
        Farthest that a patch lies from the one in the middle, in rows and in columns.
    n_alike : int
        Patches of a group.
    stride : int
        Rows and columns from one middle to the next; the last row and column have one, too.
    """

    patch_size: int
    reach: int
    n_alike: int
    stride: int


def group_posterior(noisy: np.ndarray, pilot: np.ndarray, noise_variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Means (N, D) and variances (D,) of clean patches, given noisy ones (N, D) and a first guess of them.

        x ~ N(mu, Sigma),  y ~ N(x, sigma^2 I):   <x> = mu + Sigma (Sigma + sigma^2 I)^-1 (y - mu),
                                                  var x = diag of sigma^2 Sigma (Sigma + sigma^2 I)^-1

    with mu and Sigma from the guess.
    """
    mean = pilot.mean(axis=0)
    covariance = (pilot - mean).T @ (pilot - mean) / max(len(pilot) - 1, 1)
    gain = covariance @ np.linalg.inv(covariance + noise_variance * np.eye(len(mean)))
    return mean + (noisy - mean) @ gain.T, noise_variance * np.diag(gain)


def middles(length: int, where: Neighbourhood) -> np.ndarray:
    """First rows, or columns, of the patches in the middle of a group."""
    last = length - where.patch_size
    return np.unique(np.append(np.arange(0, last + 1, where.stride), last))


def alike(pilot: np.ndarray, row: int, column: int, where: Neighbourhood) -> np.ndarray:
    """Rows and columns of the patches nearest to one of them, in a guess (height, width, colours), (N, 2)."""
    size, reach = where.patch_size, where.reach
    rows = np.arange(max(row - reach, 0), min(row + reach, pilot.shape[0] - size) + 1)
    columns = np.arange(max(column - reach, 0), min(column + reach, pilot.shape[1] - size) + 1)
    places = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
    patches = np.stack([pilot[r : r + size, c : c + size] for r, c in places])
    distances = np.square(patches - pilot[row : row + size, column : column + size]).sum(axis=(1, 2, 3))
    return places[np.argsort(distances, kind="stable")[: where.n_alike]]
