"""Picking experiments and benchmarks by name."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

Value = TypeVar("Value")


def choose(kind: str, names: Sequence[str], known: Mapping[str, Value]) -> dict[str, Value]:
    """The values of `names`, each once and in the order given; all that are known where no name is given."""
    for name in names:
        if name not in known:
            raise ValueError(f"There is no {kind} {name!r}. Known are: {', '.join(known)}.")
    return {name: known[name] for name in names or known}
