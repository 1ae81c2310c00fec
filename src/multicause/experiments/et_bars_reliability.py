"""`et-nmf-bars`, `et-linca-bars`, `et-mca-bars`, `et-mca-overlap-16`: are all bars found, and how exactly?"""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from multicause.estimators import ETNMF, MCA, LinCA
from multicause.experiments.base import Options, Result, Row, error_row, reliability_row, run_trials
from multicause.experiments.et_bars import BarsSetting, BarsTrial, run_trial
from multicause.metrics import bootstrap_interval


class Published(NamedTuple):
    """A setting beside what the paper reports for it; None where it reports nothing."""

    setting: BarsSetting
    reliability: float
    error: float | None = None  # mean absolute error of the successful trials
    n_found: float | None = None  # mean number of bars found


_NMF = BarsSetting("noisy", ETNMF)
_LINCA = BarsSetting("noisy", LinCA)
_MCA = BarsSetting("noisy, N=500", MCA)
_OVERLAP = BarsSetting(
    "N=400",
    MCA,
    noise=0.0,
    n_samples=400,
    overlapping=True,
    n_components=32,
    temperature=23.0,
    max_iter=400,
    n_trials=25,
)
TABLES = {
    "et-nmf-bars": [
        Published(_NMF, 1.0, 0.20),
        Published(replace(_NMF, title="noiseless", noise=0.0), 0.92, 0.05),
        Published(
            replace(_NMF, title="noiseless, T=15, 200 iterations", noise=0.0, temperature=15.0, max_iter=200), 1.0
        ),
        Published(replace(_NMF, title="noisy, multiplicative", field_update="multiplicative"), 1.0, 0.20),
        Published(
            replace(
                _NMF,
                title="noisy, multiplicative, parameter noise 0.2 (ours)",
                field_update="multiplicative",
                parameter_noise=0.2,
            ),
            1.0,
            0.20,
        ),
    ],
    "et-linca-bars": [
        Published(_LINCA, 1.0, 0.21),
        Published(replace(_LINCA, title="noiseless", noise=0.0), 0.98, 0.04),
        Published(replace(_LINCA, title="noiseless, 200 iterations", noise=0.0, max_iter=200, n_trials=100), 1.0),
        Published(replace(_LINCA, title="noiseless, N=1000", noise=0.0, n_samples=1000, n_trials=100), 1.0),
        Published(replace(_LINCA, title="noisy, parameter noise 0.5 (ours)", parameter_noise=0.5), 1.0, 0.21),
    ],
    "et-mca-bars": [
        Published(_MCA, 0.92, 0.29),
        Published(replace(_MCA, title="noiseless, N=500", noise=0.0), 0.82, 0.05),
        Published(replace(_MCA, title="noisy, N=2000", n_samples=2000, n_trials=100), 1.0),
        Published(
            replace(_MCA, title="noiseless, N=10 000, 200 iterations", noise=0.0, n_samples=10_000, max_iter=200), 1.0
        ),
        Published(replace(_MCA, title="noisy, N=500, best of 3 (ours)", n_init=3), 1.0),
        Published(replace(_MCA, title="noiseless, N=500, best of 3 (ours)", noise=0.0, n_init=3), 1.0),
    ],
    "et-mca-overlap-16": [
        Published(_OVERLAP, 0.84, 0.04, 15.84),
        Published(replace(_OVERLAP, title="N=800", n_samples=800, n_trials=50), 1.0, None, 16.0),
    ],
}


def measure(name: str, options: Options) -> Result:
    """Run every line of one experiment's table."""
    rows: list[Row] = []
    first_trials: list[tuple[str, BarsTrial]] = []
    details = {}
    for published in TABLES[name]:
        setting = published.setting
        used = replace(setting, max_iter=40) if options.quick else setting
        trials = run_trials(partial(run_trial, used), options.seeds(setting.n_trials), options, setting.title)
        rows += _rows(published, trials)
        details[setting.title] = {
            "trials": len(trials),
            "all bars found": sum(trial.recovery.all_found for trial in trials),
            "bars found": [_n_found(trial) for trial in trials],
        }
        first_trials.append((setting.title, trials[0]))
    return Result(name, rows, _figure(first_trials), details=details)


def _rows(published: Published, trials: list[BarsTrial]) -> list[Row]:
    title = published.setting.title
    rows = [reliability_row(title, [trial.recovery.all_found for trial in trials], published.reliability)]
    if published.error is not None:
        errors = [trial.recovery.mean_absolute_error for trial in trials if trial.recovery.all_found]
        rows.append(error_row(title, "mean absolute error", errors, published.error))
    if published.n_found is not None:
        found = [_n_found(trial) for trial in trials]
        interval = bootstrap_interval(found)
        met = bool(np.mean(found) >= published.n_found or interval[1] >= published.n_found)
        rows.append(Row(title, "bars found", f"{published.n_found}", float(np.mean(found)), interval, met))
    return rows


def _n_found(trial: BarsTrial) -> int:
    """Number of units that represent a bar: two bars on one unit count as one found."""
    return len(np.unique(trial.recovery.unit))


def _figure(trials: list[tuple[str, BarsTrial]]):
    """Fields learned in the first trial of each setting, and the bound on the way there."""
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components, plot_free_energy

    figure, axes = plt.subplots(2, len(trials), figsize=(3.2 * len(trials), 5.0), layout="constrained")
    for (title, trial), (top, bottom) in zip(trials, axes.T, strict=True):
        side = int(np.sqrt(trial.components.shape[1]))
        plot_components(trial.components, shape=(side, side), ax=top)
        top.set_title(title, fontsize=8, wrap=True)
        plot_free_energy(trial.free_energy, ax=bottom)
    return figure
