"""Pictures in files as they are stored: their depth, their transparency, their pages."""

from __future__ import annotations

import io
import logging
import re
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multicause.file_checks import IMAGES, PathLike, TableError, check_extension, check_file, need, reading, refuse_bomb
from multicause.files import atomic_write
from multicause.short_repr import short_repr

__all__ = ["Picture", "check_writable", "read_picture", "write_picture"]

TIFF = (".tif", ".tiff")
JPEG = (".jpg", ".jpeg")
JPEG_QUALITY = 95
ORIENTATION, DESCRIPTION, BITS, SAMPLE_FORMAT = 274, 270, 258, 339  # tags of TIFF and EXIF
UNSIGNED, FLOAT = 1, 3  # values of SAMPLE_FORMAT
GREY, COLOUR, COLOUR_WITH_ALPHA = "L", "RGB", "RGBA"
MODES = {
    "1": GREY, "L": GREY, "LA": "LA", "La": "LA", "PA": COLOUR_WITH_ALPHA, "RGBA": COLOUR_WITH_ALPHA,
    "RGBa": COLOUR_WITH_ALPHA,
}  # fmt: skip
PNG_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: the format's own number for them


class Picture(NamedTuple):
    """A picture, or a stack of pages of one size.

    Attributes
    ----------
    pixels : ndarray of shape (height, width) or (height, width, 3), of a stack (n_pages, …)
        Shades of grey or colours, as they are stored and upright.
    alpha : ndarray of shape (height, width), of a stack (n_pages, height, width), or None
        Opacity, where the file has it.
    is_stack : bool
        Whether the first axis counts pages.
    profile : bytes or None
        The ICC profile, which says what the colours look like.
    exif : bytes or None
        What the camera wrote; its orientation is in the pixels already.
    """

    pixels: np.ndarray
    alpha: np.ndarray | None = None
    is_stack: bool = False
    profile: bytes | None = None
    exif: bytes | None = None

    def __repr__(self) -> str:
        return short_repr(self)


def read_picture(path: PathLike) -> Picture:
    """Read a picture, or a stack of them, as it is stored.

    Palettes and CMYK become red, green and blue, one bit becomes 0 and 255; nothing else is converted.

    Parameters
    ----------
    path : str or path-like
        A .png, .jpg or .tif file. Several pages of a .tif file are a stack. Some kinds of the latter, such as colours
        of 16 bits, need ``pip install "multicause[image]"``.

    Returns
    -------
    Picture
        Pixels, transparency and what belongs to them.

    Raises
    ------
    TableError
        When the file is missing, empty, damaged, an animation or not a picture.
    """
    from PIL import Image, UnidentifiedImageError

    path = Path(path)
    check_file(path, IMAGES)
    try:
        with reading(path, " as a picture"), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Pillow's, of tags that nobody needs here
            try:
                with Image.open(path) as image:
                    return _read(path, image)
            except UnidentifiedImageError:
                if path.suffix.lower() not in TIFF:
                    raise
                return _read_with_tifffile(path)
    except TableError as error:
        if isinstance(error.__cause__, ImportError):  # of tifffile: the way out is to install it
            raise error.__cause__ from None
        raise


def write_picture(path: PathLike, picture: Picture) -> None:
    """Write a picture, or a stack of them; a file of the same name is replaced in one step.

    Parameters
    ----------
    path : str or path-like
        A .png or .jpg file for integers of 8 or 16 bits; a .tif file for those, for floating-point numbers and for
        stacks. A .jpg file keeps the upper eight bits.
    picture : Picture
        What to write.

    Raises
    ------
    TableError
        When the file cannot hold the picture.
    """
    path = Path(path)
    pixels = picture.pixels
    check_writable(path, picture)
    if path.suffix.lower() in JPEG and pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    if picture.alpha is not None:
        colours = pixels if pixels.ndim == picture.alpha.ndim + 1 else pixels[..., None]
        pixels = np.concatenate([colours, picture.alpha[..., None].astype(pixels.dtype)], axis=-1)
    encode = _tiff if path.suffix.lower() in TIFF else _png if path.suffix.lower() == ".png" else _jpeg
    atomic_write(path, encode(np.ascontiguousarray(pixels), picture))


def check_writable(path: PathLike, picture: Picture) -> None:
    """Refuse a picture that a file of this name cannot hold, before any work is done."""
    path = Path(path)
    check_extension(path, IMAGES)
    pixels, kind = picture.pixels, path.suffix.lower()
    shape = pixels.shape[1:] if picture.is_stack else pixels.shape
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or pixels.size == 0:
        raise TableError(
            f"image must have shape (height, width) or (height, width, 3), got {pixels.shape}. Reshape it."
        )
    if kind in TIFF:
        if pixels.dtype.kind not in "uif":
            raise TableError(f"image must be of integers or floating-point numbers, got {pixels.dtype} for '{path}'.")
        return
    if picture.is_stack:
        raise TableError(f"'{path}' can hold one picture, but there are {len(pixels)}. Write a .tif file.")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise TableError(
            f"image must be uint8 or uint16, got {pixels.dtype} of shape {pixels.shape} for '{path}'. Write a .tif "
            "file, or scale it to 0…255 and convert it with image.astype(np.uint8)."
        )
    if kind in JPEG and picture.alpha is not None:
        raise TableError(f"'{path}' cannot hold transparency, which the picture has. Write a .png file.")


# ---- reading ----


def _read(path: Path, image: Any) -> Picture:
    n_pages = getattr(image, "n_frames", 1)
    if image.format == "PNG" and n_pages > 1:
        raise TableError(
            f"'{path}' is an animation of {n_pages} frames. Save the frames one by one, or as the pages of a .tif file."
        )
    if image.format == "TIFF":
        if _needs_tifffile(image, n_pages):
            return _read_with_tifffile(path)
    else:
        n_pages = 1  # the other pictures of a .jpg file are previews
    refuse_bomb(path, 8 * image.width * image.height * n_pages)
    pages = []
    for number in range(n_pages):
        image.seek(number)
        pages.append(_page(path, image))
    if n_pages == 1:
        return pages[0]
    return _stacked(path, pages)


def _stacked(path: Path, pages: list[Picture]) -> Picture:
    kinds = {(page.pixels.shape, page.pixels.dtype, page.alpha is None) for page in pages}
    if len(kinds) > 1:
        raise TableError(
            f"'{path}' has {len(pages)} pages of different sizes or kinds. Save those that belong together in one file."
        )
    alpha = None if pages[0].alpha is None else np.stack([page.alpha for page in pages if page.alpha is not None])
    return Picture(np.stack([page.pixels for page in pages]), alpha, True, pages[0].profile)


def _page(path: Path, image: Any) -> Picture:
    from PIL import ImageOps

    deep = _deep_png(path, image) if image.format == "PNG" else None
    orientation = image.getexif().get(ORIENTATION, 1) if deep is not None else 1
    profile = image.info.get("icc_profile") if image.mode not in ("CMYK", "LAB", "YCbCr") else None
    if deep is not None:
        pixels, alpha = _apart(upright(deep, orientation))
        return Picture(pixels, alpha, profile=profile, exif=_exif(image))
    picture = ImageOps.exif_transpose(image)
    if picture.mode.startswith("I;16"):
        return Picture(np.asarray(picture).astype(np.uint16), profile=profile, exif=_exif(image))
    if picture.mode in ("I", "F"):
        return Picture(np.array(picture), profile=profile)
    mode = MODES.get(picture.mode, COLOUR)
    if mode == COLOUR and "transparency" in picture.info:
        mode = COLOUR_WITH_ALPHA
    pixels, alpha = _apart(np.array(picture.convert(mode)))
    return Picture(pixels, alpha, profile=profile, exif=_exif(image))


def _apart(channels: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Grey values or colours, and opacity, out of one, two, three or four channels."""
    if channels.ndim == 2:
        return channels, None
    n_channels = channels.shape[2]
    alpha = channels[..., -1].copy() if n_channels in (2, 4) else None
    colours = channels[..., : n_channels - (alpha is not None)]
    return np.ascontiguousarray(colours[..., 0] if n_channels <= 2 else colours), alpha


def _exif(image: Any) -> bytes | None:
    if image.format == "TIFF":
        return None  # there it speaks of where the pixels lie in the file
    exif = image.getexif()
    exif.pop(ORIENTATION, None)
    return exif.tobytes() if len(exif) else None


def _deep_png(path: Path, image: Any) -> np.ndarray | None:
    """Channels of 16 bits, of which Pillow keeps the upper eight: the lower ones are read as if bytes were swapped."""
    from PIL import Image

    raw = image.tile[0].args if image.tile else None
    if raw == "LA;16B":  # four bytes per pixel, as of four channels
        with Image.open(path) as again:
            again.tile = [again.tile[0]._replace(args="RGBA")]
            quarters = np.array(again)
        halves = quarters.astype(np.uint16)
        return halves[..., ::2] << 8 | halves[..., 1::2]
    if raw not in ("RGB;16B", "RGBA;16B"):
        return None
    with Image.open(path) as again:
        again.tile = [again.tile[0]._replace(args=raw.replace(";16B", ";16L"))]
        lower = np.array(again)
    return np.array(image).astype(np.uint16) << 8 | lower


def upright(channels: np.ndarray, orientation: int) -> np.ndarray:
    """A picture of shape (height, width, …) turned as its EXIF orientation, 1 to 8, says."""
    if orientation in (5, 6, 7, 8):
        channels = channels.swapaxes(0, 1)
    down = orientation in (3, 4, 7, 8)
    right = orientation in (2, 3, 6, 7)
    return channels[:: -1 if down else 1, :: -1 if right else 1]


def _needs_tifffile(image: Any, n_pages: int) -> bool:
    """Whether Pillow would lose depth, or pages of which the file only tells in words."""
    tags = image.tag_v2
    bits, kind = max(tags.get(BITS, (1,))), tags.get(SAMPLE_FORMAT, (UNSIGNED,))[0]
    description = str(tags.get(DESCRIPTION, ""))
    told = re.search(r"^images=(\d+)", description, re.MULTILINE) if description.startswith("ImageJ=") else None
    if told and int(told[1]) != n_pages:
        return True
    one = len(tags.get(BITS, (1,))) == 1
    return not ((bits <= 8 and kind == UNSIGNED) or (one and (bits, kind) in ((16, UNSIGNED), (32, FLOAT))))


def _read_with_tifffile(path: Path) -> Picture:
    tifffile = need("tifffile", f"'{path}'", "image")
    logging.getLogger("tifffile").addHandler(logging.NullHandler())  # it would speak on the terminal of what it skips
    with tifffile.TiffFile(path) as file:
        series, first = file.series[0], file.pages[0]
        refuse_bomb(path, int(np.prod(series.shape)) * series.dtype.itemsize)
        channels, axes = series.asarray(), series.axes
        orientation = first.tags[ORIENTATION].value if ORIENTATION in first.tags else 1
        has_alpha = len(first.extrasamples) > 0
    if "S" in axes:
        channels, axes = np.moveaxis(channels, axes.index("S"), -1), axes.replace("S", "") + "S"
    frame = axes[-3:] if axes.endswith("S") else axes[-2:]
    if not frame.startswith("YX") or channels.dtype.kind not in "uif":
        raise TableError(f"'{path}' holds {channels.dtype} with the axes {axes}, wanted pages of height and width.")
    pages = channels.reshape(-1, *channels.shape[len(axes) - len(frame) :])
    if frame == "YXS" and pages.shape[-1] not in ((2, 4) if has_alpha else (1, 3)):
        raise TableError(f"'{path}' has {pages.shape[-1]} channels per pixel, wanted grey or three colours.")
    pictures = [Picture(*_apart(upright(page, orientation))) for page in pages]
    return pictures[0] if len(pictures) == 1 else _stacked(path, pictures)


# ---- writing ----


def _jpeg(pixels: np.ndarray, picture: Picture) -> bytes:
    return _by_pillow(pixels, "JPEG", quality=JPEG_QUALITY, **_belongings(picture))


def _png(pixels: np.ndarray, picture: Picture) -> bytes:
    if pixels.dtype == np.uint16 and pixels.ndim == 3:
        return _deep_png_bytes(pixels, picture.profile)
    return _by_pillow(pixels, "PNG", **_belongings(picture))


def _belongings(picture: Picture) -> dict[str, Any]:
    """What belongs to a picture, as Pillow calls it."""
    return {
        name: value for name, value in (("icc_profile", picture.profile), ("exif", picture.exif)) if value is not None
    }


def _by_pillow(pixels: np.ndarray, kind: str, **settings: Any) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format=kind, **settings)
    return buffer.getvalue()


def _tiff(pixels: np.ndarray, picture: Picture) -> bytes:
    """By Pillow what it can hold, by tifffile the rest; both compress without loss, in a way that all can read."""
    from PIL import Image

    n_channels = pixels.shape[-1] if pixels.ndim == (4 if picture.is_stack else 3) else 1
    pages = list(pixels) if picture.is_stack else [pixels]
    buffer = io.BytesIO()
    if pixels.dtype == np.uint8 or (n_channels == 1 and pixels.dtype in (np.uint16, np.float32)):
        first, *others = [Image.fromarray(page) for page in pages]
        profile = _belongings(picture._replace(exif=None))
        first.save(buffer, "TIFF", compression="tiff_deflate", save_all=True, append_images=others, **profile)
        return buffer.getvalue()
    tifffile = need("tifffile", f"{pixels.dtype} with {n_channels} channels in a .tif file", "image")
    settings: dict[str, Any] = {"photometric": "rgb" if n_channels >= 3 else "minisblack", "compression": "zlib"}
    if n_channels in (2, 4):
        settings["extrasamples"] = ["unassalpha"]
    with tifffile.TiffWriter(buffer) as file:
        for page in pages:
            file.write(page, contiguous=False, metadata=None, iccprofile=picture.profile, **settings)
    return buffer.getvalue()


def _deep_png_bytes(channels: np.ndarray, profile: bytes | None) -> bytes:
    """A PNG file of two to four channels of 16 bits, each row as its difference to the one above."""
    height, width, n_channels = channels.shape
    rows = channels.astype(">u2").view(np.uint8).reshape(height, -1)
    filtered = np.full((height, 1 + rows.shape[1]), 2, dtype=np.uint8)  # the filter "up"
    filtered[:, 1:] = np.diff(rows, axis=0, prepend=np.uint8(0) * rows[:1])
    header = struct.pack(">IIBBBBB", width, height, 16, PNG_COLOURS[n_channels], 0, 0, 0)
    colours = [] if profile is None else [(b"iCCP", b"ICC profile\0\0" + zlib.compress(profile))]
    chunks = [(b"IHDR", header), *colours, (b"IDAT", zlib.compress(filtered.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
