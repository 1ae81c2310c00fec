"""`mca-recovery`: how exactly MCA3 and R-MCA2 recover the parameters behind noisy bars (MCA §6.4)."""

from collections.abc import Sequence

import numpy as np

from multicause.experiments.base import Options, Result, Row, error_row
from multicause.experiments.mca_reliability import figure_of_fields, picture_of, run_setting, trial_details
from multicause.experiments.mca_settings import MaximalSetting, MaximalTrial, noisy_bars
from multicause.metrics import bootstrap_interval

BAR_PIXEL = 10.0
NEGLIGIBLE = 1e-56  # largest background of R-MCA2
SPREADS = {"MCA3": 0.5, "R-MCA2": 0.8}  # standard deviation of bar pixels


def mca_recovery(options: Options) -> Result:
    """Bar pixels, background and, for MCA3, activation probabilities of the trials that found all bars."""
    settings = (
        MaximalSetting("MCA3", "MCA3", noisy_bars, n_trials=100),
        MaximalSetting("R-MCA2", "R-MCA2", noisy_bars, n_trials=100),
    )
    rows: list[Row] = []
    details = {}
    pictures = []
    for setting in settings:
        trials = run_setting(setting, options)
        details[setting.title] = trial_details(trials)
        pictures.append(picture_of(setting, trials[0]))
        rows += _rows(setting.title, [trial for trial in trials if trial.recovery.all_found])
    return Result("mca-recovery", rows, figure_of_fields(pictures), details=details)


def _rows(title: str, trials: list[MaximalTrial]) -> list[Row]:
    bars = [_pixels(trial, of_bars=True) for trial in trials]
    rows = [mean_row(title, bars), spread_row(title, bars, SPREADS[title])]
    if title == "MCA3":
        rows.append(error_row(title, "background", [_pixels(trial, of_bars=False).mean() for trial in trials], 0.05))
        rows.append(error_row(title, "mean |π − π'|", [_activation_error(trial) for trial in trials], 0.006, digits=3))
    else:
        largest = max((_pixels(trial, of_bars=False).max() for trial in trials), default=float("nan"))
        rows.append(Row(title, "largest background", "< 1e-56", float(largest), None, bool(largest < NEGLIGIBLE)))
    return rows


def mean_row(title: str, bars: Sequence[np.ndarray]) -> Row:
    """Mean bar pixel: met if it rounds to the published 10.0, or its interval reaches there."""
    if not bars:
        return Row(title, "bar pixel, mean", "10.0", float("nan"), None, False)
    means = [pixels.mean() for pixels in bars]
    low, high = bootstrap_interval(means)
    met = bool(low <= BAR_PIXEL + 0.05 and high >= BAR_PIXEL - 0.05)
    return Row(title, "bar pixel, mean", "10.0", float(np.mean(means)), (low, high), met)


def spread_row(title: str, bars: Sequence[np.ndarray], published: float) -> Row:
    """Standard deviation over all bar pixels: met if its interval reaches down to the published one."""
    if not bars:
        return Row(title, "bar pixel, standard deviation", f"{published}", float("nan"), None, False)
    centre = np.mean(bars)
    squares = [((pixels - centre) ** 2).mean() for pixels in bars]
    low, high = np.sqrt(bootstrap_interval(squares))
    spread, met = float(np.sqrt(np.mean(squares))), bool(low <= published + 0.05)
    return Row(title, "bar pixel, standard deviation", f"{published}", spread, (float(low), float(high)), met)


def _pixels(trial: MaximalTrial, of_bars: bool) -> np.ndarray:
    return trial.components[trial.recovery.unit][(trial.causes > 0.0) == of_bars]


def _activation_error(trial: MaximalTrial) -> float:
    return float(np.abs(trial.activation[trial.recovery.unit] - trial.frequency).mean())
