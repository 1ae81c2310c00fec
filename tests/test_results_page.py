"""RESULTS.md and README's table of figures are what the records say."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

from multicause.experiments import EXPERIMENTS, Options

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def results():
    sys.path.insert(0, str(FOLDER))  # as for a script there
    spec = importlib.util.spec_from_file_location("results", FOLDER / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(FOLDER))
    return module


def records():
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((FOLDER / "records").glob("*.json"))]


def test_the_page_of_results_is_written_from_the_records_alone(results):
    page = (FOLDER / "RESULTS.md").read_text(encoding="utf-8")
    assert page == results.page(records())
    assert page.count("\n") < 500


def row(setting, verdict, trials, measured=0.5):
    return {
        "setting": setting, "measure": "reliability", "published": "90%", "measured": measured,
        "interval": [0.4, 0.6], "verdict": verdict, "trials": trials,
    }  # fmt: skip


def test_few_trials_are_counted_by_themselves_and_said(results):
    rows = [
        row("noisy", "met", [50, 50]),
        row("noiseless", "met", [2, 50]),
        row("sounds (ours: other data)", "short", [50, 50]),
        row("noisy (ours: best of 5)", "within noise", [50, 50]),
        row("noisy (ours: best of 5)", None, [50, 50], measured=3.0),
    ]
    counts = results.summary([{"rows": rows}])
    assert counts[2:] == [
        "| the papers' settings and data | 1 | 0 | 0 | 1 |",
        "| the papers' settings, other data | 0 | 0 | 1 | 0 |",
        "| ours | 0 | 1 | 0 | 0 |",
        "",
    ]
    lines = results.tables([{"experiment": "mca-bars", "rows": rows, "made_with": {"commit": "0000000"}}])
    few = "reliability 0.5 [0.4, 0.6] (2 of 50 trials), published 90%: too few trials"
    assert f"| `mca-bars` | noiseless | {few} |" in lines
    told = "reliability 0.5 [0.4, 0.6], aim 90%: within noise; reliability 3 [0.4, 0.6], aim 90%"
    assert lines[-2] == f"| `mca-bars` | noisy (ours: best of 5) | {told} |"


def test_every_experiment_belongs_to_a_table(results):
    assert {name.split("-")[0] for name in EXPERIMENTS} == set(results.TITLES)


def test_no_record_was_edited():
    assert not [record for record in records() if "note" in record["made_with"]]


def test_the_figures_of_the_readme_are_those_of_the_records(results):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    figures = results.first_figures(records())
    assert results.headline.inserted(text, figures) == text
    named = set(re.findall(r"`reproduce ([a-z0-9-]+)`", figures))
    assert named
    assert named <= {record.get("experiment") for record in records()}


def test_a_figure_that_is_no_longer_in_its_record_is_missed(results):
    found = records()
    for record in found:
        if record.get("experiment") == "pictures":
            record["rows"] = record["rows"][:1]
    with pytest.raises(KeyError, match="No row 'house, noise 25"):
        results.first_figures(found)


def test_rows_that_a_run_left_out_stay_with_their_origin(results):
    def record(commit, not_run, *settings):
        made = {"commit": commit, "machine": "2 cores", "date": "today", "versions": {"numpy": "2"}}
        rows = [row(setting, "met", [50, 50]) for setting in settings]
        return {"experiment": "mca-bars", "seconds": 3.0, "made_with": made, "rows": rows, "not_run": not_run}

    whole = results.joined(record("old", ["c"], "a", "b"), record("new", ["a", "c", "e, since then"], "b", "d"))
    assert [each["setting"] for each in whole["rows"]] == ["a", "b", "d"]
    assert whole["not_run"] == ["c", "e, since then"]
    newest = results.joined(whole, record("newest", ["a", "b", "d"], "c"))
    assert [(each["made_with"]["commit"], each["settings"]) for each in newest["earlier"]] == [
        ("old", ["a"]),
        ("new", ["b", "d"]),
    ]
    assert newest["not_run"] == []
    lines = results.origins([newest])
    assert "- 2 cores; commit new, today; numpy 2: `mca-bars` (2 rows, 3 s)" in lines
    assert results.joined(whole, record("last", [], "a", "b", "d")) == record("last", [], "a", "b", "d")


def test_rows_are_shown_under_the_titles_of_today_and_older_ones_of_a_setting_say_so(results):
    made = {"commit": "9c95db6", "machine": "2 cores", "date": "today", "versions": {"numpy": "2"}}
    rows = [row("Cauchy, D=H=20", "met", [15, 15])]
    record = {"experiment": "gsc-directions", "seconds": 3.0, "made_with": made, "rows": rows}
    now = results.later.of_today(record)
    (title,) = [each["setting"] for each in now["rows"]]
    assert title == "Cauchy, D=H=20 (ours: factored in place of MTMKL)"
    assert results.kind(now["rows"][0]) == "ours"
    older = {**record, "experiment": "et-linca-speech", "rows": [row("N=10, H=2 (ours)", "met", [1, 1])]}
    (told,) = [line for line in results.missing([older]) if "N=10, H=2" in line]
    assert told.startswith("- Measured with 18 (9) instead of 20 (10) iterations")
    assert results.missing([{**older, "made_with": {**made, "commit": "0000000"}}]) == []


def test_titles_of_today_are_those_of_the_experiments(results):
    for rule in results.later.RETITLED:
        titles = {row.title for full in (0, 1) for row in EXPERIMENTS[rule.experiment].table(Options(full=bool(full)))}
        shown = [results.later.of_today(record) for record in records() if record.get("experiment") == rule.experiment]
        assert {each["setting"] for record in shown for each in record["rows"]} <= titles


def test_no_row_of_today_is_taken_for_one_that_was_withdrawn(results):
    for name, pattern in results.later.WITHDRAWN.items():
        titles = {row.title for full in (0, 1) for row in EXPERIMENTS[name].table(Options(full=bool(full)))}
        assert not [title for title in titles if re.search(pattern, title)]
    whole = {"experiment": "mca-bars", "not_run": ["R-MCA2, best of 5 (ours)", "MCA3, noisy"]}
    rows = [row("R-MCA2, noisy, best of 5 (ours)", "met", [2, 100]), row("R-MCA2, noisy", "met", [100, 100])]
    made = {"commit": "0000000"}
    runs = [{"made_with": made, "settings": [rows[0]["setting"]]}]
    now = results.later.of_today({**whole, "rows": rows, "made_with": made, "earlier": runs})
    assert ([each["setting"] for each in now["rows"]], now["not_run"]) == (["R-MCA2, noisy"], ["MCA3, noisy"])


def test_each_change_names_rows_that_are_older(results):
    shown = [results.later.of_today(record) for record in records() if "experiment" in record]
    told = {words for record in shown for words in results.later.outdated(record)}
    assert told == {change.words for change in results.later.CHANGED}
