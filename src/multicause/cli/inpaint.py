"""`multicause inpaint`: a picture without its gaps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multicause.cli.parameters import AT_LEAST_ONE, INPUT, SEED, OutputImage, given, refuse_equal

if TYPE_CHECKING:
    import numpy as np


@click.command("inpaint")
@click.argument("image", type=INPUT)
@click.option("--mask", type=INPUT, required=True, help="Picture of the same size, white where pixels are missing.")
@click.option("-o", "--output", type=OutputImage(), help="Picture to write. [default: IMAGE's name, -inpainted.png]")
@click.option("--patch-size", type=click.IntRange(min=2), help="Side length of a patch, in pixels. [default: 8]")
@click.option("-n", "--components", "n_components", type=AT_LEAST_ONE, help="Components to learn. [default: 256]")
@click.option("--iterations", "max_iter", type=AT_LEAST_ONE, help="EM iterations: more are slower and better.")
@click.option("--seed", "random_state", type=SEED, help="Seed of the start.")
@click.option("--threads", "n_jobs", type=AT_LEAST_ONE, help="Threads. [default: all cores]")
def command(image: Path, mask: Path, output: Path | None, **settings: Any) -> None:
    """Fill the gaps of the picture IMAGE, a .png or .jpg file.

    The mask says where the gaps are: pixels that are more than half as bright as its brightest are missing. What the
    picture is made of is learned from what is left of it, and known pixels stay as they are.
    """
    from multicause.media import read_image, write_image
    from multicause.tasks import inpaint_image

    output = output or Path(f"{image.stem}-inpainted.png")
    refuse_equal({"IMAGE": image, "--mask": mask, "--output": output})
    pixels = read_image(image, as_stored=True)
    missing = _read_mask(mask, image, pixels.shape)
    result = inpaint_image(pixels, missing, verbose=1, **given(settings))
    write_image(output, result.image)
    click.echo(f"{missing.sum()} of {missing.size} pixels filled in. Picture written to {output}")


def _read_mask(mask: Path, image: Path, shape: tuple[int, ...]) -> np.ndarray:
    from multicause.media import read_image
    from multicause.tables import TableError

    brightness = read_image(mask)
    if brightness.shape != shape[:2]:
        sizes = [f"{width} × {height}" for height, width in (brightness.shape, shape[:2])]
        raise TableError(f"The mask '{mask}' is {sizes[0]} pixels wide and high, but '{image}' is {sizes[1]}.")
    return brightness > 0.5 * brightness.max()
