"""How strong the noise of an image is, before anything is known of the image.

White noise is alike in all frequencies, and its frequencies are independent. Patches with little at low frequencies are
smooth; what they hold at high frequencies is noise, which had no part in choosing them (Ponomarenko et al. 2007).
"""

import numpy as np
from scipy.fft import dctn

from multicause.tasks.patches import Patches

SIZE = 8  # of a patch
_HIGHEST_LOW, _LOWEST_HIGH = 4, 8  # sums of a coefficient's row and column
_SMOOTHEST = 0.06  # of all patches
_FEWEST = 600
_MOST_PATCHES = 250_000
_SPREAD_OF_LEAST = 1.35  # standard deviations that the mean of the least fifth of normal numbers lies below their mean
_CHANCE, _ROUNDS = 1.0, 3  # standard deviations that are no texture
_INDEPENDENT = 0.4  # share of the smooth patches


def estimate_noise_level(image: np.ndarray) -> float:
    """Standard deviation of white noise in one channel (height, width), from the quietest high frequencies."""
    size = min(SIZE, *image.shape)
    patches = Patches(image[:, :, None], size)
    transform, low, high = frequencies(size)
    positions = looked_at(len(patches))
    powers = np.concatenate(
        [np.square(patches.take(some) @ transform) for some in np.array_split(positions, len(positions) // 20_000 + 1)]
    )
    n_smooth = number_of_smooth(len(powers))
    smooth = np.argpartition(powers[:, low].mean(axis=1), n_smooth - 1)[:n_smooth]
    return level_of(powers[smooth][:, high].mean(axis=0), n_smooth)


def frequencies(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cosine transform of patches as a matrix (D, D), and which of its columns are low and high frequencies."""
    frequency = np.add.outer(np.arange(size), np.arange(size)).reshape(-1)
    low = (frequency > 0) & (frequency <= size * _HIGHEST_LOW / SIZE)
    transform = dctn(np.eye(size * size).reshape(-1, size, size), axes=(1, 2), norm="ortho").reshape(size * size, -1)
    return transform, low, frequency >= size * _LOWEST_HIGH / SIZE


def looked_at(n_patches: int) -> np.ndarray:
    """The positions of the patches that are looked at: all, or every so many."""
    return np.arange(0, n_patches, max(n_patches // _MOST_PATCHES, 1))


def number_of_smooth(n_patches: int) -> int:
    return min(max(int(_SMOOTHEST * n_patches), _FEWEST), n_patches)


def level_of(variances: np.ndarray, n_smooth: int) -> float:
    """The noise level, from mean squares at the high frequencies of so many smooth patches."""
    return float(np.sqrt(_least(variances, np.sqrt(2.0 / (_INDEPENDENT * n_smooth)))))


def _least(variances: np.ndarray, spread: float) -> float:
    """The mean of those variances that are no larger than chance makes the least of them.

    Means of n squares spread by sqrt(2 / n) about the truth; overlapping patches count for fewer, as white noise shows.
    """
    variances = np.sort(variances)
    n_least = max(len(variances) // 5, 1)
    level = variances[:n_least].mean() / max(1.0 - _SPREAD_OF_LEAST * spread, 0.5)
    for _ in range(_ROUNDS):
        level = variances[: max(np.searchsorted(variances, level * (1.0 + _CHANCE * spread)), n_least)].mean()
    return level
