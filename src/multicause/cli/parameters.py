"""Types of command-line parameters: files to read, and files whose place is checked before the work begins."""

import os
from pathlib import Path
from typing import Any

import click

AT_LEAST_ONE = click.IntRange(min=1)
SEED = click.IntRange(0, 2**32 - 1)
DEVICE = click.Choice(["cpu", "cuda", "auto"])
DEVICE_HELP = "Compute on the processor, on an NVIDIA GPU, or there where one is at hand. [default: cpu]"
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

    def _ending_in(
        self, known: tuple[str, ...], path: Path, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        if path.suffix.lower() not in known:
            self.fail(f"'{path}' must end in one of {', '.join(known)}.", param, ctx)
        return path


class OutputTable(OutputFile):
    """A table to write, in one of the formats that `write_table` knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from multicause.tables import TABLES

        return self._ending_in(TABLES, super().convert(value, param, ctx), param, ctx)


class OutputImage(OutputFile):
    """A picture to write, in one of the formats that `write_image` knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from multicause.tables import IMAGES

        return self._ending_in(IMAGES, super().convert(value, param, ctx), param, ctx)


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


def refuse_equal(paths: dict[str, Path | None]) -> None:
    """Each file has one purpose: the data must not be overwritten, nor one result by another."""
    seen: dict[Path, str] = {}
    for name, path in paths.items():
        if path is None:
            continue
        place = path.resolve()
        if place.exists() and not place.is_file():  # /dev/null may be named twice
            continue
        if place in seen:
            raise click.UsageError(f"{name} and {seen[place]} name the same file, '{path}'. Give each its own.")
        seen[place] = name


def given(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given; what is left out keeps its own default."""
    return {name: value for name, value in settings.items() if value is not None}


def move_to(estimator: Any, device: str | None) -> None:
    """Let a model answer on a device, where it can."""
    if device is None:
        return
    if "device" not in estimator.get_params(deep=False):
        raise click.UsageError(f"{type(estimator).__name__} runs on the processor alone: leave out --device.")
    estimator.set_params(device=device)
