"""Pictures come back from files with their depth, their transparency and their pages, or are refused in one line."""

import io
import os
import struct
import sys
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from multicause.media import read_image, read_picture, write_image, write_picture
from multicause.picture_files import Picture, check_writable, upright
from multicause.tables import TableError

tifffile = pytest.importorskip("tifffile")

RNG = np.random.default_rng(0)


def values(dtype, *shape):
    if np.dtype(dtype).kind == "f":
        return RNG.normal(scale=1e3, size=shape).astype(dtype)
    return RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, size=shape, dtype=dtype, endpoint=True)


# ---- what is written comes back ----


@pytest.mark.parametrize("alpha", [False, True], ids=["opaque", "transparent"])
@pytest.mark.parametrize("colours", [(), (3,)], ids=["grey", "colour"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("a.png", np.uint8), ("a.png", np.uint16),
        ("a.tif", np.uint8), ("a.tif", np.uint16), ("a.tiff", np.float32), ("a.tif", np.float64), ("a.tif", np.int16),
        ("a.tif", np.uint32), ("a.tif", np.int32),
    ],
)  # fmt: skip
def test_a_picture_keeps_its_depth_and_its_transparency(tmp_path, name, dtype, colours, alpha):
    picture = Picture(values(dtype, 6, 9, *colours), values(dtype, 6, 9) if alpha else None)
    write_picture(tmp_path / name, picture)
    found = read_picture(tmp_path / name)
    np.testing.assert_array_equal(found.pixels, picture.pixels, strict=True)
    assert not found.is_stack
    if alpha:
        np.testing.assert_array_equal(found.alpha, picture.alpha, strict=True)
    else:
        assert found.alpha is None


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(4, 6, 9), (2, 6, 9, 3), (3, 6, 3)])
def test_pages_are_a_stack(tmp_path, shape, dtype):
    picture = Picture(values(dtype, *shape), is_stack=True)
    write_picture(tmp_path / "a.tif", picture)
    found = read_picture(tmp_path / "a.tif")
    assert found.is_stack
    np.testing.assert_array_equal(found.pixels, picture.pixels, strict=True)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "a.tif"), picture.pixels)
    with pytest.raises(TableError, match=rf"holds {shape[0]} pages, wanted one picture. Read it with read_picture"):
        read_image(tmp_path / "a.tif")


def test_deep_colours_are_read_by_others_too(tmp_path):
    """Pillow sees the upper bytes of the 16-bit PNG files that are written here."""
    pixels = values(np.uint16, 5, 7, 3)
    write_image(tmp_path / "a.png", pixels)
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a.png")), pixels >> 8)


def png(channels, filters, interlaced=False):
    """A PNG file of 16-bit channels, whose rows are filtered as a textbook would."""
    height, width, n_channels = channels.shape
    step = 2 * n_channels
    rows = channels.astype(">u2").view(np.uint8).reshape(height, -1).astype(int)
    above, lines = np.zeros(rows.shape[1], dtype=int), []
    for row, kind in zip(rows, filters, strict=True):
        left, corner = (np.concatenate([np.zeros(step, dtype=int), line[:-step]]) for line in (row, above))
        estimate = left + above - corner
        nearest = np.argmin(np.abs([estimate - left, estimate - above, estimate - corner]), axis=0)
        guess = [0 * row, left, above, (left + above) // 2, np.choose(nearest, [left, above, corner])][kind]
        lines.append(bytes([kind]) + ((row - guess) % 256).astype(np.uint8).tobytes())
        above = row
    colours = {2: 4, 3: 2, 4: 6}[n_channels]
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 16, colours, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"".join(lines))),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )


@pytest.mark.parametrize("n_channels", [2, 3, 4])
def test_deep_png_files_of_others_are_read_with_all_their_bits(tmp_path, n_channels):
    channels = values(np.uint16, 10, 7, n_channels)
    (tmp_path / "a.png").write_bytes(png(channels, [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]))
    found = read_picture(tmp_path / "a.png")
    together = np.dstack([found.pixels] if found.alpha is None else [found.pixels, found.alpha])
    np.testing.assert_array_equal(together, channels)


@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
@pytest.mark.parametrize("planar", ["contig", "separate"])
def test_tiff_files_of_others_are_read(tmp_path, dtype, planar):
    pixels = values(dtype, 5, 8, 3)
    stored = np.moveaxis(pixels, -1, 0) if planar == "separate" else pixels
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", planarconfig=planar, byteorder=">")
    np.testing.assert_array_equal(read_image(tmp_path / "a.tif", as_stored=True), pixels)


def test_a_stack_of_imagej_is_read_whole(tmp_path):
    pixels = values(np.uint16, 5, 8, 9)
    tifffile.imwrite(tmp_path / "a.tif", pixels, imagej=True)
    np.testing.assert_array_equal(read_picture(tmp_path / "a.tif").pixels, pixels)
    tifffile.imwrite(tmp_path / "b.tif", pixels[:4].reshape(2, 2, 8, 9), imagej=True, metadata={"axes": "TZYX"})
    np.testing.assert_array_equal(read_picture(tmp_path / "b.tif").pixels, pixels[:4])


# ---- orientation, profile, depth ----


@pytest.mark.parametrize("orientation", range(1, 9))
def test_arrays_are_turned_as_pillow_turns_pictures(orientation):
    pixels = values(np.uint8, 4, 6, 3)
    image = Image.fromarray(pixels)
    image.getexif()[274] = orientation
    expected = np.asarray(ImageOps.exif_transpose(image))
    np.testing.assert_array_equal(upright(pixels, orientation), expected)


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.tif"])
def test_a_turned_picture_is_written_as_it_is_seen(tmp_path, name, orientation):
    smooth = np.add.outer(np.arange(0, 160, 10), np.arange(0, 80, 10)).astype(np.uint8)
    exif = Image.Exif()
    exif[274], exif[271] = orientation, "a maker of cameras"
    if name == "a.tif":
        tifffile.imwrite(tmp_path / name, smooth, extratags=[(274, 3, 1, orientation, True)])
    else:
        Image.fromarray(smooth).save(tmp_path / name, exif=exif)
    seen = np.asarray(ImageOps.exif_transpose(Image.open(tmp_path / name)))
    write_picture(tmp_path / f"copy-{name}", read_picture(tmp_path / name))
    copy = Image.open(tmp_path / f"copy-{name}")
    assert copy.getexif().get(274, 1) == 1
    np.testing.assert_allclose(np.asarray(copy), seen, atol=4 if name == "a.jpg" else 0)
    if name != "a.tif":
        assert copy.getexif()[271] == "a maker of cameras"


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("name", ["a.png", "a.tif"])
def test_the_colour_profile_stays(tmp_path, name, dtype):
    write_picture(tmp_path / name, Picture(values(dtype, 4, 5, 3), profile=b"not quite a profile"))
    assert Image.open(tmp_path / name).info["icc_profile"] == b"not quite a profile"
    if dtype == np.uint8 or name == "a.png":
        assert read_picture(tmp_path / name).profile == b"not quite a profile"


def test_deep_colours_have_the_luminance_of_shallow_ones(tmp_path):
    shallow = values(np.uint8, 6, 7, 3)
    write_image(tmp_path / "a.png", shallow)
    write_image(tmp_path / "b.png", shallow.astype(np.uint16) * 257)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), np.asarray(Image.fromarray(shallow).convert("L")))
    np.testing.assert_allclose(read_image(tmp_path / "b.png") / 257.0, read_image(tmp_path / "a.png"), atol=0.51)


# ---- odd kinds ----


@pytest.mark.parametrize(
    ("mode", "name", "shape"),
    [
        ("1", "a.png", (6, 8)), ("1", "a.tif", (6, 8)), ("P", "a.png", (6, 8, 3)), ("P", "a.tif", (6, 8, 3)),
        ("CMYK", "a.jpg", (6, 8, 3)), ("CMYK", "a.tif", (6, 8, 3)), ("LA", "a.png", (6, 8)), ("I;16", "a.png", (6, 8)),
        ("YCbCr", "a.jpg", (6, 8, 3)), ("L", "a.jpg", (6, 8)), ("F", "a.tif", (6, 8)),
    ],
)  # fmt: skip
def test_every_kind_is_grey_or_of_three_colours(tmp_path, mode, name, shape):
    Image.new("L", (8, 6), 255).convert(mode).save(tmp_path / name)
    picture = read_picture(tmp_path / name)
    np.testing.assert_array_equal(picture.pixels, np.full(shape, 255))
    assert (picture.alpha is not None) == (mode == "LA")


def test_a_palette_keeps_its_transparency(tmp_path):
    image = Image.fromarray(values(np.uint8, 6, 8) % 4).convert("P")
    image.save(tmp_path / "a.png", transparency=bytes([0, 100, 200, 255]))
    picture = read_picture(tmp_path / "a.png")
    assert picture.pixels.shape == (6, 8, 3)
    assert set(np.unique(picture.alpha)) <= {0, 100, 200, 255}
    assert picture.alpha.min() == 0


def animation(path):
    frames = [Image.fromarray(values(np.uint8, 6, 8)) for _ in range(3)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def different_pages(path):
    frames = [Image.fromarray(values(np.uint8, 6, size)) for size in (8, 9)]
    frames[0].save(path, save_all=True, append_images=frames[1:])


def truncated(path):
    write_image(path, values(np.uint16, 64, 64))
    path.write_bytes(path.read_bytes()[:3000])


REFUSED = {
    "animation": ("a.png", animation, "is an animation of 3 frames. Save the frames one by one"),
    "different pages": ("a.tif", different_pages, "has 2 pages of different sizes or kinds"),
    "truncated tiff": ("a.tif", truncated, "cannot be read as a picture: "),
    "truncated png": ("a.png", truncated, "cannot be read as a picture: "),
    "truncated jpeg": ("a.jpg", truncated, "cannot be read as a picture: "),
    "text": ("a.tif", lambda path: path.write_text("no picture"), "cannot be read as a picture: "),
    "five channels": (
        "a.tif",
        lambda path: tifffile.imwrite(
            path, values(np.uint16, 6, 8, 5), planarconfig="contig", photometric="minisblack"
        ),
        "has 5 channels per pixel",
    ),
    "complex": ("a.tif", lambda path: tifffile.imwrite(path, np.ones((6, 8), dtype=complex)), "complex|cannot be read"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_one_picture_is_refused_in_one_line(tmp_path, what):
    name, make, message = REFUSED[what]
    make(tmp_path / name)
    with pytest.raises(TableError, match=message) as caught:
        read_picture(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_damaged_tiff_files_are_refused_and_never_crash(tmp_path):
    path = tmp_path / "a.tif"
    for dtype in (np.uint8, np.float64):
        write_picture(path, Picture(values(dtype, 3, 12, 12), is_stack=True))
        content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        rng = np.random.default_rng(1)
        for _ in range(60):
            damaged = content.copy()
            damaged[rng.integers(len(content), size=8)] = rng.integers(256, size=8)
            path.write_bytes(damaged.tobytes())
            try:
                read_picture(path)
            except TableError as error:
                assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("name", "picture", "message"),
    [
        ("a.png", Picture(values(np.float32, 4, 5)), "must be uint8 or uint16, got float32 .* Write a .tif file"),
        ("a.png", Picture(values(np.uint8, 3, 4, 5), is_stack=True), "can hold one picture, but there are 3"),
        ("a.jpg", Picture(values(np.uint8, 4, 5), values(np.uint8, 4, 5)), "cannot hold transparency"),
        ("a.tif", Picture(np.ones((4, 5), dtype=complex)), "got complex128"),
        ("a.gif", Picture(values(np.uint8, 4, 5)), "wanted one of .png, .jpg, .jpeg, .tif, .tiff"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_before_it_is_opened(tmp_path, name, picture, message):
    with pytest.raises(TableError, match=message):
        write_picture(tmp_path / name, picture)
    with pytest.raises(TableError, match=message):
        check_writable(tmp_path / name, picture)
    assert os.listdir(tmp_path) == []


def test_without_tifffile_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    buffer = io.BytesIO()
    tifffile.imwrite(buffer, values(np.uint16, 4, 5, 3), photometric="rgb")
    (tmp_path / "a.tif").write_bytes(buffer.getvalue())
    monkeypatch.setitem(sys.modules, "tifffile", None)
    with pytest.raises(ImportError, match=r"a.tif' needs tifffile.*pip install \"multicause\[image\]\""):
        read_picture(tmp_path / "a.tif")
    with pytest.raises(ImportError, match=r"needs tifffile.*pip install \"multicause\[image\]\""):
        write_image(tmp_path / "b.tif", values(np.uint16, 4, 5, 3))
    write_image(tmp_path / "c.tif", values(np.float32, 4, 5))  # what Pillow can do needs no more
    assert read_image(tmp_path / "c.tif").shape == (4, 5)
