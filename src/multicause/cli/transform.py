"""`multicause transform`: posterior means of the latents, or the data without its noise."""

from pathlib import Path

import click

from multicause.cli.inputs import column_names, load, read_data_for
from multicause.cli.parameters import DEVICE, DEVICE_HELP, INPUT, OutputTable, move_to, refuse_equal


@click.command("transform")
@click.argument("model", type=INPUT)
@click.argument("data", type=INPUT)
@click.option("-o", "--output", type=OutputTable(), required=True, help="Table to write.")
@click.option("--device", type=DEVICE, help=DEVICE_HELP)
@click.option("--reconstruct", is_flag=True, help="Write the data that the latents explain, without noise.")
def command(model: Path, data: Path, output: Path, device: str | None, reconstruct: bool) -> None:
    """Write the latents' probabilities, coefficients or projections for each row of DATA."""
    from multicause.tables import write_table

    refuse_equal({"MODEL": model, "--output": output})
    refuse_equal({"DATA": data, "--output": output})
    estimator = load(model)
    move_to(estimator, device)
    X = read_data_for(estimator, data)
    if reconstruct:
        values, names = estimator.reconstruct(X), column_names(estimator)
    else:
        values, names = estimator.transform(X), list(estimator.get_feature_names_out())
    write_table(output, values, names)
    click.echo(f"{values.shape[0]} rows and {values.shape[1]} columns written to {output}")
