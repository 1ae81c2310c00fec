"""Generated data have the structure they promise, and files are found or missed with a helpful word."""

import numpy as np
import pytest
from PIL import Image

from multicause.datasets import (
    DatasetNotFound,
    bar_components,
    data_folder,
    image_patches,
    load_crabs,
    load_frey_faces,
    load_grass,
    load_mnist,
    locate,
    make_bars,
    natural_patches,
    speech_windows,
    synthetic_voices,
)


def write_generated_data(folder):
    """Files laid out like the real data folder, with generated contents."""
    rng = np.random.default_rng(0)
    (folder / "mnist").mkdir()
    np.savez(
        folder / "mnist" / "mnist_t10k.npz",
        images=rng.integers(0, 256, size=(1200, 28, 28), dtype=np.uint8),
        labels=rng.integers(0, 10, size=1200, dtype=np.uint8),
    )
    (folder / "librispeech").mkdir()
    voices = np.array(synthetic_voices(20, 80_000, random_state=0))
    np.savez(folder / "librispeech" / "libri20_5s_16k.npz", x=(3000 * voices).astype(np.int16), srate=16_000)
    (folder / "van-hateren").mkdir()
    grass = 5000.0 * rng.random((1024, 1536)) ** 3 + np.linspace(100.0, 900.0, 1536)
    Image.fromarray(grass.astype(np.uint16)).save(folder / "van-hateren" / "tvlearn_grass_imc_u16.png")
    (folder / "frey-faces").mkdir()
    faces = rng.integers(0, 256, size=(1965, 28, 20), dtype=np.uint8)
    np.savez(folder / "frey-faces" / "frey_faces.npz", faces=faces)
    (folder / "crabs").mkdir()
    lines = ['"","sp","sex","index","FL","RW","CL","CW","BD"']
    lines += [f'"{i}","{"BO"[i // 100]}","{"MF"[i // 50 % 2]}",{i % 50 + 1},8.1,6.7,16.1,{i},7' for i in range(200)]
    (folder / "crabs" / "crabs.csv").write_text("\n".join(lines))
    (folder / "natural-images-helsinki").mkdir()
    for number in range(1, 8):
        image = rng.integers(0, 256, size=(256, 512), dtype=np.uint8)
        Image.fromarray(image).save(folder / "natural-images-helsinki" / f"{number:02d}.png")


@pytest.fixture(scope="module")
def generated_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_generated_data(folder)
    return folder


@pytest.fixture
def generated_data(generated_folder, monkeypatch):
    monkeypatch.setenv("MULTICAUSE_DATA", str(generated_folder))
    return generated_folder


@pytest.fixture
def any_data(generated_folder, monkeypatch):
    """The real data where the machine has them, else generated ones in the same layout."""
    if data_folder() is None:
        monkeypatch.setenv("MULTICAUSE_DATA", str(generated_folder))


# ---- bars ----


def test_bars_are_the_rows_and_columns_of_the_grid():
    images = bar_components(size=4, pixel_value=3.0).reshape(8, 4, 4)
    for i in range(4):
        horizontal, vertical = np.zeros((4, 4)), np.zeros((4, 4))
        horizontal[i], vertical[:, i] = 3.0, 3.0
        np.testing.assert_array_equal(images[i], horizontal)
        np.testing.assert_array_equal(images[4 + i], vertical)


@pytest.mark.parametrize("size", [4, 5])
def test_signed_bars_are_negative_by_half_and_in_both_orientations(size):
    signs = np.sign(bar_components(size, signed=True).sum(axis=1))
    assert np.count_nonzero(signs < 0) == size
    assert set(signs[:size]) == set(signs[size:]) == {-1.0, 1.0}
    np.testing.assert_array_equal(np.abs(bar_components(size, signed=True)), bar_components(size))


def test_noiseless_bars_are_the_sum_of_their_states():
    bars = make_bars(50, size=3, noise=0.0, random_state=0)
    assert bars.X.shape == (50, 9)
    assert bars.components.shape == (6, 9)
    assert set(np.unique(bars.states)) == {0.0, 1.0}
    np.testing.assert_array_equal(bars.X, bars.states @ bars.components)


def test_bars_have_two_causes_each_on_average_and_the_noise_asked_for():
    bars = make_bars(20_000, random_state=1)
    assert bars.states.sum(axis=1).mean() == pytest.approx(2.0, abs=0.05)
    residual = bars.X - bars.states @ bars.components
    assert residual.std() == pytest.approx(2.0, rel=0.01)
    assert residual.mean() == pytest.approx(0.0, abs=0.02)


def test_bars_follow_a_probability_per_bar():
    probability = np.array([0.0, 1.0, 0.2, 0.8])
    states = make_bars(20_000, size=2, probability=probability, random_state=2).states
    np.testing.assert_allclose(states.mean(axis=0), probability, atol=0.02)
    assert make_bars(20_000, size=2, probability=0.7, random_state=2).states.mean() == pytest.approx(0.7, abs=0.02)


def test_bars_repeat_for_a_seed_and_change_with_it():
    first, again, other = (make_bars(20, random_state=seed).X for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, make_bars(20, random_state=np.random.default_rng(3)).X)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
        ({"noise": -1.0}, "noise must be a standard deviation ≥ 0, got -1.0.*noise=0"),
        ({"noise": float("nan")}, "noise must be a standard deviation"),
        ({"probability": [0.1, 0.2]}, r"probability must be one number or .* shape \(10,\), got shape \(2,\)"),
        ({"probability": 1.5}, r"probability must lie in \[0, 1\], got values from 1.5 to 1.5"),
    ],
)
def test_bars_say_what_is_wrong_with_an_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_bars(**arguments)


# ---- registry ----


def test_a_file_is_located_in_the_folder_that_the_variable_names(generated_data):
    assert data_folder() == generated_data
    assert locate("mnist/mnist_t10k.npz") == generated_data / "mnist" / "mnist_t10k.npz"


@pytest.mark.parametrize("value", [None, ""])
def test_an_unset_data_folder_is_none_and_the_error_says_how_to_set_it(monkeypatch, value):
    monkeypatch.delenv("MULTICAUSE_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("MULTICAUSE_DATA", value)
    assert data_folder() is None
    with pytest.raises(
        DatasetNotFound, match=r"'mnist/mnist_t10k.npz'.*MULTICAUSE_DATA is not set. Set MULTICAUSE_DATA"
    ):
        load_mnist()


def test_a_missing_file_is_named_together_with_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MULTICAUSE_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"'librispeech/libri20_5s_16k.npz'.* does not hold it") as caught:
        speech_windows()
    assert tmp_path.name in str(caught.value)


# ---- MNIST ----


@pytest.mark.usefixtures("any_data")
def test_mnist_is_a_thousand_images_between_zero_and_one():
    X, labels = load_mnist(random_state=0)
    assert X.shape == (1000, 784)
    assert X.dtype == np.float64
    assert X.min() == 0.0
    assert X.max() == 1.0
    assert labels.shape == (1000,)
    assert set(labels) == set(range(10))


def test_mnist_subset_keeps_images_with_their_labels_and_draws_none_twice(generated_data):
    stored = np.load(generated_data / "mnist" / "mnist_t10k.npz")
    X, labels = load_mnist(1200, random_state=0)
    rows = {image.tobytes(): i for i, image in enumerate(stored["images"].reshape(1200, -1))}
    order = [rows[image.tobytes()] for image in np.rint(255 * X).astype(np.uint8)]
    assert sorted(order) == list(range(1200))
    assert order != list(range(1200))
    np.testing.assert_array_equal(labels, stored["labels"][order])


@pytest.mark.usefixtures("generated_data")
def test_mnist_subset_repeats_for_a_seed_and_changes_with_it():
    first, again, other = (load_mnist(20, random_state=seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.usefixtures("generated_data")
@pytest.mark.parametrize("n_samples", [0, 1201])
def test_mnist_says_how_many_images_there_are(n_samples):
    with pytest.raises(ValueError, match=f"n_samples must be from 1 to 1200, got {n_samples}"):
        load_mnist(n_samples)


# ---- speech ----


def test_windows_slide_by_one_sample_and_never_cross_recordings():
    first, second = np.arange(1.0, 9.0), -(np.arange(1.0, 7.0) ** 2)
    windows = speech_windows(2, 3, None, voices=[first, second])
    assert windows.shape == ((8 - 2) + (6 - 2), 3)
    for voice, part in ((first, windows[:6]), (second, windows[6:])):
        centred = voice - voice.mean()
        centred *= 5.0 / np.abs(centred).max()
        for n, row in enumerate(part):
            np.testing.assert_allclose(row, centred[n : n + 3])


def test_each_recording_fills_the_amplitude_asked_for():
    voices = [
        gain * voice for gain, voice in zip((0.01, 700.0), synthetic_voices(2, 4000, random_state=0), strict=True)
    ]
    for v in range(2):
        assert np.abs(speech_windows(1, 50, 1000, 3.0, voices=voices[v:])).max() == pytest.approx(3.0)


def test_silent_ends_are_cut_and_pauses_inside_are_kept():
    sound = np.tile([1.0, -1.0], 20)
    quiet = np.full(30, 0.01)
    voice = np.concatenate([quiet, sound, quiet, sound, quiet]) - 1.0
    assert speech_windows(1, 1, None, voices=[voice]).size == 40 + 30 + 40


def test_samples_per_voice_keeps_the_beginning():
    voice = synthetic_voices(1, 8000, random_state=1)
    whole, cut = (speech_windows(1, 10, n, voices=voice) for n in (None, 500))
    assert cut.shape == (491, 10)
    ratio = cut[:, 0] @ whole[:491, 0] / (whole[:491, 0] @ whole[:491, 0])
    np.testing.assert_allclose(cut, ratio * whole[:491], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_come_in_the_dtype_asked_for(dtype):
    voices = synthetic_voices(2, 2000, random_state=0)
    windows = speech_windows(2, 20, voices=voices, dtype=dtype)
    assert windows.dtype == dtype
    np.testing.assert_allclose(windows, speech_windows(2, 20, voices=voices), rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("any_data")
def test_ten_recorded_voices_give_about_as_many_windows_as_the_paper():
    n_windows = speech_windows(window=1).size - 10 * 199
    assert 380_000 < n_windows < 420_000


@pytest.mark.usefixtures("any_data")
def test_recorded_windows_fill_the_range_of_the_paper():
    windows = speech_windows(3, samples_per_voice=3000, dtype=np.float32)
    assert windows.shape == (3 * 2801, 200)
    np.testing.assert_allclose([np.abs(part).max() for part in np.split(windows, 3)], 5.0, rtol=1e-6)


def test_synthetic_voices_repeat_for_a_seed_and_begin_and_end_in_silence():
    first, again, other = (synthetic_voices(3, 8000, random_state=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])
    for voice in first:
        assert not voice[:800].any()
        assert np.abs(voice[-400:]).max() < 0.02 * np.abs(voice).max()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": 0}, "window must be at least 1, got 0"),
        ({"amplitude": 0.0}, "amplitude must be above 0, got 0.0"),
        ({"samples_per_voice": 0}, "samples_per_voice must be at least 1, got 0. Use None"),
        ({"n_voices": 3}, "n_voices must be from 1 to 2, the number of recordings, got 3"),
        ({"window": 5000}, r"window=5000 is longer than the \d+ samples kept of voice 0.*raise samples_per_voice"),
        ({"voices": [np.ones(400), np.ones(400)]}, "voice 0 is constant"),
        ({"voices": [np.ones((2, 400))] * 2}, r"1-D arrays of finite samples, but voice 0 has shape \(2, 400\)"),
        ({"voices": [[0.0, np.nan, 1.0]] * 2}, "voice 0 has shape .* samples that are not finite"),
    ],
)
def test_speech_windows_say_what_is_wrong_with_an_argument(arguments, message):
    voices = synthetic_voices(2, 2000, random_state=0)
    with pytest.raises(ValueError, match=message):
        speech_windows(**({"n_voices": 2, "window": 20, "voices": voices} | arguments))


def test_synthetic_voices_say_what_is_wrong_with_an_argument():
    with pytest.raises(ValueError, match="n_samples at least 10, got 1 and 5"):
        synthetic_voices(1, 5)


# ---- image patches ----


def test_patches_are_squares_of_the_image_from_every_position():
    image = np.arange(5 * 7, dtype=float).reshape(5, 7)  # a pixel's value says where it is
    patches = image_patches(image, 3, 500, random_state=0)
    assert patches.shape == (500, 9)
    for patch in patches:
        row, column = divmod(int(patch[0]), 7)
        np.testing.assert_array_equal(patch.reshape(3, 3), image[row : row + 3, column : column + 3])
    assert {divmod(int(first), 7) for first in patches[:, 0]} == {(r, c) for r in range(3) for c in range(5)}


def test_patches_repeat_for_a_seed_and_change_with_it():
    image = np.random.default_rng(0).random((20, 30))
    first, again, other = (image_patches(image, 4, 50, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_patches_are_scaled_by_the_whole_image():
    image = np.random.default_rng(0).normal(5.0, 2.0, size=(20, 30))
    expected = 10.0 * (image - image.min()) / np.ptp(image)
    for n_patches in (1, 200):
        scaled = image_patches(image, 4, n_patches, scale=10.0, random_state=0)
        np.testing.assert_allclose(scaled, image_patches(expected, 4, n_patches, random_state=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"image": np.zeros((9, 9, 3))},
            r"image must be .* shape \(height, width\).* got shape \(9, 9, 3\).*grey values",
        ),
        ({"image": np.full((9, 9), np.inf)}, "with values that are not finite"),
        ({"size": 0}, "size must be from 1 to 20, the shorter side of the image, got 0"),
        ({"size": 21}, "size must be from 1 to 20, .* got 21. Take smaller patches"),
        ({"n_patches": 0}, "n_patches must be at least 1, got 0"),
        ({"scale": 0.0}, "scale must be above 0 and finite, got 0.0"),
        ({"image": np.ones((20, 20)), "scale": 10.0}, "scale=10.0 needs .* every pixel is 1. .*scale=None"),
    ],
)
def test_patches_say_what_is_wrong_with_an_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        image_patches(**({"image": np.random.default_rng(0).random((20, 30))} | arguments))


@pytest.mark.usefixtures("any_data")
@pytest.mark.parametrize("corner", ["lower left", "lower right", "upper left", "upper right"])
def test_grass_fills_its_range_and_few_pixels_are_bright(corner):
    grass = load_grass(corner)
    assert grass.shape == (250, 250)
    assert grass.min() == 0.0
    assert grass.max() == 10.0
    assert grass.mean() < 4.0
    assert image_patches(grass, n_patches=40, random_state=0).shape == (40, 100)


@pytest.mark.parametrize("corner", ["lower left", "lower right", "upper left", "upper right"])
def test_grass_is_a_corner_of_the_picture_at_half_its_resolution(generated_data, corner):
    with Image.open(generated_data / "van-hateren" / "tvlearn_grass_imc_u16.png") as stored:
        pixels = np.asarray(stored, dtype=float)
    top, left = 524 if "lower" in corner else 0, 1036 if "right" in corner else 0
    segment = pixels[top : top + 500, left : left + 500]
    halved = (segment[::2, ::2] + segment[1::2, ::2] + segment[::2, 1::2] + segment[1::2, 1::2]) / 4.0
    np.testing.assert_allclose(load_grass(corner, scale=3.0), 3.0 * (halved - halved.min()) / np.ptp(halved))


@pytest.mark.usefixtures("generated_data")
def test_grass_names_its_corners():
    with pytest.raises(ValueError, match=r"corner must be one of \['lower left', .*\], got 'centre'"):
        load_grass("centre")


# ---- natural images, faces and crabs ----


def test_natural_patches_come_from_all_images_in_equal_shares(any_data):
    X = natural_patches(8, 70, random_state=0)
    assert (X.shape, X.dtype) == ((70, 64), np.float32)
    np.testing.assert_array_equal(X, natural_patches(8, 70, random_state=0))
    assert not np.array_equal(X, natural_patches(8, 70, random_state=1))
    assert natural_patches(8, 3, random_state=0).shape == (3, 64)
    many = natural_patches(8, 7000, random_state=0)
    assert abs(many.mean()) < 0.1
    assert abs(many.std() - 1.0) < 0.1


def test_faces_are_rows_of_pixels_from_0_to_1(any_data):
    X = load_frey_faces()
    assert X.shape == (1965, 560)
    assert 0.0 <= X.min() < 0.2
    assert 0.8 < X.max() <= 1.0


def test_crabs_are_two_hundred_in_four_groups_of_fifty(any_data):
    crabs = load_crabs()
    assert crabs.X.shape == (200, 5)
    assert np.bincount(crabs.groups).tolist() == [50, 50, 50, 50]
    assert crabs.groups[[0, 50, 100, 150]].tolist() == [0, 1, 2, 3]
    assert crabs.X[0, :3].tolist() == [8.1, 6.7, 16.1]
    assert len(crabs.names) == 4
