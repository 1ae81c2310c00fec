"""What is to be said of records that are older than a title or a setting; the records themselves stay as they are.

Rows keep their figures under the titles that they have now; those that the experiments no longer have are left out.
Where a setting changed, and the row was not run again, RESULTS.md says so until a newer commit has run it.
"""

import re
from collections.abc import Iterable
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
    Retitled("et-likelihood", r"selection by p\(s_h = 1 \| y\)$", "optimal selection"),
    Retitled("gps-sparse-coding", r"^nonlinear spike-slab, model-based$", r"\g<0> (ours: 60 iterations)"),
)
# rows of ours whose point others make, or the paper's own row, by experiments and a part of their titles
WITHDRAWN = {
    "et-mca-bars": r"best of 3",
    "et-mca-overlap-16": r"^N=800 \(ours",
    "mca-acoustic": r"best of 5",
    "mca-bars": r"best of 5",
    "mca-dense": r"noise 0\.003|rate 0\.5|online first",
    "mca-overcomplete": r"units may swap",
    "mca-overlap-16": r"noise 0\.003|units may swap|online first",
    "mca-overlap-3": r"rate 0\.3",
    "mca-unequal": r"noise 0\.003|best of 5",
    "mca-widths": r"noise 0\.003|units may swap|best of 5",
    "gps-sparse-coding": r"model-based \(ours: best of 5\)",
    "gsc-denoise": r"greedy",
    "gsc-directions": r"=(40|60|80|100) \(ours: annealed",
    "gsc-separation": r"^(?!voices10, noiseless, sigma=[^0]).*\(ours: sigma a variance",
    "gsc-tradeoff": r"^(eeg19|voices20) \(ours: own start",
    "upoe-faces": r"best of 3",
}
CHANGED = (
    Changed("with 18 (9) instead of 20 (10) iterations at the first temperature", {"et-linca-speech": ""}),
    Changed(
        "by the GP on noisy images, not by that with an incomplete Cholesky",
        {"gps-occlusion": "^selection of the whole"},
    ),
)


def of_today(record: dict) -> dict:
    """A record with the rows of today, under the titles of today."""
    name = record.get("experiment")
    rules = [rule for rule in RETITLED if rule.experiment == name]
    withdrawn = WITHDRAWN.get(name or "")
    if not rules and withdrawn is None:
        return record

    def now(titles: Iterable[str]) -> list[str]:
        for rule in rules:
            titles = [re.sub(rule.old, rule.new, title) for title in titles]
        return [title for title in titles if withdrawn is None or not re.search(withdrawn, title)]

    earlier = [{**run, "settings": now(run["settings"])} for run in record.get("earlier", [])]
    earlier = [run for run in earlier if run["settings"]]
    rows = [{**row, "setting": title} for row in record["rows"] for title in now([row["setting"]])]
    not_run = now(record.get("not_run", []))
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
