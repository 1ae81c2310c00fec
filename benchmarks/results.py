"""Write RESULTS.md from the records in benchmarks/records: `make results`.

multicause reproduce NAME... --output results
python benchmarks/results.py results        # takes the records of that run over, then writes RESULTS.md

A record is what `multicause reproduce` wrote, without the details of single trials.
"""

import json
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
RECORDS = HERE / "records"
SHOWN = {"met": "met", "within noise": "within noise", "short": "**short**", None: ""}
PAPERS, OURS = "the papers' settings", "ours"


def take_over(folder: Path) -> None:
    RECORDS.mkdir(exist_ok=True)
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        record.pop("details", None)
        (RECORDS / path.name).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def kind(row: dict) -> str:
    return OURS if "(ours" in row["setting"] else PAPERS


def summary(records: list[dict]) -> list[str]:
    """How many rows are met, within noise, short."""
    counts = Counter((kind(row), row["verdict"]) for record in records for row in record["rows"] if row["verdict"])
    lines = ["| rows | met | within noise | short |", "| --- | --- | --- | --- |"]
    for whose in (PAPERS, OURS):
        cells = [str(counts[whose, verdict]) for verdict in ("met", "within noise", "short")]
        lines.append(f"| {whose} | {' | '.join(cells)} |")
    return [*lines, ""]


def table(record: dict) -> list[str]:
    made = record["made_with"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    where = f"{record['seconds']:.0f} s on {made['machine']}; commit {made['commit']}, {made['date']}; {versions}"
    lines = [f"## `{record['experiment']}`", "", where, ""]
    lines += ["| setting | measure | published | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for row in sorted(record["rows"], key=kind, reverse=True):  # the paper's first
        ours = f"{row['measured']:.4g}"
        if row["interval"] is not None:
            low, high = row["interval"]
            ours += f" [{low:.3g}, {high:.3g}]"
        cells = (row["setting"], row["measure"], row["published"], ours, SHOWN[row["verdict"]])
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def main(arguments: list[str]) -> None:
    for folder in arguments:
        take_over(Path(folder))
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]
    if not records:
        sys.exit(f"There are no records in {RECORDS}: run `multicause reproduce`, then `make results FROM=results`.")
    page = ["# Results", "", "Written by `make results` from `benchmarks/records`; seeds 0-99, 95 % intervals."]
    page += ["What was tried where a row is short: [NOTES.md](NOTES.md).", "", *summary(records)]
    for record in records:
        page += table(record)
    (HERE / "RESULTS.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
