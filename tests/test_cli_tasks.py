"""`multicause denoise`, `inpaint` and `separate`, as a new user would try them."""

import sys

import numpy as np
import pytest

from multicause.media import read_audio, read_image, write_audio, write_image
from multicause.metrics import psnr
from multicause.tables import read_table
from multicause.tasks import denoise_image, inpaint_image, separate_sources

from command_line import refused, succeed

QUICK = ("--patch-size", 4, "-n", 8, "--iterations", 4, "--seed", 1000, "--threads", 1)
SETTINGS = {"patch_size": 4, "n_components": 8, "max_iter": 4, "random_state": 1000}


@pytest.fixture
def pictures(folder):
    """clean.png, noisy.png, colour.jpg, mask.png: white where one pixel in five is missing."""
    rng = np.random.default_rng(1000)
    y, x = np.mgrid[:24, :30]
    clean = 60 + 80 * (x % 10 < 5) + 60 * (y % 12 < 6)
    noisy = np.clip(clean + 20 * rng.normal(size=clean.shape), 0, 255).astype(np.uint8)
    write_image("clean.png", clean.astype(np.uint8))
    write_image("noisy.png", noisy)
    write_image("colour.jpg", np.stack([noisy, noisy[::-1], noisy], axis=-1))
    write_image("mask.png", (255 * (rng.random(clean.shape) < 0.2)).astype(np.uint8))
    return folder


@pytest.fixture
def sounds(folder):
    """mix.wav: two mixtures of two sparse sources."""
    rng = np.random.default_rng(1000)
    sources = rng.laplace(size=(2000, 2)) * (rng.random((2000, 2)) < 0.3)
    mixtures = sources @ rng.normal(size=(2, 2))
    write_audio("mix.wav", mixtures / np.abs(mixtures).max(), 8000)
    return folder


def test_denoise_writes_what_the_function_returns(pictures):
    said = succeed("denoise", "noisy.png", "-o", "out.png", *QUICK)
    result = denoise_image(read_image("noisy.png", as_stored=True), **SETTINGS)
    np.testing.assert_array_equal(read_image("out.png", as_stored=True), result.image, strict=True)
    assert f"{result.noise_level:.3g} removed. Picture written to out.png" in said


def test_denoise_with_its_defaults_writes_beside_and_leaves_the_picture_alone(pictures):
    before = (pictures / "noisy.png").read_bytes()
    succeed("denoise", "noisy.png")
    assert (pictures / "noisy.png").read_bytes() == before
    clean = read_image("clean.png")
    assert psnr(read_image("noisy-denoised.png"), clean) > psnr(read_image("noisy.png"), clean) + 1.0


def test_denoise_keeps_colours(pictures):
    succeed("denoise", "colour.jpg", *QUICK)
    assert read_image("colour-denoised.png", as_stored=True).shape == (24, 30, 3)


def test_inpaint_fills_where_the_mask_is_white(pictures):
    said = succeed("inpaint", "clean.png", "--mask", "mask.png", *QUICK)
    image, missing = read_image("clean.png", as_stored=True), read_image("mask.png") > 127
    expected = inpaint_image(image, missing, **SETTINGS).image
    np.testing.assert_array_equal(read_image("clean-inpainted.png", as_stored=True), expected, strict=True)
    np.testing.assert_array_equal(expected[~missing], image[~missing])
    assert f"{missing.sum()} of 720 pixels filled in. Picture written to clean-inpainted.png" in said


def test_separate_writes_a_sound_for_each_source_and_the_mixing_matrix(sounds):
    said = succeed("separate", "mix.wav", "--seed", 1000, "--iterations", 20)
    samples, rate = read_audio("mix.wav")
    result = separate_sources(samples, random_state=1000, max_iter=20)
    mixing, names = read_table("mix-sources/mixing.csv")
    np.testing.assert_array_equal(mixing, result.mixing)
    assert names == ["source1", "source2"]
    for h, name in enumerate(names):
        sound, same_rate = read_audio(f"mix-sources/{name}.wav")
        assert same_rate == rate == 8000
        assert np.abs(sound).max() == pytest.approx(0.95, abs=1e-4)
        assert np.corrcoef(sound, result.sources[:, h])[0, 1] > 0.9999
    assert "2 sources of 2 channels written to mix-sources" in said


def test_separate_goes_without_soundfile_and_writes_to_the_folder_it_is_given(sounds, monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    succeed("separate", "mix.wav", "-o", "a/b", "-n", 3, "--iterations", 2)
    assert sorted(path.name for path in (sounds / "a/b").iterdir()) == [
        "mixing.csv",
        "source1.wav",
        "source2.wav",
        "source3.wav",
    ]


MISTAKES = {
    "missing picture": (("denoise", "nowhere.png"), "There is no file 'nowhere.png'."),
    "corrupt picture": (("denoise", "corrupt.png"), "'corrupt.png' cannot be read as a picture: "),
    "one pixel": (("denoise", "pixel.png"), "larger than a patch of 8 × 8 pixels, got 1 × 1"),
    "constant": (("denoise", "constant.png"), "Every pixel of image is 7: there is nothing to learn."),
    "not a picture": (
        ("denoise", "mix.wav"),
        "is a sound, wanted a picture: .png, .jpg, .jpeg, .tif",
    ),
    "a picture to separate": (("separate", "noisy.png"), "For a picture there are multicause denoise and inpaint."),
    "a picture to fit": (("fit", "noisy.png"), "For a picture there are multicause denoise and inpaint."),
    "output kind": (
        ("denoise", "noisy.png", "-o", "out.gif"),
        "'out.gif' must end in one of .png, .jpg, .jpeg, .tif, .tiff.",
    ),
    "output folder": (("denoise", "noisy.png", "-o", "no/out.png"), "the folder 'no' does not exist. Create it first."),
    "over itself": (("denoise", "noisy.png", "-o", "noisy.png"), "--output and NOISY name the same file"),
    "no mask": (("inpaint", "noisy.png"), "Missing option '--mask'"),
    "missing mask": (("inpaint", "noisy.png", "--mask", "nowhere.png"), "There is no file 'nowhere.png'."),
    "other size": (
        ("inpaint", "noisy.png", "--mask", "constant.png"),
        "The mask 'constant.png' is 12 × 16 pixels wide and high, but 'noisy.png' is 30 × 24.",
    ),
    "black mask": (("inpaint", "noisy.png", "--mask", "black.png"), "False everywhere: there is nothing to fill in"),
    "white mask": (("inpaint", "noisy.png", "--mask", "white.png"), "but is True everywhere"),
    "missing sound": (("separate", "nowhere.wav"), "There is no file 'nowhere.wav'."),
    "corrupt sound": (("separate", "corrupt.wav"), "'corrupt.wav' cannot be read as a sound: "),
    "mono": (("separate", "mono.wav"), "'mono.wav' has one channel, and a single channel cannot be separated."),
    "silence": (("separate", "silence.wav"), "Channel 0 of X is constant: there is nothing to learn from it."),
    "short": (("separate", "short.wav"), "more samples than channels, got 2 samples of 2 channels"),
    "folder is a file": (("separate", "mix.wav", "-o", "noisy.png"), "'noisy.png' is a file"),
}


@pytest.fixture
def bad_files(pictures, sounds):
    """Files that are wrong in one way each."""
    noisy = (pictures / "noisy.png").read_bytes()
    (pictures / "corrupt.png").write_bytes(noisy[: len(noisy) // 2])
    (pictures / "corrupt.wav").write_bytes(b"RIFF and no more than that")
    write_image("pixel.png", np.array([[3]], dtype=np.uint8))
    write_image("constant.png", np.full((16, 12), 7, dtype=np.uint8))
    write_image("black.png", np.zeros((24, 30), dtype=np.uint8))
    write_image("white.png", np.full((24, 30), 255, dtype=np.uint8))
    write_audio("mono.wav", read_audio("mix.wav")[0][:, 0], 8000)
    write_audio("silence.wav", np.zeros((100, 2)), 8000)
    write_audio("short.wav", np.eye(2), 8000)
    return pictures


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_one_line_and_nothing_is_written(mistake, bad_files):
    arguments, words = MISTAKES[mistake]
    before = {path: path.stat().st_mtime_ns for path in bad_files.iterdir()}
    assert words in refused(*arguments)
    assert {path: path.stat().st_mtime_ns for path in bad_files.iterdir()} == before
