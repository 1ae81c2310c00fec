"""`mca-overlap-16`: overlapping bars found by maximal causes and by matrix factorisation (MCA Figure 8C, 9)."""

import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import make_bars, overlapping_bar_components
from multicause.experiments.base import Options, Result, run_trials
from multicause.experiments.mca_reliability import TABLES, Picture, figure_of_fields, found_row, run_table

N_UNITS = 32
SIMILAR = 0.9  # cosine from which on a component stands for a cause
FACTORISATIONS: dict[str, dict[str, Any]] = {
    "NMF, squared error": {"solver": "cd", "beta_loss": "frobenius"},
    "NMF, squared error, L1": {"solver": "cd", "beta_loss": "frobenius", "alpha_W": 0.1, "l1_ratio": 1.0},
    "NMF, divergence": {"solver": "mu", "beta_loss": "kullback-leibler"},
    "NMF, divergence, L1": {"solver": "mu", "beta_loss": "kullback-leibler", "alpha_W": 0.1, "l1_ratio": 1.0},
}


class FactorisationTrial(NamedTuple):
    n_found: int
    components: np.ndarray


def mca_overlap_16(options: Options) -> Result:
    """The table of the three algorithms, and beside it scikit-learn's NMF with both losses, with and without L1."""
    rows, details, pictures = run_table(TABLES["mca-overlap-16"], options)
    for title in FACTORISATIONS:
        task = partial(factorisation_trial, title, 50 if options.quick else 1000)
        trials: list[FactorisationTrial] = run_trials(task, options.seeds(25), options, title)
        found = [trial.n_found for trial in trials]
        rows.append(found_row(f"{title}, H={N_UNITS}", found, None))
        details[title] = {"trials": len(trials), "causes found": found}
        pictures.append(Picture(title, trials[0].components))
    return Result("mca-overlap-16", rows, figure_of_fields(pictures), details=details)


def factorisation_trial(title: str, max_iter: int, seed: int) -> FactorisationTrial:
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    causes = overlapping_bar_components()
    X = make_bars(400, components=causes, superposition="max", noise=0.0, random_state=seed).X
    nmf = NMF(N_UNITS, init="random", max_iter=max_iter, random_state=seed, **FACTORISATIONS[title])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        nmf.fit(X)
    return FactorisationTrial(count_matched(nmf.components_, causes), nmf.components_)


def count_matched(components: np.ndarray, causes: np.ndarray) -> int:
    """Number of components that stand for a cause: two causes on one component count as one found.

    Each cause goes to its most similar component, as under a generative model to its most probable one, provided that

        <component, cause> / (|component| |cause|) > 0.9,

    where bars that overlap have 1/2: a component that mixes two bars stands for none.
    """
    lengths = np.linalg.norm(components, axis=1) * np.linalg.norm(causes, axis=1)[:, None]
    similarity = causes @ components.T / np.where(lengths > 0.0, lengths, 1.0)
    return len(np.unique(similarity.argmax(axis=1)[similarity.max(axis=1) > SIMILAR]))
