"""`multicause fit`: learn the causes of a table of data."""

from __future__ import annotations

import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from multicause import interrupts
from multicause.cli.fit_report import check_shape, shape_option, this_command, write_page
from multicause.cli.inputs import read_data
from multicause.cli.parameters import (
    AT_LEAST_ONE,
    STREAM,
    CheckpointInterval,
    InputFile,
    OutputFile,
    check_files,
    device_option,
    force_option,
    given,
    seed_option,
    threads_option,
)
from multicause.cli.telling import finish, json_option, say, show

if TYPE_CHECKING:
    import numpy as np

MODELS = ("linca", "etnmf", "gsc", "nonlinear-gsc", "mca", "mca3", "restricted-mca", "upoe")
OF_SEVERAL_NOISES = ("etnmf", "gsc", "mca")
OF_DEVICES = ("linca", "etnmf", "gsc", "mca")
OF_ALL_STATES = {"mca3": "three", "restricted-mca": "two"}  # most active latents; all states are weighed

_OF_SELECTION = {
    "n_candidates": "--candidates and no --exact",
    "max_active": "--max-active",
    "selection": "--learn-selection",
}


EXAMPLES = """\b
Examples:
  multicause fit data.csv -n 20 --restarts 5 --seed 0 -o model.safetensors --report fit.html
  multicause fit counts.csv --model etnmf --noise poisson -n 10 --hold-out 0.2
  multicause fit eeg.csv --model upoe -o ica.safetensors
  multicause fit large.h5:/patches -n 256 --checkpoint run.checkpoint
  cat data.csv | multicause fit - -n 20 -o model.safetensors --json
"""


@click.command("fit", epilog=EXAMPLES)
@click.argument("data", type=InputFile("table"))
@click.option("-o", "--output", type=OutputFile(), help="Model file. [default: DATA's name, .multicause.safetensors]")
@click.option("--model", type=click.Choice(MODELS), default="linca", show_default=True, help="Model to fit.")
@click.option(
    "-n",
    "--components",
    "n_components",
    type=AT_LEAST_ONE,
    help="Number of components. [default: number of columns; upoe: as many as raise the likelihood]",
)
@click.option("--candidates", "n_candidates", type=AT_LEAST_ONE, help="Latents considered per data point (H').")
@click.option("--learn-selection", is_flag=True, help="Learn the selection of the latents to consider (GPSelect).")
@click.option("--exact", is_flag=True, help="Use the exact posterior, over all combinations of latents.")
@click.option("--noise", metavar="NOISE", help="Noise of etnmf, mca or gsc, such as poisson, bernoulli or diagonal.")
@click.option("--allow-negative", is_flag=True, help="Accept data with negative entries (etnmf).")
@click.option("--max-active", type=AT_LEAST_ONE, help="Largest number of active latents (gamma).")
@click.option("--iterations", "max_iter", type=AT_LEAST_ONE, help="Largest number of EM iterations.")
@click.option("--tol", type=click.FloatRange(min=0.0), help="Stop when the free energy per data point rises by less.")
@click.option("--restarts", "n_init", type=AT_LEAST_ONE, help="Fits from different starts; the best is kept.")
@click.option("--anneal", type=float, metavar="T_INITIAL", help="Cool from this temperature to 1.")
@seed_option
@threads_option
@device_option
@click.option("--scheduler", metavar="ADDRESS", help="Run on this Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option("--trace", type=OutputFile(), metavar="FILE.jsonl", help="Write one line of JSON per iteration.")
@click.option(
    "--checkpoint",
    type=OutputFile(),
    metavar="FILE",
    help="File that a fit can be resumed from. [default with --resume: OUTPUT.checkpoint]",
)
@click.option(
    "--checkpoint-every",
    type=CheckpointInterval(),
    default="30s",
    show_default=True,
    metavar="N|SECONDSs",
    help="Iterations, or seconds, between checkpoints.",
)
@click.option("--resume", is_flag=True, help="Resume from the checkpoint, if there is one, as if never interrupted.")
@click.option("--report", type=OutputFile(), metavar="FILE.html", help="Write an HTML page with figures of the fit.")
@click.option(
    "--hold-out",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    metavar="SHARE",
    help="Share of the rows, drawn at random, to hold out of the fit and score.",
)
@shape_option
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    data: Path,
    output: Path | None,
    trace: Path | None,
    checkpoint: Path | None,
    checkpoint_every: int | str,
    resume: bool,
    report: Path | None,
    hold_out: float | None,
    shape: tuple[int, ...] | None,
    scheduler: str | None,
    **settings: Any,
) -> None:
    """Learn the causes of DATA and save them as a model file."""
    from multicause.report import Origin

    output = output or Path(f"{'data' if data == STREAM else data.stem}.multicause.safetensors")
    if resume and checkpoint is None:
        checkpoint = output.with_name(f"{output.name}.checkpoint")
    outputs = {"--output": output, "--trace": trace, "--checkpoint": checkpoint, "--report": report}
    check_files({"DATA": data}, outputs, replaced=tuple(outputs) if resume else ())
    if scheduler is not None and settings["model"] == "upoe":
        raise click.UsageError("--model upoe holds its data in one process: leave out --scheduler.")
    keeping = {"trace": trace, "checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
    with interrupts.watched(signal.SIGTERM) as watch:  # which ends a fit as Ctrl-C does, its last iteration kept
        estimator = _estimator(**settings)
        X, names = read_data(data, estimator)
        _tell_of_gaps(data, X)
        _tell_of_checkpoint(checkpoint, resume)
        check_shape(shape, X.shape[1])
        X, held_out = _split(X, hold_out, settings["random_state"])
        _learn(estimator, X, names, {**keeping, "executor": scheduler})
        _save(estimator, data, output, held_out)
        if report is not None:
            origin = Origin(this_command(), str(data), hold_out, settings["random_state"], str(output))
            write_page(report, data.name, estimator, X, held_out=held_out, shape=shape, origin=origin)
        finish()
        interrupted = _was_interrupted(estimator) or watch.take() is not None
    if interrupted:
        ctx.exit(128 + (watch.received[-1] if watch.received else signal.SIGINT))


def _was_interrupted(estimator: Any) -> bool:
    from multicause.learning.stopping import Stop

    return estimator.stop_ is Stop.INTERRUPTED


def _split(X: np.ndarray, share: float | None, seed: int | None) -> tuple[np.ndarray, np.ndarray | None]:
    """The rows to learn from, and those held out."""
    if share is None:
        return X, None
    from sklearn.model_selection import train_test_split

    learned, held_out = train_test_split(X[:], test_size=share, random_state=seed)
    return learned, held_out


def _save(estimator: Any, data: Path, output: Path, held_out: np.ndarray | None) -> None:
    from multicause.persistence import save_model

    save_model(estimator, output)
    pairs = summary(estimator)
    if held_out is not None:
        pairs.append((f"score of {len(held_out)} held-out rows", estimator.score(held_out)))
    show(f"{type(estimator).__name__} of {data}", pairs)
    say(f"Model saved to {output}", model=output, estimator=type(estimator).__name__)


def _estimator(
    model: str, anneal: float | None, exact: bool, allow_negative: bool, learn_selection: bool, **settings: Any
) -> Any:
    """The estimator with the settings that were given; all others keep their own defaults."""
    with interrupts.held():  # an import that breaks off may leave more than a traceback
        from multicause import ETNMF, GSC, MCA, MCA3, LinCA, NonlinearGSC, RestrictedMCA, UPoE
        from multicause.learning import Annealing, ConditionalCooling

    chosen = given(settings)
    if learn_selection:
        from multicause.selection import GPSelect

        chosen["selection"] = GPSelect()
    if exact:
        chosen["n_candidates"] = None
    if model in OF_ALL_STATES:
        _refuse_truncation(model, chosen)
    if "device" in chosen and model not in OF_DEVICES:
        raise click.UsageError(f"--model {model} runs on the CPU only: leave out --device.")
    if "noise" in chosen and model not in OF_SEVERAL_NOISES:
        raise click.UsageError(f"--model {model} has one kind of noise: leave out --noise.")
    if model == "nonlinear-gsc" and "max_active" in chosen:
        raise click.UsageError("--model nonlinear-gsc samples any number of active latents: leave out --max-active.")
    if model == "upoe":
        _refuse_selection(chosen, anneal)
    if allow_negative and model == "etnmf":
        chosen["allow_negative"] = True
    if anneal is not None and model in OF_ALL_STATES:
        chosen["cooling"] = ConditionalCooling(initial=anneal, final=1.0)
    elif anneal is not None:
        chosen["annealing"] = Annealing(initial=anneal)
    estimators = (LinCA, ETNMF, GSC, NonlinearGSC, MCA, MCA3, RestrictedMCA, UPoE)
    return dict(zip(MODELS, estimators, strict=True))[model](verbose=1, **chosen)


def _refuse_truncation(model: str, chosen: dict[str, Any]) -> None:
    """Models that weigh all states of few active latents neither preselect candidates nor stop by the free energy."""
    options = {**_OF_SELECTION, "tol": "--tol"}
    for name, option in options.items():
        if name in chosen:
            raise click.UsageError(
                f"--model {model} weighs all states of at most {OF_ALL_STATES[model]} active latents "
                f"until the components converge: it takes no {option}. Leave it out, or use --model mca."
            )


def _refuse_selection(chosen: dict[str, Any], anneal: float | None) -> None:
    """Projections are functions of the data: nothing is selected, and nothing annealed."""
    unwanted = [option for name, option in _OF_SELECTION.items() if name in chosen] + ["--anneal"] * (
        anneal is not None
    )
    if unwanted:
        raise click.UsageError(
            "--model upoe has projections instead of latents that are on or off: "
            f"it takes no {unwanted[0]}. Leave it out."
        )


def _tell_of_gaps(data: Path, X: np.ndarray) -> None:
    import numpy as np

    n_missing = int(np.isnan(X).sum()) if isinstance(X, np.ndarray) else 0
    if n_missing:
        verb = "is" if n_missing == 1 else "are"
        say(
            f"{n_missing:,} of {X.size:,} entries of {data} {verb} missing: the fit goes by the others.",
            missing=n_missing,
        )


def _tell_of_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    if checkpoint is not None and resume:
        found = checkpoint.exists()
        say(f"Going on from {checkpoint}" if found else f"There is no {checkpoint} yet: the fit starts anew.")


def _learn(estimator: Any, X: np.ndarray, names: list[str] | None, keeping: dict[str, Any]) -> None:
    """Fit; when interrupted, keep what the completed iterations learned, if there are any."""
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the summary says why the fit ended
        try:
            estimator.fit(X, **keeping)
        except KeyboardInterrupt:
            if not hasattr(estimator, "components_"):
                raise
    of_this_run = {"verbose": 0, "n_jobs": None, "device": "cpu"}  # and not of the model
    known = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in of_this_run.items() if name in known})
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def summary(estimator: Any) -> list[tuple[str, Any]]:
    """What a person wants to know of a fit at first sight, in the words of the command line."""
    from multicause.report.learned import summary

    shown = dict(summary(estimator))
    shown["stopped because"] = shown["stopped because"].replace("max_iter or tol", "--iterations or --tol")
    return list(shown.items())
