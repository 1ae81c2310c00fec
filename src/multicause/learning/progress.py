"""Where progress is shown: a bar on a terminal, a line that renews itself in a notebook, also under nbconvert."""

import sys
import time
from typing import Any

WIDTH = 24  # of the bar in a notebook, in letters
PAUSE = 0.2  # seconds between two changes of the line: each is a message to the browser


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook; IPython on a terminal is a terminal."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


class TerminalBar:
    """Rich's bar on standard error, where that is a terminal; else nothing."""

    def __init__(self, title: str, total: int):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("F = {task.fields[free_energy]}"),
            TimeRemainingColumn(),
        )
        console = Console(file=sys.stderr)
        self._shown = console.is_terminal
        self._bar = Progress(*columns, console=console, disable=not self._shown)
        self._task = self._bar.add_task(title, total=total, free_energy="…")
        if self._shown:
            self._bar.start()

    def update(self, done: int, free_energy: str) -> None:
        self._bar.update(self._task, completed=done, free_energy=free_energy)

    def close(self) -> None:
        if self._shown:  # Rich before 14.3 ends even a disabled bar with a new line
            self._bar.stop()


class NotebookLine:
    """One line of text below the cell: it needs no widgets, and what it said last stays in the file."""

    def __init__(self, title: str, total: int):
        from IPython.display import display

        self._title, self._total, self._begin, self._shown = title, max(total, 1), time.perf_counter(), 0.0
        self._done, self._free_energy = 0, "…"
        self._handle = display(self._text(), display_id=True)

    def update(self, done: int, free_energy: str) -> None:
        self._done, self._free_energy = done, free_energy
        if time.perf_counter() - self._shown > PAUSE:
            self._show()

    def close(self) -> None:
        self._show(ended=True)

    def _show(self, ended: bool = False) -> None:
        self._shown = time.perf_counter()
        self._handle.update(self._text(ended))

    def _text(self, ended: bool = False) -> Any:
        return _Line(self._line(ended))

    def _line(self, ended: bool) -> str:
        share, spent = self._done / self._total, time.perf_counter() - self._begin
        bar = "█" * round(share * WIDTH) + "░" * (WIDTH - round(share * WIDTH))
        left = f"at most {spent * (1.0 - share) / share:.0f} s left" if share > 0.0 else ""
        what = f"{spent:.1f} s" if ended else left
        return f"{self._title} {bar} {self._done}/{self._total}  F = {self._free_energy}  {what}".rstrip()


class _Line(str):
    """Text that a notebook shows without quotation marks."""

    def __repr__(self) -> str:
        return str(self)
