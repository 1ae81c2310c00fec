"""Tables as the commands write them: to a file, or to standard output for the next program in a pipe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from multicause.cli.parameters import STREAM
from multicause.cli.telling import data_on_stdout

if TYPE_CHECKING:
    import numpy as np


def named(path: Path) -> str:
    """Where a table is written, in words."""
    return "standard output" if path == STREAM else str(path)


def write_out(path: Path, array: np.ndarray, names: Sequence[str] | None) -> None:
    """Write a table; to standard output as .csv."""
    from multicause.csv_files import write_csv
    from multicause.tables import write_table

    if path != STREAM:
        write_table(path, array, names)
        return
    data_on_stdout()
    buffer = io.BytesIO()
    write_csv(buffer, array, names)
    click.echo(buffer.getvalue(), nl=False)
