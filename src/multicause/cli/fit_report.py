"""The page that `multicause fit --report` and `multicause report` write."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multicause.cli.telling import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Shape(click.ParamType):
    """The shape of a data point, such as 28x28 or 16x16x3."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        parts = str(value).lower().replace("×", "x").split("x")
        if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"'{value}' is not a shape such as 28x28, 16x16x3 or, for curves, 100.", param, ctx)
        return tuple(int(part) for part in parts)


shape_option = click.option(
    "--shape",
    type=Shape(),
    metavar="HxW",
    help="Shape of a data point in the report, such as 28x28. [default: guessed]",
)


def this_command() -> str:
    """The command line as it was typed, for a shell."""
    return shlex.join(["multicause", *sys.argv[1:]])


def free_energy(estimator: Any) -> Figure:
    """The course of a fit, as pages show it."""
    from multicause.plotting import plot_free_energy
    from multicause.report.model_report import chart

    return chart(lambda ax: plot_free_energy(estimator, ax=ax))


def check_shape(shape: tuple[int, ...] | None, n_features: int) -> None:
    """Refuse a shape that does not suit the data, before the work begins."""
    from multicause.report import Look

    try:
        Look.of(n_features, shape=shape)
    except ValueError as error:
        raise click.UsageError(f"--shape: {error}") from error


def write_page(path: Path, name: str, estimator: Any, X: Any, **settings: Any) -> None:
    """Write the page of a model of the data, or in the file, of this name."""
    from multicause.report import write_model_report

    write_model_report(path, estimator, X, title=f"{type(estimator).__name__} of {name}", **settings)
    say(f"Report written to {path}", report=path)
