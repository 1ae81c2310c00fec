"""Write RESULTS.md and README's table of figures from the records in benchmarks/records: `make results`.

multicause reproduce NAME... --output results          # or benchmarks/batch.py, for many of them at once
multicause bench --output results
python benchmarks/results.py results        # takes the records of that run over, then writes RESULTS.md

A record is what these wrote, without the details of single trials. Rows that a run left out stay as they were; the
record says by what each was made.
"""

import json
import math
import sys
from collections import Counter
from pathlib import Path

import headline
import later

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RECORDS = HERE / "records"
TOO_FEW = "too few trials"
VERDICTS = ("met", "within noise", "short", TOO_FEW)
SHOWN = {"met": "met", "within noise": "within noise", "short": "**short**", TOO_FEW: TOO_FEW, None: ""}
TITLES = {
    "et": "Expectation Truncation",
    "mca": "Maximal causes",
    "gsc": "Spike-and-slab sparse coding",
    "gps": "GP-select",
    "upoe": "Products of experts",
    "pictures": "Pictures (no paper's)",
}  # by the first part of an experiment's name
PAPERS, OTHER_DATA, OURS = KINDS = ("the papers' settings and data", "the papers' settings, other data", "ours")
HEAD = """# Results

Written by `make results` from `benchmarks/records`; seeds 0-99, 95 % intervals. A row without "(ours)" has the paper's
settings and data, one with "(ours: other data)" its settings. Met: at least as good as published. Within noise: not so,
but the published value lies in the interval. No verdict is passed on fewer trials than the paper has: that they are too
few is said in its place. Rows of ours have an aim instead, the paper's figure or a better one. What was tried where a
row is short: [NOTES.md](NOTES.md). Rows that were last run before records were kept: [EARLIER.md](EARLIER.md). Commits
that are named here and are not in the history were joined into a later one, db57b87.
"""


def take_over(folder: Path) -> None:
    RECORDS.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.json")):
        record = later.of_today(json.loads(path.read_text(encoding="utf-8")))
        record.pop("details", None)
        known = RECORDS / path.name
        if known.exists() and "experiment" in record:
            record = joined(later.of_today(json.loads(known.read_text(encoding="utf-8"))), record)
        known.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def joined(before: dict, record: dict) -> dict:
    """A run of some rows leaves the others as they were, and says by what they were made."""
    run = {row["setting"] for row in record["rows"]}
    kept = [row for row in before["rows"] if row["setting"] not in run]
    if not kept:
        return record
    settings = {row["setting"] for row in kept}
    earlier = [
        {**each, "settings": [setting for setting in each["settings"] if setting in settings]}
        for each in [*before.get("earlier", []), _run(before)]
    ]
    missed = [
        title
        for title in record.get("not_run", [])
        if title in before.get("not_run", []) or not any(setting.startswith(title) for setting in settings)
    ]
    return {
        **record,
        "rows": [*kept, *record["rows"]],
        "not_run": missed,
        "earlier": [each for each in earlier if each["settings"]],
    }


def _run(record: dict) -> dict:
    """What a record says of its newest run."""
    earlier = {setting for each in record.get("earlier", []) for setting in each["settings"]}
    settings = dict.fromkeys(row["setting"] for row in record["rows"] if row["setting"] not in earlier)
    return {"made_with": record["made_with"], "seconds": record["seconds"], "settings": list(settings)}


def kind(row: dict) -> str:
    if "(ours: other data)" in row["setting"]:
        return OTHER_DATA
    return OURS if "(ours" in row["setting"] else PAPERS


def few(row: dict) -> bool:
    """Whether there were fewer trials than the paper has."""
    return row.get("trials") is not None and row["trials"][0] < row["trials"][1]


def verdict(row: dict) -> str | None:
    """Two trials of fifty show nothing, either way."""
    return TOO_FEW if row["verdict"] and few(row) else row["verdict"]


def summary(records: list[dict]) -> list[str]:
    """How many figures are met, within noise, short."""
    counts = Counter((kind(row), verdict(row)) for record in records for row in record["rows"])
    lines = [f"| figures | {' | '.join(VERDICTS)} |", "| --- | --- | --- | --- | --- |"]
    for whose in KINDS:
        lines.append(f"| {whose} | {' | '.join(str(counts[whose, each]) for each in VERDICTS)} |")
    return [*lines, ""]


def first_figures(everything: list[dict]) -> str:
    """The table of figures on the first page."""
    everything = [later.of_today(record) for record in everything]
    counts = Counter(verdict(r) for record in everything for r in record.get("rows", ()) if kind(r) == PAPERS)
    return headline.table(everything, {each: counts[each] for each in VERDICTS})


def value(row: dict) -> str:
    text = "in no trial" if math.isnan(row["measured"]) else f"{row['measured']:.4g}"
    if row["interval"] is not None:
        low, high = row["interval"]
        text += f" [{low:.3g}, {high:.3g}]"
    return f"{text} ({row['trials'][0]} of {row['trials'][1]} trials)" if few(row) and row["verdict"] else text


def told(row: dict) -> str:
    """A figure, and how it stands to the published one, or to what we wanted of a row of our own."""
    word = "aim" if kind(row) == OURS else "published"
    published = "" if row["published"] == "-" else f", {word} {row['published']}"
    judged = f": {SHOWN[verdict(row)]}" if row["verdict"] else ""
    return f"{row['measure']} {value(row)}{published}{judged}"


def lines_of(record: dict) -> list[str]:
    """A line for each setting, the papers' first, and in it the figures that are judged first."""
    ordered = sorted(record["rows"], key=lambda row: KINDS.index(kind(row)))
    settings: dict[str, list[dict]] = {}
    for row in ordered:
        settings.setdefault(row["setting"], []).append(row)
    return [
        f"| `{record['experiment']}` | {setting} | "
        f"{'; '.join(told(row) for row in sorted(rows, key=lambda row: not row['verdict']))} |"
        for setting, rows in settings.items()
    ]


def tables(records: list[dict]) -> list[str]:
    """A table for each paper."""
    lines = []
    for prefix, title in TITLES.items():
        of_paper = [record for record in records if record["experiment"].split("-")[0] == prefix]
        if of_paper:
            lines += [f"## {title}", "", "| experiment | setting | measured |", "| --- | --- | --- |"]
            lines += [*(line for record in of_paper for line in lines_of(record)), "", *missing(of_paper)]
    return lines


def missing(records: list[dict]) -> list[str]:
    """Rows that there was no time for, at all or since their setting changed."""
    lines = [
        f"- Not run of `{each['experiment']}`: {'; '.join(each['not_run'])}" for each in records if each.get("not_run")
    ]
    lines += [
        f"- Measured {words}, and not again since: `{each['experiment']}`, {'; '.join(settings)}"
        for each in records
        for words, settings in later.outdated(each).items()
    ]
    return [*lines, ""] if lines else []


def speeds(records: list[dict]) -> list[str]:
    """A line for each benchmark, and in it what is judged first."""
    words = {True: ": met", False: ": **short**", None: ""}
    lines = ["| benchmark | measured |", "| --- | --- |"]
    for record in records:
        ordered = sorted(record["lines"], key=lambda line: line["met"] is None)
        said = [
            f"{line['what']} {line['measured']}"
            + ("" if line["wanted"] == "-" else f", wanted {line['wanted']}")
            + words[line["met"]]
            for line in ordered
        ]
        lines.append(f"| `{record['benchmark']}` | {'; '.join(said)} |")
    return ["## Speed", "", *lines, ""] if records else []


def origins(records: list[dict]) -> list[str]:
    """Where and by what the records were made: each origin once."""
    named: dict[str, list[str]] = {}
    for record in records:
        name = record.get("experiment") or f"bench {record['benchmark']}"
        runs = [*record.get("earlier", []), _run(record)] if record.get("earlier") else [record]
        for run in runs:
            made = run["made_with"]
            versions = ", ".join(f"{library} {version}" for library, version in made["versions"].items())
            origin = f"{made['machine']}; commit {made['commit']}, {made['date']}; {versions}"
            said = [f"{len(run['settings'])} rows"] if len(runs) > 1 else []
            said += [f"{run['seconds']:.0f} s"] if "seconds" in run else []
            named.setdefault(origin, []).append(f"`{name}` ({', '.join(said)})" if said else f"`{name}`")
    return ["## Made with", "", *(f"- {origin}: {', '.join(names)}" for origin, names in named.items()), ""]


def page(everything: list[dict]) -> str:
    everything = [later.of_today(record) for record in everything]
    experiments = [record for record in everything if "experiment" in record]
    lines = [*summary(experiments), *tables(experiments)]
    lines += speeds([record for record in everything if "benchmark" in record]) + origins(everything)
    return "\n".join([HEAD, *lines])


def main(arguments: list[str]) -> None:
    for folder in arguments:
        take_over(Path(folder))
    everything = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]
    if not everything:
        sys.exit(f"There are no records in {RECORDS}: run `multicause reproduce`, then `make results FROM=results`.")
    (HERE / "RESULTS.md").write_text(page(everything), encoding="utf-8")
    README.write_text(headline.inserted(README.read_text("utf-8"), first_figures(everything)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
