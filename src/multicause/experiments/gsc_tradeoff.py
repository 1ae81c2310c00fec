"""`gsc-tradeoff`: accuracy and time of source separation against H' = gamma (GSC Figures 7A and 9)."""

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from multicause.datasets import load_sources
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.experiments.gsc_mixing import mean_row, orthogonal_bases, unmixing_error
from multicause.experiments.gsc_separation import BASIS_LENGTH, MAX_ITER, N_SAMPLES, SOURCES, evenly
from multicause.metrics import bootstrap_interval

LIMITS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)  # H' = gamma
SMALL = 5  # "relatively small values"
N_TRIALS = 5
TOLERATED = 0.02  # larger Amari index that still is "a high accuracy"


class Separation(NamedTuple):
    error: float  # Amari index
    seconds: float


def gsc_tradeoff(options: Options) -> Result:
    rows, details, curves = [], {}, {}
    limits = LIMITS[:2] if options.quick else LIMITS
    for name in SOURCES[:1] if options.quick else SOURCES:
        task = partial(separate, name, limits, 5 if options.quick else MAX_ITER)
        trials = np.array(run_trials(task, options.seeds(N_TRIALS), options, name))  # (trials, limits, 2)
        curves[name] = trials
        rows += _rows(name, limits, trials)
        errors, seconds = np.moveaxis(trials, -1, 0)
        details[name] = {
            "trials": len(trials),
            "H' = gamma": limits,
            "Amari index": errors.tolist(),
            "seconds": seconds.tolist(),
        }
    return Result("gsc-tradeoff", rows, _figure(limits, curves), details=details)


def separate(name: str, limits: tuple[int, ...], max_iter: int, seed: int) -> list[Separation]:
    """Orthogonal mixtures without noise, taken apart with each H' = gamma."""
    sources = evenly(load_sources(name), N_SAMPLES)
    mixing = BASIS_LENGTH * orthogonal_bases(sources.shape[1], np.random.default_rng(seed))
    X = sources @ mixing
    unmixing_error(X[:256], mixing, seed, 1, n_candidates=1, max_active=1)  # compiles
    results = []
    for limit in limits:
        start = time.process_time()
        error = unmixing_error(X, mixing, seed, max_iter, n_candidates=limit, max_active=limit)
        results.append(Separation(error, time.process_time() - start))
    return results


def _rows(name: str, limits: tuple[int, ...], trials: np.ndarray) -> list[Row]:
    """Index and time at a small limit against those at the largest: met if it costs little accuracy and is faster."""
    small = limits.index(SMALL) if SMALL in limits else 0
    errors, seconds = np.moveaxis(trials, -1, 0)
    at = f"{name}, H'=gamma={limits[small]}"
    loss, share = errors[:, small] - errors[:, -1], seconds[:, small] / seconds[:, -1]
    return [
        mean_row(f"{name}, H'=gamma={limits[-1]}", errors[:, -1], "Amari index"),
        _bounded_row(at, f"Amari index less that at {limits[-1]}", loss, TOLERATED),
        _bounded_row(at, f"time over that at {limits[-1]}", share, 1.0),
    ]


def _bounded_row(title: str, measure: str, values: np.ndarray, bound: float) -> Row:
    """Met if the mean, or the lower end of its interval, is below the bound."""
    interval = bootstrap_interval(values)
    return Row(title, measure, f"< {bound:g}", float(values.mean()), interval, bool(interval[0] < bound))


def _figure(limits: tuple[int, ...], curves: dict[str, np.ndarray]):
    import matplotlib.pyplot as plt

    figure, (accuracy, cost) = plt.subplots(1, 2, figsize=(9.0, 3.4), layout="constrained")
    for name, trials in curves.items():
        errors, seconds = np.moveaxis(trials, -1, 0)
        accuracy.errorbar(limits, errors.mean(axis=0), yerr=errors.std(axis=0), fmt="o-", capsize=2.0, label=name)
        cost.plot(limits, (seconds / seconds[:, -1:]).mean(axis=0), "o-", label=name)
    accuracy.set(xlabel="H' = gamma", ylabel="Amari index")
    cost.set(xlabel="H' = gamma", ylabel=f"time over that at {limits[-1]}", yscale="log")
    accuracy.legend()
    return figure
