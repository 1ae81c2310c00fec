"""`gsc-directions`: sparse directions behind data of other priors, truncated against factored (GSC Figure 4)."""

from functools import partial
from typing import Any

import numpy as np

from multicause.experiments.base import Options, Result, run_trials
from multicause.experiments.gsc_mixing import (
    FACTORED,
    TRUNCATED,
    Indices,
    by_method,
    comparison_rows,
    plot_curves,
    trial_details,
    unmixing_error,
)

WIDE = "H'=gamma=10 (ours)"
FULL, FACTORED_FULL = "noise covariance", "factored, noise covariance"
PRIORS = ("Cauchy", "Laplace")
SIZES = (20, 40, 60, 80, 100)  # D = H
N_TRIALS, MAX_ITER, N_SAMPLES = 15, 50, 5000


def gsc_directions(options: Options) -> Result:
    rows, details = [], {}
    indices: dict[tuple[str, int], Indices] = {}
    for prior in PRIORS:
        for size in SIZES[:1] if options.quick else SIZES:
            title = f"{prior}, D=H={size}"
            task = partial(direction_errors, prior, size, 5 if options.quick else MAX_ITER)
            trials = run_trials(task, options.seeds(N_TRIALS), options, title)
            indices[prior, size] = by_method(title, trials, options)
            rows += comparison_rows(title, indices[prior, size])
            details[title] = trial_details(indices[prior, size])
    return Result("gsc-directions", rows, _figure(indices), details=details)


def direction_errors(prior: str, size: int, max_iter: int, seed: int) -> dict[str, float]:
    """Amari index of the posteriors on the same data."""
    X, mixing = direction_data(prior, size, seed)
    return {
        method: unmixing_error(X, mixing, seed, max_iter, **settings)
        for method, settings in method_settings(prior, size).items()
    }


def direction_data(prior: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy mixtures and the mixing matrix, N(0, 1) in every entry."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((size, size))
    draw = rng.standard_cauchy if prior == "Cauchy" else rng.laplace
    return draw(size=(N_SAMPLES, size)) @ mixing + rng.standard_normal((N_SAMPLES, size)), mixing


def method_settings(prior: str, size: int) -> dict[str, dict[str, Any]]:
    """H' = gamma = H / 10, with the noise of one variance or of any covariance; more candidates for Laplace data.

    All strengths of a standard prior differ from zero, so that a truncated posterior leaves many out: with the noise
    covariance of the paper's model (eq. 3) they become noise in their directions instead of noise everywhere. The
    rival's noise has one variance; what it gains from a covariance stands beside it.
    """
    limits = {"n_candidates": size // 10, "max_active": size // 10}
    methods: dict[str, dict[str, Any]] = {TRUNCATED: limits, FULL: {**limits, "noise": "full"}}
    if prior == "Laplace" and size < 100:
        methods[WIDE] = {"n_candidates": 10, "max_active": 10}
    methods[FACTORED] = {"posterior": "factored"}
    methods[FACTORED_FULL] = {"posterior": "factored", "noise": "full"}
    return methods


def _figure(indices: dict[tuple[str, int], Indices]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PRIORS), figsize=(9.0, 3.4), layout="constrained")
    for ax, prior in zip(axes, PRIORS, strict=True):
        sizes = [size for name, size in indices if name == prior]
        plot_curves(ax, sizes, {m: [indices[prior, size][m] for size in sizes] for m in (TRUNCATED, FULL, FACTORED)})
        ax.set(title=prior, xlabel="D = H")
    return figure
