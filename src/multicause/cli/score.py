"""`multicause score`: the likelihood of a table of data under a model."""

from pathlib import Path

import click

from multicause.cli.inputs import load, read_data_for
from multicause.cli.outputs import write_out
from multicause.cli.parameters import INPUT, InputFile, OutputTable, check_files, device_option, force_option, move_to
from multicause.cli.telling import finish, json_option, say

EXAMPLES = """\b
Examples:
  multicause score model.safetensors held-out.csv
  multicause score model.safetensors data.csv --per-sample each.csv
  multicause score model.safetensors data.csv --json | jq .score
"""


@click.command("score", epilog=EXAMPLES)
@click.argument("model", type=INPUT)
@click.argument("data", type=InputFile("table"))
@click.option(
    "--per-sample", type=OutputTable(), metavar="OUT", help="Also write the value of each row; - is standard output."
)
@device_option
@force_option
@json_option
def command(model: Path, data: Path, device: str | None, per_sample: Path | None) -> None:
    """Print the mean log-likelihood of the rows of DATA.

    It is a lower bound if the model's posterior is truncated.
    """
    check_files({"MODEL": model, "DATA": data}, {"--per-sample": per_sample})
    estimator = load(model)
    move_to(estimator, device)
    values = estimator.score_samples(read_data_for(estimator, data))
    if per_sample is not None:
        write_out(per_sample, values, ["log_likelihood"])
    kind = "log-likelihood" if hasattr(estimator, "projection_index_") else "truncated log-likelihood"
    told = f"Mean {kind} per data point: {values.mean():.8g} nats ({len(values)} data points)"
    say(told, score=float(values.mean()), rows=len(values), kind=kind)
    finish()
