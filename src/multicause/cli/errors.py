"""Errors and warnings of the command line: one line each, without a traceback."""

import atexit
import io
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

# Bad files and bad values; TableError, ModelFileError and DatasetNotFound are among them. ImportError: a missing extra.
USER_ERRORS = (ValueError, ArithmeticError, OSError, ImportError, MemoryError)


class UserError(click.ClickException):
    """What the user can mend: exit code 2."""

    exit_code = 2


class OneLineErrors(click.Group):
    """A group of commands that answers what the user can mend with one line, unless --debug asks for more."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """--debug counts wherever it is given, as long as it is no file behind --."""
        until = args.index("--") if "--" in args else len(args)
        before = [arg for arg in args[:until] if arg != "--debug"]
        return super().parse_args(ctx, ["--debug"] * (len(before) < until) + before + args[until:])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        atexit.unregister(_ignore_interrupts)
        atexit.register(_ignore_interrupts)
        _show_what_can_be_shown()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # while it says how it is used: a full disk, for instance
            click.echo(f"Error: {describe(error)}", err=True)
            sys.exit(UserError.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_line_warnings():
            if ctx.params.get("debug"):
                return super().invoke(ctx)
            try:
                return super().invoke(ctx)
            except (click.exceptions.NoArgsIsHelpError, BrokenPipeError):
                raise
            except click.UsageError as error:
                path = error.ctx.command_path if error.ctx else ctx.command_path
                raise UserError(f"{one_line(error.format_message())} See '{path} --help'.") from error
            except USER_ERRORS as error:
                raise UserError(describe(error)) from error


def _show_what_can_be_shown() -> None:
    """A file's name that the terminal has no letters for, or that is no text at all, costs nobody a result."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _ignore_interrupts() -> None:
    """All is written: Ctrl-C while Python shuts down would end a command that is done by a signal.

    So would, under `python -m`, one that came inside an `exec`, as imports use it, and was answered: Python remembers
    it until the next `exec`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exec("")


def describe(error: BaseException) -> str:
    """An error as one line."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"'{error.filename}': {error.strerror}."
    return one_line(str(error)) or f"{type(error).__name__}."


def one_line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    def show(message: Warning | str, *details: Any, **more: Any) -> None:
        click.echo(f"Warning: {one_line(str(message))}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.filterwarnings("ignore", message="X does not have valid feature names")  # commands check the names
        yield
