"""What a table of constants is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multicause.experiments.experiment import OTHER_DATA

OF_ANY_FIT = ("init", "n_jobs", "random_state", "verbose", "warm_start")


@dataclass(frozen=True)
class Constants:
    """What a paper says of an experiment."""

    where: str  # section, figure, table or equation
    shared: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by title
    trials: int | None = None  # None: the paper gives no number
    other_trials: Mapping[str, int | None] = field(default_factory=dict)  # of some rows
    silent: tuple[str, ...] = ()

    def of(self, title: str) -> dict[str, Any]:
        """A fit is a single one unless the paper says otherwise."""
        return {"n_init": 1, **self.shared, **self.rows[title]}

    def trials_of(self, title: str) -> int | None:
        return self.other_trials.get(title, self.trials)


def on_other_data(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{title} {OTHER_DATA}": differs for title, differs in rows.items()}
