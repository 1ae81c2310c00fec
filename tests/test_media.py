"""Pictures and sounds come back as they were written, and what is none is refused in one line."""

import os
import sys

import numpy as np
import pytest
from PIL import Image

from multicause.media import read_audio, read_image, write_audio, write_image
from multicause.tables import TableError

GENERATOR = np.random.default_rng(0)
GREY = GENERATOR.integers(0, 256, size=(5, 8), dtype=np.uint8)
COLOUR = GENERATOR.integers(0, 256, size=(5, 8, 3), dtype=np.uint8)
DEEP = GENERATOR.integers(0, 65536, size=(5, 8), dtype=np.uint16)


# ---- pictures ----


def test_a_grey_picture_is_its_pixels(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 8), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), pixels.astype(float), strict=True)


def test_a_sixteen_bit_picture_keeps_its_depth(tmp_path):
    pixels = np.array([[0, 1000], [40000, 65535]], dtype=np.uint16)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), pixels.astype(float), strict=True)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "LA", "1"])
def test_a_white_picture_in_any_mode_is_255_and_two_dimensional(tmp_path, mode):
    Image.new("RGB", (4, 3), "white").convert(mode).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.full((3, 4), 255.0), strict=True)


def test_a_jpeg_is_read_close_to_its_pixels(tmp_path):
    pixels = np.full((16, 8), 90, dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.jpg")
    np.testing.assert_allclose(read_image(tmp_path / "a.jpg"), pixels, atol=2)


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no picture")
    with pytest.raises(TableError, match=r"a\.png' cannot be read as a picture: "):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("image", [GREY, COLOUR, DEEP, np.stack([DEEP] * 3, axis=-1)])
def test_a_written_picture_comes_back_as_it_was(tmp_path, image):
    write_image(tmp_path / "a.png", image)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", as_stored=True), image, strict=True)


@pytest.mark.parametrize(
    ("mode", "shape"), [("L", (3, 4)), ("LA", (3, 4)), ("1", (3, 4)), ("RGBA", (3, 4, 3)), ("P", (3, 4, 3))]
)
def test_a_picture_as_stored_has_three_colours_or_none(tmp_path, mode, shape):
    Image.new("RGB", (4, 3), "white").convert(mode).save(tmp_path / "a.png")
    image = read_image(tmp_path / "a.png", as_stored=True)
    np.testing.assert_array_equal(image, np.full(shape, 255, dtype=np.uint8), strict=True)


def test_a_jpeg_is_written_close_to_its_pixels(tmp_path):
    smooth = np.add.outer(np.arange(0, 160, 10), np.arange(0, 80, 10)).astype(np.uint8)
    write_image(tmp_path / "a.jpeg", smooth)
    np.testing.assert_allclose(read_image(tmp_path / "a.jpeg"), smooth, atol=8)
    write_image(tmp_path / "deep.jpg", smooth.astype(np.uint16) * 256)
    assert (tmp_path / "deep.jpg").read_bytes() == (tmp_path / "a.jpeg").read_bytes()


@pytest.mark.parametrize(
    ("name", "image", "message"),
    [
        ("a.gif", GREY, r"extension '.gif', wanted one of .png, .jpg, .jpeg, .tif, .tiff"),
        ("a.png", GREY / 255.0, "image must be uint8 or uint16, got float64 .*astype"),
        ("a.png", GREY[None], r"shape \(height, width\) or \(height, width, 3\), got \(1, 5, 8\)"),
        ("a.png", GREY[:0], r"got \(0, 8\)"),
    ],
)
def test_what_is_no_picture_is_not_written(tmp_path, name, image, message):
    with pytest.raises(TableError, match=message):
        write_image(tmp_path / name, image)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("as_stored", [False, True])
def test_a_damaged_picture_is_refused(tmp_path, as_stored):
    write_image(tmp_path / "a.png", np.random.default_rng(0).integers(0, 256, size=(64, 64), dtype=np.uint8))
    content = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(content[: len(content) // 2])
    with pytest.raises(TableError, match=r"a\.png' cannot be read as a picture: "):
        read_image(tmp_path / "a.png", as_stored=as_stored)


# ---- sounds ----


@pytest.mark.parametrize("extension", [".wav", ".flac"])
@pytest.mark.parametrize("shape", [(100,), (100, 2)])
def test_a_sound_is_its_samples_and_their_rate(tmp_path, extension, shape):
    soundfile = pytest.importorskip("soundfile")
    samples = np.random.default_rng(0).uniform(-0.9, 0.9, size=shape)
    soundfile.write(tmp_path / f"a{extension}", samples, 8000)
    found, rate = read_audio(tmp_path / f"a{extension}")
    assert rate == 8000
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, samples, atol=2.0**-15)


def test_a_file_that_is_no_sound_is_refused(tmp_path):
    pytest.importorskip("soundfile")
    (tmp_path / "a.wav").write_bytes(b"no sound")
    with pytest.raises(TableError, match=r"a\.wav' cannot be read as a sound: "):
        read_audio(tmp_path / "a.wav")


def test_a_sound_without_samples_is_refused(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.wav", np.zeros(0), 8000)
    with pytest.raises(TableError, match="holds no samples"):
        read_audio(tmp_path / "a.wav")


def test_a_flac_without_soundfile_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.flac").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r'needs soundfile.*pip install "multicause\[audio\]"'):
        read_audio(tmp_path / "a.flac")


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE"])
def test_a_wav_is_read_alike_with_and_without_soundfile(tmp_path, monkeypatch, subtype):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(
        tmp_path / "a.wav", np.random.default_rng(0).uniform(-1.0, 1.0, size=(50, 2)), 8000, subtype=subtype
    )
    with_it, rate = read_audio(tmp_path / "a.wav")
    monkeypatch.setitem(sys.modules, "soundfile", None)
    without_it, same_rate = read_audio(tmp_path / "a.wav")
    np.testing.assert_array_equal(without_it, with_it, strict=True)
    assert rate == same_rate == 8000


@pytest.mark.parametrize("content", [b"no sound", b"RIFF", b"RIFF\x24\0\0\0WAVE", b"RIFF\x24\0\0\0WAVEfmt \x10\0"])
def test_a_file_that_is_no_sound_is_refused_without_soundfile_too(tmp_path, monkeypatch, content):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(TableError, match=r"a\.wav' cannot be read as a sound: "):
        read_audio(tmp_path / "a.wav")


@pytest.mark.parametrize("shape", [(100,), (100, 3)])
def test_a_written_sound_comes_back_to_sixteen_bits(tmp_path, shape):
    samples = np.random.default_rng(0).uniform(-1.0, 1.0, size=shape)
    write_audio(tmp_path / "a.wav", samples, 11_025)
    found, rate = read_audio(tmp_path / "a.wav")
    assert rate == 11_025
    np.testing.assert_allclose(found, samples, atol=2.0**-15)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.array([0.5, -1.5]), r"values from -1 to 1, got shape \(2,\) and values up to 1.5 .*largest magnitude"),
        (np.array([0.5, np.nan]), "values up to nan"),
        (np.zeros(0), r"got shape \(0,\)"),
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
    ],
)
def test_what_is_no_sound_is_not_written(tmp_path, samples, message):
    with pytest.raises(TableError, match=message):
        write_audio(tmp_path / "a.wav", samples, 8000)
    with pytest.raises(TableError, match=r"extension '.flac', wanted one of .wav"):
        write_audio(tmp_path / "a.flac", np.zeros(5), 8000)
    assert os.listdir(tmp_path) == []
