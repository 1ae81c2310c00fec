"""Pictures as the commands read and write them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multicause.cli.parameters import (
    AT_LEAST_ONE,
    Command,
    OutputImage,
    device_option,
    force_option,
    seed_option,
    threads_option,
)
from multicause.cli.telling import json_option, say

if TYPE_CHECKING:
    import numpy as np

    from multicause.media import Picture


_PATCH_OPTIONS = (
    click.option(
        "--model", type=click.Choice(["auto", "mixture", "gsc"]), help="Model of the patches. [default: auto]"
    ),
    click.option("--uncertainty", type=OutputImage(), help="Also write a picture of the standard deviations."),
    click.option("--patch-size", type=click.IntRange(min=2), help="Side length of a patch, in pixels. [default: 8]"),
    click.option(
        "-n", "--components", "n_components", type=AT_LEAST_ONE, help="Clusters, or components of gsc, to learn."
    ),
    click.option("--iterations", "max_iter", type=AT_LEAST_ONE, help="EM iterations: more are slower and better."),
    seed_option,
    threads_option,
    device_option,
    force_option,
    json_option,
)


def patch_options(command: Command) -> Command:
    """The options of commands that learn from a picture's patches."""
    for option in reversed(_PATCH_OPTIONS):
        command = option(command)
    return command


def output_beside(source: Path, what: str) -> Path:
    """The default name of a result: as deep as its source, since a .png file cannot hold all that a .tif file does."""
    extension = source.suffix if source.suffix.lower() in (".tif", ".tiff") else ".png"
    return Path(f"{source.stem}-{what}{extension}")


def write_uncertainty(path: Path, deviation: np.ndarray | None, *, is_stack: bool) -> None:
    """Write standard deviations: as they are to a .tif file, else brightest where they are largest."""
    import numpy as np

    from multicause.media import Picture, write_picture

    if deviation is None:
        raise click.UsageError("--uncertainty: this model gives no uncertainty. Leave --model out.")
    if path.suffix.lower() in (".tif", ".tiff"):
        write_picture(path, Picture(deviation.astype(np.float32), is_stack=is_stack))
        say(f"Standard deviations written to {path}", uncertainty=path)
        return
    largest = float(deviation.max()) or 1.0
    write_picture(path, Picture(np.round(deviation * (255.0 / largest)).astype(np.uint8), is_stack=is_stack))
    told = f"Standard deviations written to {path}; white is {largest:.3g}, black is 0"
    say(told, uncertainty=path, uncertainty_of_white=largest)


def check_outputs(picture: Picture, output: Path, uncertainty: Path | None) -> None:
    """Refuse files that could not hold the results before the work begins."""
    import numpy as np

    from multicause.picture_files import check_writable

    check_writable(output, picture)
    if uncertainty is not None:
        is_tiff = uncertainty.suffix.lower() in (".tif", ".tiff")
        dtype: Any = np.float32 if is_tiff else np.uint8
        check_writable(
            uncertainty, picture._replace(pixels=np.broadcast_to(dtype(0), picture.pixels.shape), alpha=None)
        )
