"""`multicause transform`: posterior means of the latents, or the data without its noise."""

from pathlib import Path

import click

from multicause.cli.inputs import column_names, load, read_data_for
from multicause.cli.outputs import named, write_out
from multicause.cli.parameters import INPUT, InputFile, OutputTable, check_files, device_option, force_option, move_to
from multicause.cli.telling import finish, json_option, say

EXAMPLES = """\b
Examples:
  multicause transform model.safetensors data.csv -o latents.csv
  multicause transform model.safetensors data.csv -o clean.parquet --reconstruct
  cat data.csv | multicause transform model.safetensors - -o - | head
"""


@click.command("transform", epilog=EXAMPLES)
@click.argument("model", type=INPUT)
@click.argument("data", type=InputFile("table"))
@click.option("-o", "--output", type=OutputTable(), required=True, help="Table to write; - is standard output.")
@click.option("--reconstruct", is_flag=True, help="Write the reconstructed data, without noise, instead.")
@device_option
@force_option
@json_option
def command(model: Path, data: Path, output: Path, device: str | None, reconstruct: bool) -> None:
    """Write the posterior means of the latents of each row of DATA."""
    check_files({"MODEL": model, "DATA": data}, {"--output": output})
    estimator = load(model)
    move_to(estimator, device)
    X = read_data_for(estimator, data)
    if reconstruct:
        values, names = estimator.reconstruct(X), column_names(estimator)
    else:
        values, names = estimator.transform(X), list(estimator.get_feature_names_out())
    write_out(output, values, names)
    rows, columns = values.shape
    say(f"{rows} rows and {columns} columns written to {named(output)}", output=output, rows=rows, columns=columns)
    finish()
