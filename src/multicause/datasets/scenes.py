"""Images of objects that occlude one another: `make_scenes`, and objects to put into them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from multicause.datasets.registry import locate
from multicause.short_repr import short_repr


class Scenes(NamedTuple):
    """Images, and what is in them.

    Attributes
    ----------
    X : ndarray of shape (n_samples, height, width)
        The images.
    corners : ndarray of int of shape (n_samples, n_objects, 2)
        Row and column of each object's upper left corner; -1 where it is absent.
    visible : ndarray of shape (n_samples, n_objects)
        Share of each object's pixels that no other object hides.
    objects : ndarray of shape (n_objects, height, width)
        The objects, 0 outside their masks.
    masks : ndarray of bool of shape (n_objects, height, width)
        Which pixels belong to them.
    """

    X: np.ndarray
    corners: np.ndarray
    visible: np.ndarray
    objects: np.ndarray
    masks: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)


def make_scenes(
    n_samples: int = 2000,
    objects: ArrayLike | None = None,
    *,
    image_shape: tuple[int, int] = (30, 30),
    probability: float = 0.2,
    random_state=None,
) -> Scenes:
    """Objects at random places of a black image, in a random order of depth.

    Parameters
    ----------
    n_samples : int
        Number of images.
    objects : array-like of shape (n_objects, height, width) or None
        The objects; a pixel of exactly 0 is no part of one. None takes `shape_objects()`.
    image_shape : (int, int)
        Height and width of the images.
    probability : float
        How likely each object is to be in an image.
    random_state : int, RandomState instance or None
        Seed of the draw.

    Returns
    -------
    Scenes
        The images and what is in them.
    """
    objects = shape_objects() if objects is None else np.asarray(objects, dtype=float)
    if objects.ndim != 3 or objects.shape[1] > image_shape[0] or objects.shape[2] > image_shape[1]:
        raise ValueError(
            f"objects must be of shape (n_objects, height, width) and fit into images of {image_shape}. "
            f"Got {objects.shape} instead."
        )
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"probability must be between 0 and 1. Got {probability!r} instead.")
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    (H, W), (K, h, w) = image_shape, objects.shape
    masks = objects != 0.0
    present = rng.random((n_samples, K)) < probability
    rows, columns = (rng.integers(n + 1, size=(n_samples, K)) for n in (H - h, W - w))
    corners = np.where(present[..., None], np.stack([rows, columns], axis=-1), -1)
    X, visible = np.zeros((n_samples, H, W)), np.zeros((n_samples, K))
    for n in range(n_samples):
        owner = np.full((H, W), -1)
        for k in rng.permutation(np.flatnonzero(present[n])):  # from the back to the front
            patch = np.s_[rows[n, k] : rows[n, k] + h, columns[n, k] : columns[n, k] + w]
            X[n][patch][masks[k]] = objects[k][masks[k]]
            owner[patch][masks[k]] = k
        visible[n] = [np.count_nonzero(owner == k) for k in range(K)] / masks.sum(axis=(1, 2))
    return Scenes(X, corners, visible, objects, masks)


def shape_objects(n_objects: int = 16, size: int = 10, seed: int = 0) -> np.ndarray:
    """Smooth random textures inside ellipses, no two alike, (n_objects, size, size), with values in (0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = (np.mgrid[:size, :size] + 0.5) / size - 0.5
    objects = np.zeros((n_objects, size, size))
    for image in objects:
        angle, (long, short) = rng.uniform(0.0, np.pi), rng.uniform([0.42, 0.25], [0.5, 0.42])
        u, v = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
        waves = rng.normal(size=(4, 2)) * 6.0
        texture = sum(np.cos(a * x + b * y + rng.uniform(0.0, 2.0 * np.pi)) for a, b in waves)
        texture = 0.2 + 0.8 * (texture - texture.min()) / np.ptp(texture)
        image[:] = np.where((u / long) ** 2 + (v / short) ** 2 < 1.0, texture, 0.0)
    return objects


def coil_objects(n_objects: int = 16, size: int = 10) -> np.ndarray:
    """Objects of COIL-20 in their first pose, scaled down and cut out of their background, with values in (0, 1]."""
    from PIL import Image

    with np.load(locate("coil20/coil20_32x32.npz")) as archive:
        first = [int(np.flatnonzero(archive["labels"] == label)[0]) for label in np.unique(archive["labels"])]
        images = archive["images_e4080"][first[:n_objects]] / 4080.0
    scaled = np.array([Image.fromarray(image).resize((size, size), Image.Resampling.BOX) for image in images])
    largest = scaled.max(axis=(1, 2), keepdims=True)
    return np.where(scaled > 0.1 * largest, scaled / largest, 0.0)
