"""The bars tests of Expectation Truncation: are all bars found, how exactly, and how good is the posterior?

`et-nmf-bars`, `et-linca-bars`, `et-mca-bars`, `et-mca-overlap-16` (ET §4.1.1, §4.2.1, §4.3.1); `et-quality` (ET Figures
4C, 7D, 10D).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import Bars, make_bars, overlapping_bar_components
from multicause.estimators import ETNMF, MCA, LinCA
from multicause.experiments.callbacks import Listener
from multicause.experiments.experiment import (
    ET,
    PAPERS_EM,
    Check,
    Experiment,
    Finding,
    Outcome,
    Published,
    Row,
    Verdict,
    at_least,
    error,
    reliability,
)
from multicause.experiments.figures import Panel, Point, curves, pictures
from multicause.learning import Annealing, DataClassification
from multicause.metrics import Recovery, found_causes, posterior_quality
from multicause.models import Smoothing

MAX_ACTIVE = 3
N_POINTS = 20  # of each kind, whose posteriors are followed


@dataclass(frozen=True)
class BarsSetting:
    """One line of the paper: the data, the annealing, and the estimator's own choices."""

    estimator: type[LinCA] | type[ETNMF] | type[MCA]
    noise: float = 2.0
    n_samples: int = 500
    overlapping: bool = False  # 16 two-pixel bars on 9 x 9 that overlap their neighbours, instead of 10 on 5 x 5
    n_components: int = 10
    n_candidates: int = 5
    temperature: float = 13.0
    max_iter: int = 100
    parameter_noise: float = 0.05
    noise_share: float | None = 1.0  # after each M-step, to the end
    singletons: bool = False  # added to the states; the paper does so for maximal causes and speech
    smoothing: Smoothing = Smoothing(judging=False, emphasis=False)  # noqa: RUF009  (of MCA, ET eq. 30-31; frozen)
    n_init: int = 1
    field_update: str = "clamped"  # of ETNMF: ET eq. 26, the other is eq. 27

    @property
    def signed(self) -> bool:
        return self.estimator is LinCA


def bars_data(setting: BarsSetting, seed: int) -> Bars:
    """Bars of value 10, two on average; they add up, or the larger wins for maximal causes."""
    options: dict[str, Any] = {"noise": setting.noise, "random_state": seed}
    if setting.estimator is MCA:
        options["superposition"] = "max"
    if setting.overlapping:
        return make_bars(setting.n_samples, components=overlapping_bar_components(), **options)
    return make_bars(setting.n_samples, signed=setting.signed, **options)


def bars_estimator(setting: BarsSetting, n_features: int, seed: int):
    """The paper's estimator: components drawn at random, sigma = 2 and pi H = 2 held, H' = 5, gamma = 3."""
    final = 1.05 if setting.estimator is MCA else 1.0
    own: dict[type, dict[str, Any]] = {
        ETNMF: {"field_update": setting.field_update, "allow_negative": True},
        MCA: {"smoothing": setting.smoothing},
    }
    components = {"components": _initial_components(setting, n_features, seed)} if setting.n_init == 1 else {}
    return setting.estimator(
        setting.n_components,
        **PAPERS_EM,
        n_candidates=setting.n_candidates,
        max_active=MAX_ACTIVE,
        fixed=("activation", "noise_variance"),
        annealing=Annealing(
            setting.temperature,
            final,
            parameter_noise=setting.parameter_noise,
            noise_scale=1.0,
            noise_share=setting.noise_share,
            classification=DataClassification(),
        ),
        singletons=setting.singletons,
        max_iter=setting.max_iter,
        n_init=setting.n_init,
        random_state=seed,
        n_jobs=1,
        init={"activation": 2.0 / setting.n_components, "noise_variance": 4.0, **components},
        **own.get(setting.estimator, {}),
    )


def _initial_components(setting: BarsSetting, n_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    shape = (setting.n_components, n_features)
    return rng.normal(0.0, 2.0, shape) if setting.signed else np.abs(rng.normal(4.0, 4.0 / 3.0, shape))


# ---- are all bars found? ----


class BarsTrial(NamedTuple):
    recovery: Recovery
    components: np.ndarray


def bars_trial(seed: int, **setting: Any) -> BarsTrial:
    """ET Appendix E: each noiseless cause goes to its most probable singleton."""
    used = BarsSetting(**setting)
    bars = bars_data(used, seed)
    fit = bars_estimator(used, bars.X.shape[1], seed).fit(bars.X)
    log_joint = fit.log_joint(bars.components, np.eye(len(fit.components_)))
    return BarsTrial(found_causes(fit.components_, bars.components, log_joint), fit.components_)


def all_found(trial: Any) -> bool:
    return trial.recovery.all_found


def n_found(trial: Any) -> int:
    """Number of components that represent a cause: two causes on one component count as one found."""
    return len(np.unique(trial.recovery.unit))


def _error(trial: BarsTrial) -> float | None:
    return trial.recovery.mean_absolute_error if trial.recovery.all_found else None


def bars_row(
    task: Callable[..., Any],
    title: str,
    share: float | Published,
    mean_error: float | None = None,
    mean_found: float | None = None,
    n_trials: int = 50,
    **setting: Any,
) -> Row:
    """A setting beside the reliability, the error and the number of causes found that the paper reports."""
    published = share if isinstance(share, Published) else reliability(share)
    checks = [Check("reliability", all_found, published)]
    if mean_error is not None:
        checks.append(Check("mean absolute error", _error, error(mean_error)))
    if mean_found is not None:
        checks.append(Check("bars found", n_found, at_least(mean_found)))
    return Row(title, task, setting, checks, n_trials)


_nmf, _linca = (partial(bars_row, bars_trial, estimator=estimator) for estimator in (ETNMF, LinCA))
_mca = partial(bars_row, bars_trial, estimator=MCA, singletons=True)
# exact in the end, since noise on the components ends with the cooling; states of one latent are never left out
_EXACT_END: dict[str, Any] = {"singletons": True, "noise_share": None}
_SMOOTH: dict[str, Any] = {"smoothing": Smoothing(), "noise_share": None}
_overlapping = partial(_mca, noise=0.0, overlapping=True, n_components=32, temperature=23.0, max_iter=400)
_UNSELECTED: dict[str, Any] = {"n_candidates": 10}
_MULTIPLICATIVE: dict[str, Any] = {"field_update": "multiplicative"}
TABLES = {
    "et-nmf-bars": [
        _nmf("noisy", 1.0, 0.20),
        _nmf("noiseless", 0.92, 0.05, noise=0.0),
        _nmf("noiseless, T=15, 200 iterations", 1.0, noise=0.0, temperature=15.0, max_iter=200),
        _nmf("noisy, multiplicative", 1.0, 0.20, **_MULTIPLICATIVE),
        # what the paper's selection function costs: compounds that are never selected never come apart
        _nmf("noisy (ours: all latents are candidates)", 1.0, 0.20, **_UNSELECTED),
        _nmf("noiseless (ours: all latents are candidates)", 0.92, 0.05, noise=0.0, **_UNSELECTED),
        _nmf("noisy (ours: singletons, noise until cold)", 1.0, 0.20, **_EXACT_END),
        _nmf("noiseless (ours: singletons, noise until cold)", 1.0, 0.05, noise=0.0, **_EXACT_END),
    ],
    "et-linca-bars": [
        _linca("noisy", 1.0, 0.21),
        _linca("noiseless", 0.98, 0.04, noise=0.0),
        _linca("noiseless, 200 iterations", 1.0, n_trials=100, noise=0.0, max_iter=200),
        _linca("noiseless, N=1000", 1.0, n_trials=100, noise=0.0, n_samples=1000),
        _linca("noisy (ours: parameter noise 0.5, until cold)", 1.0, 0.21, parameter_noise=0.5, **_EXACT_END),
    ],
    "et-mca-bars": [
        _mca("noisy, N=500", 0.92, 0.29),
        _mca("noiseless, N=500", 0.82, 0.05, noise=0.0),
        _mca("noisy, N=2000", 1.0, n_trials=100, n_samples=2000),
        _mca("noiseless, N=10 000, 200 iterations", 1.0, noise=0.0, n_samples=10_000, max_iter=200),
        _mca("noisy, N=500 (ours: smooth E-step, singles)", 0.92, 0.29, **_SMOOTH),
        _mca("noiseless, N=500 (ours: smooth E-step, singles)", 0.82, 0.05, noise=0.0, **_SMOOTH),
    ],
    "et-mca-overlap-16": [
        _overlapping("N=400", 0.84, 0.04, 15.84, n_trials=25, n_samples=400),
        _overlapping("N=800", 1.0, None, 16.0, n_samples=800),
        _overlapping("N=400 (ours: smooth E-step, singles)", 0.84, 0.04, 15.84, n_trials=25, n_samples=400, **_SMOOTH),
    ],
}


def _experiment(name: str, title: str) -> Experiment:
    figure = pictures(lambda outcome: Panel(outcome.row.title, outcome.trials[0].components))
    return Experiment(name, title, ET, TABLES[name], figure, {"max_iter": 40}, {"bars found": n_found})


# ---- how good is the truncated posterior for 40 data points while learning? ----


class QualityMonitor(Listener):
    """Q_n = exp(F_n - log p(y_n)) of chosen data points after every iteration."""

    def __init__(self, points: np.ndarray):
        self.points = points
        self.history: list[np.ndarray] = []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        if fitted_estimator is None:  # the end of the whole fit
            return
        truncated = fitted_estimator.score_samples(self.points)
        exact = fitted_estimator.set_params(n_candidates=None, max_active="auto").score_samples(self.points)
        self.history.append(posterior_quality(truncated, exact))


class Curves(NamedTuple):
    """Q over iterations, (iterations, 20), for points of at most gamma causes and for points of more."""

    few: np.ndarray
    many: np.ndarray


def quality_curves(seed: int, **setting: Any) -> Curves:
    used = BarsSetting(**setting)
    bars = bars_data(used, seed)
    n_causes = bars.states.sum(axis=1)
    few = np.flatnonzero(n_causes <= MAX_ACTIVE)[:N_POINTS]
    many = np.flatnonzero(n_causes > MAX_ACTIVE)[:N_POINTS]
    monitor = QualityMonitor(bars.X[np.concatenate([few, many])])
    bars_estimator(used, bars.X.shape[1], seed).set_callbacks(monitor).fit(bars.X)
    history = np.array(monitor.history)
    return Curves(history[:, : len(few)], history[:, len(few) :])


def _median(few: bool, title: str, trials: list[Curves]) -> Finding:
    """Median and 5 % to 95 % quantiles over the data points: near 1 for few causes, near 0 for many."""
    final = (trials[0].few if few else trials[0].many)[-1]
    median, (low, high) = float(np.median(final)), np.quantile(final, [0.05, 0.95]).tolist()
    measure = f"{'at most' if few else 'more than'} 3 causes: median Q at the end"
    verdict = Verdict.MET if (median >= 0.99 if few else median <= 0.01) else Verdict.SHORT
    return Finding(title, measure, "-> 1" if few else "-> 0", median, (low, high), verdict)


def _quality_points(outcome: Outcome) -> Iterator[Point]:
    for curve, values in zip(("at most 3 causes", "more than 3 causes"), outcome.trials[0], strict=True):
        yield from (Point(outcome.row.title, curve, step, each) for step, each in enumerate(values))


def _quality_row(title: str, estimator: Any) -> Row:
    setting = {"estimator": estimator, "singletons": estimator is MCA}
    return Row(title, quality_curves, setting, [partial(_median, few) for few in (True, False)])


_QUALITY = "Quality of the truncated posterior while learning"
_QUALITY_ROWS = [_quality_row("ET-NMF", ETNMF), _quality_row("MCA", MCA), _quality_row("LinCA", LinCA)]
_QUALITIES = {"few": lambda trial: trial.few[-1].tolist(), "many": lambda trial: trial.many[-1].tolist()}
_quality_figure = curves(_quality_points, xlabel="iteration", ylabel="Q")
EXPERIMENTS = [
    _experiment("et-nmf-bars", "Linear bars with non-negative fields"),
    _experiment("et-linca-bars", "Linear bars of both signs"),
    _experiment("et-mca-bars", "Bars of which the largest wins"),
    _experiment("et-mca-overlap-16", "Sixteen overlapping bars"),
    Experiment("et-quality", _QUALITY, ET, _QUALITY_ROWS, _quality_figure, {"max_iter": 40}, _QUALITIES),
]
