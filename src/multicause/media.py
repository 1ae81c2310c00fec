"""Reading and writing pictures and sounds."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from multicause.file_checks import AUDIO, PathLike, TableError, check_extension, check_file, need, reading, refuse_bomb
from multicause.files import atomic_write
from multicause.picture_files import Picture, read_picture, write_picture

__all__ = ["Picture", "read_audio", "read_image", "read_picture", "write_audio", "write_image", "write_picture"]

PILLOW_LUMA = np.array([19595, 38470, 7471], dtype=np.uint32)


def read_image(path: PathLike, *, as_stored: bool = False) -> np.ndarray:
    """Read a picture as shades of grey, or as it is stored.

    Parameters
    ----------
    path : str or path-like
        A .png, .jpg or .tif file of one picture. Transparency is dropped; `read_picture` keeps it, and reads stacks.
    as_stored : bool, default=False
        Keep colours and the type of numbers. Otherwise colours are turned to luminance.

    Returns
    -------
    image : ndarray of shape (height, width) or (height, width, 3)
        float64, from 0 to 255, or to 65535 for a 16-bit picture; as it is stored, uint8, uint16 or what a .tif file
        holds, in the same range.

    Raises
    ------
    TableError
        When the file is missing, empty or not a picture.
    """
    picture = read_picture(path)
    if picture.is_stack:
        raise TableError(f"'{path}' holds {len(picture.pixels)} pages, wanted one picture. Read it with read_picture.")
    if as_stored:
        return picture.pixels
    return _luminance(picture.pixels) if picture.pixels.ndim == 3 else picture.pixels.astype(np.float64)


def _luminance(colours: np.ndarray) -> np.ndarray:
    """Shades of grey by the weights of ITU-R 601; of 8 bits, rounded as Pillow does."""
    if colours.dtype == np.uint8:
        return ((colours.astype(np.uint32) @ PILLOW_LUMA + 2**15) >> 16).astype(np.float64)
    return colours.astype(np.float64) @ (PILLOW_LUMA / 2.0**16)


def write_image(path: PathLike, image: np.ndarray) -> None:
    """Write a picture; a picture of the same name is replaced in one step.

    Parameters
    ----------
    path : str or path-like
        A .png, .jpg or .tif file.
    image : ndarray of shape (height, width) or (height, width, 3)
        uint8 or uint16, of which a .jpg file keeps only the upper eight bits; any integers and floating-point numbers
        for a .tif file.

    Raises
    ------
    TableError
        When the extension is not known, or the file cannot hold `image`.
    """
    write_picture(path, Picture(np.asarray(image)))


def read_audio(path: PathLike) -> tuple[np.ndarray, int]:
    """Read a sound.

    Parameters
    ----------
    path : str or path-like
        A .wav or .flac file. The latter, and rare kinds of the former, need ``pip install "multicause[audio]"``.

    Returns
    -------
    samples : ndarray of shape (n_samples,) or (n_samples, n_channels)
        float64, from -1 to 1.
    rate : int
        Samples per second.

    Raises
    ------
    TableError
        When the file is missing, empty or not a sound.
    """
    path = Path(path)
    check_file(path, AUDIO)
    try:
        soundfile = need("soundfile", f"'{path}'", "audio")
    except ImportError:
        if path.suffix.lower() != ".wav":
            raise
        samples, rate = _read_wav(path)
    else:
        with reading(path, " as a sound"):
            info = soundfile.info(path)
            refuse_bomb(path, 8 * info.frames * info.channels)
            samples, rate = soundfile.read(path, dtype="float64")
    if samples.size == 0:
        raise TableError(f"'{path}' holds no samples.")
    return samples, int(rate)


def write_audio(path: PathLike, samples: np.ndarray, rate: int) -> None:
    """Write a sound with 16 bits per sample; a sound of the same name is replaced in one step.

    Parameters
    ----------
    path : str or path-like
        A .wav file.
    samples : ndarray of shape (n_samples,) or (n_samples, n_channels)
        Values from -1 to 1.
    rate : int
        Samples per second.

    Raises
    ------
    TableError
        When the extension is not .wav, or `samples` is no sound.
    """
    from scipy.io import wavfile

    path = Path(path)
    check_extension(path, (".wav",))
    loudest = float(np.abs(samples).max(initial=0.0))
    if samples.ndim not in (1, 2) or samples.size == 0 or not loudest <= 1.0:
        raise TableError(
            f"samples must have shape (n_samples,) or (n_samples, n_channels) and values from -1 to 1, got shape "
            f"{samples.shape} and values up to {loudest:.3g} for '{path}'. Divide them by their largest magnitude."
        )
    pulses = np.minimum(np.round(samples * 2.0**15), 2**15 - 1).astype(np.int16)
    atomic_write(path, lambda handle: wavfile.write(handle, rate, pulses))


def _read_wav(path: Path) -> tuple[np.ndarray, int]:
    """A .wav file without soundfile: SciPy returns the integers as they are stored, those of 8 bits unsigned."""
    from scipy.io import wavfile

    with reading(path, " as a sound"), warnings.catch_warnings():
        warnings.simplefilter("ignore", wavfile.WavFileWarning)  # of chunks that hold no samples
        rate, stored = wavfile.read(path)
    if stored.dtype.kind == "f":
        return stored.astype(np.float64), rate
    half = 2.0 ** (8 * stored.dtype.itemsize - 1)
    return (stored - (half if stored.dtype.kind == "u" else 0.0)) / half, rate
