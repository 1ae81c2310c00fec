"""Write RESULTS.md from the JSON files that `multicause reproduce` left in a folder.

multicause reproduce --output results
python benchmarks/record.py results
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
VERDICT = {True: "met", False: "**short**", None: ""}


def table(result: dict) -> list[str]:
    lines = [f"## `{result['experiment']}` ({result['seconds']:.0f} s)", ""]
    lines += ["| setting | measure | published | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for row in result["rows"]:
        ours = f"{row['measured']:.4g}"
        if row["interval"] is not None:
            low, high = row["interval"]
            ours += f" [{low:.3g}, {high:.3g}]"
        cells = (row["setting"], row["measure"], row["published"], ours, VERDICT[row["met"]])
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def main(folder: Path) -> None:
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    notes = HERE / "NOTES.md"
    page = ["# Results", "", "Written by `benchmarks/record.py`; two cores, seeds 0-99, 95 % intervals.", ""]
    page += [notes.read_text(encoding="utf-8")] if notes.exists() else []
    for result in results:
        page += table(result)
    (HERE / "RESULTS.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
