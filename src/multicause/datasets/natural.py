"""Photographs of nature, faces and crabs: what products of experts were first tried on."""

import csv
from typing import NamedTuple

import numpy as np

from multicause.datasets.patches import image_patches
from multicause.datasets.registry import locate
from multicause.media import read_image
from multicause.short_repr import short_repr

N_IMAGES = 7  # of the thirteen that Hyvärinen published
MEASUREMENTS = ("FL", "RW", "CL", "CW", "BD")


class Crabs(NamedTuple):
    """Measurements of crabs, and the group of each."""

    X: np.ndarray  # (200, 5) in millimetres
    groups: np.ndarray  # (200,) blue males, blue females, orange males, orange females: 0 to 3
    names: tuple[str, ...]  # of the groups

    def __repr__(self) -> str:
        return short_repr(self)


def natural_patches(
    size: int = 30, n_patches: int = 100_000, random_state: int | np.random.Generator | None = None
) -> np.ndarray:
    """Patches of natural images, equally many of each (UPoE, Section 5.3).

    Reads "natural-images-helsinki/01.png" to "07.png" in the folder that the environment variable MULTICAUSE_DATA
    names. Each image is brought to mean 0 and variance 1 first.

    Parameters
    ----------
    size : int, default=30
        Side length of a patch.
    n_patches : int, default=100_000
        Number of patches.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_patches, size²)
        Patches, row by row, float32.
    """
    rng = np.random.default_rng(random_state)
    shares = np.diff(np.linspace(0, n_patches, N_IMAGES + 1).astype(int))
    patches = []
    for number, share in enumerate(shares, start=1):
        image = read_image(locate(f"natural-images-helsinki/{number:02d}.png"))
        image = (image - image.mean()) / image.std()
        if share:
            patches.append(image_patches(image, size, int(share), random_state=rng).astype(np.float32))
    return np.concatenate(patches)


def load_frey_faces() -> np.ndarray:
    """The 1965 faces of one man, one frame of a film each (UPoE, Section 5.1).

    Reads "frey-faces/frey_faces.npz" in the folder that the environment variable MULTICAUSE_DATA names.

    Returns
    -------
    ndarray of shape (1965, 560)
        Images of 28 × 20 pixels, row by row, from 0 to 1.
    """
    with np.load(locate("frey-faces/frey_faces.npz")) as stored:
        faces = stored["faces"]
    return faces.reshape(len(faces), -1) / 255.0


def load_crabs() -> Crabs:
    """Five measurements of 200 crabs of two colour forms and both sexes (UPoE, Section 5.2).

    Reads "crabs/crabs.csv" in the folder that the environment variable MULTICAUSE_DATA names.

    Returns
    -------
    Crabs
        Frontal lobe, rear width, carapace length and width, and body depth; and the four groups.
    """
    with open(locate("crabs/crabs.csv"), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    X = np.array([[float(row[name]) for name in MEASUREMENTS] for row in rows])
    groups = np.array([2 * (row["sp"] == "O") + (row["sex"] == "F") for row in rows])
    return Crabs(X, groups, ("blue males", "blue females", "orange males", "orange females"))
