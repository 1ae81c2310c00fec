"""`gsc-denoise`: the noisy house, cleaned by what its own patches teach (GSC Table 2, Figure 8)."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import locate
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.media import read_image
from multicause.metrics import bootstrap_interval, psnr

N_TRIALS = 5


class Setting(NamedTuple):
    """One cell of the table, and the figure that stands in it."""

    noise: float  # standard deviation
    published: float  # PSNR in dB; beside our own settings what BM3D reaches, which is told the noise level
    n_components: int = 256
    n_candidates: int = 10
    max_active: int = 8
    max_iter: int = 65
    n_passes: int = 1
    patch_size: int = 8
    ours: bool = False

    @property
    def selection(self) -> str:
        return "pursuit" if self.ours else "hand-derived"

    @property
    def title(self) -> str:
        title = f"noise {self.noise:g}, H={self.n_components}"
        return f"{title}, {self.patch_size} x {self.patch_size}, {self.n_passes} passes (ours)" if self.ours else title


SETTINGS = (
    Setting(15.0, 32.68, 64),
    Setting(25.0, 31.10, 64),
    Setting(50.0, 28.02, 64),
    Setting(15.0, 33.78, 256, 18, 3),
    Setting(25.0, 32.01, 256, 18, 3),
    Setting(50.0, 28.35, 256),
    Setting(50.0, 28.48, 400),
    Setting(15.0, 34.9, 800, 6, 4, max_iter=40, n_passes=2, patch_size=9, ours=True),
    Setting(25.0, 32.9, 400, 5, 3, max_iter=40, n_passes=2, patch_size=10, ours=True),
    Setting(50.0, 29.6, 256, 5, 3, max_iter=40, n_passes=2, patch_size=14, ours=True),
)


class Trial(NamedTuple):
    decibels: float
    noise_level: float  # as learned
    noisy: np.ndarray
    clean: np.ndarray


def gsc_denoise(options: Options) -> Result:
    rows, details, pictures = [], {}, {}
    for setting in SETTINGS:
        task = partial(denoise_trial, setting, options.quick)
        trials: list[Trial] = run_trials(task, options.seeds(N_TRIALS), options, setting.title)
        rows.append(_row(setting, [trial.decibels for trial in trials]))
        details[setting.title] = {
            "PSNR": [trial.decibels for trial in trials],
            "learned noise level": [trial.noise_level for trial in trials],
        }
        pictures[setting.title] = trials[0]
    return Result("gsc-denoise", rows, _figure(pictures), details=details)


def _row(setting: Setting, decibels: list[float]) -> Row:
    interval = bootstrap_interval(decibels) if len(decibels) > 1 else None
    mean = float(np.mean(decibels))
    measure = "PSNR beside BM3D's" if setting.ours else "PSNR in dB"
    met = None if setting.ours else mean >= setting.published
    return Row(setting.title, measure, f"{setting.published}", mean, interval, met)


def denoise_trial(setting: Setting, quick: bool, seed: int) -> Trial:
    """Noise that the method is not told of, on all overlapping patches of the house."""
    from multicause.tasks import denoise_image

    house = read_image(locate("standard-images/house.png")).astype(float)
    if quick:
        house = house[:40, :40]
    noisy = house + setting.noise * np.random.default_rng(seed).standard_normal(house.shape)
    arguments: dict[str, Any] = {
        "n_components": 16 if quick else setting.n_components,
        "n_candidates": setting.n_candidates if not quick else 4,
        "max_active": setting.max_active if not quick else 2,
        "max_iter": setting.max_iter if not quick else 3,
        "selection": setting.selection,
    }
    result = denoise_image(
        noisy,
        patch_size=setting.patch_size,
        n_passes=setting.n_passes,
        value_range=(0.0, 255.0),
        random_state=seed,
        n_jobs=1,
        **arguments,
    )
    return Trial(psnr(house, result.image), result.noise_level, noisy, result.image)


def _figure(pictures: dict[str, Trial]):
    """For each setting the noisy and the clean image."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(pictures), figsize=(2.6 * len(pictures), 5.6), layout="constrained")
    for (title, trial), column in zip(pictures.items(), axes.T, strict=True):
        for image, ax in zip((trial.noisy, trial.clean), column, strict=True):
            ax.imshow(image, cmap="gray", vmin=0, vmax=255)
            ax.set_axis_off()
        column[0].set_title(title, fontsize=7)
        column[1].set_title(f"{trial.decibels:.2f} dB", fontsize=8)
    return figure
