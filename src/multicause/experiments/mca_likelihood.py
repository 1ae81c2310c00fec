"""`mca-likelihood`: how likely the learned parameters make the data, against those that generated it (MCA Figure 6).

Five starts of each algorithm on the same data; then a hundred data sets with a start each (§6.3). All likelihoods are
exact, over all 2^10 states.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from multicause.datasets import Bars
from multicause.estimators import MCA
from multicause.experiments.experiment import MCA08, Check, Experiment, Outcome, Published, Row, reliability
from multicause.experiments.figures import Point, curves
from multicause.experiments.mca_settings import (
    LAST_TEMPERATURE,
    Algorithm,
    MaximalSetting,
    fit_setting,
    go_on_as_mca,
    initial_fields,
    noisy_bars,
)
from multicause.learning import Annealing
from multicause.models import Smoothing
from multicause.models.superpositions import SMALLEST_MEAN

DATA_SEED = 0  # all fits learn from the same patterns, as in the paper's figure
NEAR = 2.0  # nats per data point that count as "close": a missing bar costs six, approximations less than one


@dataclass(frozen=True)
class Start:
    """An algorithm of the paper, and whether an exact fit follows; without an algorithm it is exact from the start."""

    algorithm: Algorithm | None = None
    then_exact: bool = False
    smoothing: Smoothing = Smoothing(learning=False)  # noqa: RUF009  (of an exact fit: MCA eq. 8; frozen)
    parameter_noise: float = 0.0  # of a fit that is exact from the start, while it cools
    exact_temperature: float = 3.0  # from which that cools: "relatively fast" is all that the paper says of it
    exact_iter: int = 100
    further_iter: int = 50
    max_iter: int = 1000
    n_presentations: int | Literal["auto"] = "auto"
    own_data: bool = False  # new patterns in each trial


class LikelihoodTrial(NamedTuple):
    learned: float  # exact log-likelihood per data point
    generating: float
    free_energy: np.ndarray


def likelihood_trial(seed: int, **setting: Any) -> LikelihoodTrial:
    start = Start(**setting)
    bars = noisy_bars(random_state=seed if start.own_data else DATA_SEED)
    fit = _fit(start, bars, seed)
    generating = exact_score(bars.X, bars.components, np.full(len(bars.components), 0.2))
    return LikelihoodTrial(exact_score(bars.X, fit.components_, fit.activation_), generating, fit.free_energy_)


def exact_score(X: np.ndarray, components: np.ndarray, activation: np.ndarray) -> float:
    """log p(y | W, pi) per data point over all states; components are kept above zero, as the model does."""
    W = np.maximum(components, SMALLEST_MEAN)
    settings: dict[str, Any] = {"n_candidates": None, "max_active": len(W), "noise": "poisson", "n_jobs": 1}
    return MCA.from_parameters(components=W, activation=activation, **settings).score(X)


def _fit(start: Start, bars: Bars, seed: int) -> Any:
    if start.algorithm is None:
        noise: dict[str, Any] = {"parameter_noise": start.parameter_noise, "noise_scale": 1.0}
        n_features = bars.X.shape[1]
        annealing = Annealing(start.exact_temperature, LAST_TEMPERATURE, **noise)
        init = {"activation": 0.1, "components": initial_fields(10, n_features, seed)}
        common: dict[str, Any] = {"init": init, "random_state": seed, "n_jobs": 1, "noise": "poisson"}
        common |= {"smoothing": start.smoothing, "annealing": annealing, "max_iter": start.exact_iter}
        return MCA(10, n_candidates=None, **common).fit(bars.X)
    lengths: dict[str, Any] = {"max_iter": start.max_iter, "n_presentations": start.n_presentations}
    first = fit_setting(MaximalSetting(start.algorithm, noisy_bars, **lengths), bars, seed)
    if not start.then_exact:
        return first
    return go_on_as_mca(first, bars, seed, n_candidates=None, max_iter=start.further_iter, tol=1e-4)


# the paper puts a sign to the gain, but no figure except for the exact fit
ABOVE = Published("slightly above", lambda gain: gain.mean >= 0.0, 0.0)


def _row(title: str, published: Published, **setting: Any) -> Row:
    gain = Check("log-likelihood per point, less the generating", lambda t: t.learned - t.generating, published)
    return Row(title, likelihood_trial, setting, [gain], n_trials=5)


def _near_row(algorithm: Algorithm, share: float) -> Row:
    near = Check(
        f"trials within {NEAR:g} nats of the generating parameters",
        lambda t: t.generating - t.learned < NEAR,
        reliability(share),
    )
    setting = {"algorithm": algorithm, "own_data": True}
    return Row(f"{algorithm}, 100 data sets", likelihood_trial, setting, [near], n_trials=100)


_NOISE: dict[str, Any] = {"parameter_noise": 2.5, "exact_temperature": 11.0}  # as hot as MCA3 begins: noise undoes that
ROWS = [
    _row("MCA_ex", ABOVE),
    _row("MCA3", Published("just below"), algorithm="MCA3"),
    _row("R-MCA2", Published("just below"), algorithm="R-MCA2"),
    _row("R-MCA_NN", Published("somewhat below"), algorithm="R-MCA_NN"),
    _near_row("MCA3", 0.90),
    _near_row("R-MCA2", 0.98),
    _row("MCA_ex (ours: parameter noise)", ABOVE, **_NOISE),
    _row("MCA_ex (ours: smooth maximum, parameter noise)", ABOVE, smoothing=Smoothing(), **_NOISE),
    _row("R-MCA2, then MCA_ex (ours)", ABOVE, algorithm="R-MCA2", then_exact=True),
]


def _points(outcome: Outcome) -> Iterator[Point]:
    """Free energies over the last half of the iterations, beside the likelihood of the generating parameters."""
    if outcome.row.setting.get("own_data"):
        return
    for number, trial in enumerate(outcome.trials, start=1):
        later = range(len(trial.free_energy) // 2, len(trial.free_energy))
        yield from (Point(outcome.row.title, f"start {number}", step, trial.free_energy[step]) for step in later)
    yield from (Point(outcome.row.title, "generating", step, trial.generating) for step in later)


TITLE = "Likelihood against the generating parameters'"
_QUICK = {"exact_iter": 10, "further_iter": 10, "max_iter": 20, "n_presentations": 1000}
_KEPT = {"generating parameters": lambda trial: trial.generating, "learned parameters": lambda trial: trial.learned}
_figure = curves(_points, xlabel="iteration", ylabel="free energy per data point")
EXPERIMENTS = [Experiment("mca-likelihood", TITLE, MCA08, ROWS, _figure, _QUICK, _KEPT)]
