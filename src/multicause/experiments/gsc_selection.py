"""`gsc-selection`: how much of the posterior lies on the states that the selection keeps (GSC §5.1).

Of these data 3 % hold more than four bars and 12 % more than three, of which a truncation keeps next to nothing; and a
weak bar crossed by a strong one is easily passed over, unless candidates are selected greedily. Q is therefore also
measured at the generating parameters.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import bar_components
from multicause.estimators import GSC
from multicause.experiments.experiment import GSC14, PAPERS_EM, Check, Experiment, Published, Row
from multicause.experiments.figures import intervals
from multicause.experiments.gsc_mixing import Start, papers_draw
from multicause.metrics import posterior_quality
from multicause.models import SpikeSlabLinear, SpikeSlabParams

TRUNCATIONS = ((4, 4), (5, 4), (5, 3))  # H', gamma
LETTER: dict[str, Any] = {"selection": "model-based", "start": "paper", "slab": "full", "slab_update": "moments"}
OWN: dict[str, Any] = {"start": "own", "slab": "diagonal"}
SETTINGS: dict[str, dict[str, Any]] = {
    "": LETTER,
    " (ours: own start, independent coefficients)": {**OWN, "selection": "model-based"},
    " (ours: the same, greedy selection)": {**OWN, "selection": "greedy"},
}
BOUND = Published("> 0.99", lambda quality: quality.mean > 0.99, 0.99)
CHECKS = (
    Check("mean Q", lambda trial: trial.learned, BOUND),
    Check("mean Q", lambda trial: trial.generating, label="{}, generating parameters"),
)


class Qualities(NamedTuple):
    """Mean over the data points of Q, at the learned parameters and at those that generated the data."""

    learned: float
    generating: float


def mean_qualities(
    seed: int,
    n_components: int,
    start: Start,
    slab: str,
    slab_update: str = "exact",
    max_iter: int = 50,
    **posterior: Any,
) -> Qualities:
    """One noise variance, as the paper has it here."""
    X, truth = signed_bars(n_components, seed)
    init: dict[str, Any] | None = None
    if start == "paper":
        init = {**papers_draw(n_components, X.shape[1], seed, slab), "noise_variance": float(X.var(axis=0).mean())}
    lengths: dict[str, Any] = {"max_iter": max_iter, "tol": 0.0, "start": "random", "random_state": seed, "n_jobs": 1}
    fit = GSC(n_components, slab=slab, slab_update=slab_update, init=init, **lengths, **{**PAPERS_EM, **posterior}).fit(
        X
    )
    generating = GSC.from_parameters(**truth._asdict(), n_jobs=1, **posterior)
    return Qualities(mean_quality(fit, X), mean_quality(generating, X))


def mean_quality(estimator: GSC, X: np.ndarray) -> float:
    truncated = estimator.score_samples(X)
    exact = estimator.set_params(posterior="exact").score_samples(X)
    return float(posterior_quality(truncated, exact).mean())


def signed_bars(n_components: int, seed: int, n_samples: int = 1000) -> tuple[np.ndarray, SpikeSlabParams]:
    """Bars of +10 or -10, two at a time, whose coefficients are N(mu_h, 1) with mu_h ~ N(0, 5); noise variance 2."""
    rng = np.random.default_rng(seed)
    bars = bar_components(n_components // 2) * rng.choice([-1.0, 1.0], size=(n_components, 1))
    activation = np.full(n_components, 2.0 / n_components)
    slab_mean = np.sqrt(5.0) * rng.standard_normal(n_components)
    truth = SpikeSlabParams(bars, activation, slab_mean, np.ones(n_components), 2.0)
    return SpikeSlabLinear(*bars.shape).sample(truth, n_samples, rng)[0], truth


def _rows(max_iter: int = 50) -> Iterator[Row]:
    for (suffix, own), H, (few, gamma) in product(SETTINGS.items(), (10, 12), TRUNCATIONS):
        setting = {"n_components": H, "max_iter": max_iter, "n_candidates": few, "max_active": gamma, **own}
        yield Row(f"H={H}, H'={few}, gamma={gamma}{suffix}", mean_qualities, setting, CHECKS, n_trials=15)


TITLE = "Posterior mass on the selected states"
_KEPT = {"mean Q": lambda trial: trial.learned, "generating parameters": lambda trial: trial.generating}
EXPERIMENTS = [Experiment("gsc-selection", TITLE, GSC14, _rows, intervals, {"max_iter": 10}, _KEPT)]
