"""Recordings that serve as the sources of a mixture."""

from collections.abc import Callable

import numpy as np

from multicause.datasets.registry import locate


def load_sources(name: str = "speech4") -> np.ndarray:
    """Sources of the separation benchmarks (GSC, Section 5.4), each with mean 0 and variance 1.

    They are read from the folder that the environment variable MULTICAUSE_DATA names. "speech4" is the ICALAB benchmark
    of the paper. The others stand in for benchmarks of as many sources: "voices10" are ten male voices (10halo),
    "voices20" ten male and ten female ones (Speech20), "eeg19" nineteen channels of an EEG (EEG19).

    Parameters
    ----------
    name : {"speech4", "voices10", "voices20", "eeg19"}, default="speech4"
        Which sources.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        The sources, in order of time.
    """
    if name not in _READERS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _READERS))}, got {name!r}. Choose one of these.")
    sources = _READERS[name]().T.astype(np.float64)
    return (sources - sources.mean(axis=0)) / sources.std(axis=0)


def _read(path: str, key: str) -> np.ndarray:
    with np.load(locate(path)) as stored:
        return stored[key]


def _voices() -> np.ndarray:
    return _read("librispeech/libri20_5s_16k.npz", "x")


_READERS: dict[str, Callable[[], np.ndarray]] = {
    "speech4": lambda: _read("icalab/Speech4.npz", "Speech4"),
    "voices10": lambda: _voices()[:10],
    "voices20": _voices,
    "eeg19": lambda: _read("eeg/eeglab_sample_32ch_128hz.npz", "data")[:19],
}
