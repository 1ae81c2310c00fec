"""`multicause sample`: draw data from a model."""

from pathlib import Path

import click

from multicause.cli.inputs import column_names, load
from multicause.cli.outputs import named, write_out
from multicause.cli.parameters import INPUT, SEED, OutputTable, check_files, force_option
from multicause.cli.telling import finish, json_option, say

EXAMPLES = """\b
Examples:
  multicause sample model.safetensors -n 100 -o new.csv --seed 0
  multicause sample model.safetensors -n 100 -o - --states causes.csv | head
"""


@click.command("sample", epilog=EXAMPLES)
@click.argument("model", type=INPUT)
@click.option("-n", "--samples", type=click.IntRange(min=1), required=True, help="Number of data points.")
@click.option("-o", "--output", type=OutputTable(), required=True, help="Table to write; - is standard output.")
@click.option("--seed", type=SEED, help="Seed of the random numbers.")
@click.option(
    "--states", type=OutputTable(stream=False), metavar="OUT", help="Also write the latents of each data point."
)
@force_option
@json_option
def command(model: Path, samples: int, output: Path, seed: int | None, states: Path | None) -> None:
    """Draw data points from MODEL."""
    check_files({"MODEL": model}, {"--output": output, "--states": states})
    estimator = load(model)
    X, S = estimator.sample(samples, random_state=seed)
    write_out(output, X, column_names(estimator))
    if states is not None:
        write_out(states, S, list(estimator.get_feature_names_out()))
    say(f"{len(X)} data points written to {named(output)}", output=output, rows=len(X), states=states)
    finish()
