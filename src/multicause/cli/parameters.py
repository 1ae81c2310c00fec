"""Types of command-line parameters: files to read, and files whose place is checked before the work begins."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

AT_LEAST_ONE = click.IntRange(min=1)
SEED = click.IntRange(0, 2**32 - 1)
INPUT = click.Path(path_type=Path)  # whether the file is there and readable is the reader's to say
STREAM = Path("-")  # standard input, or standard output
COMMANDS_OF = {
    "table": "multicause fit, transform and score",
    "picture": "multicause denoise and inpaint",
    "sound": "multicause separate",
}
_FORCE = "multicause.force"
Command = TypeVar("Command", bound=Callable[..., Any])

seed_option = click.option("--seed", "random_state", type=SEED, help="Seed of the start.")
threads_option = click.option("--threads", "n_jobs", type=AT_LEAST_ONE, help="Threads. [default: all cores]")
device_option = click.option(
    "--device",
    type=click.Choice(["cpu", "cuda", "auto"]),
    help="Compute on the CPU or an NVIDIA GPU; auto: on a GPU if there is one. [default: cpu]",
)


def force_option(command: Command) -> Command:
    """The option --force of a command, which `check_files` then heeds."""

    def remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_FORCE] = value

    told = "Overwrite existing files."
    return click.option("--force", is_flag=True, expose_value=False, callback=remember, help=told)(command)


class InputFile(click.Path):
    """A file to read, of one kind; of another kind, the commands that are for it are named."""

    def __init__(self, kind: str) -> None:
        super().__init__(path_type=Path, allow_dash=kind == "table")
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from multicause.file_checks import ARRAYS, AUDIO, IMAGES, TABLES

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        known = {"table": (*TABLES, *ARRAYS), "picture": IMAGES, "sound": AUDIO}
        is_kind = next((kind for kind, endings in known.items() if path.suffix.lower() in endings), self.kind)
        if is_kind != self.kind:
            self.fail(
                f"'{path}' is a {is_kind}, wanted a {self.kind}: {', '.join(known[self.kind])}. "
                f"For a {is_kind} there are {COMMANDS_OF[is_kind]}.",
                param,
                ctx,
            )
        return path


class OutputFile(click.Path):
    """A file to write: a run that could not save its result fails at once, not at the end."""

    def __init__(self, endings: str = "", stream: bool = False) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path, allow_dash=stream)
        self.endings, self.stream = endings, stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from multicause import file_checks

        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if self.stream and path == STREAM:
            return path
        if not path.parent.is_dir():
            self.fail(f"the folder '{path.parent}' does not exist. Create it first.", param, ctx)
        known = getattr(file_checks, self.endings) if self.endings else ()
        if known and path.suffix.lower() not in known:
            self.fail(f"'{path}' must end in one of {', '.join(known)}.", param, ctx)
        return path


class OutputTable(OutputFile):
    """A table to write, in one of the formats that `write_table` knows; - is standard output, as .csv."""

    def __init__(self, stream: bool = True) -> None:
        super().__init__("TABLES", stream)


class OutputImage(OutputFile):
    """A picture to write, in one of the formats that `write_image` knows."""

    def __init__(self) -> None:
        super().__init__("IMAGES")


class CheckpointInterval(click.ParamType):
    """A number of iterations, such as 10, or of seconds, such as 30s."""

    name = "interval"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        from multicause.learning.checkpoints import Every

        chosen = int(value) if str(value).isdecimal() else value
        try:
            Every.of(chosen)
        except ValueError:
            self.fail(
                f"'{value}' is neither a number of iterations, such as 10, nor of seconds, such as 30s.", param, ctx
            )
        return chosen


Files = dict[str, Path | None]


def check_files(inputs: Files, outputs: Files, replaced: tuple[str, ...] = ()) -> None:
    """Each file has one purpose, and an existing one is kept, unless --force or `replaced` says otherwise."""
    _refuse_equal(inputs, outputs)
    if click.get_current_context().meta.get(_FORCE):
        return
    for name, path in outputs.items():
        if path is not None and path != STREAM and path.is_file() and name not in replaced:
            raise click.UsageError(
                f"{name}: the file '{path}' already exists. Give another name, or --force to overwrite it."
            )


def _refuse_equal(inputs: Files, outputs: Files) -> None:
    """The data must not be overwritten, nor one result by another."""
    seen = [(name, path) for name, path in inputs.items() if path is not None and path != STREAM]
    for name, path in outputs.items():
        if path is None or (path.exists() and not path.is_file()):  # /dev/null may be named twice
            continue
        for other, before in seen:
            if _are_the_same(path, before):
                raise click.UsageError(f"{name} and {other} name the same file, '{path}'. Give each its own.")
        seen.append((name, path))


def _are_the_same(path: Path, other: Path) -> bool:
    """By whatever names: a hard link is the file itself, as are other letters where the disk makes no difference."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given; what is left out keeps its own default."""
    return {name: value for name, value in settings.items() if value is not None}


def move_to(estimator: Any, device: str | None) -> None:
    """Let a model answer on a device, where it can."""
    if device is None:
        return
    if "device" not in estimator.get_params(deep=False):
        raise click.UsageError(f"{type(estimator).__name__} runs on the CPU only: leave out --device.")
    estimator.set_params(device=device)
