"""`gsc-posterior`: how few latents, and how low-dimensional hyperplanes, hold the exact posterior (GSC Figure 2)."""

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from multicause.datasets import load_sources
from multicause.experiments.experiment import GSC14, OTHER_DATA, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.experiments.gsc_mixing import HOMOSCEDASTIC, Start, fit_directions, orthogonal_bases
from multicause.experiments.gsc_sources import evenly

N_POINTS = 30  # whose posteriors are looked at, over all 2^10 states
LOW = 5  # dimensions of ten
MOST = 0.9  # of the posterior mass over the latents


class Mass(NamedTuple):
    """Means over data points."""

    by_latent: np.ndarray  # (H,) share of p(s_h = 1) in its sum over h, the largest first
    by_dimension: np.ndarray  # (H + 1,) p(|s| = k)


def posterior_mass(seed: int, name: str, n_samples: int, max_iter: int, start: Start, model: dict[str, Any]) -> Mass:
    """Learned by exact EM from orthogonal mixtures, as for Table 1."""
    sources = evenly(load_sources(name), n_samples)
    X = sources @ orthogonal_bases(sources.shape[1], np.random.default_rng(seed))
    fit = fit_directions(X, seed, max_iter, start=start, posterior="exact", **model)
    states = np.array(list(product((0.0, 1.0), repeat=X.shape[1])))
    posterior = softmax(fit.log_joint(X[:: len(X) // N_POINTS][:N_POINTS], states), axis=1)  # (n, 2^H)
    by_latent = posterior @ states
    by_latent = -np.sort(-by_latent / by_latent.sum(axis=1, keepdims=True), axis=1)
    by_dimension = posterior @ np.eye(X.shape[1] + 1)[states.sum(axis=1).astype(int)]
    return Mass(by_latent.mean(axis=0), by_dimension.mean(axis=0))


CHECKS = (
    Check(
        f"posterior mass in hyperplanes of at most {LOW} of 10 dimensions",
        lambda trial: trial.by_dimension[: LOW + 1].sum(),
        Published("primarily", lambda share: share.mean > 0.5, 0.5),
    ),
    Check(
        "latents that hold nine tenths of the mass over the latents",
        lambda trial: int(np.searchsorted(np.cumsum(trial.by_latent), MOST)) + 1,
        Published("a subset of 10", lambda number: number.mean < 10.0),
    ),
)
SETTING = {"name": "voices10", "n_samples": 500, "max_iter": 50, "start": "paper", "model": HOMOSCEDASTIC}
ROWS = [Row(f"voices10 {OTHER_DATA}", posterior_mass, SETTING, CHECKS, n_trials=5)]


def _points(outcome: Outcome):
    for curve, place in (("of a latent, the largest first", 0), ("of a hyperplane, by its dimensions", 1)):
        for k, values in enumerate(np.transpose([trial[place] for trial in outcome.trials])):
            yield Point("", curve, k + (place == 0), list(values))


TITLE = "Where the exact posterior lies"
_KEPT = {"by latent": lambda trial: trial.by_latent.tolist(), "by dimension": lambda trial: trial.by_dimension.tolist()}
_figure = curves(_points, xlabel="latent, or dimensions", ylabel="posterior mass")
EXPERIMENTS = [Experiment("gsc-posterior", TITLE, GSC14, ROWS, _figure, {"max_iter": 5}, _KEPT, needs_data=True)]
