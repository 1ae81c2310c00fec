"""Log-spectrograms of mixed sounds: sounds add, yet their log-spectrograms combine nearly by the maximum."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from multicause.datasets.registry import locate
from multicause.datasets.states import draw_states
from multicause.short_repr import short_repr

WINDOW, HOP = 200, 100  # samples of a Hamming window, and from one window to the next
LOWEST, HIGHEST = 100.0, 4000.0  # Hz, centres of the first and the last channel
SPEAKER = "lucas"
DIGITS = (1, 8, 9, 2, 3, 7, 0, 4, 5, 6)  # as the paper's phonemes: three begin voiced, three with a consonant; the rest


class AcousticMixtures(NamedTuple):
    """Log-spectrograms of mixed sounds together with the truth behind them.

    Attributes
    ----------
    X : ndarray of shape (N, D)
        Log-spectrograms of the mixtures, D = channels × frames; `X[n].reshape(50, 9)` has the lowest channel first.
    components : ndarray of shape (H, D)
        Log-spectrogram of each sound alone.
    states : ndarray of shape (N, H)
        Which sounds are present in each mixture, 0.0 or 1.0.
    """

    X: np.ndarray
    components: np.ndarray
    states: np.ndarray

    def __repr__(self) -> str:
        return short_repr(self)


def log_spectrogram(
    signal: ArrayLike,
    sample_rate: float = 8000.0,
    n_channels: int = 50,
    n_frames: int = 9,
    *,
    dynamic_range: float = 42.8,
    top: float = 10.0,
    reference: float | None = None,
) -> np.ndarray:
    """Logarithmic magnitudes of a short-time Fourier transform, from 0 up (MCA, Appendix E.4).

        m_ct = | Σ_k hamming_k z_{100t + k} exp(−2πi f_c k / sample_rate) |,   k = 0 … 199
        y_ct = top · max(0, 1 + 20 log₁₀(m_ct / reference) / dynamic_range)

    The centre frequencies f_c are spaced logarithmically from 100 to 4000 Hz. The signal is cut, or padded with zeros,
    to the 200 + 100 (n_frames − 1) samples that the windows cover.

    Parameters
    ----------
    signal : array-like of shape (..., n_samples)
        Waveforms along the last axis.
    sample_rate : float, default=8000.0
        Samples per second.
    n_channels : int, default=50
        Number of frequency channels.
    n_frames : int, default=9
        Number of Hamming windows of 200 samples, each 100 samples after the one before.
    dynamic_range : float, default=42.8
        Decibels below `reference` at which the result reaches 0 and stays there.
    top : float, default=10.0
        Value of a magnitude equal to `reference`.
    reference : float, default=None
        Magnitude that is given the value `top`; None takes the largest of all waveforms given.

    Returns
    -------
    ndarray of shape (..., n_channels, n_frames)
        Values ≥ 0, the lowest frequency first; silence gives zeros.
    """
    waves = np.asarray(signal, dtype=np.float64)
    if waves.ndim == 0 or waves.size == 0 or not np.isfinite(waves).all():
        raise ValueError(
            f"signal must hold finite samples along its last axis, got shape {waves.shape}"
            f"{'' if np.isfinite(waves).all() else ' with samples that are not finite'}. "
            "Give one waveform, or waveforms of one length as rows."
        )
    _check_spectrogram(sample_rate, n_channels, n_frames, dynamic_range, top, reference)
    magnitude = _magnitudes(_fit_length(waves, _covered(n_frames)), sample_rate, n_channels)
    if reference is None:
        reference = float(magnitude.max()) or 1.0
    floor = reference * 10.0 ** (-dynamic_range / 20.0)
    level = 20.0 * np.log10(np.maximum(magnitude, floor) / floor)  # decibels above the floor
    return top / dynamic_range * level


def acoustic_mixtures(
    n_samples: int = 500,
    n_sounds: int = 6,
    *,
    probability: ArrayLike | None = None,
    sounds: Sequence[ArrayLike] | None = None,
    sample_rate: float = 8000.0,
    random_state: int | np.random.Generator | None = None,
) -> AcousticMixtures:
    """Mix sounds and take the log-spectrograms of the mixtures (MCA, Section 6.9 and Appendix E.4).

        s_h ~ Bernoulli(π_h),   y = log_spectrogram(Σ_h s_h z_h)

    Each sound z_h is cut or padded to 1000 samples and scaled to unit power. The strongest channel of all single
    sounds has the value 10; a mixture exceeds it a little where sounds with the same strong channel meet.

    Parameters
    ----------
    n_samples : int, default=500
        Number N of mixtures.
    n_sounds : int, default=6
        Number H of sounds, taken from the first on.
    probability : float or array-like of shape (H,), default=None
        Probability of each sound to be present. None means 2/H: two sounds per mixture on average.
    sounds : sequence of 1-D array-likes, default=None
        Waveforms to mix. None reads "fsdd/fsdd_600_8k.npz" in the folder that the environment variable MULTICAUSE_DATA
        names: beginnings of the ten spoken digits of one male voice, in the order 1, 8, 9, 2, 3, 7, 0, 4, 5, 6.
    sample_rate : float, default=8000.0
        Samples per second of `sounds`.
    random_state : int, numpy.random.Generator or None, default=None
        Source of randomness.

    Returns
    -------
    AcousticMixtures
        The log-spectrograms with the components and states behind them.
    """
    recordings = _read_digits() if sounds is None else list(sounds)
    if not 1 <= n_sounds <= len(recordings):
        raise ValueError(
            f"n_sounds must be from 1 to {len(recordings)}, the number of sounds at hand, got {n_sounds}. "
            "Lower n_sounds, or give more waveforms in sounds."
        )
    waves = np.array([_unit_power(recordings[h], h) for h in range(n_sounds)])
    states = draw_states(n_samples, n_sounds, probability, np.random.default_rng(random_state))
    components = log_spectrogram(waves, sample_rate)
    strongest = float(_magnitudes(waves, sample_rate, components.shape[1]).max())
    X = log_spectrogram(states @ waves, sample_rate, reference=strongest)
    return AcousticMixtures(X.reshape(n_samples, -1), components.reshape(n_sounds, -1), states)


def _covered(n_frames: int) -> int:
    """Samples that the windows cover."""
    return WINDOW + HOP * (n_frames - 1)


def _fit_length(waves: np.ndarray, length: int) -> np.ndarray:
    """Waveforms, cut or padded with zeros to `length` samples."""
    kept = waves[..., :length]
    padding = [(0, 0)] * (waves.ndim - 1) + [(0, length - kept.shape[-1])]
    return np.pad(kept, padding)


def _magnitudes(waves: np.ndarray, sample_rate: float, n_channels: int) -> np.ndarray:
    """|short-time Fourier transform| at the centre frequencies, (..., T) → (..., n_channels, n_frames)."""
    frequencies = np.geomspace(LOWEST, HIGHEST, n_channels)
    angles = 2.0 * np.pi / sample_rate * np.outer(np.arange(WINDOW), frequencies)
    filters = np.hamming(WINDOW)[:, None] * np.exp(-1j * angles)
    frames = sliding_window_view(waves, WINDOW, axis=-1)[..., ::HOP, :]
    return np.abs(np.swapaxes(frames @ filters, -1, -2))


def _unit_power(sound: ArrayLike, number: int) -> np.ndarray:
    """One sound of 1000 samples with mean square 1."""
    wave = np.asarray(sound, dtype=np.float64)
    if wave.ndim != 1 or wave.size == 0 or not np.isfinite(wave).all():
        raise ValueError(
            f"sounds must hold non-empty 1-D arrays of finite samples, but sound {number} has shape {wave.shape}"
            f"{'' if np.isfinite(wave).all() else ' and samples that are not finite'}. "
            "Give one array per sound, one channel each."
        )
    wave = _fit_length(wave, _covered(9))
    power = np.mean(wave**2)
    if power == 0.0:
        raise ValueError(
            f"sounds must be heard in their first {wave.size} samples, but sound {number} is zero there. "
            "Cut its silent beginning, or leave it out."
        )
    return wave / np.sqrt(power)


def _read_digits() -> list[np.ndarray]:
    """First recording of each digit of one speaker, from where it is first heard."""
    with np.load(locate("fsdd/fsdd_600_8k.npz")) as stored:
        samples, offset = stored["x"], stored["offset"]
        first = (stored["speaker"] == SPEAKER) & (stored["take"] == 0)
        number = {int(digit): int(i) for i, digit in enumerate(stored["digit"]) if first[i]}
    return [_from_onset(samples[offset[number[d]] : offset[number[d] + 1]]) for d in DIGITS]


def _from_onset(recording: np.ndarray) -> np.ndarray:
    wave = recording - recording.mean(dtype=np.float64)
    return wave[np.argmax(np.abs(wave) > 0.05 * np.abs(wave).max()) :]


def _check_spectrogram(
    sample_rate: float, n_channels: int, n_frames: int, dynamic_range: float, top: float, reference: float | None
) -> None:
    if not sample_rate >= 2.0 * HIGHEST:
        raise ValueError(
            f"sample_rate must be at least {2.0 * HIGHEST:g}, twice the highest channel in Hz, got {sample_rate}. "
            "Use recordings with more samples per second."
        )
    if n_channels < 2 or n_frames < 1:
        raise ValueError(
            f"n_channels must be at least 2 and n_frames at least 1, got {n_channels} and {n_frames}. "
            "The paper has 50 channels and 9 frames."
        )
    named = {"dynamic_range": dynamic_range, "top": top, "reference": 1.0 if reference is None else reference}
    for name, value in named.items():
        if not 0.0 < value < np.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}. Leave it out for the paper's setting.")
