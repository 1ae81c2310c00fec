"""Says that kernels are being compiled, once in a process, and at the end of a fit how long that took.

Who has set up `logging` gets both lines there, under "multicause" at level INFO; else they go to stderr where a person
reads it: on a terminal or in a notebook, not in a pipe or a file.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

_log = logging.getLogger("multicause")


class Compilation:
    """How many kernels this process has compiled, and how long that took; compiling one may compile others within."""

    def __init__(self) -> None:
        self.n_kernels, self.seconds = 0, 0.0
        self._depth, self._since = 0, 0.0

    def began(self) -> None:
        if self.n_kernels == self._depth == 0:
            tell("compiling kernels for this machine, which happens once and takes up to a minute …")
        if self._depth == 0:
            self._since = perf_counter()
        self._depth += 1

    def ended(self) -> None:
        self.n_kernels += 1
        self._depth = max(self._depth - 1, 0)
        if self._depth == 0:
            self.seconds += perf_counter() - self._since


compilation = Compilation()


@contextmanager
def compilation_told() -> Iterator[None]:
    """Say at the end what was compiled meanwhile, if anything."""
    before, seconds = compilation.n_kernels, compilation.seconds
    try:
        yield
    finally:
        n_kernels = compilation.n_kernels - before
        if n_kernels:
            took = f"{compilation.seconds - seconds:.1f} s"
            tell(f"{n_kernels} kernels compiled in {took}; later fits load them from disk")


def tell(what: str) -> None:
    if _log.hasHandlers() and _log.isEnabledFor(logging.INFO):
        _log.info(what)
    elif _is_read(sys.stderr):
        print(f"multicause: {what}", file=sys.stderr)


def _is_read(stream) -> bool:
    """Whether a person sees what is written: a terminal, or a cell of a notebook."""
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))
