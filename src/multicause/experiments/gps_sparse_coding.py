"""`gps-sparse-coding`: bars found by three models, with selection derived by hand and learned (GPS §5.1, Figure 2).

The paper gives figures for the spike-and-slab model alone; elsewhere learned selection is to find the bars as often as
the hand-derived one does in the same run. Linear regression is to fail where strengths have either sign: a bar's
presence is then an even function of the data.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from multicause.datasets import bar_components
from multicause.estimators import GSC, LinCA, NonlinearGSC
from multicause.experiments.base import Options, Result, Row, reliability_row, run_trials
from multicause.metrics import wilson_interval
from multicause.models import BinaryLinear, FieldParams, SpikeSlabLinear, SpikeSlabMax, SpikeSlabParams
from multicause.selection import GPSelect

H, SIZE, N_SAMPLES, N_CANDIDATES, NOISE = 10, 5, 2000, 5, 2.0
N_TRIALS, N_ITERATIONS = 10, 60
ALIKE = 0.95  # cosine of a bar and the field that is its own
SELECTIONS = ("hand-derived", "linear", "rbf", "composition")


@dataclass(frozen=True)
class SparseCoding:
    """One of the paper's models, its estimator's settings, and what the paper reports of it."""

    title: str
    estimator: type[LinCA] | type[GSC] | type[NonlinearGSC]
    settings: tuple[tuple[str, Any], ...] = ()
    published: tuple[tuple[str, float], ...] = ()  # by selection; "linear": 0 is a failure to be seen again


_EXACT = (("max_active", N_CANDIDATES), ("singletons", False), ("n_init", 5))
MODELS = (
    SparseCoding("binary", LinCA, _EXACT),
    SparseCoding(
        "spike-slab", GSC, _EXACT, (("hand-derived", 0.8), ("linear", 0.0), ("rbf", 0.7), ("composition", 0.7))
    ),
    SparseCoding("nonlinear spike-slab", NonlinearGSC),
)


class Trial(NamedTuple):
    found: int  # bars with a field of their own
    components: np.ndarray
    examples: np.ndarray  # some data points


def gps_sparse_coding(options: Options) -> Result:
    rows: list[Row] = []
    details, pictures = {}, []
    for model in MODELS:
        by_hand = 0.0
        for selection in SELECTIONS:
            title = f"{model.title}, {selection}"
            task = partial(run_trial, model, selection, 10 if options.quick else N_ITERATIONS)
            trials = run_trials(task, options.seeds(N_TRIALS), options, title)
            successes = [trial.found == H for trial in trials]
            rows.append(_row(title, model, selection, successes, by_hand))
            by_hand = rows[-1].measured if selection == "hand-derived" else by_hand
            details[title] = {"trials": len(trials), "bars found": [trial.found for trial in trials]}
            pictures.append((title, trials[0]))
    return Result("gps-sparse-coding", rows, _figure(pictures), details=details)


def _row(title: str, model: SparseCoding, selection: str, successes: list[bool], by_hand: float) -> Row:
    """Beside the paper's figure, or beside what hand-derived selection reached."""
    published = dict(model.published).get(selection)
    if published == 0.0:
        interval = wilson_interval(sum(successes), len(successes))
        return Row(
            title, "reliability", "fails", float(np.mean(successes)), interval, sum(successes) < len(successes) / 2
        )
    if published is None and selection == "hand-derived":
        interval = wilson_interval(sum(successes), len(successes))
        return Row(title, "reliability", "-", float(np.mean(successes)), interval)
    row = reliability_row(title, successes, by_hand if published is None else published)
    return row if published is not None else replace(row, published=f"as by hand, {by_hand:.0%}")


def bars_of(model: SparseCoding, seed: int) -> np.ndarray:
    """Two bars of value 10 on average, of varying strength for the spike-and-slab models; noise variance 2."""
    rng = np.random.default_rng(seed)
    bars, activation = bar_components(SIZE), np.full(H, 2.0 / H)
    if model.estimator is LinCA:
        return BinaryLinear(*bars.shape).sample(FieldParams(bars, activation, NOISE), N_SAMPLES, rng)[0]
    linear = model.estimator is GSC
    mean, variance = (0.0, 1.0) if linear else (1.0, 0.1)  # of either sign where bars add up
    truth = SpikeSlabParams(bars, activation, np.full(H, mean), np.full(H, variance), NOISE)
    return (SpikeSlabLinear if linear else SpikeSlabMax)(*bars.shape).sample(truth, N_SAMPLES, rng)[0]


def run_trial(model: SparseCoding, selection: str, max_iter: int, seed: int) -> Trial:
    X = bars_of(model, seed)
    chosen = selection if selection == "hand-derived" else GPSelect(selection)
    settings: dict[str, Any] = {"n_candidates": N_CANDIDATES, "max_iter": max_iter, "tol": 0.0, "n_jobs": 1}
    fit = model.estimator(H, selection=chosen, random_state=seed, **settings, **dict(model.settings)).fit(X)
    return Trial(count_found(fit.components_), fit.components_, X[:5])


def count_found(components: np.ndarray) -> int:
    """How many bars have a field that looks like them, up to its length and sign, each a field of its own."""
    bars = bar_components(SIZE)
    norms = np.maximum(np.linalg.norm(components, axis=1), np.finfo(float).tiny)
    cosines = np.abs(bars @ components.T) / np.linalg.norm(bars, axis=1)[:, None] / norms
    return int((cosines[linear_sum_assignment(-cosines)] > ALIKE).sum())


def _figure(pictures: list[tuple[str, Trial]]):
    """As the paper's Figure 2: data, fields by hand-derived selection, fields by learned selections."""
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components

    n_columns = len(SELECTIONS) + 1
    figure, axes = plt.subplots(len(MODELS), n_columns, figsize=(2.6 * n_columns, 7.0), layout="constrained")
    for row, model in enumerate(MODELS):
        shown = pictures[row * len(SELECTIONS) : (row + 1) * len(SELECTIONS)]
        plot_components(shown[0][1].examples, shape=(SIZE, SIZE), n_columns=1, ax=axes[row, 0])
        axes[row, 0].set_title(f"{model.title}: data", fontsize=8)
        for ax, (title, trial) in zip(axes[row, 1:], shown, strict=True):
            plot_components(trial.components, shape=(SIZE, SIZE), n_columns=2, ax=ax)
            ax.set_title(title, fontsize=8)
    return figure
