"""`gsc-consistency`: the more data, the more exactly the sparse directions are recovered (GSC Figure 3)."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.experiments.gsc_mixing import fit_directions, perturbed_bases, plot_curves, trial_details
from multicause.metrics import amari_index, bootstrap_interval

N_CAUSES, N_TRIALS, MAX_ITER = 10, 15, 100
SIZES = (1_000, 4_000, 16_000, 128_000)
LARGEST, TRIALS_AT_LARGEST = 512_000, 3
PUBLISHED, FROM_SIZE = 6e-3, 128_000
AT_REST = 1e-6  # gain of free energy per data point below which the remaining iterations change nothing
TRUNCATION: dict[str, Any] = {"n_candidates": 5, "max_active": 5}


class Curve(NamedTuple):
    """One curve of the figure.

    The paper does not say how long its orthogonal bases are. Of length one they would all but vanish in a perturbation
    whose length is sqrt(2 * 10) = 4.5; with length ten it is a perturbation. Both readings are measured.
    """

    title: str
    settings: dict[str, Any]
    prior: str = "spike and slab"
    length: float = 10.0
    sizes: tuple[int, ...] = SIZES
    judged: bool = True  # the paper's bound is for data of the model


CURVES = (
    Curve("H'=gamma=5", TRUNCATION, sizes=(*SIZES, LARGEST)),
    Curve("exact", {"posterior": "exact"}),
    Curve("H'=gamma=5, bases of length 1", TRUNCATION, length=1.0),
    Curve("H'=gamma=5, Laplace data", TRUNCATION, prior="Laplace", judged=False),
)


def gsc_consistency(options: Options) -> Result:
    rows, details, indices = [], {}, {}
    for curve in CURVES:
        sizes = curve.sizes[:1] if options.quick else curve.sizes
        for n_samples in sizes:
            title = f"{curve.title}, N={n_samples:,}"
            seeds = options.seeds(TRIALS_AT_LARGEST if n_samples == LARGEST else N_TRIALS)
            trials = run_trials(partial(recovery_error, curve, n_samples), seeds, options, title)
            rows.append(_row(curve, f"{title}, {len(trials)} trials", n_samples, trials))
            options.report(f"{title}: mean {np.mean(trials):.4f}")
            details[title] = trial_details({curve.title: trials})
            indices[curve.title, n_samples] = trials
    return Result("gsc-consistency", rows, _figure(indices), details=details)


def recovery_error(curve: Curve, n_samples: int, seed: int) -> float:
    """Amari index after at most 100 iterations."""
    X, bases = sparse_data(curve, n_samples, seed)
    return amari_index(fit_directions(X, seed, MAX_ITER, AT_REST, **curve.settings).components_, bases)


def sparse_data(curve: Curve, n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Data with noise of variance 1, and the bases: orthogonal ones plus N(0, 2)."""
    rng = np.random.default_rng(seed)
    bases = perturbed_bases(N_CAUSES, 2.0, rng, curve.length)
    shape = (n_samples, N_CAUSES)
    if curve.prior == "Laplace":
        strengths = rng.laplace(size=shape)
    else:
        strengths = (rng.random(shape) < 1.0 / N_CAUSES) * rng.standard_normal(shape)
    return strengths @ bases + rng.standard_normal(shape), bases


def _row(curve: Curve, title: str, n_samples: int, trials: list[float]) -> Row:
    """Met if the mean, or the lower end of its interval, is below the paper's bound."""
    interval = bootstrap_interval(trials)
    if not curve.judged or n_samples < FROM_SIZE:
        return Row(title, "Amari index", "-", float(np.mean(trials)), interval)
    met = bool(interval[0] < PUBLISHED)
    return Row(title, "Amari index", f"< {PUBLISHED}", float(np.mean(trials)), interval, met)


def _figure(indices: dict[tuple[str, int], list[float]]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    for curve in CURVES:
        sizes = [n_samples for title, n_samples in indices if title == curve.title]
        plot_curves(ax, sizes, {curve.title: [indices[curve.title, n_samples] for n_samples in sizes]})
    ax.axhline(PUBLISHED, color="0.5", linestyle=":")
    ax.set(xscale="log", yscale="log", xlabel="data points")
    return figure
