"""How strong the noise of an image is, before anything is known of the image.

White noise is alike in all frequencies, and its frequencies are independent. Patches with little at low frequencies are
smooth; what they hold at high frequencies is noise, which had no part in choosing them (Ponomarenko et al. 2007). Few
patches tell little, many are not smooth: their share grows as long as the level stays where chance allows (Lepski).

Where no patch is smooth that is too much; a model of texture errs to the other side (`texture_spectrum`). The level is
the geometric mean of both.
"""

from collections.abc import Callable

import numpy as np
from scipy.fft import dctn

from multicause.tasks.clipping import unclipped_patches
from multicause.tasks.patches import Patches
from multicause.tasks.texture_spectrum import level_beside_texture

SIZE = 8  # of a patch
_LOW, _LOWEST_HIGH = (2, 6), 8  # sums of a coefficient's row and column
_SHARES = (0.06, 0.1, 0.15, 0.3, 0.5, 1.0)  # of all patches, the smoothest
_FEWEST = 600
_MOST_PATCHES = 250_000
_SPREAD_OF_LEAST = 1.35  # standard deviations that the mean of the least fifth of normal numbers lies below their mean
_CHANCE, _ROUNDS = 0.5, 3  # standard deviations that are no texture
_INDEPENDENT = 0.1  # of overlapping patches, as measured on white noise for a single frequency


def estimate_noise_level(image: np.ndarray, clipped: np.ndarray | None = None) -> float:
    """Standard deviation of white noise in one channel (height, width), from the quietest high frequencies.

    Patches about clipped pixels, where there are any, take no part: they would pass for quiet ones.
    """
    size = min(SIZE, *image.shape)
    low, high = frequencies(size)
    positions, n_pixels = looked_at(image.shape, size, clipped)
    powers = _powers(image, size, positions)
    smoothest = powers[np.argsort(powers[:, low].mean(axis=1))][:, high]
    level = level_of(lambda n: smoothest[:n].mean(axis=0), len(powers), n_pixels, high)
    return float(np.sqrt(level * level_beside_texture(powers, size, level)))


def frequencies(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of a patch's cosine coefficients are low frequencies, and which are high."""
    frequency = np.add.outer(np.arange(size), np.arange(size)).reshape(-1)
    low = (frequency >= size * _LOW[0] / SIZE) & (frequency <= size * _LOW[1] / SIZE)
    return low, frequency >= size * _LOWEST_HIGH / SIZE


def level_of(powers_of: Callable[[int], np.ndarray], n_patches: int, n_pixels: int, high: np.ndarray) -> float:
    """The noise level, from the mean squares at high frequencies of so many of the smoothest patches.

    The least of few numbers is less than the truth: measured on pieces of images, by one part in the root of n_patches.
    """
    degrees = min(high.mean() * n_pixels, high.sum() * n_patches) / n_patches  # of freedom, per patch
    level, highest = 0.0, np.inf
    for n_smooth in _numbers_of_patches(n_patches):
        spread = np.sqrt(2.0 / (degrees * n_smooth))
        found = _least(powers_of(n_smooth), np.sqrt(2.0 / (_INDEPENDENT * n_smooth)))
        if found * (1.0 - _CHANCE * spread) > highest:
            break
        level, highest = found, min(highest, found * (1.0 + _CHANCE * spread))
    return float(np.sqrt(level) * (1.0 + 1.0 / np.sqrt(n_patches)))


def looked_at(shape: tuple[int, ...], size: int, clipped: np.ndarray | None) -> tuple[np.ndarray, int]:
    """Positions of the patches that are looked at, all unclipped ones or every so many; and of how many pixels."""
    positions = unclipped_patches(shape, size, clipped)
    n_patches = (shape[0] - size + 1) * (shape[1] - size + 1)
    n_pixels = shape[0] * shape[1] * len(positions) // n_patches
    return positions[:: max(len(positions) // _MOST_PATCHES, 1)], n_pixels


def cosines(size: int) -> np.ndarray:
    """The cosine transform of patches as a matrix, (size * size, size * size)."""
    return dctn(np.eye(size * size).reshape(-1, size, size), axes=(1, 2), norm="ortho").reshape(size * size, -1)


def _powers(image: np.ndarray, size: int, positions: np.ndarray) -> np.ndarray:
    """Squared cosine coefficients of patches, (n, size * size)."""
    patches, transform = Patches(image[:, :, None], size), cosines(size).astype(image.dtype)
    some = np.array_split(positions, len(positions) // 20_000 + 1)
    return np.concatenate([np.square(patches.take(few) @ transform) for few in some])


def _numbers_of_patches(n_patches: int) -> list[int]:
    """How many of the smoothest patches are looked at, one after the other."""
    return sorted({min(max(int(share * n_patches), _FEWEST), n_patches) for share in _SHARES})


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
