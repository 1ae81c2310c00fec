"""`multicause denoise`: remove the noise from a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from multicause.cli.parameters import InputFile, OutputImage, check_files, given
from multicause.cli.pictures_in_out import check_outputs, output_beside, patch_options, write_uncertainty
from multicause.cli.telling import finish, say

NOISES = click.Choice(["gaussian", "poisson", "poisson-gaussian"])
EXAMPLES = """\b
Examples:
  multicause denoise noisy.png
  multicause denoise photons.tif -o clean.tif --noise poisson
  multicause denoise camera.tif --noise poisson-gaussian --offset 100 --uncertainty sd.tif
"""


@click.command("denoise", epilog=EXAMPLES)
@click.argument("noisy", type=InputFile("picture"))
@click.option("-o", "--output", type=OutputImage(), help="Picture to write. [default: NOISY's name, -denoised]")
@click.option(
    "--noise", type=NOISES, help="Kind of noise: of equal strength everywhere, of counts, or both. [default: gaussian]"
)
@click.option("--noise-level", type=float, help="Standard deviation of the noise. [default: estimated]")
@click.option("--gain", type=float, help="Grey values per photon. [default: estimated]")
@click.option("--offset", type=float, help="Grey value without light. [default: estimated]")
@patch_options
def command(noisy: Path, output: Path | None, uncertainty: Path | None, **settings: Any) -> None:
    """Remove the noise from the picture NOISY.

    NOISY is a .png, .jpg or .tif file. The noise level and a model of the picture are learned from the picture itself.
    Bit depth and transparency are kept. The pages of a .tif file are denoised with one model, learned from all of them.
    """
    from multicause.media import read_picture, write_picture
    from multicause.tasks import denoise_image, denoise_stack

    output = output or output_beside(noisy, "denoised")
    check_files({"NOISY": noisy}, {"--output": output, "--uncertainty": uncertainty})
    picture = read_picture(noisy)
    check_outputs(picture, output, uncertainty)
    denoise = denoise_stack if picture.is_stack else denoise_image
    result = denoise(picture.pixels, verbose=1, **given(settings))
    if uncertainty is not None:
        write_uncertainty(uncertainty, getattr(result, "uncertainty", None), is_stack=picture.is_stack)
    write_picture(output, picture._replace(pixels=result.image))
    if camera := getattr(result, "camera", None):
        found = {"gain": camera.gain, "offset": camera.offset, "read_noise": camera.read_noise}
        say(f"Gain {camera.gain:.3g}, offset {camera.offset:.3g}, read noise {camera.read_noise:.3g}.", **found)
    told = f"Noise with a standard deviation of {result.noise_level:.3g} removed. Picture written to {output}"
    say(told, output=output, noise_level=result.noise_level)
    finish()
