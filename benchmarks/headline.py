"""The table of figures on the first page, README's and the documentation's, from the records alone."""

from typing import Any

START, END = "<!-- figures: written by `make results` -->\n", "<!-- end of figures -->\n"
LEVELS = (15, 25, 50)


def _row(records: dict[str, Any], experiment: str, setting: str, measure: str, beside: str = "") -> dict:
    """The one row of a record with these words in its names."""
    rows = records[experiment]["rows"]
    found = [r for r in rows if r["setting"] == setting and r["measure"] == measure and beside in r["published"]]
    if not found:
        raise KeyError(f"No row {setting!r}, {measure!r} in the record of {experiment}: change benchmarks/headline.py.")
    return found[0]


def _trials(row: dict) -> str:
    done, wanted = row["trials"]
    return f"{done} of {wanted} trials" if done < wanted else f"{done} trials"


def _pictures(records: dict[str, Any]) -> str:
    def decibels(who: str) -> str:
        rows = (_row(records, "pictures", f"all pictures, noise {x} (ours)", f"PSNR in dB, {who}") for x in LEVELS)
        return " / ".join(f"{row['measured']:.2f}" for row in rows)

    settings = {row["setting"] for row in records["pictures"]["rows"]}
    n_pictures = sum(setting.endswith("noise 15 (ours)") for setting in settings) - 1  # one line is of all of them
    rows = [_row(records, "pictures", f"house, noise {x} (ours)", "PSNR in dB, denoise_image") for x in LEVELS]
    trials = _trials(min(rows, key=lambda row: row["trials"][0]))
    protocol = f"PSNR in dB, mean of {n_pictures} pictures, noise of 15 / 25 / 50, {trials}; `reproduce pictures`"
    others = f"BM3D, told the noise level: {decibels('BM3D')}; non-local means, told: {decibels('non-local means')}"
    return f"| `denoise_image`, told nothing | {decibels('denoise_image')} | {others} | {protocol} |"


def _bars(records: dict[str, Any], estimator: str, experiment: str) -> str:
    papers = _row(records, experiment, "noisy", "reliability")
    low, high = papers["interval"]
    figures = f"{papers['measured']:.0%} [{low:.0%}, {high:.0%}]"
    rows = records[experiment]["rows"]
    ours = [r for r in rows if r["setting"].startswith("noisy (ours") and r["measure"] == "reliability"]
    if ours:
        best = max(ours, key=lambda row: row["measured"])
        figures += f" as in the paper, {best['measured']:.0%} by settings of ours ({_trials(best)})"
    protocol = f"share of {_trials(papers)} in which all bars are found; `reproduce {experiment}`"
    return f"| `{estimator}`, noisy bars | {figures} | published: {papers['published']} | {protocol} |"


def _sources(records: dict[str, Any]) -> str:
    settings = {row["setting"] for row in records["upoe-recovery"]["rows"]}
    numbers = [int(setting.split()[0]) for setting in settings if setting.endswith("super-Gaussian sources (ours)")]
    setting, measure = f"{max(numbers)} super-Gaussian sources (ours)", "Amari index, UPoE, parallel"
    row, rival = (_row(records, "upoe-recovery", setting, measure, name) for name in ("FastICA: ", "Picard: "))
    protocol = f"Amari index, 0 is perfect, {_trials(row)}; `reproduce upoe-recovery`"
    beside = f"{row['published']}; {rival['published']}"
    return f"| `UPoE`, {max(numbers)} sources | {row['measured']:.4f} | {beside} | {protocol} |"


def table(everything: list[dict], counts: dict[str, int]) -> str:
    """The table, and how the papers' own figures came out."""
    records = {record["experiment"]: record for record in everything if "experiment" in record}
    lines = ["| what | ours | beside | protocol |", "| --- | --- | --- | --- |", _pictures(records)]
    lines.append(_bars(records, "LinCA", "et-linca-bars"))
    lines.append(_bars(records, "ETNMF", "et-nmf-bars"))
    lines.append(_sources(records))
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    lines += ["", f"Of the papers' own figures, with their settings and data: {said}."]
    return "\n".join([*lines, ""])


def inserted(page: str, figures: str) -> str:
    """A page with the figures in their place."""
    before, rest = page.split(START)
    return before + START + "\n" + figures + "\n" + END + rest.split(END)[1]
