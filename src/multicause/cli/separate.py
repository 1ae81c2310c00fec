"""`multicause separate`: the sources of a recording with several channels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from multicause.cli.parameters import (
    AT_LEAST_ONE,
    InputFile,
    check_files,
    device_option,
    force_option,
    given,
    seed_option,
    threads_option,
)
from multicause.cli.telling import finish, json_option, say

LOUDEST = 0.95  # of what a sound file can hold
EXAMPLES = """\b
Examples:
  multicause separate mix.wav
  multicause separate meeting.flac -n 3 --restarts 5 --seed 0 -o speakers
"""


@click.command("separate", epilog=EXAMPLES)
@click.argument("mixture", type=InputFile("sound"))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. [default: MIXTURE's name, -sources]",
)
@click.option("-n", "--sources", "n_sources", type=AT_LEAST_ONE, help="Number of sources. [default: channels]")
@click.option("--iterations", "max_iter", type=AT_LEAST_ONE, help="Most EM iterations.")
@click.option("--restarts", "n_init", type=AT_LEAST_ONE, help="Fits from different starts; the best is kept.")
@seed_option
@threads_option
@device_option
@force_option
@json_option
def command(mixture: Path, output: Path | None, **settings: Any) -> None:
    """Separate the sources in the recording MIXTURE.

    MIXTURE is a .wav or .flac file with at least two channels. Writes source1.wav, source2.wav, ..., the loudest first,
    each at full volume, and mixing.csv: the contribution of each source, at unit variance, to each channel.
    """
    from multicause.media import read_audio, write_audio
    from multicause.tables import TableError, write_table
    from multicause.tasks import separate_sources

    samples, rate = read_audio(mixture)
    if samples.ndim == 1:
        raise TableError(
            f"'{mixture}' has one channel, and a single channel cannot be separated. Give a recording with several."
        )
    output = output or Path(f"{mixture.stem}-sources")
    names = [f"source{h}" for h in range(1, (settings["n_sources"] or samples.shape[1]) + 1)]
    sounds: dict[str, Path | None] = {f"the output {name}": output / f"{name}.wav" for name in names}
    check_files({"MIXTURE": mixture}, {**sounds, "the output mixing.csv": output / "mixing.csv"})
    result = separate_sources(samples, verbose=1, **given(settings))
    output.mkdir(parents=True, exist_ok=True)
    for name, source in zip(names, result.sources.T, strict=True):
        loudness = abs(source).max()
        write_audio(output / f"{name}.wav", source * (LOUDEST / loudness if loudness > 0.0 else 0.0), rate)
    write_table(output / "mixing.csv", result.mixing, names)
    told = f"{len(names)} sources of {samples.shape[1]} channels written to {output}"
    say(told, output=output, sources=[str(output / f"{name}.wav") for name in names], mixing=result.mixing)
    finish()
