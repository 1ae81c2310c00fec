"""`multicause denoise`: a picture without its noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from multicause.cli.parameters import AT_LEAST_ONE, INPUT, SEED, OutputImage, given, refuse_equal


@click.command("denoise")
@click.argument("noisy", type=INPUT)
@click.option("-o", "--output", type=OutputImage(), help="Picture to write. [default: NOISY's name, -denoised.png]")
@click.option("--patch-size", type=click.IntRange(min=2), help="Side length of a patch, in pixels. [default: 8]")
@click.option("-n", "--components", "n_components", type=AT_LEAST_ONE, help="Components to learn. [default: 256]")
@click.option("--iterations", "max_iter", type=AT_LEAST_ONE, help="EM iterations: more are slower and better.")
@click.option("--seed", "random_state", type=SEED, help="Seed of the start.")
@click.option("--threads", "n_jobs", type=AT_LEAST_ONE, help="Threads. [default: all cores]")
def command(noisy: Path, output: Path | None, **settings: Any) -> None:
    """Take the noise out of the picture NOISY, a .png or .jpg file.

    How strong the noise is, and what the picture is made of, is learned from the picture itself.
    """
    from multicause.media import read_image, write_image
    from multicause.tasks import denoise_image

    output = output or Path(f"{noisy.stem}-denoised.png")
    refuse_equal({"NOISY": noisy, "--output": output})
    result = denoise_image(read_image(noisy, as_stored=True), verbose=1, **given(settings))
    write_image(output, result.image)
    click.echo(f"Noise with a standard deviation of {result.noise_level:.3g} taken out. Picture written to {output}")
