"""`upoe-natural`: independent components of natural images (UPoE §5.3, Figure 6)."""

import time
import warnings

import numpy as np
from scipy.optimize import least_squares
from sklearn.exceptions import ConvergenceWarning

from multicause.datasets import natural_patches
from multicause.estimators import UPoE
from multicause.experiments.base import Options, Result, Row
from multicause.metrics import wilson_interval

SIZE, N_PATCHES, N_DIMENSIONS, N_EXPERTS = 30, 100_000, 400, 100
GOOD_FIT = 0.5  # share of a field's variance that a Gabor function explains
MOST_SECONDS = 600.0


def upoe_natural(options: Options) -> Result:
    """100 experts in the first 400 principal directions of 100 000 patches; the paper shows 25 and says Gabor-like."""
    n_patches, n_experts, n_dimensions = (4_000, 4, 60) if options.quick else (N_PATCHES, N_EXPERTS, N_DIMENSIONS)
    X = natural_patches(SIZE, n_patches, random_state=0)
    options.report(f"{n_patches:,} patches, {n_experts} experts")
    start, cpu_start = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = UPoE(n_experts, n_dimensions=n_dimensions, tol=1e-5, random_state=0, n_jobs=options.jobs).fit(X)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    explained = np.array([gabor_share(field.reshape(SIZE, SIZE)) for field in fit.mixing_.T])
    n_good = int(np.sum(explained > GOOD_FIT))
    setting = f"N={n_patches:,}, {n_dimensions} dimensions, {n_experts} experts"
    good = n_good / n_experts
    share = Row(
        setting, "fields like a Gabor function", "Gabor-like", good, wilson_interval(n_good, n_experts), good >= 0.8
    )
    rows = [
        share,
        Row(setting, "seconds of the fit", "a few hours", seconds, None, seconds <= MOST_SECONDS),
        Row(setting, "seconds of the fit, of one core's time", "-", cpu_seconds),
        Row(setting, "experts of negative index", "-", float(np.sum(fit.projection_index_ < 0.0))),
    ]
    details = {
        "trials": 1,
        "stop": str(fit.stop_),
        "iterations": fit.n_iter_,
        "log-likelihood": fit.free_energy_[[0, -1]].tolist(),
        "explained by a Gabor function": np.sort(explained).tolist(),
        "median inverse temperature": float(np.median([expert.inverse_temperature for expert in fit.experts_])),
    }
    return Result("upoe-natural", rows, _figure(fit), details={setting: details})


def gabor_share(field: np.ndarray) -> float:
    """The largest share of a field's variance that a Gabor function of free place, size, angle and frequency explains.

    The search starts at the field's centre of energy with the frequency at the peak of its spectrum.
    """
    field = (field - field.mean()) / field.std()
    y, x = np.mgrid[: field.shape[0], : field.shape[1]].astype(float)
    energy = field**4
    place = [float((c * energy).sum() / energy.sum()) for c in (x, y)]
    spectrum = np.abs(np.fft.fftshift(np.fft.fft2(field, s=(128, 128))))
    row, column = np.unravel_index(int(np.argmax(spectrum)), spectrum.shape)
    wave = [2.0 * np.pi * (int(column) - 64) / 128, 2.0 * np.pi * (int(row) - 64) / 128]

    def residual(values: np.ndarray) -> np.ndarray:
        x0, y0, kx, ky, along, across = values
        angle = np.arctan2(ky, kx)
        u = (x - x0) * np.cos(angle) + (y - y0) * np.sin(angle)
        v = -(x - x0) * np.sin(angle) + (y - y0) * np.cos(angle)
        window = np.exp(-0.5 * (u**2 * np.exp(-2.0 * along) + v**2 * np.exp(-2.0 * across)))
        phase = np.hypot(kx, ky) * u
        basis = np.stack([(window * np.cos(phase)).ravel(), (window * np.sin(phase)).ravel()], axis=1)
        amplitudes = np.linalg.lstsq(basis, field.ravel(), rcond=None)[0]
        return field.ravel() - basis @ amplitudes

    best = min(
        least_squares(residual, [*place, *wave, np.log(width), np.log(1.5 * width)], max_nfev=100).cost
        for width in (1.0, 2.0, 4.0)
    )
    return float(1.0 - 2.0 * best / field.size)


def _figure(fit: UPoE):
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components

    figure, axes = plt.subplots(1, 2, figsize=(12.0, 6.3), layout="constrained")
    for ax, fields, title in zip(axes, (fit.components_, fit.mixing_.T), ("projections", "fields"), strict=True):
        plot_components(fields, shape=(SIZE, SIZE), ax=ax)
        ax.set_title(title)
    return figure
