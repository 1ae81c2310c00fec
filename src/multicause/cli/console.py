"""What the commands print: tables for a person to read, through Rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_FILES = 120  # where the output goes to a file or a pipe
STYLES = {"met": "green", "within noise": "yellow", "short": "bold red"}


def _console(to_stderr: bool = False) -> Console:
    from rich.console import Console

    plain: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False, "stderr": to_stderr}
    console = Console(**plain)
    return console if console.is_terminal else Console(**plain, width=WIDTH_OF_FILES)


def print_pairs(title: str, pairs: Iterable[tuple[str, Any]], to_stderr: bool = False) -> None:
    """Print a table of names and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", title_style="bold", show_header=False, box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(name), value if isinstance(value, Text) else Text(shown(value)))
    _console(to_stderr).print(table)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table with a header."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(shown(cell)) for cell in row))
    _console().print(table)


def verdict(word: str | None, unknown: str = "no figure published") -> Any:
    """Met, within noise, short, or `unknown` where there is nothing to compare with; in colour on a terminal."""
    from rich.text import Text

    return Text(word or unknown, style=STYLES.get(word or "", "dim"))


def shown(value: Any) -> str:
    """Numbers to six significant digits, everything else as it says of itself."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
