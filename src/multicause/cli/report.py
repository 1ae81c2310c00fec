"""`multicause report`: a page about a model that was fitted before."""

from __future__ import annotations

from pathlib import Path

import click

from multicause.cli.fit_report import check_shape, shape_option, write_page
from multicause.cli.inputs import load, read_data_for
from multicause.cli.parameters import INPUT, InputFile, OutputFile, check_files, force_option
from multicause.cli.telling import finish, json_option

EXAMPLES = """\b
Examples:
  multicause report model.safetensors
  multicause report model.safetensors --data data.csv --held-out new.csv -o page.html
  multicause report digits.safetensors --data digits.npy --shape 28x28
"""


@click.command("report", epilog=EXAMPLES)
@click.argument("model", type=INPUT)
@click.option("--data", type=InputFile("table"), help="Table whose reconstructions, posteriors and scores to show.")
@click.option("--held-out", type=InputFile("table"), help="Table that the model has not seen, to score as well.")
@click.option("-o", "--output", type=OutputFile(), help="Page to write. [default: MODEL's name, .html]")
@shape_option
@force_option
@json_option
def command(
    model: Path, data: Path | None, held_out: Path | None, output: Path | None, shape: tuple[int, ...] | None
) -> None:
    """Write an HTML page about MODEL and how it explains data."""
    from multicause.report import Origin

    output = output or Path(f"{model.name.split('.')[0]}.html")
    check_files({"MODEL": model, "--data": data, "--held-out": held_out}, {"--output": output})
    estimator = load(model)
    check_shape(shape, estimator.n_features_in_)
    X, Y = (None if path is None else read_data_for(estimator, path) for path in (data, held_out))
    origin = Origin(data="" if data is None else str(data), model=str(model))
    write_page(output, (data or model).name, estimator, X, held_out=Y, shape=shape, origin=origin)
    finish()
