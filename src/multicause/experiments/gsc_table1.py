"""`gsc-table1`: few samples of orthogonally mixed sources (GSC Table 1, the data set that is at hand)."""

from functools import partial
from typing import NamedTuple

import numpy as np

from multicause.datasets import load_sources
from multicause.experiments.base import Options, Result, error_row, run_trials
from multicause.experiments.gsc_mixing import mean_row, orthogonal_bases, trial_details, unmixing_error
from multicause.metrics import amari_index

N_TRIALS, MAX_ITER = 50, 350
SIZES = (200, 500)
ACTIVATION = 0.8  # to start from: loud voices pause seldom


class Setting(NamedTuple):
    """A posterior, where its fit starts, and the mean Amari index of the paper for each size."""

    posterior: str
    published: tuple[float, float]
    principal: bool = False  # starts from the principal axes of the data, not from random fields

    @property
    def title(self) -> str:
        return f"{self.posterior}, from principal axes (ours)" if self.principal else self.posterior


SETTINGS = (
    Setting("exact", (0.13, 0.10)),
    Setting("factored", (0.14, 0.14)),
    Setting("exact", (0.13, 0.10), principal=True),
    Setting("factored", (0.13, 0.10), principal=True),  # the better ones of the paper, here too
)


def gsc_table1(options: Options) -> Result:
    rows, details, indices = [], {}, {}
    for place, n_samples in enumerate(SIZES):
        seeds = options.seeds(N_TRIALS)
        for setting in SETTINGS:
            title = f"Speech4, N={n_samples}, {setting.title}"
            task = partial(speech_error, setting, n_samples, 20 if options.quick else MAX_ITER)
            indices[title] = run_trials(task, seeds, options, title)
            rows.append(error_row(title, "Amari index", indices[title], setting.published[place]))
            details[title] = trial_details({setting.title: indices[title]})
        title = f"Speech4, N={n_samples}, principal axes alone"
        indices[title] = [axes_error(n_samples, seed) for seed in seeds]
        rows.append(mean_row(title, indices[title], "Amari index"))
    return Result("gsc-table1", rows, _figure(indices), details=details)


def speech_mixtures(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Consecutive samples from a random place on, as the paper does not give its offset; and what mixed them."""
    sources = load_sources("speech4")
    rng = np.random.default_rng(seed)
    mixing = orthogonal_bases(sources.shape[1], rng)
    offset = rng.integers(len(sources) - n_samples + 1)
    return sources[offset : offset + n_samples] @ mixing, mixing


def speech_error(setting: Setting, n_samples: int, max_iter: int, seed: int) -> float:
    X, mixing = speech_mixtures(n_samples, seed)
    start = {"activation_init": ACTIVATION, "components_init": principal_axes(X) if setting.principal else None}
    return unmixing_error(X, mixing, seed, max_iter, posterior=setting.posterior, **start)


def axes_error(n_samples: int, seed: int) -> float:
    """What the start knows already: sources of unequal loudness, mixed orthogonally, lie along principal axes."""
    X, mixing = speech_mixtures(n_samples, seed)
    return amari_index(principal_axes(X), mixing)


def principal_axes(X: np.ndarray) -> np.ndarray:
    """One direction per row, as long as the standard deviation of the data along it."""
    _, spread, axes = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return axes * spread[:, None] / np.sqrt(len(X))


def _figure(indices: dict[str, list[float]]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
    ax.boxplot(list(indices.values()), orientation="horizontal", tick_labels=list(indices))
    ax.invert_yaxis()
    ax.set_xlabel("Amari index")
    return figure
