"""`gsc-separation`: sources of mixtures from orthogonal to far from it, noisy or not (GSC Figures 5, 6, 12)."""

from functools import partial
from itertools import product

import numpy as np

from multicause.datasets import load_sources
from multicause.experiments.base import Options, Result, run_trials
from multicause.experiments.gsc_mixing import (
    FACTORED,
    TRUNCATED,
    Indices,
    by_method,
    comparison_rows,
    perturbed_bases,
    plot_curves,
    trial_details,
    unmixing_error,
)

SOURCES = ("voices10", "eeg19", "voices20")  # stand-ins for 10halo, EEG19 and Speech20
EQUAL = "eeg19"  # where the paper's two posteriors do alike; channels of an EEG are far from independent
PERTURBATIONS = (0.0, 4.0, 10.0, 20.0)  # variance of what is added to each entry of the orthogonal bases
NOISES = (0.0, 2.0)  # standard deviation of the observation noise
BASIS_LENGTH = 10.0  # the paper's is not given; bases of length one would vanish in the perturbations
N_TRIALS, MAX_ITER, N_SAMPLES = 15, 100, 2000


def gsc_separation(options: Options) -> Result:
    rows, details = [], {}
    indices: dict[tuple[str, float, float], Indices] = {}
    perturbations = PERTURBATIONS[1:2] if options.quick else PERTURBATIONS
    for name, noise, perturbation in product(SOURCES[:1] if options.quick else SOURCES, NOISES, perturbations):
        title = f"{name}, {'noisy' if noise else 'noiseless'}, sigma={perturbation:g}"
        task = partial(separation_errors, name, noise, perturbation, 5 if options.quick else MAX_ITER)
        trials = run_trials(task, options.seeds(N_TRIALS), options, title)
        indices[name, noise, perturbation] = by_method(title, trials, options)
        rows += comparison_rows(title, indices[name, noise, perturbation], equal=name == EQUAL)
        details[title] = trial_details(indices[name, noise, perturbation])
    return Result("gsc-separation", rows, _figure(indices), details=details)


def separation_errors(name: str, noise: float, perturbation: float, max_iter: int, seed: int) -> dict[str, float]:
    """Amari index of both posteriors on the same mixtures; ten sources and H' = gamma = 10 make the first exact."""
    sources = evenly(load_sources(name), N_SAMPLES)
    rng = np.random.default_rng(seed)
    mixing = perturbed_bases(sources.shape[1], perturbation, rng, BASIS_LENGTH)
    X = sources @ mixing + noise * rng.standard_normal(sources.shape)
    return {
        TRUNCATED: unmixing_error(X, mixing, seed, max_iter, n_candidates=10, max_active=10),
        FACTORED: unmixing_error(X, mixing, seed, max_iter, posterior="factored"),
    }


def evenly(sources: np.ndarray, n_samples: int) -> np.ndarray:
    """Samples spread over the whole recording."""
    return sources[:: len(sources) // n_samples][:n_samples]


def _figure(indices: dict[tuple[str, float, float], Indices]):
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _, _ in indices))
    figure, axes = plt.subplots(
        len(NOISES), len(names), figsize=(4.0 * len(names), 6.4), layout="constrained", squeeze=False
    )
    for (i, noise), (j, name) in product(enumerate(NOISES), enumerate(names)):
        places = [p for source, amount, p in indices if (source, amount) == (name, noise)]
        curves = {m: [indices[name, noise, p][m] for p in places] for m in (TRUNCATED, FACTORED)}
        plot_curves(axes[i, j], range(len(places)), curves)
        axes[i, j].set_xticks(range(len(places)), [f"{p:g}" if p else "orthogonal" for p in places])
        axes[i, j].set(title=f"{name}, noise {noise:g}", xlabel="sigma")
    return figure
