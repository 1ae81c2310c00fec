"""`et-likelihood`: where learning ends, against the generating parameters and against exact EM; which points it uses.

ET Figures 4A, 7C, 10C (ten starts on the same data), Figure 4D (data classification), §5.3 (exact EM, and selection by
p(s_h = 1 | y) itself).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from multicause.datasets import Bars
from multicause.estimators import ETNMF, MCA, LinCA
from multicause.estimators.base import seed_of
from multicause.execution import InProcess, split
from multicause.experiments.et_bars import MAX_ACTIVE, BarsSetting, bars_data, bars_estimator
from multicause.experiments.experiment import ET, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.learning import EM, Plan, run
from multicause.metrics import found_causes
from multicause.models import BinaryLinear, DataMoments, MaximalCauses, NonnegativeLinear
from multicause.models.priors import BernoulliPrior, probability_of_at_most
from multicause.models.subsets import tree_subsets
from multicause.posteriors import TruncatedPosterior

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


def learn_bars(seed: int, **chosen: Any) -> Ended:
    setting = BarsSetting(**chosen)
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


# ---- candidates by their posterior probability, which is what selection functions stand for ----


class Marginal:
    """Makes a model's scores p(s_h = 1 | y), over all states: mixed in before the model's class."""

    n_components: int

    def log_joint(self, params: Any, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """As it was; said anew, since a model that redefines it has no compiled E-step: that would select by itself."""
        return super().log_joint(params, Y, states)  # type: ignore[misc]

    def selection_scores(self, params: Any, Y: np.ndarray) -> np.ndarray:
        states = tree_subsets(self.n_components, self.n_components)
        return softmax(self.log_joint(params, Y, states), axis=1) @ states


class MarginalSum(Marginal, BinaryLinear):
    """LinCA's model."""


class MarginalParts(Marginal, NonnegativeLinear):
    """ETNMF's model, whose components are clamped at zero."""


class MarginalMaximum(Marginal, MaximalCauses):
    """MCA's model."""


def fit_by_marginals(setting: BarsSetting, X: np.ndarray, seed: int) -> Any:
    """What the estimator of this setting does, by the same random numbers, but for its selection."""
    settings = bars_estimator(setting, X.shape[1], seed).get_params()
    shape, fixed = (setting.n_components, X.shape[1]), frozenset(settings["fixed"])
    kinds: dict[Any, tuple[Any, dict[str, Any]]] = {
        LinCA: (MarginalSum, {}),
        ETNMF: (MarginalParts, {"field_update": setting.field_update}),
        MCA: (MarginalMaximum, {"smoothing": setting.smoothing}),
    }
    kind, own = kinds[setting.estimator]
    model = kind(*shape, BernoulliPrior(truncated_at=MAX_ACTIVE), fixed=fixed, **own)
    posterior = TruncatedPosterior(setting.n_candidates, MAX_ACTIVE, setting.singletons)
    moments = DataMoments(float(len(X)), X.mean(axis=0), X.var(axis=0))
    init = {**settings["init"], "activation": np.full(shape[0], settings["init"]["activation"])}
    with InProcess(1) as executor:
        plan = Plan(setting.max_iter, settings["annealing"])
        em = EM(model, posterior, plan, executor, split(X, shape[0]), moments)
        rng = np.random.default_rng(np.random.SeedSequence(seed_of(seed)).spawn(1)[0])
        start = model.init_params(moments, rng)._replace(**init)
        params = run(em, start, rng, keeps_best=False).params
    return setting.estimator.from_parameters(**params._asdict(), n_jobs=1)


def select_both_ways(seed: int, **chosen: Any) -> float | None:
    """Mean absolute difference of the components; None where either way missed a bar."""
    setting = BarsSetting(**chosen)
    bars = bars_data(setting, DATA_SEED)
    fit = bars_estimator(setting, bars.X.shape[1], seed).fit(bars.X)
    return _apart(fit, fit_by_marginals(setting, bars.X, seed), bars)


IDENTICAL = Published("virtually identical", lambda apart: apart.mean < SAME)
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
        IDENTICAL,
    ),
)
BESIDE_MARGINALS = Check("mean absolute difference from ET's own selection", lambda apart: apart, IDENTICAL)


def _rows(**changes: Any) -> Iterator[Row]:
    models: tuple[tuple[str, Any], ...] = (("ET-NMF", ETNMF), ("MCA", MCA), ("LinCA", LinCA))
    for title, estimator in models:
        setting = {"estimator": estimator, "singletons": estimator is MCA, **changes}
        yield Row(title, learn_bars, setting, CHECKS, n_trials=10)
        yield Row(f"{title}, optimal selection", select_both_ways, setting, [BESIDE_MARGINALS], n_trials=5)


def _points(outcome: Outcome) -> Iterator[Point]:
    if outcome.row.task is not learn_bars:
        return
    for number, trial in enumerate(outcome.trials, start=1):
        for step, value in enumerate(trial.free_energy):
            yield Point(outcome.row.title, f"start {number}", step, value)


TITLE = "Likelihood against the generating parameters'"
_KEPT = {"ended": lambda trial: trial._asdict() if isinstance(trial, Ended) else trial}
_figure = curves(_points, xlabel="iteration", ylabel="free energy per data point")
EXPERIMENTS = [Experiment("et-likelihood", TITLE, ET, _rows, _figure, {"max_iter": 40}, _KEPT)]
