"""`multicause bench`: measure speed and memory against what is wanted of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from multicause.cli.choosing import choose, names_of
from multicause.cli.console import print_table, verdict
from multicause.cli.parameters import check_files, force_option
from multicause.cli.telling import finish, json_option, say, wants_json

EXAMPLES = """\b
Examples:
  multicause bench --list
  multicause bench linca threads -o records
"""


@click.command("bench", epilog=EXAMPLES)
@click.argument(
    "names", nargs=-1, metavar="[NAME]...", shell_complete=names_of("multicause.experiments.bench", "BENCHMARKS")
)
@click.option("--list", "list_only", is_flag=True, help="List the benchmarks.")
@click.option("--quick", is_flag=True, help="Run a small version, to check that it works.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="cuda: only the benchmarks of an NVIDIA GPU.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Folder to write records to, one bench-NAME.json each."
)
@force_option
@json_option
@click.pass_context
def command(
    ctx: click.Context, names: tuple[str, ...], list_only: bool, quick: bool, device: str | None, output: Path | None
) -> None:
    """Run the benchmarks NAME..., or all of them. The exit code is 1 if one falls short."""
    from multicause.experiments.bench import BENCHMARKS, ON_DEVICES

    if list_only:
        say("\n".join(BENCHMARKS), benchmarks=list(BENCHMARKS))
        finish()
        return
    short, chosen = False, choose("benchmark", names, ON_DEVICES if device == "cuda" else BENCHMARKS)
    check_files({}, {name: output and output / f"bench-{name}.json" for name in chosen})
    for name, benchmark in chosen.items():
        rows = benchmark(quick)
        if output is not None:
            _write(output, name, rows)
        table = [(*said, verdict(_word(met), unknown="for information")) for *said, met in rows]
        if not wants_json():
            print_table(name, ("what", "measured", "wanted", "verdict"), table)
        else:
            say("", **{name: _lines(rows)})
        short = short or any(met is not None and not met for *_, met in rows)
    finish()
    ctx.exit(int(short))


def _write(folder: Path, name: str, rows: list[Any]) -> None:
    from multicause.experiments.provenance import made_with
    from multicause.files import atomic_write

    folder.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": name, "made_with": made_with(), "lines": _lines(rows)}
    text = json.dumps(record, indent=1, default=bool)  # NumPy's truth values are none of JSON's
    atomic_write(folder / f"bench-{name}.json", f"{text}\n".encode())


def _lines(rows: list[Any]) -> list[dict[str, Any]]:
    return [{"what": what, "measured": value, "wanted": wanted, "met": met} for what, value, wanted, met in rows]


def _word(met: bool | None) -> str | None:
    return None if met is None else "met" if met else "short"
