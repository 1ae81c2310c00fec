"""Picking experiments and benchmarks by name."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Value = TypeVar("Value")


def choose(kind: str, names: Sequence[str], known: Mapping[str, Value]) -> dict[str, Value]:
    """The values of `names`, each once and in the order given; all that are known where no name is given."""
    for name in names:
        if name not in known:
            raise ValueError(f"There is no {kind} {name!r}. Known are: {', '.join(known)}.")
    return {name: known[name] for name in names or known}


def names_of(module: str, table: str) -> Callable[[Any, Any, str], list[str]]:
    """What completes the beginning of a name, from a table that is imported only then."""

    def complete(ctx: Any, parameter: Any, incomplete: str) -> list[str]:
        known = getattr(importlib.import_module(module), table)
        return [name for name in known if name.startswith(incomplete)]

    return complete
