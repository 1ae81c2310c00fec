"""The page and the pictures of `multicause demo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from multicause.cli.demo_examples import SIZE, Learned
from multicause.cli.fit import summary
from multicause.cli.fit_report import free_energy
from multicause.cli.pictures import new_figure
from multicause.plotting import plot_components
from multicause.report import Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Figures = dict[str, "Figure"]
N_SHOWN = 24
SAID_OF_FREE_ENERGY = (
    "The free energy is a lower bound of the log-likelihood per data point: how well the causes explain the pictures. "
    "While a fit is annealed, the bound is not tight and may fall."
)
SAID_OF_POSTERIOR = (
    "For each picture, the posterior probability of each cause. Orange marks the bars that are present. The last "
    "picture is the one with the most uncertain posterior: it may have more bars than the model allows."
)

READ_ON = Section(
    "Next steps",
    "For your own picture and your own table:",
    code="multicause denoise noisy.png -o clean.png\nmulticause fit data.csv -n 20 --report fit.html",
    items=(
        "README.md has the first ten lines of Python.",
        "make docs builds a gallery, and pages that say which model suits which data: docs/_build/html/index.html.",
        "docs/tutorials has a tutorial for each family of models.",
    ),
)


def pictures(learned: Learned) -> Figures:
    """All figures of an example, by name."""
    return {
        "data": _data(learned),
        "causes": _causes(learned),
        "free-energy": free_energy(learned.estimator),
        "posterior": _posterior(learned),
    }


def sections(learned: Learned, figures: Figures) -> list[Section]:
    """The part of the page about one example."""
    title = learned.example.title
    outcome = [("verdict", verdict(learned)), *summary(learned.estimator), ("seconds", round(learned.seconds, 2))]
    return [
        Section(title, learned.example.text, figures["data"]),
        Section(f"{title}: the causes", "Left: the true bars. Right: the learned components.", figures["causes"]),
        Section(f"{title}: outcome", table=outcome),
        Section(f"{title}: the course of the fit", SAID_OF_FREE_ENERGY, figures["free-energy"]),
        Section(
            f"{title}: what is in a picture?", SAID_OF_POSTERIOR, figures["posterior"], table=_posterior_table(learned)
        ),
    ]


def verdict(learned: Learned) -> str:
    """How many causes were found, in words."""
    recovery = learned.recovery
    error = f"mean absolute error {recovery.mean_absolute_error:.2f} at pixel values of 10"
    if recovery.all_found:
        return f"all {len(recovery.found)} causes found, {error}"
    return f"only {recovery.found.sum()} of {len(recovery.found)} causes found, {error}"


def _data(learned: Learned) -> Figure:
    figure = new_figure(8.0, 1.5)
    plot_components(learned.bars.X[:N_SHOWN], ax=figure.subplots(), n_columns=N_SHOWN // 2, scale="shared")
    return figure


def _causes(learned: Learned) -> Figure:
    figure = new_figure(8.0, 3.4)
    left, right = figure.subplots(1, 2)
    for ax, name, components in (
        (left, "true causes", learned.bars.components),
        (right, "learned components", learned.estimator.components_[_order(learned)]),
    ):
        plot_components(components, ax=ax, n_columns=4, scale="shared")
        ax.set_title(name)
    return figure


def _order(learned: Learned) -> np.ndarray:
    """The components in the order of the causes that they represent; in their own where two share a component."""
    recovery = learned.recovery
    return recovery.unit if recovery.injective else np.arange(len(learned.estimator.components_))


def _points(learned: Learned) -> list[int]:
    """The first picture with one bar in it, the first with two and with three, and the least certain of all."""
    n_bars = learned.bars.states.sum(axis=1)
    doubt = np.minimum(learned.probabilities, 1.0 - learned.probabilities).sum(axis=1)
    return [*(int(np.flatnonzero(n_bars == wanted)[0]) for wanted in (1, 2, 3)), int(doubt.argmax())]


def _probabilities(learned: Learned) -> np.ndarray:
    """Of each cause in each of the shown points, (points, H)."""
    return learned.probabilities[_points(learned)][:, _order(learned)]


def _posterior(learned: Learned) -> Figure:
    figure = new_figure(8.0, 6.0)
    axes = figure.subplots(4, 2, width_ratios=[1, 4])
    limit = np.abs(learned.bars.X).max()
    for (left, right), point, probability in zip(axes, _points(learned), _probabilities(learned), strict=True):
        _draw_point(left, learned.bars.X[point], limit)
        _draw_probabilities(right, probability, learned.bars.states[point] > 0.0)
    axes[-1, 1].set_xlabel("cause")
    return figure


def _draw_point(ax: Axes, x: np.ndarray, limit: float) -> None:
    signed = bool((x < 0.0).any())
    ax.imshow(x.reshape(SIZE, SIZE), cmap="RdBu_r" if signed else "gray", vmin=-limit if signed else 0.0, vmax=limit)
    ax.set_axis_off()


def _draw_probabilities(ax: Axes, probability: np.ndarray, present: np.ndarray) -> None:
    numbers = np.arange(1, len(probability) + 1)
    ax.bar(numbers, probability, color=np.where(present, "C1", "C0"))
    ax.plot(numbers[present], np.full(present.sum(), 1.12), "v", color="C1", markersize=5)
    ax.set(xticks=numbers, ylim=(0.0, 1.25), yticks=[0.0, 0.5, 1.0], ylabel="probability")


def _posterior_table(learned: Learned) -> list[tuple[str, Any]]:
    rows = []
    for point, probability in zip(_points(learned), _probabilities(learned), strict=True):
        present = ", ".join(str(h + 1) for h in np.flatnonzero(learned.bars.states[point]))
        likely = [h for h in np.argsort(-probability) if probability[h] >= 0.01]
        said = ", ".join(f"{h + 1} ({probability[h]:.2f})" for h in likely) or "none"
        rows.append((f"picture {point}, made of {present}", said))
    return rows
