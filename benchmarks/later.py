"""What is to be said of records that are older than a title or a setting; the records themselves stay as they are.

Rows keep their figures under the titles that they have now. Where a setting changed, and the row was not run again,
RESULTS.md says so until a newer commit has run it.
"""

import re
from typing import NamedTuple

# in the records when the changes below were made: what newer commits measure is not older than they
COMMITS: frozenset[str] = frozenset(
    ("0569b54", "16ca723", "2f04413", "5ce7891", "825d1a6", "936b674", "969bd0a", "9c95db6", "e85ac45")
)
_LEARNED = "(ours: 60 iterations, a GP of at most 128 pivots, its kernel fitted to 300 points)"


class Retitled(NamedTuple):
    """Rows of an experiment by a part of their old titles, and what stands there now."""

    experiment: str
    old: str
    new: str


class Changed(NamedTuple):
    """Rows whose setting changed after they were run."""

    words: str
    rows: dict[str, str]  # experiments, and a part of the titles there


RETITLED = (
    Retitled("gsc-directions", r"^(Cauchy|Laplace), (D=H=\d+)$", r"\1, \2 (ours: factored in place of MTMKL)"),
    Retitled("gsc-separation", r"\(ours: other data\)$", "(ours: other data, factored in place of MTMKL)"),
    Retitled("gps-sparse-coding", r"^([a-z -]+), (linear|rbf|composition)$", rf"\1, \2 {_LEARNED}"),
    Retitled("gps-sparse-coding", r"^nonlinear spike-slab, model-based$", r"\g<0> (ours: 60 iterations)"),
)
CHANGED = (
    Changed(
        "when `monotone=False` still went back to the largest free energy of a fit that fell",
        {
            **dict.fromkeys(("gsc-consistency", "gsc-directions", "gsc-separation", "gsc-tradeoff"), ""),
            **dict.fromkeys(("gsc-posterior", "gsc-selection", "gsc-table1"), ""),
            "gsc-denoise": "H=",  # all but the rival
        },
    ),
    Changed("with 18 (9) instead of 20 (10) iterations at the first temperature", {"et-linca-speech": ""}),
    Changed(
        "by the GP on noisy images, not by that with an incomplete Cholesky",
        {"gps-occlusion": "^selection of the whole"},
    ),
)


def retitled(record: dict) -> dict:
    """A record with its rows under the titles of today."""
    rules = [rule for rule in RETITLED if rule.experiment == record.get("experiment")]
    if not rules:
        return record

    def now(title: str) -> str:
        for rule in rules:
            title = re.sub(rule.old, rule.new, title)
        return title

    earlier = [{**run, "settings": [now(title) for title in run["settings"]]} for run in record.get("earlier", [])]
    rows = [{**row, "setting": now(row["setting"])} for row in record["rows"]]
    not_run = [now(title) for title in record.get("not_run", [])]
    return {**record, "rows": rows, "not_run": not_run, **({"earlier": earlier} if earlier else {})}


def outdated(record: dict) -> dict[str, list[str]]:
    """The settings of rows that are older than a change, by what is to be said of them."""
    origin = {title: run["made_with"]["commit"] for run in record.get("earlier", []) for title in run["settings"]}
    found: dict[str, list[str]] = {}
    for setting in dict.fromkeys(row["setting"] for row in record["rows"]):
        made_by = origin.get(setting, record["made_with"]["commit"])
        for change in CHANGED:
            part = change.rows.get(record["experiment"])
            if part is not None and re.search(part, setting) and set(made_by.split(" / ")) & COMMITS:
                found.setdefault(change.words, []).append(setting)
    return found
