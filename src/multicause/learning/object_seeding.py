"""Where components of images start: at places of the data where something is to be seen."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multicause.learning.em import EM
from multicause.models.translated_occlusion import OcclusionParams

_LOOKED_AT = 200  # images


def start_objects(em: EM, rng: np.random.Generator) -> OcclusionParams:
    """Patches of random images as components, each where the image differs most from the background.

    Images with less to see are drawn more often: they show objects one at a time.
    """
    model: Any = em.model
    X = em.chunks[0].X
    drawn = model.init_params(em.moments, rng)
    rows = np.sort(rng.choice(len(X), size=min(len(X), _LOOKED_AT), replace=False))
    images = np.asarray(X[rows], dtype=np.float64).reshape(len(rows), *model.image_shape, model.n_channels)
    background = np.median(images, axis=(0, 1, 2))
    energy = np.square(images - background).sum(axis=-1)  # (n, height, width)
    inside = sliding_window_view(energy, model.component_shape, axis=(1, 2))
    windows = np.einsum("nijhw,hw->nij", inside, _towards_the_middle(model.component_shape))
    best = windows.reshape(len(rows), -1).argmax(axis=1)
    seen = windows.reshape(len(rows), -1).max(axis=1)
    odds = np.where(seen > 0.0, 1.0 / np.maximum(energy.sum(axis=(1, 2)), 1e-300), 0.0)
    if not odds.any():
        return drawn._replace(background=background)
    h, w = model.component_shape
    components = drawn.components.copy()
    for component, k in zip(components, _draw(odds, len(components), rng), strict=True):
        i, j = model.corners(best[k])
        component[:] = images[k, i : i + h, j : j + w]
    return drawn._replace(components=components, background=background)


def _towards_the_middle(shape: tuple[int, int]) -> np.ndarray:
    """Weights of a window's pixels, a little less at its rim: a small object is to lie in the middle."""
    y, x = (np.abs(np.arange(n) - (n - 1) / 2.0) / max(n / 2.0, 1.0) for n in shape)
    return 1.0 - 0.1 * (y[:, None] ** 2 + x**2)


def _draw(odds: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """n numbers of images, none twice as long as there are others."""
    enough = np.count_nonzero(odds) >= n
    return rng.choice(len(odds), size=n, replace=not enough, p=odds / odds.sum())
