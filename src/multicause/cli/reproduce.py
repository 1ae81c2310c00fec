"""`multicause reproduce`: run the papers' experiments and compare with the published figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from multicause.cli.choosing import choose, names_of
from multicause.cli.console import print_table, shown, verdict
from multicause.cli.errors import describe
from multicause.cli.fit_report import this_command
from multicause.cli.parameters import check_files, force_option
from multicause.cli.pictures import write_png
from multicause.cli.telling import finish, json_option, plain, say, wants_json

EXAMPLES = """\b
Examples:
  multicause reproduce --list
  multicause reproduce et-linca-bars --quick
  multicause reproduce gsc-denoise --full -o results --jobs 4
"""


@click.command("reproduce", epilog=EXAMPLES)
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=names_of("multicause.experiments", "EXPERIMENTS")
)
@click.option("--all", "everything", is_flag=True, help="Run all experiments, as without a NAME.")
@click.option("--list", "list_only", is_flag=True, help="List the experiments, or the rows of the named ones.")
@click.option("-o", "--output", type=click.Path(path_type=Path), default="results", show_default=True, help="Folder.")
@click.option("--trials", type=click.IntRange(min=1), help="Trials per setting. [default: the paper's]")
@click.option("--jobs", type=click.IntRange(min=1), help="Trials run at once. [default: one per core]")
@click.option(
    "--components", type=click.IntRange(min=1), help="Number of components, in experiments that leave it open."
)
@click.option("--quick", is_flag=True, help="Run a small version, to check that it works.")
@click.option("--full", is_flag=True, help="The papers' sizes and numbers of trials, where the default is smaller.")
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], everything: bool, list_only: bool, output: Path, **options: Any
) -> None:
    """Run the experiments NAME..., or all of them.

    Writes NAME.json, NAME.png and a page, NAME.html, to a folder. The exit code is 1 if a published figure is neither
    met nor within noise, and 2 if an experiment lacks its data.
    """
    from multicause.datasets import DatasetNotFound
    from multicause.experiments import EXPERIMENTS, Options, Verdict

    if everything and names:
        raise ValueError(f"--all runs every experiment. Leave it out to run {', '.join(names)}.")
    if options["quick"] and options["full"]:
        raise ValueError("--quick and --full ask for different sizes. Give one of them.")
    experiments = choose("experiment", names, EXPERIMENTS)
    if list_only:
        _list(experiments, with_rows=bool(names))
        finish()
        return
    files = {name: output / f"{_file_name(name, options['components'])}.json" for name in experiments}
    check_files({}, dict(files))
    output.mkdir(parents=True, exist_ok=True)
    codes = [0]
    for experiment in experiments.values():
        try:
            result = experiment.run(Options(report=_report, **options))
        except DatasetNotFound as error:
            click.echo(f"Error: {experiment.name} was skipped. {describe(error)}", err=True)
            codes.append(2)
            continue
        _write(output, _file_name(experiment.name, options["components"]), experiment, result)
        _tell(experiment, result)
        codes.append(int(any(row.verdict is Verdict.SHORT for row in result.rows)))
    say(f"Results written to {output}", output=output)
    finish()
    ctx.exit(max(codes))


KINDS = ("as in the paper", "on other data", "ours")
ONLY_FULL = "with --full"


def _list(experiments: dict[str, Any], with_rows: bool) -> None:
    """The experiments with the number of rows of each kind, those of --full after a plus; or the rows of some."""
    if wants_json():
        say("", experiments={name: {"title": each.title, "paper": each.paper} for name, each in experiments.items()})
        return
    if not with_rows:
        lines = [(name, each.title, each.paper, *_counts(each)) for name, each in experiments.items()]
        title = "Experiments, and their rows (+ further ones with --full)"
        print_table(title, ("name", "title", "paper", *KINDS), lines)
        return
    for name, experiment in experiments.items():
        titles = _titles(experiment)
        for kind in KINDS:
            if titles[kind]:
                print_table(f"{name}: {kind}", ("setting", "run"), titles[kind])


def _counts(experiment: Any) -> tuple[str, ...]:
    return tuple(_count([run for _, run in titles]) for titles in _titles(experiment).values())


def _count(runs: list[str]) -> str:
    further = runs.count(ONLY_FULL)
    return f"{len(runs) - further}{f' + {further}' if further else ''}" if runs else "-"


def _titles(experiment: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of each kind, and when they are run."""
    from multicause.experiments import Options

    titles: dict[str, list[tuple[str, str]]] = {kind: [] for kind in KINDS}
    usual = {row.title: row for row in experiment.table(Options())}
    further = {row.title: row for row in experiment.table(Options(full=True)) if row.title not in usual}
    for title, row in {**usual, **further}.items():
        kind = KINDS[2 if not row.follows_paper else 1 if row.ours else 0]
        titles[kind].append((title, ONLY_FULL if title in further else ""))
    return titles


def _report(line: str) -> None:
    click.echo(line, err=True)


def _file_name(name: str, components: int | None) -> str:
    return name if components is None else f"{name}-components-{components}"


def _write(folder: Path, name: str, experiment: Any, result: Any) -> None:
    from multicause.files import atomic_write

    text = json.dumps(result.to_json(), indent=2, default=plain)
    atomic_write(folder / f"{name}.json", f"{text}\n".encode())
    _write_page(folder / f"{name}.html", experiment, result)
    if result.figure is not None:
        write_png(folder / f"{name}.png", result.figure)


def _write_page(path: Path, experiment: Any, result: Any) -> None:
    """The findings beside the published figures, with the experiment's picture and the command that repeats it."""
    from multicause.report import Section, write_report

    verdicts = [row.verdict.value for row in result.rows if row.verdict is not None]
    counted = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)) or "none to compare with"
    told = f"From {experiment.paper}. It took {result.seconds:.1f} s. Published figures: {counted}."
    table = [HEADER, *((*cells, word.plain) for *cells, word in _lines(result))]
    sections = [
        Section("Measured and published", told, table=table),
        *([] if result.figure is None else [Section("Picture", figure=result.figure)]),
        Section("To repeat it", code=this_command(), table=list(result.to_json()["made_with"].items())),
    ]
    write_report(path, f"{experiment.name}: {experiment.title}", sections)


HEADER = ("setting", "measure", "published, or aim", "measured", "verdict")


def _tell(experiment: Any, result: Any) -> None:
    if wants_json():
        say("", **{experiment.name: result.to_json()})
        return
    title = f"{experiment.name}: {experiment.title} ({experiment.paper}), {result.seconds:.1f} s"
    print_table(title, HEADER, _lines(result))


def _lines(result: Any) -> list[tuple[Any, ...]]:
    """The findings, those with the paper's settings first."""
    return [
        (row.setting, row.measure, row.published, _ours(row), verdict(row.verdict and row.verdict.value))
        for row in sorted(result.rows, key=lambda row: row.ours)
    ]


def _ours(row: Any) -> str:
    """What was measured, with its interval: in per cent where the published figure is, or shares are measured."""
    is_share = "%" in row.published or row.measure.startswith(("reliability", "share"))
    number = _per_cent if is_share else "{:.4g}".format
    measured = _per_cent(row.measured) if is_share else shown(float(row.measured))
    return measured if row.interval is None else f"{measured} [{', '.join(number(end) for end in row.interval)}]"


def _per_cent(share: float) -> str:
    return f"{100.0 * share:.3g}%"
