"""`et-likelihood`: where learning ends, against the generating parameters and against exact EM; which points it uses.

ET Figures 4A, 7C, 10C (ten starts on the same data), Figure 4D (data classification), §5.3 (exact EM; selection by
p(s_h = 1 | y), of which the paper says the same there, is not run).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import Bars
from multicause.estimators import ETNMF, MCA, LinCA
from multicause.experiments.et_bars import MAX_ACTIVE, BarsSetting, bars_data, bars_estimator
from multicause.experiments.experiment import ET, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.metrics import found_causes
from multicause.models.priors import probability_of_at_most

DATA_SEED = 0  # all fits learn from the same data
NEAR = 0.5  # nats per data point that count as "close"
SAME = 0.1  # mean absolute difference of components whose bars have the value 10, that counts as "virtually identical"
EXACT: dict[str, Any] = {"n_candidates": None, "max_active": "auto"}


class Ended(NamedTuple):
    """How a fit ended."""

    behind: float  # of the generating parameters' exact log-likelihood per data point
    free_energy: np.ndarray
    used_well: float  # of the data points that the last M-step used, the share that has at most gamma causes
    beside_exact: float | None  # mean absolute difference from exact EM; None where either missed a bar


def learn_bars(seed: int, **fields: Any) -> Ended:
    setting = BarsSetting(**fields)
    bars = bars_data(setting, DATA_SEED)
    fit = bars_estimator(setting, bars.X.shape[1], seed).fit(bars.X)
    exact = exact_estimator(setting, bars.X.shape[1], seed).fit(bars.X)
    used = _share_used_well(fit, bars)
    apart = _apart(fit, exact, bars)
    truth = {"components": bars.components, "activation": 0.2, "noise_variance": 4.0}
    generating = setting.estimator.from_parameters(**truth, **EXACT, n_jobs=1).score(bars.X)
    return Ended(generating - fit.set_params(**EXACT).score(bars.X), fit.free_energy_, used, apart)


def exact_estimator(setting: BarsSetting, n_features: int, seed: int) -> Any:
    """By all states, in which no data point has too many causes to be learned from."""
    estimator = bars_estimator(setting, n_features, seed)
    annealing = replace(estimator.get_params()["annealing"], classification=None)
    return estimator.set_params(**EXACT, annealing=annealing)


def _share_used_well(fit: Any, bars: Bars) -> float:
    """Data points are used in the order of their truncated likelihoods, as many as the prior expects (ET eq. 23)."""
    n_used = int(len(bars.X) * probability_of_at_most(fit.activation_, MAX_ACTIVE))
    used = np.argsort(-fit.score_samples(bars.X), kind="stable")[:n_used]
    return float((bars.states[used].sum(axis=1) <= MAX_ACTIVE).mean())


def _apart(fit: Any, exact: Any, bars: Bars) -> float | None:
    """Between the components of the same bars."""
    singletons = np.eye(len(fit.components_))
    both = [
        found_causes(f.components_, bars.components, f.log_joint(bars.components, singletons)) for f in (fit, exact)
    ]
    if not all(recovery.all_found for recovery in both):
        return None
    W, V = (f.components_[recovery.unit] for f, recovery in zip((fit, exact), both, strict=True))
    return float(np.abs(W - V).mean())


CHECKS = (
    Check(
        f"trials within {NEAR} nats of the generating parameters",
        lambda trial: trial.behind < NEAR,
        Published("most", lambda share: share.mean > 0.5, 0.5),
    ),
    Check("nats per data point behind them", lambda trial: trial.behind),
    Check(
        "share of the points used that have at most 3 causes",
        lambda trial: trial.used_well,
        Published("nearly all", lambda share: share.mean >= 0.95),
    ),
    Check(
        "mean absolute difference from exact EM",
        lambda trial: trial.beside_exact,
        Published("virtually identical", lambda apart: apart.mean < SAME),
    ),
)
ROWS = [
    Row(title, learn_bars, {"estimator": estimator, "singletons": estimator is MCA}, CHECKS, n_trials=10)
    for title, estimator in (("ET-NMF", ETNMF), ("MCA", MCA), ("LinCA", LinCA))
]


def _points(outcome: Outcome) -> Iterator[Point]:
    for number, trial in enumerate(outcome.trials, start=1):
        for step, value in enumerate(trial.free_energy):
            yield Point(outcome.row.title, f"start {number}", step, value)


TITLE = "Likelihood against the generating parameters'"
_KEPT = {"nats behind": lambda trial: trial.behind, "apart from exact EM": lambda trial: trial.beside_exact}
_figure = curves(_points, xlabel="iteration", ylabel="free energy per data point")
EXPERIMENTS = [Experiment("et-likelihood", TITLE, ET, ROWS, _figure, {"max_iter": 40}, _KEPT)]
