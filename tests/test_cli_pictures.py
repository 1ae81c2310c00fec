"""`multicause denoise` and `inpaint` with the pictures that people have: deep, transparent, stacked, odd and broken."""

import numpy as np
import pytest
from PIL import Image

from multicause.media import Picture, read_picture, write_picture
from multicause.tasks import denoise_image, denoise_stack

from command_line import refused, succeed

pytest.importorskip("tifffile")

QUICK = ("--patch-size", 4, "-n", 6, "--iterations", 3, "--seed", 1000, "--threads", 1, "--force")
SETTINGS = {"patch_size": 4, "n_components": 6, "max_iter": 3, "random_state": 1000}


def pattern(height=22, width=26):
    y, x = np.mgrid[:height, :width]
    noise = np.random.default_rng(1000).normal(size=(height, width))
    return 60 + 80 * (x % 10 < 5) + 60 * (y % 12 < 6) + 10 * noise


def colours(image):
    return np.stack([image, image[::-1], image], axis=-1)


PICTURES = {
    "8-bit grey": ("in.png", Picture(pattern().astype(np.uint8))),
    "8-bit colour, transparent": ("in.png", Picture(colours(pattern()).astype(np.uint8), pattern().astype(np.uint8))),
    "16-bit grey": ("in.png", Picture((200 * pattern()).astype(np.uint16))),
    "16-bit colour": ("in.png", Picture(colours(200 * pattern()).astype(np.uint16))),
    "16-bit colour, TIFF": ("in.tif", Picture(colours(200 * pattern()).astype(np.uint16))),
    "16-bit transparent, TIFF": ("in.tif", Picture((200 * pattern()).astype(np.uint16), pattern().astype(np.uint16))),
    "floating-point": ("in.tif", Picture((pattern() / 255.0).astype(np.float32))),
    "double precision": ("in.tiff", Picture(1e-3 * pattern() - 7.0)),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_depth_and_transparency_survive(kind, folder):
    name, picture = PICTURES[kind]
    write_picture(name, picture)
    write_picture("mask.png", Picture((255 * (pattern() > 200)).astype(np.uint8)))
    succeed("denoise", name, *QUICK)
    succeed("inpaint", name, "--mask", "mask.png", *QUICK)
    extension = name.removeprefix("in")
    for what in ("denoised", "inpainted"):
        found = read_picture(f"in-{what}{extension}")
        assert found.pixels.dtype == picture.pixels.dtype
        assert found.pixels.shape == picture.pixels.shape
        assert not np.array_equal(found.pixels, picture.pixels)
        assert (found.alpha is None) == (picture.alpha is None)
        if picture.alpha is not None:
            np.testing.assert_array_equal(found.alpha, picture.alpha)


def test_the_pages_of_a_file_are_denoised_together(folder):
    frames = np.stack([200 * pattern(), 200 * pattern()[::-1]]).astype(np.uint16)
    write_picture("film.tif", Picture(frames, is_stack=True))
    succeed("denoise", "film.tif", *QUICK)
    found = read_picture("film-denoised.tif")
    assert found.is_stack
    np.testing.assert_array_equal(found.pixels, denoise_stack(frames, **SETTINGS).image, strict=True)
    write_picture("mask.png", Picture((255 * (pattern() > 200)).astype(np.uint8)))
    assert "holds 2 pages, wanted one picture" in refused("inpaint", "film.tif", "--mask", "mask.png")
    assert "can hold one picture, but there are 2. Write a .tif file" in refused("denoise", "film.tif", "-o", "a.png")


def test_counts_and_the_camera_can_be_told_from_the_command_line(folder):
    counts = np.random.default_rng(1000).poisson(pattern()).astype(np.uint16)
    write_picture("counts.tif", Picture(counts))
    said = succeed("denoise", "counts.tif", "--noise", "poisson", "--gain", 1, "--offset", 0, *QUICK)
    assert "Gain 1, offset 0, read noise 0." in said
    expected = denoise_image(counts, noise="poisson", gain=1.0, offset=0.0, **SETTINGS)
    np.testing.assert_array_equal(read_picture("counts-denoised.tif").pixels, expected.image)
    assert "Gain 1" in succeed("denoise", "counts.tif", "--noise", "poisson-gaussian", "--gain", 1, *QUICK)


@pytest.mark.parametrize("settings", [(), ("--noise", "poisson")])
def test_denoise_says_how_sure_it_is_and_can_be_told_the_noise(folder, settings):
    write_picture("in.tif", Picture(pattern().astype(np.float32)))
    succeed("denoise", "in.tif", "--uncertainty", "sd.tif", *settings, *QUICK)
    deviation = read_picture("sd.tif").pixels
    assert deviation.dtype == np.float32
    assert 0.5 < deviation.mean() < 20.0
    if not settings:
        assert "deviation of 10 removed" in succeed("denoise", "in.tif", "--noise-level", 10, *QUICK)
        refusal = refused("denoise", "in.tif", "--model", "gsc", "--uncertainty", "sd.tif", *QUICK)
        assert "gives no uncertainty" in refusal


@pytest.mark.parametrize("name", ["sd.png", "sd.tif"])
def test_inpaint_says_how_sure_it_is(folder, name):
    missing = pattern() > 200
    write_picture("in.png", Picture(pattern().astype(np.uint8)))
    write_picture("mask.png", Picture((255 * missing).astype(np.uint8)))
    said = succeed("inpaint", "in.png", "--mask", "mask.png", "--uncertainty", name, *QUICK)
    deviation = read_picture(name).pixels
    assert (deviation[~missing] == 0).all()
    assert (deviation[missing] > 0).all()
    assert ("white is" in said) == (name == "sd.png")
    refusal = refused("inpaint", "in.png", "--mask", "mask.png", "--uncertainty", name, "--model", "gsc", *QUICK)
    assert "gives no uncertainty" in refusal


def test_known_pixels_are_denoised_where_that_is_wanted_and_nan_is_a_gap(folder):
    image = (pattern() / 255.0).astype(np.float32)
    image[5:8, 5:8] = np.nan
    write_picture("in.tif", Picture(image))
    write_picture("mask.png", Picture(np.pad([[255]], ((0, 21), (0, 25))).astype(np.uint8)))
    assert "10 of 572 pixels filled in" in succeed("inpaint", "in.tif", "--mask", "mask.png", *QUICK)
    kept = read_picture("in-inpainted.tif").pixels
    np.testing.assert_array_equal(kept[10:], image[10:])
    succeed("inpaint", "in.tif", "--mask", "mask.png", "--denoise", "--noise-level", 0.04, *QUICK)
    changed = read_picture("in-inpainted.tif").pixels
    assert np.isfinite(changed).all()
    assert (changed[10:] != image[10:]).mean() > 0.9


@pytest.mark.parametrize("mode", ["1", "P", "CMYK", "LA"])
def test_other_kinds_of_pictures_give_a_picture(folder, mode):
    name = "in.tif" if mode == "CMYK" else "in.png"
    Image.fromarray(pattern().astype(np.uint8)).convert(mode).save(name)
    succeed("denoise", name, "-o", "out.png", *QUICK)
    found = read_picture("out.png")
    assert found.pixels.shape == ((22, 26) if mode in ("1", "LA") else (22, 26, 3))
    assert found.pixels.std() > 10.0


def broken(folder):
    """Pictures of which nothing can be made."""
    good = pattern().astype(np.uint8)
    write_picture("good.png", Picture(good))
    write_picture("good.tif", Picture(good))
    write_picture("mask.png", Picture((255 * (good > 200)).astype(np.uint8)))
    (folder / "truncated.png").write_bytes((folder / "good.png").read_bytes()[:300])
    (folder / "truncated.tif").write_bytes((folder / "good.tif").read_bytes()[:300])
    (folder / "text.jpg").write_text("no picture")
    frames = [Image.fromarray(good), Image.fromarray(good[::-1])]
    frames[0].save("animated.png", save_all=True, append_images=frames[1:])
    write_picture("pixel.tif", Picture(np.ones((1, 1), dtype=np.float32)))
    write_picture("constant.tif", Picture(np.full((22, 26), 7, dtype=np.uint16)))
    write_picture("thin.png", Picture(np.tile(good[:1, :20], (1, 1000)).T.copy()))
    write_picture("nan.tif", Picture(np.where(good > 200, np.nan, good).astype(np.float32)))
    write_picture("nothing.tif", Picture(np.full((22, 26), np.nan, dtype=np.float32)))
    write_picture("infinite.tif", Picture(np.where(good > 200, np.inf, good).astype(np.float32)))
    write_picture("float.tif", Picture(good.astype(np.float32)))


BROKEN = {
    "truncated.png": "cannot be read as a picture: ",
    "truncated.tif": "cannot be read as a picture: ",
    "text.jpg": "cannot be read as a picture: ",
    "animated.png": "is an animation of 2 frames",
    "pixel.tif": "larger than a patch of 8 × 8 pixels, got 1 × 1",
    "constant.tif": "Every pixel of image is 7: there is nothing to learn",
    "thin.png": "larger than a patch of 8 × 8 pixels, got 20000 × 1",
    "nan.tif": "of its values are NaN or infinite. Mark missing pixels in the mask of inpaint_image",
    "nothing.tif": "NaN or infinite",
    "infinite.tif": "NaN or infinite",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_picture_that_cannot_be_denoised_is_refused_in_one_line_and_the_old_result_stays(folder, name):
    broken(folder)
    (folder / "out.tif").write_bytes(b"precious")
    assert BROKEN[name] in refused("denoise", name, "-o", "out.tif", "--force")
    assert (folder / "out.tif").read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["truncated.png", "animated.png", "constant.tif", "nothing.tif"])
def test_a_picture_that_cannot_be_inpainted_is_refused_in_one_line_and_the_old_result_stays(folder, name):
    broken(folder)
    (folder / "out.tif").write_bytes(b"precious")
    refused("inpaint", name, "--mask", "mask.png", "-o", "out.tif", "--force")
    assert (folder / "out.tif").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("denoise", "float.tif", "-o", "out.png"), "must be uint8 or uint16, got float32"),
        (("denoise", "good.png", "--gain", "2"), "gain and offset belong to noise='poisson'"),
        (("denoise", "good.png", "--noise", "poisson", "--gain", "-1"), "gain must be positive, got -1.0"),
        (("denoise", "good.png", "--noise", "poisson", "--noise-level", "2"), "noise_level is not for noise='poisson'"),
        (("denoise", "good.png", "--noise", "salt"), "'salt' is not one of 'gaussian', 'poisson', 'poisson-gaussian'"),
        (("denoise", "good.png", "-o", "a.tif", "--uncertainty", "a.tif"), "name the same file"),
        (("inpaint", "good.png", "--mask", "mask.png", "--noise-level", "-2"), "noise_level must be at least 0"),
    ],
)
def test_a_mistake_is_answered_before_the_work_begins(folder, arguments, words):
    broken(folder)
    before = sorted(path.name for path in folder.iterdir())
    assert words in refused(*arguments)
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("command", ["denoise", "inpaint"])
def test_the_help_has_examples(command):
    said = succeed(command, "--help")
    assert f"Examples:\n    multicause {command} " in said.replace("\n      multicause", "\n    multicause")
