"""What a command says: sentences for a person or, with --json, one JSON object for a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
_JSON, _FACTS, _STDOUT_TAKEN = "multicause.json", "multicause.facts", "multicause.stdout"


def json_option(command: Command) -> Command:
    """The option --json of a command, which `say`, `show` and `finish` then heed."""

    def remember(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
        ctx.meta[_JSON] = value

    told = "Print one JSON object instead of sentences."
    return click.option("--json", is_flag=True, expose_value=False, is_eager=True, callback=remember, help=told)(
        command
    )


def wants_json() -> bool:
    return bool(_meta().get(_JSON))


def data_on_stdout() -> None:
    """Standard output is for data: what is said goes to standard error."""
    _meta()[_STDOUT_TAKEN] = True


def say(sentence: str, **facts: Any) -> None:
    """Print a sentence, or keep its facts for the JSON object."""
    _facts().update(facts)
    if not wants_json():
        click.echo(sentence, err=bool(_meta().get(_STDOUT_TAKEN)))


def show(title: str, pairs: Iterable[tuple[str, Any]], key: str | None = None) -> None:
    """Print a table of names and values, or keep them, under `key` where it is given."""
    from multicause.cli.console import print_pairs

    listed = list(pairs)
    facts = {name.replace(" ", "_"): value for name, value in listed}
    _facts().update(facts if key is None else {key: facts})
    if not wants_json():
        print_pairs(title, listed, to_stderr=bool(_meta().get(_STDOUT_TAKEN)))


def finish() -> None:
    """Print the JSON object, where it is asked for."""
    if wants_json():
        click.echo(json.dumps(_facts(), default=plain), err=bool(_meta().get(_STDOUT_TAKEN)))


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's; anything else as text, rather than lose the result of a long run."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _meta() -> dict[str, Any]:
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta


def _facts() -> dict[str, Any]:
    return _meta().setdefault(_FACTS, {})
