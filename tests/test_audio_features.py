"""Log-spectrograms show a tone where it lies, and those of mixed sounds are nearly the maximum of their parts."""

import numpy as np
import pytest

from multicause.datasets import DatasetNotFound, acoustic_mixtures, data_folder, log_spectrogram, synthetic_voices

CENTRES = np.geomspace(100.0, 4000.0, 50)


def tone(frequency, n_samples=1000, sample_rate=8000):
    return np.sin(2.0 * np.pi * frequency * np.arange(n_samples) / sample_rate)


@pytest.fixture
def six_sounds():
    """Tones far apart, each with its own length."""
    return [
        tone(f, n) for f, n in zip((150, 350, 700, 1300, 2200, 3500), (1000, 700, 1400, 1000, 500, 2000), strict=True)
    ]


@pytest.fixture(scope="module")
def generated_folder(tmp_path_factory):
    """A file laid out like the spoken digits, with generated sounds of two speakers and two takes."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "fsdd").mkdir()
    voices = [1000.0 * voice for voice in synthetic_voices(40, 1500, random_state=0)]
    np.savez(
        folder / "fsdd" / "fsdd_600_8k.npz",
        x=np.concatenate(voices).astype(np.int16),
        offset=1500 * np.arange(41),
        speaker=np.repeat(["george", "lucas"], 20),
        digit=np.tile(np.repeat(np.arange(10), 2), 2).astype(np.uint8),
        take=np.tile([0, 1], 20).astype(np.uint8),
        srate=8000,
    )
    return folder


@pytest.fixture
def any_data(generated_folder, monkeypatch):
    """The real data where the machine has them, else generated ones in the same layout."""
    if data_folder() is None:
        monkeypatch.setenv("MULTICAUSE_DATA", str(generated_folder))


# ---- log-spectrograms ----


@pytest.mark.parametrize("channel", [12, 25, 40])
def test_a_tone_is_strongest_in_its_channel_in_every_frame(channel):
    features = log_spectrogram(tone(CENTRES[channel]))
    assert features.shape == (50, 9)
    assert features.min() == 0.0
    assert features.max() == pytest.approx(10.0)
    assert (features.argmax(axis=0) == channel).all()


def test_magnitudes_equal_the_definition():
    signal = np.random.default_rng(0).standard_normal(1000)
    magnitude = np.zeros((50, 9))
    for c, frequency in enumerate(CENTRES):
        for t in range(9):
            frame = signal[100 * t : 100 * t + 200] * np.hamming(200)
            magnitude[c, t] = abs(np.sum(frame * np.exp(-2j * np.pi * frequency * np.arange(200) / 8000)))
    decibels = 20.0 * np.log10(magnitude / magnitude.max())
    np.testing.assert_allclose(log_spectrogram(signal), 10.0 * np.maximum(0.0, 1.0 + decibels / 42.8), atol=1e-12)


def test_a_tenth_of_the_amplitude_is_twenty_decibels_below():
    signal = np.random.default_rng(0).standard_normal(1000)
    loud, quiet = log_spectrogram([signal, 0.1 * signal])
    seen = quiet > 0.0
    assert seen.any()
    np.testing.assert_allclose(loud[seen] - quiet[seen], 10.0 * 20.0 / 42.8)
    np.testing.assert_allclose(log_spectrogram(0.1 * signal), loud, atol=1e-12)


def test_the_reference_is_given_the_top_value():
    signal = tone(CENTRES[25])
    strongest = log_spectrogram(signal, reference=54.0, dynamic_range=60.0, top=3.0).max()
    assert strongest == pytest.approx(3.0, abs=0.02)  # half the sum of a Hamming window of 200 samples is 54
    assert log_spectrogram(signal, reference=27.0, dynamic_range=60.0, top=3.0).max() > 3.0


def test_short_signals_are_padded_and_long_ones_cut():
    signal = np.random.default_rng(0).standard_normal(1500)
    np.testing.assert_array_equal(log_spectrogram(signal), log_spectrogram(signal[:1000]))
    np.testing.assert_array_equal(log_spectrogram(signal[:700]), log_spectrogram(np.r_[signal[:700], np.zeros(300)]))
    assert not log_spectrogram(signal[:700])[:, 7:].any()
    assert log_spectrogram(signal, n_channels=20, n_frames=14).shape == (20, 14)


def test_silence_is_zero():
    assert not log_spectrogram(np.zeros(1000)).any()


def test_a_higher_sample_rate_finds_the_same_tone():
    features = log_spectrogram(tone(CENTRES[40], sample_rate=16_000), 16_000)
    assert (features.argmax(axis=0) == 40).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"signal": []}, r"signal must hold finite samples along its last axis, got shape \(0,\)"),
        ({"signal": [0.0, np.nan]}, "with samples that are not finite. Give one waveform"),
        ({"sample_rate": 4000}, "sample_rate must be at least 8000, twice the highest channel in Hz, got 4000"),
        ({"n_channels": 1}, "n_channels must be at least 2 and n_frames at least 1, got 1 and 9"),
        ({"n_frames": 0}, "n_frames at least 1, got 50 and 0. The paper has 50 channels and 9 frames"),
        ({"dynamic_range": 0.0}, "dynamic_range must be above 0 and finite, got 0.0"),
        ({"top": -1.0}, "top must be above 0 and finite, got -1.0. Leave it out"),
        ({"reference": np.inf}, "reference must be above 0 and finite, got inf"),
    ],
)
def test_log_spectrogram_says_what_is_wrong_with_an_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        log_spectrogram(**({"signal": tone(1000.0)} | arguments))


# ---- mixtures ----


def test_mixtures_are_log_spectrograms_of_sums_of_sounds_of_unit_power(six_sounds):
    mixtures = acoustic_mixtures(300, sounds=six_sounds, random_state=0)
    assert mixtures.X.shape == (300, 450)
    assert mixtures.components.shape == (6, 450)
    waves = np.array([np.r_[sound, np.zeros(1000)][:1000] for sound in six_sounds])
    waves /= np.sqrt((waves**2).mean(axis=1, keepdims=True))
    several = log_spectrogram(np.vstack([waves, mixtures.states @ waves])).reshape(306, 450)
    shift = several[:6].max() - 10.0  # the reference is the strongest single sound, not the strongest mixture
    heard = several[6:] > 0.0
    np.testing.assert_allclose(mixtures.X[heard], (several[6:] - shift)[heard], atol=1e-9)
    assert mixtures.components.max() == pytest.approx(10.0)


def test_a_mixture_of_one_sound_is_its_component_and_of_none_is_zero(six_sounds):
    mixtures = acoustic_mixtures(300, sounds=six_sounds, random_state=0)
    count = mixtures.states.sum(axis=1)
    assert {0.0, 1.0, 2.0, 3.0} <= set(count)
    assert not mixtures.X[count == 0].any()
    single = count == 1
    np.testing.assert_allclose(mixtures.X[single], mixtures.states[single] @ mixtures.components, atol=1e-9)


@pytest.mark.usefixtures("any_data")
def test_spoken_digits_mix_nearly_by_the_maximum():
    mixtures = acoustic_mixtures(random_state=0)
    assert mixtures.X.shape == (500, 450)
    assert mixtures.X.min() == 0.0
    assert mixtures.X.max() < 10.0 + 10.0 * 20.0 * np.log10(6.0) / 42.8
    assert mixtures.states.sum(axis=1).mean() == pytest.approx(2.0, abs=0.2)
    largest = (mixtures.states[:, :, None] * mixtures.components).max(axis=1)
    assert np.abs(mixtures.X - largest).mean() < 0.8
    assert np.corrcoef(mixtures.components)[np.triu_indices(6, 1)].max() < 0.95


@pytest.mark.usefixtures("any_data")
def test_fewer_spoken_digits_are_the_first_of_more():
    few, all_ten = (acoustic_mixtures(10, n, random_state=0).components for n in (3, 10))
    assert few.shape == (3, 450)
    seen = (few > 0.0) & (all_ten[:3] > 0.0)
    np.testing.assert_allclose(np.ptp((few - all_ten[:3])[seen]), 0.0, atol=1e-9)


def test_spoken_digits_are_first_takes_of_one_speaker(generated_folder, monkeypatch):
    monkeypatch.setenv("MULTICAUSE_DATA", str(generated_folder))
    stored = np.load(generated_folder / "fsdd" / "fsdd_600_8k.npz")
    recording = stored["x"][1500 * 22 : 1500 * 23].astype(float)  # lucas, digit 1, take 0
    wave = recording - recording.mean()
    onset = np.flatnonzero(np.abs(wave) > 0.05 * np.abs(wave).max())[0]
    expected = log_spectrogram(np.r_[wave[onset:], np.zeros(1000)])
    np.testing.assert_allclose(acoustic_mixtures(1, 1).components[0], expected.ravel(), atol=1e-9)


def test_mixtures_repeat_for_a_seed_and_follow_the_probabilities(six_sounds):
    probability = np.array([0.0, 1.0, 0.2, 0.8, 0.5, 0.5])
    first, again, other = (
        acoustic_mixtures(3000, sounds=six_sounds, probability=probability, random_state=s) for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    np.testing.assert_allclose(first.states.mean(axis=0), probability, atol=0.04)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
        ({"n_sounds": 7}, "n_sounds must be from 1 to 6, the number of sounds at hand, got 7"),
        ({"n_sounds": 0}, "n_sounds must be from 1 to 6, .* got 0. Lower n_sounds"),
        ({"probability": 1.5}, r"probability must lie in \[0, 1\].*use k / 6"),
        ({"sample_rate": 0.0}, "sample_rate must be at least 8000"),
        ({"n_sounds": 1, "sounds": [np.ones((2, 9))]}, r"1-D arrays of finite samples, but sound 0 has shape \(2, 9\)"),
        ({"n_sounds": 1, "sounds": [[1.0, np.nan]]}, "sound 0 has shape .* samples that are not finite"),
        ({"n_sounds": 1, "sounds": [np.r_[np.zeros(1000), 1.0]]}, "first 1000 samples, but sound 0 is zero there"),
    ],
)
def test_mixtures_say_what_is_wrong_with_an_argument(six_sounds, arguments, message):
    with pytest.raises(ValueError, match=message):
        acoustic_mixtures(**({"n_samples": 5, "sounds": six_sounds} | arguments))


def test_missing_digits_are_named(monkeypatch):
    monkeypatch.delenv("MULTICAUSE_DATA", raising=False)
    with pytest.raises(DatasetNotFound, match=r"'fsdd/fsdd_600_8k.npz'.*MULTICAUSE_DATA is not set"):
        acoustic_mixtures()
