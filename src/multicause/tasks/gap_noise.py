"""How strong the noise is on the known pixels of an image with gaps."""

import numpy as np
from scipy.special import gammaincinv

SMALLEST_WINDOW = 16
ENOUGH_TRIPLES = 24  # per window, on average
DEGREES_PER_TRIPLE = 0.55  # neighbouring second differences share pixels
FLATTEST = 0.2  # share of windows, the ones with the least texture, that tell the noise


def noise_level_of_known(pixels: np.ndarray) -> float | None:
    """Standard deviation of the noise of a grey image with gaps (NaN), (height, width); None where it cannot be known.

    Three known pixels in a row have a second difference, of variance 6 σ² where the image is a slope. Its mean square
    is taken over windows; the noise is a low quantile of them, divided by that of noise alone.
    """
    differences = np.stack([_second_difference(pixels), _second_difference(pixels.T).T])  # NaN where one is missing
    n_triples = np.isfinite(differences).sum(axis=0)
    squares = np.nansum(differences**2, axis=0)
    if n_triples.sum() < ENOUGH_TRIPLES:
        return None
    size = max(SMALLEST_WINDOW, int(np.ceil(np.sqrt(ENOUGH_TRIPLES / n_triples.mean()))))
    count, total = (_window_sums(values, size) for values in (n_triples, squares))
    usable = count >= ENOUGH_TRIPLES // 2
    if not usable.any():
        usable = count == count.max()
    half = 0.5 * DEGREES_PER_TRIPLE * np.median(count[usable])
    lowest = np.quantile(total[usable] / count[usable], FLATTEST)
    return float(np.sqrt(lowest * half / gammaincinv(half, FLATTEST)))


def _second_difference(pixels: np.ndarray) -> np.ndarray:
    """(y₋ − 2 y + y₊) / √6 along rows, NaN at the ends."""
    result = np.full(pixels.shape, np.nan)
    result[:, 1:-1] = (pixels[:, :-2] - 2.0 * pixels[:, 1:-1] + pixels[:, 2:]) / np.sqrt(6.0)
    return result


def _window_sums(values: np.ndarray, size: int) -> np.ndarray:
    """Sums over windows that tile the image; those at its ends are smaller."""
    rows = np.add.reduceat(values, np.arange(0, values.shape[0], size), axis=0)
    return np.add.reduceat(rows, np.arange(0, values.shape[1], size), axis=1).ravel()
