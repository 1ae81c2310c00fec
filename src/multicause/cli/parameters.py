"""Types of command-line parameters: files to read, and files whose place is checked before the work begins."""

import os
from pathlib import Path
from typing import Any

import click

INPUT = click.Path(path_type=Path)  # whether the file is there and readable is the reader's to say


class OutputFile(click.Path):
    """A file to write: a run that could not save its result fails at once, not at the end."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not path.parent.is_dir():
            self.fail(f"the folder '{path.parent}' does not exist. Create it first.", param, ctx)
        return path


class OutputTable(OutputFile):
    """A table to write, in one of the formats that `write_table` knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from multicause.tables import TABLES

        path = super().convert(value, param, ctx)
        if path.suffix.lower() not in TABLES:
            self.fail(f"'{path}' must end in one of {', '.join(TABLES)}.", param, ctx)
        return path
