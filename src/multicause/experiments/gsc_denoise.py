"""`gsc-denoise`: the noisy house, cleaned by what is learned from its own patches (GSC Table 2, Figure 8)."""

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import locate
from multicause.experiments.experiment import GSC14, NO_FIGURE, Check, Experiment, Outcome, Published, Row, at_least
from multicause.experiments.figures import Panel, pictures
from multicause.media import read_image
from multicause.metrics import psnr
from multicause.tasks import denoise_image


class Cleaned(NamedTuple):
    decibels: float
    noise_level: float  # as learned
    noisy: np.ndarray
    clean: np.ndarray


def clean_house(seed: int, noise: float, side: int | None = None, **settings: Any) -> Cleaned:
    """Noise that the method is not told of, on all overlapping patches of the house, or of its upper left corner."""
    house, noisy = _noisy_house(seed, noise, side)
    result = denoise_image(noisy, value_range=(0.0, 255.0), random_state=seed, n_jobs=1, start="random", **settings)
    return Cleaned(psnr(house, result.image), result.noise_level, noisy, result.image)


def _noisy_house(seed: int, noise: float, side: int | None) -> tuple[np.ndarray, np.ndarray]:
    house = read_image(locate("standard-images/house.png")).astype(float)[:side, :side]
    return house, house + noise * np.random.default_rng(seed).standard_normal(house.shape)


def bm3d_house(seed: int, noise: float, side: int | None = None, **_: Any) -> Cleaned:
    """BM3D on the same image, told the noise level."""
    from bm3d import bm3d

    house, noisy = _noisy_house(seed, noise, side)
    clean = bm3d(noisy, noise).clip(0.0, 255.0)
    return Cleaned(psnr(house, clean), noise, noisy, clean)


PAPER: dict[str, Any] = {"patch_size": 8, "subtract_mean": False, "n_passes": 1}
MAX_ITER = {64: 65, 256: 65, 400: 120}  # of H (GSC §5.5)
FACTORED_ITER = 120
N_TRIALS = 5  # the paper's is one


def _row(title: str, noise: float, published: Published = NO_FIGURE, task: Any = clean_house, **setting: Any) -> Row:
    check = Check("PSNR in dB", lambda trial: trial.decibels, published)
    return Row(title, task, {"noise": noise, **setting}, [check], n_trials=N_TRIALS)


def _papers(published: float, noise: float, h: int, n_candidates: int = 10, max_active: int = 8, **ours: Any) -> Row:
    """A cell of GSC Table 2."""
    title = f"noise {noise:g}, H={h}" + (" (ours: patch means taken off)" if ours else "")
    truncation = {"n_candidates": n_candidates, "max_active": max_active, "selection": "model-based"}
    setting: dict[str, Any] = {"n_components": h, "max_iter": MAX_ITER[h], **truncation, **PAPER, **ours}
    return _row(title, noise, at_least(published), **setting)


def _factored(published: float, noise: float) -> Row:
    """The column of the factored posterior (MTMKL), with as many components as the paper gives it."""
    setting: dict[str, Any] = {"n_components": 64, "max_iter": FACTORED_ITER, "posterior": "factored", **PAPER}
    return _row(f"noise {noise:g}, H=64, factored", noise, at_least(published), **setting)


def _ours(noise: float, h: int, n_candidates: int, max_active: int, patch_size: int) -> Row:
    title = f"noise {noise:g}, H={h} (ours: {patch_size} x {patch_size}, greedy, means taken off, 2 passes)"
    truncation: dict[str, Any] = {"n_candidates": n_candidates, "max_active": max_active, "selection": "greedy"}
    return _row(title, noise, n_components=h, max_iter=40, n_passes=2, patch_size=patch_size, **truncation)


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
    _row(f"noise {noise:g}, BM3D told the noise (ours: a rival)", noise, task=bm3d_house)
    for noise in (15.0, 25.0, 50.0)
]
ROWS = [
    *(_papers(*cell) for cell in _CELLS),
    _factored(34.29, 15.0),
    _factored(31.88, 25.0),
    _factored(28.08, 50.0),
    *(_papers(*cell, subtract_mean=True) for cell in _CELLS),
    _ours(15.0, 800, 6, 4, patch_size=9),
    _ours(25.0, 400, 5, 3, patch_size=10),
    _ours(50.0, 256, 5, 3, patch_size=14),
    *(_BM3D if find_spec("bm3d") else ()),
]


def _panel(outcome: Outcome) -> Panel:
    """The noisy and the clean image of the first trial."""
    first = outcome.trials[0]
    images = np.stack([first.noisy, first.clean]).clip(0.0, 255.0)
    return Panel(f"{outcome.row.title}: {first.decibels:.2f} dB", images.reshape(2, -1), first.noisy.shape, 1)


TITLE = "A noisy image, cleaned"
_QUICK = {"n_components": 16, "n_candidates": 4, "max_active": 2, "max_iter": 3, "side": 40}
_KEPT = {"PSNR": lambda trial: trial.decibels, "learned noise level": lambda trial: trial.noise_level}
EXPERIMENTS = [Experiment("gsc-denoise", TITLE, GSC14, ROWS, pictures(_panel), _QUICK, _KEPT, needs_data=True)]
