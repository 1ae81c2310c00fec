"""Where components of images start: at places of the data where something is to be seen that is seen elsewhere, too."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multicause.learning.em.em import EM
from multicause.models.translated_occlusion import OcclusionParams

_LOOKED_AT = 4000  # images, or
_MOST_VALUES = 2**24  # as many as have so many values
_KEPT = 400  # of these, whose patches are compared with one another
_AT_ONCE = 128  # images whose places are kept
_CERTAIN = 0.01  # of the data's variance: the noise that patches of the data themselves are taken to have
_ALIKE = 0.5  # of a component's best score, where it counts as found
_SIGNIFICANT = 5.0  # finds per row of places without which an empty one means nothing
_RARELY = 0.2  # of these, below which a row counts as empty


def start_objects(em: EM, rng: np.random.Generator) -> OcclusionParams:
    """Patches of the data as components, each where an image differs most from the background.

    Images where one window holds nearly all there is to see are taken, since they show objects one at a time. Of their
    patches each component gets the one that most others resemble, wherever they lie, and no earlier one does: objects
    recur, chance arrangements of several do not.
    """
    model: Any = em.model
    X = em.chunks[0].X
    drawn = model.init_params(em.moments, rng)
    n_rows = min(len(X), _LOOKED_AT, max(_MOST_VALUES // X.shape[1], _KEPT))
    rows = np.sort(rng.choice(len(X), size=n_rows, replace=False))
    images = np.asarray(X[rows], dtype=np.float64).reshape(len(rows), *model.image_shape, model.n_channels)
    background = np.median(images, axis=(0, 1, 2))
    drawn = drawn._replace(background=background)
    energy = np.square(images - background).sum(axis=-1)  # (n, height, width)
    inside = sliding_window_view(energy, model.component_shape, axis=(1, 2))
    central = np.einsum("nijhw,hw->nij", inside, towards_the_middle(model.component_shape))
    best = central.reshape(len(rows), -1).argmax(axis=1)
    seen = inside[(np.arange(len(rows)), *model.corners(best))].sum(axis=(1, 2))
    share = np.where(seen > 0.0, seen / np.maximum(energy.sum(axis=(1, 2)), 1e-300), -1.0)
    kept = np.argsort(-share, kind="stable")[:_KEPT]
    kept = kept[share[kept] > 0.0]
    if not kept.size:
        return drawn
    patches, apart = _compare(images[kept] - background, best[kept], model)
    apart = (apart / seen[kept][:, None]).clip(0.0, 1.0)
    components, distance = drawn.components.copy(), np.ones(len(kept))
    for component in components:
        gain = np.maximum(distance[:, None] - apart, 0.0).sum(axis=0)
        chosen = np.argmax(gain * (rng.random(len(kept)) < 0.5))  # half of them, so that starts differ
        component[:] = background + patches[chosen].reshape(component.shape)
        distance = np.minimum(distance, apart[:, chosen])
    return _recentre(model, drawn._replace(components=components), images)


def _compare(images: np.ndarray, best: np.ndarray, model: Any) -> tuple[np.ndarray, np.ndarray]:
    """The best window of each image (n, A), and its squared distance from each image's (n, n), that may be shifted.

    Windows may shift by up to a third of a component, to where the image goes on.
    """
    (h, w), (rows, columns) = model.component_shape, model.placement_shape
    windows = sliding_window_view(images, (h, w), axis=(1, 2))  # (n, rows, columns, F, h, w)
    (i, j), n = model.corners(best), np.arange(len(images))

    def shifted(down: int, right: int) -> np.ndarray:
        moved = windows[n, (i + down).clip(0, rows - 1), (j + right).clip(0, columns - 1)]
        return np.moveaxis(moved, 1, -1).reshape(len(images), -1)

    patches = shifted(0, 0)
    apart = np.full((len(images), len(images)), np.inf)
    for down in range(-(h // 3), h // 3 + 1):
        for right in range(-(w // 3), w // 3 + 1):
            near = shifted(down, right)
            square = np.square(near).sum(axis=1)[:, None] - 2.0 * near @ patches.T
            apart = np.minimum(apart, square + np.square(patches).sum(axis=1))
    return patches, apart


def _recentre(model: Any, params: OcclusionParams, images: np.ndarray) -> OcclusionParams:
    """Shift components that are never found at one border of the images: objects at the other would be out of reach.

    A component that shows its object a pixel too low is found a pixel too high, and would have to lie outside the image
    for objects at its upper border. Pixels that come in look like the background.
    """
    certain = params._replace(noise_variance=_CERTAIN * params.noise_variance)
    functions = model.selection_functions(certain)
    parts = np.array_split(images, -(-len(images) // _AT_ONCE))
    tables = ((table.max(axis=2), table.argmax(axis=2)) for table in map(functions.scores, parts))
    best, places = (np.concatenate(arrays) for arrays in zip(*tables, strict=True))  # (n, H) each
    found = best > _ALIKE * functions.values.max(axis=-1).sum(axis=(1, 2, 3))
    components = params.components.copy()
    for h, component in enumerate(components):
        for axis, corners in enumerate(model.corners(places[found[:, h], h])):
            counts = np.bincount(corners, minlength=model.placement_shape[axis])
            shift = unused_border(counts) if counts.mean() >= _SIGNIFICANT else 0
            component[:] = np.roll(component, shift, axis)
            new = slice(0, shift) if shift > 0 else slice(model.component_shape[axis] + shift, None)
            np.moveaxis(component, axis, 0)[new if shift else slice(0)] = params.background
    return params._replace(components=components)


def unused_border(counts: np.ndarray) -> int:
    """By how much content is to move in its window: forward if the first places are never taken, back if the last."""
    used = np.flatnonzero(counts > _RARELY * counts.mean())
    if not used.size:
        return 0
    before, after = int(used[0]), len(counts) - 1 - int(used[-1])
    return before if after == 0 else -after if before == 0 else 0


def towards_the_middle(shape: tuple[int, int]) -> np.ndarray:
    """Weights of a window's pixels, a little less at its rim: a small object is to lie in the middle."""
    y, x = (np.abs(np.arange(n) - (n - 1) / 2.0) / max(n / 2.0, 1.0) for n in shape)
    return 1.0 - 0.1 * (y[:, None] ** 2 + x**2)
