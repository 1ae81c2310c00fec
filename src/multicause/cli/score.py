"""`multicause score`: how likely a model finds a table of data."""

from pathlib import Path

import click

from multicause.cli.inputs import load, read_data_for
from multicause.cli.parameters import DEVICE, DEVICE_HELP, INPUT, OutputTable, move_to, refuse_equal


@click.command("score")
@click.argument("model", type=INPUT)
@click.argument("data", type=INPUT)
@click.option("--per-sample", type=OutputTable(), metavar="OUT", help="Also write the value of each row.")
@click.option("--device", type=DEVICE, help=DEVICE_HELP)
def command(model: Path, data: Path, device: str | None, per_sample: Path | None) -> None:
    """Print the mean log-likelihood of the rows of DATA, truncated where the model's posterior is."""
    from multicause.tables import write_table

    refuse_equal({"MODEL": model, "--per-sample": per_sample})
    refuse_equal({"DATA": data, "--per-sample": per_sample})
    estimator = load(model)
    move_to(estimator, device)
    values = estimator.score_samples(read_data_for(estimator, data))
    if per_sample is not None:
        write_table(per_sample, values, ["log_likelihood"])
    kind = "log-likelihood" if hasattr(estimator, "projection_index_") else "truncated log-likelihood"
    click.echo(f"Mean {kind} per data point: {values.mean():.8g} nats ({len(values)} data points)")
