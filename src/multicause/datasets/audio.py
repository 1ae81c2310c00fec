"""Short windows of speech, as used to learn sound components."""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, DTypeLike

from multicause.datasets.registry import locate

SILENCE = 0.05  # fraction of a recording's largest amplitude below which its ends count as silent
SAMPLE_RATE = 16_000


def speech_windows(
    n_voices: int = 10,
    window: int = 200,
    samples_per_voice: int | None = 41_720,
    amplitude: float = 5.0,
    *,
    voices: Sequence[ArrayLike] | None = None,
    dtype: DTypeLike = np.float64,
) -> np.ndarray:
    """All windows of consecutive samples of several voices (ET, Section 4.3.2).

    Each recording is centred, loses its silent beginning and end, is cut to its first `samples_per_voice` samples and
    is scaled to the largest absolute amplitude `amplitude`. With windows at stride 1 that lie inside one recording,

        y_n = (x_n, x_{n+1}, …, x_{n+window−1}),   N = Σ_voices (samples of the voice − window + 1).

    Parameters
    ----------
    n_voices : int, default=10
        How many of the recordings to use, from the first on. Of the 20 in the file the first ten are male.
    window : int, default=200
        Samples per data point: 12.5 ms at 16 kHz.
    samples_per_voice : int or None, default=41_720
        Most samples kept of each recording; None keeps them all. The default gives N = 389 522 for the ten male
        voices and windows of 200 (the paper has N = 389 510); one of them speaks for only a second in the file.
    amplitude : float, default=5.0
        Largest absolute value of each recording after scaling.
    voices : sequence of 1-D array-likes, default=None
        Recordings to use, the first `n_voices` of them. None reads "librispeech/libri20_5s_16k.npz" in the folder that
        the environment variable MULTICAUSE_DATA names: the first five seconds of ten male and ten female voices.
    dtype : numpy dtype, default=numpy.float64
        Floating type of the result; float32 halves its memory.

    Returns
    -------
    ndarray of shape (N, window)
        The windows, voice after voice, in order of time.
    """
    if window < 1:
        raise ValueError(f"window must be at least 1, got {window}. Give the number of samples of a data point.")
    if samples_per_voice is not None and samples_per_voice < 1:
        raise ValueError(f"samples_per_voice must be at least 1, got {samples_per_voice}. Use None to keep them all.")
    if not amplitude > 0.0:
        raise ValueError(f"amplitude must be above 0, got {amplitude}. Give the largest value wanted, such as 5.0.")
    recordings = _read_voices() if voices is None else list(voices)
    if not 1 <= n_voices <= len(recordings):
        raise ValueError(
            f"n_voices must be from 1 to {len(recordings)}, the number of recordings, got {n_voices}. "
            "Lower n_voices, or give more recordings in voices."
        )
    kept = [_spoken(recordings[v], v)[:samples_per_voice] for v in range(n_voices)]
    for v, voice in enumerate(kept):
        if voice.size < window:
            raise ValueError(
                f"window={window} is longer than the {voice.size} samples kept of voice {v}. "
                "Shorten window, raise samples_per_voice, or leave that voice out."
            )
    scaled = [(amplitude / np.abs(voice).max() * voice).astype(dtype) for voice in kept]
    return np.concatenate([sliding_window_view(voice, window) for voice in scaled])


def synthetic_voices(
    n_voices: int = 10, n_samples: int = 16_000, random_state: int | np.random.Generator | None = None
) -> list[np.ndarray]:
    """Generated stand-ins for voices: decaying harmonics with random onsets t_k, silent at both ends.

        x(t) = Σ_k a_k Σ_{j=1..4} sin(2π j f_k (t − t_k)) / j · exp(−(t − t_k)/τ),   t ≥ t_k

    Parameters
    ----------
    n_voices : int, default=10
        Number of recordings. Each has a pitch of its own, from which f_k deviates by up to a tenth.
    n_samples : int, default=16_000
        Length of each recording, in samples at 16 kHz.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    list of ndarray of shape (n_samples,)
        The recordings.
    """
    if n_voices < 1 or n_samples < 10:
        raise ValueError(
            f"n_voices must be at least 1 and n_samples at least 10, got {n_voices} and {n_samples}. "
            "A tenth of the samples at the beginning is silence; ask for longer recordings."
        )
    rng = np.random.default_rng(random_state)
    return [_synthetic_voice(n_samples, rng.uniform(80.0, 180.0), rng) for _ in range(n_voices)]


def _read_voices() -> list[np.ndarray]:
    with np.load(locate("librispeech/libri20_5s_16k.npz")) as stored:
        return list(stored["x"])


def _spoken(recording: ArrayLike, number: int) -> np.ndarray:
    """A recording, centred, without its silent beginning and end."""
    voice = np.asarray(recording, dtype=np.float64)
    if voice.ndim != 1 or voice.size == 0 or not np.isfinite(voice).all():
        raise ValueError(
            f"voices must hold non-empty 1-D arrays of finite samples, but voice {number} has shape {voice.shape}"
            f"{'' if np.isfinite(voice).all() else ' and samples that are not finite'}. "
            "Give one array per recording, one channel each."
        )
    voice = voice - voice.mean()
    loudness = np.abs(voice)
    if loudness.max() == 0.0:
        raise ValueError(f"voices must hold sound, but voice {number} is constant. Leave that recording out.")
    heard = np.flatnonzero(loudness > SILENCE * loudness.max())
    return voice[heard[0] : heard[-1] + 1]


def _synthetic_voice(n_samples: int, pitch: float, rng: np.random.Generator) -> np.ndarray:
    voice = np.zeros(n_samples)
    onsets = rng.integers(n_samples // 10, n_samples - n_samples // 5, size=max(3, n_samples // 1000))
    for onset in onsets:
        t = np.arange(n_samples - onset) / SAMPLE_RATE
        frequency = pitch * rng.uniform(0.9, 1.1)
        wave = sum(np.sin(2.0 * np.pi * j * frequency * t) / j for j in range(1, 5))
        voice[onset:] += rng.uniform(0.5, 1.0) * wave * np.exp(-t / 0.02)
    return voice
