"""`multicause sample`: draw data from a model."""

from pathlib import Path

import click

from multicause.cli.inputs import column_names, load
from multicause.cli.parameters import INPUT, OutputTable, refuse_equal


@click.command("sample")
@click.argument("model", type=INPUT)
@click.option("-n", "--samples", type=click.IntRange(min=1), required=True, help="Number of data points.")
@click.option("-o", "--output", type=OutputTable(), required=True, help="Table to write.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed of the draw.")
@click.option("--states", type=OutputTable(), metavar="OUT", help="Also write the causes behind each data point.")
def command(model: Path, samples: int, output: Path, seed: int | None, states: Path | None) -> None:
    """Draw data points from MODEL."""
    from multicause.tables import write_table

    refuse_equal({"MODEL": model, "--output": output, "--states": states})
    estimator = load(model)
    X, S = estimator.sample(samples, random_state=seed)
    write_table(output, X, column_names(estimator))
    if states is not None:
        write_table(states, S, list(estimator.get_feature_names_out()))
    click.echo(f"{len(X)} data points written to {output}")
