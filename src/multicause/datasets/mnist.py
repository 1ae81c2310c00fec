"""Handwritten digits (the test half of MNIST)."""

import numpy as np

from multicause.datasets.registry import locate


def load_mnist(
    n_samples: int = 1000, random_state: int | np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Random subset of the 10 000 MNIST test images.

    Reads "mnist/mnist_t10k.npz" in the folder that the environment variable MULTICAUSE_DATA names.

    Parameters
    ----------
    n_samples : int, default=1000
        Number N of images, drawn without replacement.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness of the subset.

    Returns
    -------
    X : ndarray of shape (N, 784)
        Images of 28 × 28 pixels, row by row, in [0, 1].
    labels : ndarray of shape (N,)
        The digits, 0 to 9, int64.
    """
    with np.load(locate("mnist/mnist_t10k.npz")) as stored:
        images, labels = stored["images"], stored["labels"]
    if not 1 <= n_samples <= len(images):
        raise ValueError(
            f"n_samples must be from 1 to {len(images)}, got {n_samples}. The file holds {len(images)} images; "
            "ask for no more than that."
        )
    chosen = np.random.default_rng(random_state).choice(len(images), size=n_samples, replace=False)
    X = images[chosen].reshape(n_samples, -1) / 255.0
    return X, labels[chosen].astype(np.int64)
