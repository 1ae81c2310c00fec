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
    verdict_row,
)
from multicause.learning import Annealing

PURSUED, FACTORED_FULL = "annealed, pursued (ours)", "factored, noise covariance"
PRIORS = ("Cauchy", "Laplace")
SIZES = (20, 40, 60, 80, 100)  # D = H
N_TRIALS, MAX_ITER, N_SAMPLES = 20, 50, 5000
NORMAL_QUARTILE = 0.6745  # standard deviations from the middle of a normal distribution to its quartiles
FARTHEST = 3.0  # spreads from the middle beyond which a value counts as this far


def gsc_directions(options: Options) -> Result:
    rows, details = [], {}
    indices: dict[tuple[str, int], Indices] = {}
    for prior in PRIORS:
        for size in SIZES[:1] if options.quick else SIZES:
            title = f"{prior}, D=H={size}"
            task = partial(direction_errors, prior, size, 5 if options.quick else MAX_ITER)
            trials = run_trials(task, options.seeds(N_TRIALS), options, title)
            indices[prior, size] = by_method(title, trials, options)
            ours = verdict_row(title, indices[prior, size], PURSUED, rival=FACTORED_FULL)
            rows += [ours, *comparison_rows(title, indices[prior, size])]
            details[title] = trial_details(indices[prior, size])
    return Result("gsc-directions", rows, _figure(indices), details=details)


def direction_errors(prior: str, size: int, max_iter: int, seed: int) -> dict[str, float]:
    """Amari index of the posteriors on the same data, from the same start."""
    X, mixing = direction_data(prior, size, seed)
    errors = {}
    for method, settings in method_settings(size).items():
        start = robust_start(X, seed, settings["noise"]) if prior == "Cauchy" else {}
        errors[method] = unmixing_error(X, mixing, seed, max_iter, **start, **settings)
    return errors


def direction_data(prior: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy mixtures and the mixing matrix, N(0, 1) in every entry."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((size, size))
    draw = rng.standard_cauchy if prior == "Cauchy" else rng.laplace
    return draw(size=(N_SAMPLES, size)) @ mixing + rng.standard_normal((N_SAMPLES, size)), mixing


def robust_start(X: np.ndarray, seed: int, noise: str) -> dict[str, Any]:
    """Half of the variance for the noise and half for fields drawn at random, as wide as the middle of the data.

    Some Cauchy strengths are a million times the others. From noise of the data's own variance, which drowns all else,
    fits of 50 iterations end with several causes in one direction.
    """
    middle = np.median(X, axis=0)
    spread = np.median(np.abs(X - middle), axis=0) / NORMAL_QUARTILE
    covariance = np.outer(spread, spread) * np.cov(((X - middle) / spread).clip(-FARTHEST, FARTHEST).T)
    variance = float(np.diag(covariance).mean())
    fields = np.sqrt(variance / 2.0) * np.random.default_rng([seed, 1]).standard_normal(2 * X.shape[1:])
    return {"components_init": fields, "noise_variance_init": (covariance if noise == "full" else variance) / 2.0}


def method_settings(size: int) -> dict[str, dict[str, Any]]:
    """GSC has a noise covariance (GSC eq. 3) and H' = gamma = H / 10; its rival has one noise variance.

    All strengths of a standard prior differ from zero, so that a truncated posterior leaves many out: with a covariance
    they become noise in their directions instead of noise everywhere. That serves the factored posterior, too, and is
    what ours is compared with. Ours chooses its candidates one beside the other and cools over the same 50 iterations.
    """
    few, more = size // 10, max(size // 10, 6)
    return {
        TRUNCATED: {"n_candidates": few, "max_active": few, "noise": "full"},
        PURSUED: {
            "n_candidates": more,
            "max_active": more,
            "noise": "full",
            "selection": "pursuit",
            "annealing": Annealing(3.0, hold=0.5, settle=0.1),
        },
        FACTORED: {"posterior": "factored", "noise": "isotropic"},
        FACTORED_FULL: {"posterior": "factored", "noise": "full"},
    }


def _figure(indices: dict[tuple[str, int], Indices]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PRIORS), figsize=(9.0, 3.4), layout="constrained")
    for ax, prior in zip(axes, PRIORS, strict=True):
        sizes = [size for name, size in indices if name == prior]
        methods = indices[prior, sizes[0]]
        plot_curves(ax, sizes, {m: [indices[prior, size][m] for size in sizes] for m in methods})
        ax.set(title=prior, xlabel="D = H")
    return figure
