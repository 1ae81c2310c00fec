"""`mca-overlap-16`: overlapping bars found by maximal causes and by matrix factorisation (MCA Figure 8C, 9)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import NMF

from multicause.datasets import make_bars, overlapping_bar_components
from multicause.experiments.experiment import MCA08, Check, Experiment, Outcome, Row, changed, fit_quietly
from multicause.experiments.figures import Panel, pictures
from multicause.experiments.mca_bars import QUICK, TABLES, n_found, panel

N_UNITS = 32
SIMILAR = 0.9  # cosine from which on a component stands for a cause
_SPARSE = {"alpha_W": 0.1, "l1_ratio": 1.0}
_DIVERGENCE = {"solver": "mu", "beta_loss": "kullback-leibler"}
FACTORISATIONS: dict[str, dict[str, Any]] = {
    "NMF, squared error": {},
    "NMF, squared error, L1": _SPARSE,
    "NMF, divergence": _DIVERGENCE,
    "NMF, divergence, L1": {**_DIVERGENCE, **_SPARSE},
}


class Factorised(NamedTuple):
    n_found: int
    components: np.ndarray


def factorise(seed: int, max_iter: int, settings: Mapping[str, Any]) -> Factorised:
    causes = overlapping_bar_components()
    X = make_bars(400, components=causes, superposition="max", noise=0.0, random_state=seed).X
    nmf = fit_quietly(NMF(N_UNITS, init="random", max_iter=max_iter, random_state=seed, **settings), X)
    return Factorised(count_matched(nmf.components_, causes), nmf.components_)


def count_matched(components: np.ndarray, causes: np.ndarray) -> int:
    """Number of components that stand for a cause: two causes on one component count as one found.

    Each cause goes to its most similar component, as under a generative model to its most probable one, provided that

        <component, cause> / (|component| |cause|) > 0.9,

    where bars that overlap have 1/2: a component that mixes two bars stands for none.
    """
    lengths = np.linalg.norm(components, axis=1) * np.linalg.norm(causes, axis=1)[:, None]
    similarity = causes @ components.T / np.where(lengths > 0.0, lengths, 1.0)
    return len(np.unique(similarity.argmax(axis=1)[similarity.max(axis=1) > SIMILAR]))


def _rows(max_iter: int = 1000, changes: Mapping[str, Any] | None = None) -> list[Row]:
    """The table of the three algorithms, and below it scikit-learn's NMF with both losses, with and without L1."""
    check = Check("bars found", lambda trial: trial.n_found, label=f"{{}}, H={N_UNITS}")
    factorisations = [
        Row(title, factorise, {"max_iter": max_iter, "settings": settings}, [check], n_trials=25)
        for title, settings in FACTORISATIONS.items()
    ]
    return [*changed(TABLES["mca-overlap-16"], **(changes or {})), *factorisations]


def _n_found(trial: Any) -> int:
    return trial.n_found if isinstance(trial, Factorised) else n_found(trial)


def _panel(outcome: Outcome) -> Panel:
    first = outcome.trials[0]
    return Panel(outcome.row.title, first.components) if isinstance(first, Factorised) else panel(outcome)


TITLE = "Sixteen overlapping bars, and NMF"
_QUICK = {"max_iter": 50, "changes": QUICK}
EXPERIMENTS = [
    Experiment("mca-overlap-16", TITLE, MCA08, _rows, pictures(_panel), _QUICK, {"causes found": _n_found}),
]
