"""`et-nmf-bars` and `et-linca-bars`: how reliably all bars are found, and how exactly (ET §4.1.1, §4.3.1)."""

from dataclasses import replace
from functools import partial

from multicause.estimators import ETNMF, LinCA
from multicause.experiments.base import Options, Result, Row, error_row, reliability_row, run_trials
from multicause.experiments.linear_bars import BarsSetting, BarsTrial, run_trial

# setting, published reliability, published mean absolute error of the successful trials
_NMF = [
    (BarsSetting("noisy", ETNMF), 1.0, 0.20),
    (BarsSetting("noiseless", ETNMF, noise=0.0), 0.92, 0.05),
    (BarsSetting("noiseless, T=15, 200 iterations", ETNMF, noise=0.0, temperature=15.0, max_iter=200), 1.0, None),
    (BarsSetting("noisy, multiplicative update", ETNMF, field_update="multiplicative"), 1.0, 0.20),
    (
        BarsSetting(
            "noisy, multiplicative, parameter noise 0.2 (ours)",
            ETNMF,
            field_update="multiplicative",
            parameter_noise=0.2,
        ),
        1.0,
        0.20,
    ),
]
_LINCA = [
    (BarsSetting("noisy", LinCA), 1.0, 0.21),
    (BarsSetting("noiseless", LinCA, noise=0.0), 0.98, 0.04),
    (BarsSetting("noiseless, 200 iterations", LinCA, noise=0.0, max_iter=200, n_trials=100), 1.0, None),
    (BarsSetting("noiseless, N=1000", LinCA, noise=0.0, n_samples=1000, n_trials=100), 1.0, None),
    (BarsSetting("noisy, parameter noise 0.5 (ours)", LinCA, parameter_noise=0.5), 1.0, 0.21),
]


def et_nmf_bars(options: Options) -> Result:
    return _measure("et-nmf-bars", _NMF, options)


def et_linca_bars(options: Options) -> Result:
    return _measure("et-linca-bars", _LINCA, options)


def _measure(name: str, table: list, options: Options) -> Result:
    rows: list[Row] = []
    first_trials: list[tuple[str, BarsTrial]] = []
    details = {}
    for setting, reliability, error in table:
        used = replace(setting, max_iter=40) if options.quick else setting
        trials = run_trials(partial(run_trial, used), options.seeds(setting.n_trials), options, setting.title)
        successes = [trial.recovery.all_found for trial in trials]
        errors = [trial.recovery.mean_absolute_error for trial in trials if trial.recovery.all_found]
        rows.append(reliability_row(setting.title, successes, reliability))
        if error is not None:
            rows.append(error_row(setting.title, "mean absolute error", errors, error))
        details[setting.title] = {
            "trials": len(trials),
            "all bars found": sum(successes),
            "bars found": [int(trial.recovery.found.sum()) for trial in trials],
            "largest mean absolute error": max(errors, default=None),
        }
        first_trials.append((setting.title, trials[0]))
    return Result(name, rows, _figure(first_trials), details=details)


def _figure(trials: list[tuple[str, BarsTrial]]):
    """Fields learned in the first trial of each setting, and the bound on the way there."""
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components, plot_free_energy

    figure, axes = plt.subplots(2, len(trials), figsize=(3.2 * len(trials), 5.0), layout="constrained")
    for (title, trial), (top, bottom) in zip(trials, axes.T, strict=True):
        plot_components(trial.components, shape=(5, 5), ax=top)
        top.set_title(title, fontsize=9)
        plot_free_energy(trial.free_energy, ax=bottom)
    return figure
