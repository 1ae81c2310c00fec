"""Where components of images start: at places of the data where something is to be seen, and each at something else."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multicause.learning.em import EM
from multicause.models.translated_occlusion import OcclusionParams

_LOOKED_AT = 400  # images
_FAR = 4  # power of the distance by which the next patch is drawn: high powers take the farthest


def start_objects(em: EM, rng: np.random.Generator) -> OcclusionParams:
    """Patches of the data as components, each where an image differs most from the background.

    Images with less to see are drawn more often, since they show objects one at a time; and patches that no earlier one
    resembles, wherever it is put, since each object needs one component.
    """
    model: Any = em.model
    X = em.chunks[0].X
    drawn = model.init_params(em.moments, rng)
    rows = np.sort(rng.choice(len(X), size=min(len(X), _LOOKED_AT), replace=False))
    images = np.asarray(X[rows], dtype=np.float64).reshape(len(rows), *model.image_shape, model.n_channels)
    background = np.median(images, axis=(0, 1, 2))
    drawn = drawn._replace(background=background)
    energy = np.square(images - background).sum(axis=-1)  # (n, height, width)
    if not energy.any():
        return drawn
    inside = sliding_window_view(energy, model.component_shape, axis=(1, 2))
    best = (
        np.einsum("nijhw,hw->nij", inside, _towards_the_middle(model.component_shape))
        .reshape(len(rows), -1)
        .argmax(axis=1)
    )
    nearby = _windows_near(images - background, best, model)  # (n, shifts, h * w * F), the best one first
    seen = np.square(nearby[:, 0]).sum(axis=1)
    odds = np.where(seen > 0.0, seen / np.maximum(energy.sum(axis=(1, 2)), 1e-300), 0.0) ** 2
    components, distance = drawn.components.copy(), np.ones(len(rows))
    for component in components:
        chances = odds * distance**_FAR if (odds * distance).any() else odds
        patch = nearby[rng.choice(len(rows), p=chances / chances.sum()), 0]
        component[:] = background + patch.reshape(component.shape)
        apart = np.square(nearby).sum(axis=2) - 2.0 * nearby @ patch + patch @ patch
        distance = np.minimum(distance, (apart.min(axis=1) / np.maximum(seen, 1e-300)).clip(0.0, 1.0))
    return drawn._replace(components=components)


def _windows_near(images: np.ndarray, best: np.ndarray, model: Any) -> np.ndarray:
    """The best window of each image, and those shifted by up to a third of a component, where the image goes on."""
    (h, w), (rows, columns) = model.component_shape, model.placement_shape
    windows = sliding_window_view(images, (h, w), axis=(1, 2))  # (n, rows, columns, F, h, w)
    i, j = model.corners(best)
    reach_i, reach_j = np.arange(-(h // 3), h // 3 + 1), np.arange(-(w // 3), w // 3 + 1)
    shifts = [(0, 0), *((a, b) for a in reach_i for b in reach_j if (a, b) != (0, 0))]
    n = np.arange(len(images))
    near = [windows[n, (i + a).clip(0, rows - 1), (j + b).clip(0, columns - 1)] for a, b in shifts]
    return np.moveaxis(np.stack(near, axis=1), 2, -1).reshape(len(images), len(shifts), -1)


def _towards_the_middle(shape: tuple[int, int]) -> np.ndarray:
    """Weights of a window's pixels, a little less at its rim: a small object is to lie in the middle."""
    y, x = (np.abs(np.arange(n) - (n - 1) / 2.0) / max(n / 2.0, 1.0) for n in shape)
    return 1.0 - 0.1 * (y[:, None] ** 2 + x**2)
