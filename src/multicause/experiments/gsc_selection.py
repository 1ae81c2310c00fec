"""`gsc-selection`: how much of the posterior lies on the states that the selection keeps (GSC §5.1).

Of these data 3 % hold more than four bars and 12 % more than three, of which a truncation keeps next to nothing; and a
weak bar crossed by a strong one is easily passed over, unless candidates are pursued one beside the other. Q is
therefore also measured at the generating parameters.
"""

from functools import partial
from itertools import product
from typing import Any

import numpy as np

from multicause.datasets import bar_components
from multicause.estimators import GSC
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.experiments.gsc_mixing import mean_row
from multicause.metrics import bootstrap_interval, posterior_quality
from multicause.models import SpikeSlabLinear, SpikeSlabParams

N_COMPONENTS = (10, 12)
TRUNCATIONS = ((4, 4), (5, 4), (5, 3))  # H', gamma
SELECTIONS = {"": "hand-derived", ", pursuit (ours)": "pursuit"}
N_TRIALS = 15  # the paper does not say how many
PUBLISHED = 0.99


def gsc_selection(options: Options) -> Result:
    rows, details, quality = [], {}, {}
    for H, (n_candidates, max_active), (suffix, selection) in product(N_COMPONENTS, TRUNCATIONS, SELECTIONS.items()):
        title = f"H={H}, H'={n_candidates}, gamma={max_active}{suffix}"
        settings = {"n_candidates": n_candidates, "max_active": max_active, "selection": selection}
        task = partial(mean_qualities, H, settings, 10 if options.quick else 50)
        trials = np.array(run_trials(task, options.seeds(N_TRIALS), options, title))
        quality[title], generating = trials.T.tolist()
        rows.append(_row(title, quality[title]))
        rows.append(mean_row(f"{title}, generating parameters", generating, "mean Q"))
        details[title] = {"trials": len(trials), "mean Q": quality[title], "generating parameters": generating}
    return Result("gsc-selection", rows, _figure(quality), details=details)


def mean_qualities(n_components: int, settings: dict[str, Any], max_iter: int, seed: int) -> tuple[float, float]:
    """Mean over the data points of Q, at the learned parameters and at those that generated the data."""
    X, truth = signed_bars(n_components, seed)
    fit = GSC(n_components, max_iter=max_iter, tol=0.0, random_state=seed, n_jobs=1, **settings).fit(X)
    generating = GSC.from_parameters(**truth._asdict(), n_jobs=1, **settings)
    return mean_quality(fit, X), mean_quality(generating, X)


def mean_quality(estimator: GSC, X: np.ndarray) -> float:
    truncated = estimator.score_samples(X)
    exact = estimator.set_params(posterior="exact").score_samples(X)
    return float(posterior_quality(truncated, exact).mean())


def signed_bars(n_components: int, seed: int, n_samples: int = 1000) -> tuple[np.ndarray, SpikeSlabParams]:
    """Bars of +10 or -10, two at a time, whose strengths are N(mu_h, 1) with mu_h ~ N(0, 5); noise variance 2."""
    rng = np.random.default_rng(seed)
    bars = bar_components(n_components // 2) * rng.choice([-1.0, 1.0], size=(n_components, 1))
    activation = np.full(n_components, 2.0 / n_components)
    slab_mean = np.sqrt(5.0) * rng.standard_normal(n_components)
    truth = SpikeSlabParams(bars, activation, slab_mean, np.ones(n_components), 2.0)
    return SpikeSlabLinear(*bars.shape).sample(truth, n_samples, rng)[0], truth


def _row(title: str, quality: list[float]) -> Row:
    """Met if the mean, or the upper end of its interval, is above the paper's bound."""
    mean, interval = float(np.mean(quality)), bootstrap_interval(quality)
    return Row(title, "mean Q", f"> {PUBLISHED}", mean, interval, bool(max(mean, interval[1]) > PUBLISHED))


def _figure(quality: dict[str, list[float]]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(13.0, 3.6), layout="constrained")
    for place, values in enumerate(quality.values()):
        ax.plot(np.full(len(values), place), values, "o", markersize=3.0)
    ax.axhline(PUBLISHED, color="0.5", linestyle=":", label="paper: all above")
    titles = [title.replace(", H'", "\nH'").replace(", pursuit", "\npursuit") for title in quality]
    ax.set_xticks(range(len(quality)), titles, fontsize=7)
    ax.set(ylabel="mean Q of a trial")
    ax.legend()
    return figure
