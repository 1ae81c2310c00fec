"""Separate the sources of mixtures."""

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from multicause.estimators import GSC
from multicause.estimators.data_checks import unmasked
from multicause.short_repr import short_repr
from multicause.tasks.arguments import check_whole, refuse_extreme_values
from multicause.tasks.devices import task_device
from multicause.tasks.patches import some_of

SETTINGS = {"n_init": 3}
SMALLEST_VARIANCE_SHARE = 1e-12  # of the largest: directions of less variance only repeat other channels


class SeparatedSources(NamedTuple):
    """What `separate_sources` returns: X ≈ sources @ mixing.T + mean.

    Attributes
    ----------
    sources : ndarray of shape (n_samples, n_sources)
        The sources, with a variance of one each.
    mixing : ndarray of shape (n_channels, n_sources)
        The contribution of each source, at unit variance, to each channel.
    mean : ndarray of shape (n_channels,)
        The mean of each channel.
    estimator : GSC
        The fitted model of the whitened mixtures.
    """

    sources: np.ndarray
    mixing: np.ndarray
    mean: np.ndarray
    estimator: Any

    def __repr__(self) -> str:
        return short_repr(self)


def separate_sources(
    X: ArrayLike,
    n_sources: int | None = None,
    *,
    max_samples: int = 200_000,
    random_state=None,
    verbose: int = 0,
    device: Literal["cpu", "cuda", "auto"] = "cpu",
    **settings: Any,
) -> SeparatedSources:
    """Find the independent sources of mixtures, and how they are mixed (GSC, Section 5.3).

    The mixtures are whitened, and spike-and-slab sparse coding learns the mixing matrix from them. The sources are then
    the mixtures times its pseudo-inverse, or, if there are more sources than channels, the model's posterior means
    ⟨s⊙z⟩.

    Order, scale and sign of the sources, which are not identifiable, follow a convention: each source has unit
    variance; the source that contributes the largest variance to all channels together comes first; and the mixing
    coefficient of largest magnitude of each source is positive.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_channels)
        The mixtures, such as the recordings of several microphones.
    n_sources : int or None, default=None
        Number of sources; None is the number of channels.
    max_samples : int, default=200_000
        Largest number of samples that the model learns from, drawn at random; all samples are separated.
    random_state : int, RandomState instance or None, default=None
        Seed of the model's start and of the choice of samples.
    verbose : int, default=0
        1 shows progress on a terminal.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute: on the CPU, or on an NVIDIA GPU through CuPy; "auto" uses a GPU if there is one.
    **settings : dict
        Further constructor arguments of `GSC`, such as `max_iter`, `n_candidates`, or `n_init`, which is 3 here.

    Returns
    -------
    SeparatedSources
        Sources, mixing matrix, mean, and the fitted model.
    """
    mixtures = _check_mixtures(X)
    n_sources = mixtures.shape[1] if n_sources is None else n_sources
    check_whole("n_sources", n_sources, 1, "Leave it out for as many as channels.")
    check_whole("max_samples", max_samples, 1, "A hundred thousand serve most recordings.")
    if max_samples <= mixtures.shape[1]:
        raise ValueError(
            f"max_samples must be more than the {mixtures.shape[1]} channels, got {max_samples}. "
            "A hundred thousand serve most recordings."
        )
    mean = mixtures.mean(axis=0)
    whiten, colour = _whitening(mixtures - mean, n_sources)
    white = (mixtures - mean) @ whiten
    random_state = check_random_state(random_state)
    settings = {**SETTINGS, "device": task_device(device), **settings}
    estimator = GSC(n_sources, random_state=random_state.randint(2**31 - 1), verbose=verbose, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # stop_ of the model says why the fit ended
        estimator.fit(some_of(white, max_samples, random_state))
    W = estimator.components_
    sources = white @ np.linalg.pinv(W) if n_sources <= white.shape[1] else estimator.transform(white)
    return SeparatedSources(*_by_rule(sources, (W @ colour).T), mean, estimator)


def _whitening(centred: np.ndarray, n_sources: int) -> tuple[np.ndarray, np.ndarray]:
    """The matrix that makes mixtures uncorrelated and of variance one, of n_sources dimensions at most; and back."""
    loudness = centred.std(axis=0)  # of each channel: what differs by orders of magnitude must not look negligible
    scaled = centred / loudness
    variance, directions = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    kept = np.flatnonzero(variance > SMALLEST_VARIANCE_SHARE * variance[-1])[-n_sources:]
    spread = np.sqrt(variance[kept])
    return directions[:, kept] / (loudness[:, None] * spread), spread[:, None] * directions[:, kept].T * loudness


def _check_mixtures(X: ArrayLike) -> np.ndarray:
    given = np.asarray(unmasked(X, "X", way_out="Leave such samples out."))
    if given.dtype.kind in "cSU":  # imaginary parts would vanish
        raise ValueError(f"X must hold real numbers, got {given.dtype}. Convert it first.")
    mixtures = given.astype(np.float64)
    if mixtures.ndim != 2 or mixtures.shape[1] < 2:
        raise ValueError(
            f"X must have shape (n_samples, n_channels) with at least two channels, got {mixtures.shape}. "
            "A single channel cannot be separated: record the sources with several microphones."
        )
    if len(mixtures) <= mixtures.shape[1]:
        raise ValueError(
            f"X must have more samples than channels, got {len(mixtures)} samples of {mixtures.shape[1]} channels. "
            "Is it transposed? Give X.T."
        )
    if not np.isfinite(mixtures).all():
        row, column = np.argwhere(~np.isfinite(mixtures))[0]
        raise ValueError(
            f"X must be finite, but holds {mixtures[row, column]} in sample {row} of channel {column}. "
            "Leave such samples out."
        )
    silent = np.flatnonzero(np.ptp(mixtures, axis=0) == 0.0)
    if silent.size:
        raise ValueError(f"Channel {silent[0]} of X is constant: there is nothing to learn from it. Leave it out.")
    refuse_extreme_values(mixtures, "X")
    return mixtures


def _by_rule(sources: np.ndarray, mixing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sources and mixing matrix in the order, scale and sign that the rule fixes."""
    scale = sources.std(axis=0)
    scale[scale == 0.0] = 1.0  # a source that is never heard stays silent
    largest = mixing[np.abs(mixing).argmax(axis=0), np.arange(mixing.shape[1])]
    scale *= np.where(largest < 0.0, -1.0, 1.0)
    sources, mixing = sources / scale, mixing * scale
    order = np.argsort(-(sources.var(axis=0) * (mixing**2).sum(axis=0)), kind="stable")
    return sources[:, order], mixing[:, order]
