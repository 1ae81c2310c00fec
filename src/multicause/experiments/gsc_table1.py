"""`gsc-table1`: few samples of orthogonally mixed sources (GSC Table 1, the data set that is at hand)."""

from functools import partial
from typing import Any

import numpy as np

from multicause.datasets import load_sources
from multicause.estimators import GSC
from multicause.experiments.base import Options, Result, error_row, run_trials
from multicause.experiments.gsc_mixing import fit_directions, orthogonal_bases, trial_details
from multicause.metrics import amari_index

N_TRIALS, MAX_ITER = 50, 350
METHODS = {  # posteriors, each of which goes on from the parameters of the one before
    "exact": ("exact",),
    "factored": ("factored",),
    "factored, then exact (ours)": ("factored", "exact"),
}
PUBLISHED = {  # mean Amari index for N = 200 and N = 500
    "exact": (0.13, 0.10),
    "factored": (0.14, 0.14),
    "factored, then exact (ours)": (0.13, 0.10),
}
SIZES = (200, 500)


def gsc_table1(options: Options) -> Result:
    rows, details, indices = [], {}, {}
    for place, n_samples in enumerate(SIZES):
        for method in METHODS:
            title = f"Speech4, N={n_samples}, {method}"
            task = partial(speech_error, method, n_samples, 20 if options.quick else MAX_ITER)
            indices[title] = run_trials(task, options.seeds(N_TRIALS), options, title)
            rows.append(error_row(title, "Amari index", indices[title], PUBLISHED[method][place]))
            details[title] = trial_details({method: indices[title]})
    return Result("gsc-table1", rows, _figure(indices), details=details)


def speech_error(method: str, n_samples: int, max_iter: int, seed: int) -> float:
    """Consecutive samples from a random place on: the paper does not give its offset."""
    sources = load_sources("speech4")
    rng = np.random.default_rng(seed)
    mixing = orthogonal_bases(sources.shape[1], rng)
    offset = rng.integers(len(sources) - n_samples + 1)
    X = sources[offset : offset + n_samples] @ mixing
    start: dict[str, Any] = {"activation_init": 0.5}  # loud voices pause seldom
    for posterior in METHODS[method]:
        fit = fit_directions(X, seed, max_iter, posterior=posterior, **start)
        start = parameters_of(fit)
    return amari_index(fit.components_, mixing)


def parameters_of(fit: GSC) -> dict[str, Any]:
    """What another fit needs to go on from this one."""
    names = ("components", "activation", "slab_mean", "slab_covariance", "noise_variance")
    return {f"{name}_init": getattr(fit, f"{name}_") for name in names}


def _figure(indices: dict[str, list[float]]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
    ax.boxplot(list(indices.values()), orientation="horizontal", tick_labels=list(indices))
    ax.invert_yaxis()
    ax.set_xlabel("Amari index")
    return figure
