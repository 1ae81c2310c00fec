"""`gsc-denoise`: the noisy house, cleaned by what is learned from its own patches (GSC Table 2, Figure 8)."""

from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import locate
from multicause.experiments.experiment import GSC14, Check, Experiment, Outcome, Published, Row, at_least
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
    house = read_image(locate("standard-images/house.png")).astype(float)[:side, :side]
    noisy = house + noise * np.random.default_rng(seed).standard_normal(house.shape)
    result = denoise_image(noisy, value_range=(0.0, 255.0), random_state=seed, n_jobs=1, **settings)
    return Cleaned(psnr(house, result.image), result.noise_level, noisy, result.image)


def _row(title: str, check: Check, noise: float, sizes: tuple[int, int, int], **settings: Any) -> Row:
    n_components, n_candidates, max_active = sizes
    setting = {"noise": noise, "n_components": n_components, "n_candidates": n_candidates, "max_active": max_active}
    return Row(title, clean_house, {**setting, **settings}, [check], n_trials=5)


def _papers(published: float, noise: float, h: int, n_candidates: int = 10, max_active: int = 8) -> Row:
    reached = at_least(published)
    check = Check("PSNR in dB", lambda trial: trial.decibels, reached)
    settings: dict[str, Any] = {"max_iter": 65, "n_passes": 1, "patch_size": 8, "selection": "model-based"}
    return _row(f"noise {noise:g}, H={h}", check, noise, (h, n_candidates, max_active), **settings)


def _ours(bm3d: float, noise: float, h: int, n_candidates: int, max_active: int, patch_size: int) -> Row:
    """A setting of our own beside what BM3D reaches, which is told the noise level."""
    check = Check("PSNR beside BM3D's", lambda trial: trial.decibels, Published(f"{bm3d}"))
    title = f"noise {noise:g}, H={h}, {patch_size} x {patch_size}, 2 passes (ours)"
    settings: dict[str, Any] = {"max_iter": 40, "n_passes": 2, "patch_size": patch_size, "selection": "greedy"}
    return _row(title, check, noise, (h, n_candidates, max_active), **settings)


ROWS = [
    _papers(32.68, 15.0, 64),
    _papers(31.10, 25.0, 64),
    _papers(28.02, 50.0, 64),
    _papers(33.78, 15.0, 256, 18, 3),
    _papers(32.01, 25.0, 256, 18, 3),
    _papers(28.35, 50.0, 256),
    _papers(28.48, 50.0, 400),
    _ours(34.9, 15.0, 800, 6, 4, patch_size=9),
    _ours(32.9, 25.0, 400, 5, 3, patch_size=10),
    _ours(29.6, 50.0, 256, 5, 3, patch_size=14),
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
