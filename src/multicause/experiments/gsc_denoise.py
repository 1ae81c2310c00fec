"""`gsc-denoise`: the noisy house, cleaned by what is learned from its own patches (GSC Table 2, Figures 7, 8)."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import locate
from multicause.experiments.experiment import (
    GSC14,
    NO_FIGURE,
    Check,
    Experiment,
    Finding,
    Outcome,
    Published,
    Row,
    at_least,
    finding,
)
from multicause.experiments.figures import Panel, pictures
from multicause.experiments.gsc_mixing import Start, papers_draw
from multicause.media import read_image
from multicause.metrics import psnr
from multicause.tasks import denoise_image

USED = 1e-3  # activation from which on a cause counts as used


class Cleaned(NamedTuple):
    decibels: float
    noise_level: float  # as learned
    n_used: int  # causes that some patches have
    noisy: np.ndarray  # as pictures, in whole numbers
    clean: np.ndarray


def clean_house(
    seed: int, noise: float, side: int | None = None, start: Start = "own", unit: float = 1.0, **settings: Any
) -> Cleaned:
    """Noise that the method is not told of, on all overlapping patches of the house, or of its upper left corner.

    A grey level is `unit`, which matters to the paper's start: most of it does not go by the data.
    """
    house, noisy = _noisy_house(seed, noise, side)
    if start == "paper":
        drawn = papers_draw(
            settings["n_components"], settings["patch_size"] ** 2, seed, settings.get("slab", "diagonal")
        )
        settings["init"] = {**drawn, "noise_variance": float((unit * noisy).var())}
    settings |= {"model": "gsc", "start": "random", "monotone": False, "value_range": (0.0, 255.0 * unit)}
    result = denoise_image(unit * noisy, random_state=seed, n_jobs=1, **settings)
    clean = result.image / unit
    n_used = int((result.estimator.activation_ > USED).sum())
    return Cleaned(psnr(house, clean), result.noise_level / unit, n_used, _shown(noisy), _shown(clean))


def _noisy_house(seed: int, noise: float, side: int | None) -> tuple[np.ndarray, np.ndarray]:
    house = read_image(locate("standard-images/house.png")).astype(float)[:side, :side]
    return house, house + noise * np.random.default_rng(seed).standard_normal(house.shape)


def bm3d_house(seed: int, noise: float, side: int | None = None, **_: Any) -> Cleaned:
    """BM3D on the same image, told the noise level."""
    from bm3d import bm3d

    house, noisy = _noisy_house(seed, noise, side)
    clean = bm3d(noisy, noise).clip(0.0, 255.0)
    return Cleaned(psnr(house, clean), noise, 0, _shown(noisy), _shown(clean))


def _shown(image: np.ndarray) -> np.ndarray:
    return image.clip(0.0, 255.0).round().astype(np.uint8)


# all that `denoise_image` decides by itself is named here, so that its defaults may change
COMMON: dict[str, Any] = {"patch_size": 8, "n_passes": 1, "weights": "uniform", "max_patches": 100_000, "tol": 0.0}
PAPER: dict[str, Any] = {**COMMON, "subtract_mean": False, "start": "paper"}
LETTER: dict[str, Any] = {
    **PAPER,
    "slab": "full",
    "slab_update": "moments",
}  # one noise variance, which is what `noise` is by default
MEANS_OFF: dict[str, Any] = {**COMMON, "subtract_mean": True}
MAX_ITER = {64: 65, 256: 65, 400: 120}  # of H (GSC §5.5)
FACTORED_ITER = 120
PSNR = "PSNR in dB"
SHOWN = "noise 25, H=256"  # in Figure 8
USED_OF_256 = Published("around 107")


def _row(title: str, level: float, published: Published = NO_FIGURE, task: Any = clean_house, **setting: Any) -> Row:
    checks = [Check(PSNR, lambda trial: trial.decibels, published)]
    if task is clean_house and not setting.get("posterior"):
        checks.append(Check("learned noise level", lambda trial: trial.noise_level))
        checks.append(Check("causes used", lambda trial: trial.n_used, USED_OF_256 if title == SHOWN else NO_FIGURE))
    return Row(title, task, {"noise": level, **setting}, checks, n_trials=1)  # as in the paper


def _model_based(h: int, n_candidates: int, max_active: int) -> dict[str, Any]:
    truncation = {"n_candidates": n_candidates, "max_active": max_active, "selection": "model-based"}
    return {"n_components": h, "max_iter": MAX_ITER[h], **truncation}


def _papers(published: float, level: float, h: int, n_candidates: int = 10, max_active: int = 8) -> Row:
    """A cell of GSC Table 2."""
    setting = {**_model_based(h, n_candidates, max_active), **LETTER}
    return _row(f"noise {level:g}, H={h}", level, at_least(published), **setting)


def _in_unit(published: float, level: float, h: int) -> Row:
    """The same, where white is 1: the paper does not say which unit its start is for."""
    row = _papers(published, level, h)
    title = f"{row.title} (ours: pixels from 0 to 1)"
    return _row(title, level, at_least(published), **row.setting, unit=1.0 / 255.0)


def _means_off(published: float, level: float, h: int, n_candidates: int = 10, max_active: int = 8) -> Row:
    title = f"noise {level:g}, H={h} (ours: patch means taken off, own start, independent coefficients)"
    return _row(title, level, at_least(published), **_model_based(h, n_candidates, max_active), **MEANS_OFF)


def _factored(published: float, level: float) -> Row:
    """The column of MTMKL, with as many components as the paper gives it."""
    setting: dict[str, Any] = {"n_components": 64, "max_iter": FACTORED_ITER, "posterior": "factored", **PAPER}
    title = f"noise {level:g}, H=64, factored (ours: in place of MTMKL)"
    return _row(title, level, at_least(published), **setting)


def _longer(max_iter: int) -> Row:
    """Figure 7B, of whose curve the last point is that of the 120th iteration; its noise level is not given."""
    setting = {**_model_based(400, 10, 5), **LETTER, "max_iter": max_iter}
    return _row(LONGER.format(max_iter), 50.0, **setting)


LONGER = "noise 50, H=400, gamma=5, {} iterations"
_CELLS = (
    (32.68, 15.0, 64),
    (31.10, 25.0, 64),
    (28.02, 50.0, 64),
    (33.78, 15.0, 256, 18, 3),
    (32.01, 25.0, 256, 18, 3),
    (28.35, 50.0, 256),
    (28.48, 50.0, 400),
)
_BM3D = [
    _row(f"noise {level:g}, BM3D told the noise (ours: a rival)", level, task=bm3d_house)
    for level in (15.0, 25.0, 50.0)
]
ROWS = [
    *(_papers(*cell) for cell in _CELLS),
    _longer(30),
    _longer(120),
    _factored(34.29, 15.0),
    _factored(31.88, 25.0),
    _factored(28.08, 50.0),
    *(_in_unit(*cell) for cell in _CELLS[:3]),
    *(_means_off(*cell) for cell in _CELLS[3:6]),
    *(_BM3D if find_spec("bm3d") else ()),
]


def _compare(outcomes: list[Outcome]) -> list[Finding]:
    """More iterations (Figure 7B) and more components (Figure 7C) clean better."""
    decibels = {outcome.row.title: outcome.trials[0].decibels for outcome in outcomes}
    rises = Published("rises", lambda gain: gain.mean > 0.0)
    steps = [("noise 50, H=64", "noise 50, H=256"), ("noise 50, H=256", "noise 50, H=400")]
    steps.append((LONGER.format(30), LONGER.format(120)))
    return [
        finding(after, f"dB above {before}", [decibels[after] - decibels[before]], rises)
        for before, after in steps
        if before in decibels and after in decibels
    ]


def _panel(outcome: Outcome) -> Panel:
    """The noisy and the clean image of the first trial."""
    first = outcome.trials[0]
    images = np.stack([first.noisy, first.clean])
    return Panel(f"{outcome.row.title}: {first.decibels:.2f} dB", images.reshape(2, -1), first.noisy.shape, 1)


TITLE = "A noisy image, cleaned"
_QUICK = {"n_components": 16, "n_candidates": 4, "max_active": 2, "max_iter": 3, "side": 40}
_KEPT = {"PSNR": lambda trial: trial.decibels, "learned noise level": lambda trial: trial.noise_level}
EXPERIMENTS = [
    Experiment("gsc-denoise", TITLE, GSC14, ROWS, pictures(_panel), _QUICK, _KEPT, _compare, needs_data=True)
]
