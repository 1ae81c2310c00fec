"""RESULTS.md is what its records say, and README names where its figures come from."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from multicause.experiments import EXPERIMENTS
from multicause.experiments.bench import BENCHMARKS

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks"


@pytest.fixture(scope="module")
def results():
    spec = importlib.util.spec_from_file_location("results", FOLDER / "results.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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
    lines = results.tables([{"experiment": "mca-bars", "rows": rows}])
    few = "reliability 0.5 [0.4, 0.6] (2 of 50 trials), published 90%: too few trials"
    assert f"| `mca-bars` | noiseless | {few} |" in lines
    told = "reliability 0.5 [0.4, 0.6], published 90%: within noise; reliability 3 [0.4, 0.6], published 90%"
    assert lines[-2] == f"| `mca-bars` | noisy (ours: best of 5) | {told} |"


def test_every_experiment_belongs_to_a_table(results):
    assert {name.split("-")[0] for name in EXPERIMENTS} == set(results.TITLES)


def test_no_record_was_edited():
    assert not [record for record in records() if "note" in record["made_with"]]


def test_every_figure_of_the_readme_names_where_it_comes_from():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text[text.index("## How well and how fast") : text.index("## Reading on")]
    earlier = (FOLDER / "EARLIER.md").read_text(encoding="utf-8")
    known = {record["experiment"] for record in records() if "experiment" in record}
    for bullet in re.findall(r"^- .*?(?=^- |\Z)", section, flags=re.M | re.S):
        sources = re.findall(r"`(bench|reproduce)\s+([a-z0-9-]+)`(, earlier)?", bullet)
        assert sources, bullet
        for command, name, was_earlier in sources:
            assert name in (BENCHMARKS if command == "bench" else EXPERIMENTS)
            if command == "reproduce":
                assert name in known or (was_earlier and f"## `{name}`" in earlier), bullet
