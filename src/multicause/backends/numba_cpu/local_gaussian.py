"""A Gaussian per group of alike patches: finding them, and taking the noise out of all of them at once.

With A (n, D) the guesses of a group about their mean, Sigma = A^T A / (n - 1), and a group has fewer patches than a
patch has pixels: Sigma (Sigma + sigma^2 I)^-1 = A^T (A A^T + (n - 1) sigma^2 I)^-1 A is a system of n equations.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _distances(pilot, row, column, where, distances, places):
    """Squared distances of all patches within reach, over all colours, and where they begin; how many they are."""
    size, reach = where.patch_size, where.reach
    height, width, n_colours = pilot.shape
    n = 0
    for r in range(max(0, row - reach), min(height - size, row + reach) + 1):
        for c in range(max(0, column - reach), min(width - size, column + reach) + 1):
            total = np.float32(0.0)
            for i in range(size):
                one, other = pilot[r + i, c : c + size], pilot[row + i, column : column + size]
                for j in range(size):
                    for k in range(n_colours):
                        d = one[j, k] - other[j, k]
                        total += d * d
            distances[n] = total
            places[n, 0], places[n, 1] = r, c
            n += 1
    return n


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _gather(image, colour, places, size, mean, out):
    """The patches at some places, about their mean, which is set."""
    n = len(places)
    mean[:] = 0.0
    for m in range(n):
        for i in range(size):
            for j in range(size):
                value = image[places[m, 0] + i, places[m, 1] + j, colour]
                out[m, i * size + j] = value
                mean[i * size + j] += value
    for d in range(size * size):
        mean[d] /= np.float32(n)
    for m in range(n):
        for d in range(size * size):
            out[m, d] -= mean[d]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _posterior(noisy, pilot, noise_variance, gains):
    """Clean patches about the mean, from noisy ones and guesses about it, (n, D); and the gains' diagonal."""
    n, n_pixels = pilot.shape
    gram = np.dot(pilot, pilot.T)
    for m in range(n):
        gram[m, m] += noise_variance * np.float32(max(n - 1, 1))
    solved = np.linalg.solve(gram, pilot)
    for d in range(n_pixels):
        gain = np.float32(0.0)
        for m in range(n):
            gain += solved[m, d] * pilot[m, d]
        gains[d] = gain
    return np.dot(np.dot(noisy, pilot.T), solved)


@njit(cache=True, nogil=True, error_model="numpy")
def clean_rows(noisy, pilot, rows, columns, where, noise_variance, least, sums):
    """Add up what all groups about some middles say of each pixel, to `sums` (3, height, width, colours).

    With x a pixel's mean in a group, v its variance, g the guess, and w = 1 / (mean v + least): w, w (x - g), and w v.
    All arrays hold single precision.
    """
    size, n_colours = where.patch_size, pilot.shape[2]
    n_pixels = size * size
    most = (2 * where.reach + 1) ** 2
    distances, places = np.empty(most, dtype=np.float32), np.empty((most, 2), dtype=np.int64)
    y, x = np.empty((where.n_alike, n_pixels), np.float32), np.empty((where.n_alike, n_pixels), np.float32)
    mean, unused, gains = np.empty(n_pixels, np.float32), np.empty(n_pixels, np.float32), np.empty(n_pixels, np.float32)
    for row in rows:
        for column in columns:
            n = _distances(pilot, row, column, where, distances, places)
            nearest = places[np.argsort(distances[:n], kind="mergesort")[: where.n_alike]]
            n = len(nearest)
            for colour in range(n_colours):
                _gather(pilot, colour, nearest, size, mean, x)
                _gather(noisy, colour, nearest, size, unused, y)
                for m in range(n):
                    for d in range(n_pixels):
                        y[m, d] += unused[d] - mean[d]
                cleaned = _posterior(y[:n], x[:n], noise_variance, gains)
                weight = np.float32(1.0) / (noise_variance * gains.mean() + least)
                _scatter(cleaned, x, nearest, size, colour, gains, noise_variance, weight, sums)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _scatter(cleaned, guess, places, size, colour, gains, noise_variance, weight, sums):
    """The sums of one group and colour; `cleaned` and `guess` are about the same mean."""
    for m in range(len(places)):
        for i in range(size):
            for j in range(size):
                d, r, c = i * size + j, places[m, 0] + i, places[m, 1] + j
                change = cleaned[m, d] - guess[m, d]
                sums[0, r, c, colour] += weight
                sums[1, r, c, colour] += weight * change
                sums[2, r, c, colour] += weight * noise_variance * gains[d]
