"""`multicause inpaint`: fill the gaps of a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multicause.cli.parameters import InputFile, OutputImage, check_files, given
from multicause.cli.pictures_in_out import check_outputs, output_beside, patch_options, write_uncertainty
from multicause.cli.telling import finish, say

if TYPE_CHECKING:
    import numpy as np

EXAMPLES = """\b
Examples:
  multicause inpaint torn.png --mask gaps.png
  multicause inpaint old.tif --mask scratches.png --denoise -o restored.tif
"""


@click.command("inpaint", epilog=EXAMPLES)
@click.argument("image", type=InputFile("picture"))
@click.option(
    "--mask", type=InputFile("picture"), required=True, help="Picture of the same size, white where pixels are missing."
)
@click.option("-o", "--output", type=OutputImage(), help="Picture to write. [default: IMAGE's name, -inpainted]")
@click.option("--denoise", is_flag=True, help="Denoise known pixels, too.")
@click.option("--noise-level", type=float, help="Standard deviation of the noise on known pixels. [default: learned]")
@patch_options
def command(
    image: Path, mask: Path, output: Path | None, denoise: bool, uncertainty: Path | None, **settings: Any
) -> None:
    """Fill the gaps of the picture IMAGE.

    IMAGE is a .png, .jpg or .tif file. The mask is a picture of the same size; pixels that are more than half as bright
    as its brightest are missing. NaN in a .tif file of floating-point numbers counts as missing, too. The model is
    learned from the known pixels of the picture, which are kept unless --denoise is given.
    """
    from multicause.media import read_picture, write_picture
    from multicause.tables import TableError
    from multicause.tasks import inpaint_image

    output = output or output_beside(image, "inpainted")
    check_files({"IMAGE": image, "--mask": mask}, {"--output": output, "--uncertainty": uncertainty})
    picture = read_picture(image)
    if picture.is_stack:
        raise TableError(f"'{image}' holds {len(picture.pixels)} pages, wanted one picture. Save them one by one.")
    missing = _read_mask(mask, image, picture.pixels)
    check_outputs(picture, output, uncertainty)
    result = inpaint_image(picture.pixels, missing, keep_known=not denoise, verbose=1, **given(settings))
    if uncertainty is not None:
        write_uncertainty(uncertainty, result.uncertainty, is_stack=False)
    write_picture(output, picture._replace(pixels=result.image))
    told = f"{missing.sum()} of {missing.size} pixels filled in. Picture written to {output}"
    say(told, output=output, filled=int(missing.sum()), pixels=missing.size)
    finish()


def _read_mask(mask: Path, image: Path, pixels: np.ndarray) -> np.ndarray:
    import numpy as np

    from multicause.media import read_image
    from multicause.tables import TableError

    brightness = read_image(mask)
    if brightness.shape != pixels.shape[:2]:
        sizes = [f"{width} × {height}" for height, width in (brightness.shape, pixels.shape[:2])]
        raise TableError(f"The mask '{mask}' is {sizes[0]} pixels wide and high, but '{image}' is {sizes[1]}.")
    nowhere = np.isnan(pixels.reshape(*brightness.shape, -1)).any(axis=2)
    return (brightness > 0.5 * brightness.max()) | nowhere
