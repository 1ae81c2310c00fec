"""The page that `multicause fit --report` writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from multicause.cli.fit import summary
from multicause.cli.pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_fit_report(path: Path, title: str, estimator: Any, shape: tuple[int, ...]) -> None:
    """Write the components, the course of the fit, the activations and the settings as one HTML page."""
    from multicause.report import Section, write_report

    rows, columns = shape
    outcome = [("data points", rows), ("columns", columns), *summary(estimator)]
    settings = [(name, value) for name, value in estimator.get_params().items() if value is not None]
    sections = [
        Section("Outcome", table=outcome),
        Section("Components", "What each latent adds to a data point when it is active.", components(estimator)),
        Section("Free energy", "A lower bound of the log-likelihood, over the iterations.", free_energy(estimator)),
        _of_each_latent(estimator),
        Section("Settings", table=settings),
    ]
    write_report(path, title, sections)


def _of_each_latent(estimator: Any) -> Any:
    from multicause.report import Section

    if hasattr(estimator, "activation_"):
        told = "How often each latent is active, from the most frequent on."
        return Section("Activations", told, bars(estimator.activation_, "activation probability"))
    told = "How much log-likelihood per data point each expert gains over a Gaussian, from the most helpful on."
    return Section("Gains", told, bars(-estimator.projection_index_, "gain in nats"))


def components(estimator: Any) -> Figure:
    from multicause.plotting import plot_components

    figure = new_figure(6.0, 6.0)
    plot_components(estimator, ax=figure.subplots())
    return figure


def free_energy(estimator: Any) -> Figure:
    from multicause.plotting import plot_free_energy

    figure = new_figure(6.0, 3.2)
    plot_free_energy(estimator, ax=figure.subplots())
    return figure


def bars(heights: Any, label: str) -> Figure:
    import numpy as np

    figure = new_figure(6.0, 3.2)
    ax = figure.subplots()
    values = np.sort(heights)[::-1]
    ax.bar(np.arange(1, len(values) + 1), values, width=1.0 if len(values) > 100 else 0.8)
    ax.set_xlabel("latent, by rank")
    ax.set_ylabel(label)
    return figure
