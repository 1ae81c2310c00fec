"""`pictures-gaps`: pictures of which pixels are missing, filled with default settings, beside scikit-image's."""

import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from multicause.experiments.experiment import Check, Experiment, Row, at_least
from multicause.experiments.figures import intervals
from multicause.experiments.pictures import PAPER, SIDE, picture
from multicause.metrics import psnr
from multicause.tasks import inpaint_image

NAMES = ("house", "peppers", "china", "helsinki 2")
NOISE = 10.0
WIDTH = 16  # of a wide gap, in pixels
BIHARMONIC, FILLED = "biharmonic", "inpaint_image"


def half(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Half of the pixels."""
    return rng.random(shape) < 0.5


def most(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Four fifths of the pixels."""
    return rng.random(shape) < 0.8


def text(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Lines of letters, in the font that Pillow has of its own."""
    from PIL import Image, ImageDraw, ImageFont

    page = Image.new("L", shape[::-1])
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz     "))
    for top in range(4, shape[0], 24):
        line = "".join(rng.choice(letters, shape[1] // 6))
        ImageDraw.Draw(page).text((2, top), line, fill=255, font=ImageFont.load_default(16))
    return np.asarray(page) > 64


def wide(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Squares of 16 × 16 pixels, 64 apart."""
    missing = np.zeros(shape, dtype=bool)
    for row in range(24, shape[0] - WIDTH, 64):
        for column in range(24, shape[1] - WIDTH, 64):
            missing[row : row + WIDTH, column : column + WIDTH] = True
    return missing


class Kind(NamedTuple):
    """What is missing, and the noise on the rest; `wanted` decibels of the house."""

    title: str
    mask: Callable[[tuple[int, int], np.random.Generator], np.ndarray]
    noise: float = 0.0
    wanted: float | None = None


KINDS = (
    Kind("50 % missing", half, wanted=38.0),
    Kind("80 % missing", most),
    Kind("text over it", text),
    Kind("wide gaps", wide),
    Kind("50 % missing, noise 10", half, NOISE),
)


class Filled(NamedTuple):
    """Decibels of the whole picture, and seconds of CPU, of each method."""

    decibels: dict[str, float]
    seconds: dict[str, float]

    def gain(self) -> float | None:
        return self.decibels[FILLED] - self.decibels[BIHARMONIC] if BIHARMONIC in self.decibels else None


def _biharmonic(image: np.ndarray, missing: np.ndarray) -> np.ndarray:
    from skimage.restoration import inpaint_biharmonic

    return inpaint_biharmonic(image, missing)


def fill_picture(seed: int, name: str, kind: Kind, side: int = SIDE) -> Filled:
    """Both methods on one picture with gaps; where there is noise, ours is asked to take it out."""
    clean, rng = picture(name)[:side, :side], np.random.default_rng(seed)
    missing = kind.mask(clean.shape, rng)
    seen = np.where(missing, 0.0, clean + kind.noise * rng.standard_normal(clean.shape))
    start = time.process_time()
    ours = inpaint_image(seen, missing, keep_known=kind.noise == 0.0, n_jobs=1, random_state=seed).image
    found = Filled({FILLED: psnr(ours, clean)}, {FILLED: time.process_time() - start})
    if find_spec("skimage"):
        start = time.process_time()
        found.decibels[BIHARMONIC] = psnr(_biharmonic(seen, missing), clean)
        found.seconds[BIHARMONIC] = time.process_time() - start
    return found


def _checks(name: str, kind: Kind) -> list[Check]:
    methods = [FILLED, *([BIHARMONIC] if find_spec("skimage") else [])]
    told = [
        Check(f"{what}, {method}", lambda trial, field=field, method=method: getattr(trial, field)[method])
        for method in methods
        for what, field in (("PSNR in dB", "decibels"), ("seconds of CPU", "seconds"))
    ]
    if name == "house" and kind.wanted is not None:
        told.append(Check("PSNR in dB", lambda trial: trial.decibels[FILLED], at_least(kind.wanted)))
    gain = Check("dB above biharmonic", lambda trial: trial.gain(), at_least(0.0))
    return [*told, *([gain] if BIHARMONIC in methods else [])]


def rows(names: Sequence[str] = NAMES, side: int = SIDE) -> list[Row]:
    """A row for each picture and kind of gaps."""
    return [
        Row(
            f"{name}, {kind.title} (ours)",
            fill_picture,
            {"name": name, "kind": kind, "side": side},
            _checks(name, kind),
            n_trials=3,
        )
        for kind in KINDS
        for name in names
    ]


EXPERIMENTS = [
    Experiment(
        "pictures-gaps",
        "Pictures with gaps, filled with the defaults",
        PAPER,
        rows,
        intervals,
        {"names": ("house",), "side": 48},
        {"PSNR": lambda trial: trial.decibels, "seconds": lambda trial: trial.seconds},
        needs_data=True,
    )
]
