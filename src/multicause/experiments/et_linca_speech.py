"""`et-linca-speech`: components of all 12.5 ms windows of ten voices (ET §4.3.2, Figure 11)."""

import numpy as np

from multicause.datasets import speech_windows
from multicause.estimators import LinCA
from multicause.experiments.base import Options, Result, Row
from multicause.learning import Annealing

N_COMPONENTS = 200
LOCALISED = 0.5  # spread below half of white noise's


def et_linca_speech(options: Options) -> Result:
    X = speech_windows()
    cooling, settling = (200, 200) if not options.quick else (10, 5)
    if options.quick:
        X = X[:: max(len(X) // 20_000, 1)]
    options.report(f"{len(X):,} windows of {X.shape[1]} samples")
    estimator = fit_speech(X, cooling + settling, settle=(settling + 0.2 * cooling) / (cooling + settling))
    in_time, in_frequency = (spread < LOCALISED for spread in spreads(estimator.components_))
    title = f"N={len(X):,}, H={N_COMPONENTS}"
    rows = [
        Row(title, "share localised in frequency", "most", float(np.mean(in_frequency))),
        Row(title, "share localised in time and frequency", "many", float(np.mean(in_time & in_frequency))),
        Row(title, "free energy per window", "-", float(estimator.free_energy_[-1])),
    ]
    used = float(np.mean(estimator.transform(X[:: max(len(X) // 5000, 1)]).sum(axis=1)))
    details = {"n_iter": estimator.n_iter_, "causes active per window": used, "n_windows": len(X)}
    return Result("et-linca-speech", rows, _figure(estimator.components_), details=details)


def fit_speech(X: np.ndarray, max_iter: int, settle: float, seed: int = 0) -> LinCA:
    """pi H = 2 and sigma = 0.5 held, H' = 10, gamma = 4, singletons, T 5 -> 1."""
    rng = np.random.default_rng([seed, 1])
    return LinCA(
        N_COMPONENTS,
        n_candidates=10,
        max_active=4,
        components_init=rng.normal(0.0, X.std() / 3.0, size=(N_COMPONENTS, X.shape[1])),
        activation_init=2.0 / N_COMPONENTS,
        noise_variance_init=0.25,
        fixed=("activation", "noise_variance"),
        annealing=Annealing(5.0, hold=0.1 * (1.0 - settle) / 0.9, settle=settle, parameter_noise=0.01),
        max_iter=max_iter,
        random_state=seed,
        verbose=1,
    ).fit(X)


def spreads(fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Spread of each field's energy over time, and over frequency: 1 is that of white noise."""
    return _spread(fields**2), _spread(np.abs(np.fft.rfft(fields, axis=1)) ** 2)


def _spread(energy: np.ndarray) -> np.ndarray:
    """Standard deviation of the position under the energy's distribution, over that of a uniform one."""
    distribution = energy / np.maximum(energy.sum(axis=1, keepdims=True), 1e-300)
    position = np.linspace(0.0, 1.0, distribution.shape[1])
    mean = distribution @ position
    variance = np.einsum("hd,hd->h", distribution, (position - mean[:, None]) ** 2)
    return np.sqrt(12.0 * variance)


def _figure(fields: np.ndarray):
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components

    figure, ax = plt.subplots(figsize=(10.0, 8.0), layout="constrained")
    order = np.argsort(-np.linalg.norm(fields, axis=1))
    plot_components(fields[order], shape=(fields.shape[1],), ax=ax)
    ax.set_title("generative fields, largest first, each scaled to its own range")
    return figure
