"""The command line, `multicause ...`. Command modules import NumPy and the models only when they run."""

import click

from multicause import __version__
from multicause.cli import (
    bench,
    completion,
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

    Tables of data are .npy, .npz, .csv, .parquet, .h5, .h5ad or .zarr files with a data point per row; - is standard
    input or output. Files that are there already are replaced with --force only. With --json a command prints one
    object for programs.

    The exit code is 0 when all went well, 2 for a mistake in what was given, 1 where an experiment, a benchmark or the
    self-test fell short, and 130 after Ctrl-C.
    """


_OF_MODELS = (demo, fit, transform, score, sample, report)
_OF_FILES = (denoise, inpaint, separate)
_OF_THE_PACKAGE = (reproduce, bench, doctor, completion)
for _module in (*_OF_MODELS, *_OF_FILES, *_OF_THE_PACKAGE):
    main.add_command(_module.command)
