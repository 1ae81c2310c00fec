"""The figures of the experiments: findings with their intervals, components as pictures, and curves."""

from collections.abc import Callable, Iterable, Sequence
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from multicause.experiments.experiment import Outcome
from multicause.plotting import plot_components

MOST_COLUMNS = 6
Figure = Callable[[list[Outcome]], Any]  # what makes a figure of an experiment's outcomes


def subplots(n_rows: int, n_columns: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure of this size in inches, and its axes, (n_rows, n_columns)."""
    import matplotlib.pyplot as plt

    return plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False, **options)


def intervals(outcomes: list[Outcome]) -> Any:
    """All findings and their intervals, one below the other."""
    found = [finding for outcome in outcomes for finding in outcome.findings]
    figure, axes = subplots(1, 1, (9.0, 0.9 + 0.24 * len(found)))
    ax = axes[0, 0]
    for place, each in enumerate(found):
        low, high = each.interval or (each.measured, each.measured)
        ax.plot([low, high], [place, place], "C0-")
        ax.plot(each.measured, place, "C0o", markersize=4.0)
    ax.set_yticks(range(len(found)), [f"{each.setting}: {each.measure}" for each in found], fontsize=8)
    ax.invert_yaxis()
    return figure


class Panel(NamedTuple):
    """Components shown as pictures, under a title."""

    title: str
    components: np.ndarray
    shape: tuple[int, ...] | None = None  # of a component; None: a square
    n_columns: int | None = None

    def draw(self, ax: Any) -> None:
        plot_components(self.components, shape=self.shape, n_columns=self.n_columns, ax=ax)
        ax.set_title(fill(self.title, 34), fontsize=8)


def panels(grid: Sequence[Sequence[Panel]], size: tuple[float, float], **options: Any) -> Any:
    """One panel beside and below the other."""
    figure, axes = subplots(len(grid), max(len(row) for row in grid), size, **options)
    for ax in axes.flat:
        ax.set_axis_off()
    for axes_of_row, row in zip(axes, grid, strict=True):
        for ax, panel in zip(axes_of_row, row, strict=False):
            panel.draw(ax)
    return figure


def pictures(panel: Callable[[Outcome], Panel]) -> Figure:
    """A panel for each row, at most six beside each other."""

    def figure(outcomes: list[Outcome]) -> Any:
        shown = [panel(outcome) for outcome in outcomes]
        n_columns = min(len(shown), MOST_COLUMNS)
        grid = [shown[start : start + n_columns] for start in range(0, len(shown), n_columns)]
        return panels(grid, (2.6 * n_columns, 2.9 * len(grid)))

    return figure


class Point(NamedTuple):
    """A place on a curve, and the values of the trials there."""

    panel: str
    curve: str
    x: float
    values: Any


def curves(points: Callable[[Outcome], Iterable[Point]], **axis: Any) -> Figure:
    """Means of the trials with 95 % intervals of a normal distribution, against x; `axis` has labels and scales."""

    def figure(outcomes: list[Outcome]) -> Any:
        lines: dict[str, dict[str, list[Point]]] = {}
        for point in (point for outcome in outcomes for point in points(outcome)):
            lines.setdefault(point.panel, {}).setdefault(point.curve, []).append(point)
        drawn, axes = subplots(1, len(lines), (1.0 + 4.2 * len(lines), 3.8))
        for ax, (title, of_panel) in zip(axes.flat, lines.items(), strict=True):
            for name, line in of_panel.items():
                means = [np.mean(point.values) for point in line]
                errors = [1.96 * np.std(point.values) / np.sqrt(np.size(point.values)) for point in line]
                ax.errorbar([point.x for point in line], means, errors, marker=".", capsize=2.0, label=name)
            ax.set(title=title, **axis)
            ax.legend(fontsize=8)
        return drawn

    return figure
