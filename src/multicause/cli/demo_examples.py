"""The examples of `multicause demo`: data with known causes, and the estimator that is to find them."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from multicause import ETNMF, LinCA
from multicause.datasets import Bars, make_bars
from multicause.learning import Annealing
from multicause.metrics import Recovery, found_causes

SEED = 1000
SIZE = 6


@dataclass(frozen=True)
class Example:
    """An example: its words, its data, and how it is learned."""

    name: str  # of the picture files
    title: str
    text: str
    draw: Callable[[], Bars]
    estimator: Any


class Learned(NamedTuple):
    """An example after the fit."""

    example: Example
    bars: Bars
    estimator: Any
    recovery: Recovery
    probabilities: np.ndarray  # of each cause in each data point, (N, H)
    seconds: float


def _signed_bars() -> Bars:
    return make_bars(1500, SIZE, signed=True, random_state=SEED)


def _nonnegative_bars() -> Bars:
    bars = make_bars(1500, SIZE, random_state=SEED + 1)
    return bars._replace(X=np.maximum(bars.X, 0.0))


EXAMPLES = (
    Example(
        "signed-bars",
        "LinCA on signed bars",
        "Each picture is a noisy sum of a few bars, some positive (red) and some negative (blue). Given the pictures "
        "only, LinCA has to find the bars: twelve causes. It considers six of them per picture, of which at most four "
        "may be active. "
        "The fit is annealed: it starts at temperature 13 and cools to 1.",
        _signed_bars,
        LinCA(
            2 * SIZE,
            n_candidates=6,
            max_active=4,
            annealing=Annealing(initial=13.0),
            max_iter=100,
            n_init=3,
            random_state=SEED,
            verbose=1,
        ),
    ),
    Example(
        "nonnegative-bars",
        "ETNMF on non-negative bars",
        "Here all bars are positive, and negative values are set to zero. ETNMF factorises such data into non-negative "
        "components that are on or off. It considers eight of twelve causes per picture, of which at most five may be "
        "active, and keeps the best of three fits.",
        _nonnegative_bars,
        ETNMF(2 * SIZE, n_candidates=8, max_active=5, n_init=3, random_state=SEED, verbose=1),
    ),
)


def learn(example: Example) -> Learned:
    """Draw the data, fit, and compare with the truth."""
    bars = example.draw()
    begin = perf_counter()
    estimator = example.estimator.fit(bars.X)
    seconds = perf_counter() - begin
    found = recovery(estimator, bars.components)
    return Learned(example, bars, estimator, found, estimator.predict_proba(bars.X), seconds)


def recovery(estimator: Any, causes: np.ndarray) -> Recovery:
    """Which causes the estimator has found: each by the unit that explains it best on its own."""
    alone = estimator.log_joint(causes, np.eye(len(estimator.components_)))
    return found_causes(estimator.components_, causes, alone)
