"""The command line, `multicause ...`. Command modules import NumPy and the models only when they run."""

import click

from multicause import __version__
from multicause.cli import (
    bench,
    demo,
    denoise,
    doctor,
    fit,
    inpaint,
    report,
    reproduce,
    sample,
    score,
    separate,
    transform,
)
from multicause.cli.errors import OneLineErrors

__all__ = ["main"]


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="multicause")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Learn the few hidden causes behind each data point.

    Tables of data are .npy, .npz, .csv or .parquet files with a data point per row.
    """


for _module in (demo, fit, transform, score, sample, denoise, inpaint, separate, report, reproduce, bench, doctor):
    main.add_command(_module.command)
