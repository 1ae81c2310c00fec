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

    Tables are .npy, .npz, .csv, .parquet, .h5, .h5ad or .zarr files with one data point per row; - is standard input
    or output. Existing files are overwritten only with --force. With --json a command prints a single JSON object.

    The exit code is 0 on success, 2 if the arguments or the data are wrong, 1 if an experiment, a benchmark or the
    self-test fell short, and 130 after Ctrl-C.
    """


_OF_MODELS = (demo, fit, transform, score, sample, report)
_OF_FILES = (denoise, inpaint, separate)
_OF_THE_PACKAGE = (reproduce, bench, doctor, completion)
for _module in (*_OF_MODELS, *_OF_FILES, *_OF_THE_PACKAGE):
    main.add_command(_module.command)
