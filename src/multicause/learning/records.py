"""What an iteration leaves behind, and what reads it: trace, progress, checkpoint. None of them is in the loop."""

import json
import logging
import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TextIO

from multicause.learning.progress import NotebookLine, TerminalBar, in_notebook
from multicause.learning.stopping import Stop

LOGGER = logging.getLogger("multicause")


class Record(NamedTuple):
    """One E-step: `free_energy` is that of `params`, the parameters *before* the M-step that follows it."""

    number: int  # of the step, from 0 on
    params: Any
    free_energy: float  # per data point
    n_contributing: float  # total weight of the points that the M-step learns from
    seconds: float  # since the fit began
    restart: int = 0
    temperature: float = 1.0
    final: bool = False  # no M-step follows
    selection_function: Any = None  # as learned by then, where it is learned
    n_iter: int | None = None  # iterations done so far, where they are not the records before this one
    stop: Stop | None = None  # why this is the last record, where the learner itself knows
    state: Any = None  # from which the learner can go on after this record
    kept: Any = None  # which states the posterior keeps, where it is truncated
    comparable: bool = False  # whether the free energy is the one that the fit is to end with: its largest is the best


Consumer = Callable[[Record], None]


class Trace:
    """Writes one line of JSON per record, flushed at once: a fit that dies leaves its history.

    The file is new; a fit that goes on after `done`, a restart and the number of its records, keeps the lines up to it.
    A file that can no longer be written, on a full disk for instance, is a warning: the fit goes on.
    """

    def __init__(self, path: str | os.PathLike[str], done: tuple[int, int] | None = None):
        kept = "" if done is None else _lines_up_to(path, *done)
        self._file: TextIO | None = open(path, "w", encoding="utf-8")  # noqa: SIM115  (closed by `close`)
        self._write(kept)

    def __call__(self, record: Record) -> None:
        line = {
            "restart": record.restart,
            "iteration": record.number,
            "free_energy": record.free_energy,
            "temperature": record.temperature,
            "n_contributing": record.n_contributing,
            "seconds": round(record.seconds, 6),
            "final": record.final,
        }
        self._write(json.dumps(line) + "\n")

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            warnings.warn(f"The trace ends here: {error}. The fit goes on.", RuntimeWarning, stacklevel=2)
            self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what could not be written is still in its buffer
                file.close()


def _lines_up_to(path: str | os.PathLike[str], restart: int, n_records: int) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if line.endswith("\n")]
    before = [line for line in lines if _restart_of(line) < restart]
    return "".join(before + [line for line in lines if _restart_of(line) == restart][:n_records])


def _restart_of(line: str) -> float:
    try:
        return int(json.loads(line)["restart"])
    except (ValueError, KeyError, TypeError):  # no line of ours
        return float("inf")


class ProgressBar:
    """How far a fit is, and how long it may still take: a bar on a terminal, a line that renews itself in a notebook.

    On anything else, nothing: see the logger "multicause".
    """

    def __init__(self, n_steps: int, n_restarts: int, title: str):
        self._n_steps = n_steps
        kind = NotebookLine if in_notebook() else TerminalBar
        self._display: NotebookLine | TerminalBar = kind(title, n_steps * n_restarts)

    def __call__(self, record: Record) -> None:
        done = record.restart * self._n_steps + min(record.number + (not record.final), self._n_steps)
        self._display.update(done, f"{record.free_energy:.4f}")

    def close(self) -> None:
        self._display.close()


class LogLines:
    """A line for each record, from the logger "multicause", at the level DEBUG."""

    def __init__(self, title: str):
        self._title = title

    def __call__(self, record: Record) -> None:
        LOGGER.debug(
            "%s: start %d, iteration %d, free energy %.6g per data point, temperature %.3g, %.2f s",
            self._title, record.restart, record.number, record.free_energy, record.temperature, record.seconds,
        )  # fmt: skip


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self._start
