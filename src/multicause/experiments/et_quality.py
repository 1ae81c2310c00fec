"""`et-quality`: how good the truncated posterior is for 40 data points while learning (ET Figures 4C, 7D, 10D)."""

import numpy as np

from multicause.estimators import ETNMF, MCA, LinCA
from multicause.experiments.base import Options, Result, Row
from multicause.experiments.callbacks import Listener
from multicause.experiments.et_bars import BarsSetting, bars_data, bars_estimator
from multicause.metrics import posterior_quality

MAX_ACTIVE = 3
N_POINTS = 20  # of each kind


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


def et_quality(options: Options) -> Result:
    rows: list[Row] = []
    curves = {}
    for title, estimator in (("ET-NMF", ETNMF), ("MCA", MCA), ("LinCA", LinCA)):
        setting = BarsSetting(title, estimator, n_samples=1000, max_iter=40 if options.quick else 100)
        few, many = _quality_curves(setting, seed=0)
        curves[title] = (few, many)
        rows.append(_row(title, "at most 3 causes: median Q at the end", "-> 1", few, lambda q: q >= 0.99))
        rows.append(_row(title, "more than 3 causes: median Q at the end", "-> 0", many, lambda q: q <= 0.01))
        options.report(f"{title}: done")
    details = {
        title: {"few": few[-1].tolist(), "many": many[-1].tolist(), "mean few": few.mean(axis=1).tolist()}
        for title, (few, many) in curves.items()
    }
    return Result("et-quality", rows, _figure(curves), details=details)


def _row(title: str, measure: str, published: str, curves: np.ndarray, reached) -> Row:
    median = float(np.median(curves[-1]))
    low, high = np.quantile(curves[-1], [0.05, 0.95])
    return Row(title, measure, published, median, (float(low), float(high)), bool(reached(median)))


def _quality_curves(setting: BarsSetting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Q over iterations, (iterations, 20), for points of at most gamma causes and for points of more."""
    bars = bars_data(setting, seed)
    n_causes = bars.states.sum(axis=1)
    few = np.flatnonzero(n_causes <= MAX_ACTIVE)[:N_POINTS]
    many = np.flatnonzero(n_causes > MAX_ACTIVE)[:N_POINTS]
    monitor = QualityMonitor(bars.X[np.concatenate([few, many])])
    bars_estimator(setting, bars.X.shape[1], seed).set_callbacks(monitor).fit(bars.X)
    history = np.array(monitor.history)
    return history[:, : len(few)], history[:, len(few) :]


def _figure(curves: dict[str, tuple[np.ndarray, np.ndarray]]):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(5.0 * len(curves), 3.2), layout="constrained", sharey=True)
    for ax, (title, (few, many)) in zip(axes, curves.items(), strict=True):
        ax.plot(few, color="tab:green", linewidth=0.8, label="at most 3 causes")
        ax.plot(many, color="tab:red", linewidth=0.8, label="more than 3 causes")
        handles, labels = ax.get_legend_handles_labels()
        ax.legend([handles[0], handles[-1]], [labels[0], labels[-1]], loc="center right")
        ax.set(title=title, xlabel="iteration", ylabel="Q")
    return figure
