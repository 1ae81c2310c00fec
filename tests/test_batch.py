"""A batch of trials: in which order they are run, what is kept of them, and that a second call goes on."""

import importlib.util
import json
import pickle
import sys
from pathlib import Path

import pytest

from multicause.experiments import Options

FOLDER = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def batch():
    spec = importlib.util.spec_from_file_location("batch", FOLDER / "batch.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["batch"] = module  # where pickles look for its types
    spec.loader.exec_module(module)
    yield module
    del sys.modules["batch"]


def made_with(commit, cores=2):
    return {"commit": commit, "machine": f"{cores} cores", "date": "2026-11-18", "versions": {"numpy": f"2.{cores}"}}


def test_rows_of_the_paper_are_finished_before_ours_begin(batch):
    key = ("et-nmf-bars", None)
    tasks = batch.planned([key], Options())
    ours = [batch.table(key, Options())[task.title].ours for task in tasks]
    assert ours == sorted(ours)
    assert len(tasks) == len(set(tasks)) == 50 * len(batch.table(key, Options()))


def test_kept_trials_are_read_again_if_they_are_of_the_same_commit(batch, tmp_path, monkeypatch):
    kept = tmp_path / "trials.pickle"
    tasks = [batch.Task(("et-nmf-bars", None), "noisy", seed) for seed in range(3)]
    with kept.open("wb") as file:
        for task, commit in zip(tasks, ("now", "before", "now"), strict=True):
            pickle.dump(batch.Ended(task, 1.0, 0.5, made_with(commit)), file)
        file.write(b"\x80\x05")  # the call was killed while it wrote
    monkeypatch.setenv("MULTICAUSE_COMMIT", "now")
    assert [each.task.seed for each in batch.read(kept)] == [0, 2]


def test_a_record_of_two_machines_names_both(batch):
    joined = batch.together([made_with("now", 2), made_with("now", 16)])
    assert joined["commit"] == "now"
    assert joined["machine"].startswith("16 cores / 2 cores")
    assert joined["versions"] == {"numpy": "2.16 / 2.2"}


def test_rows_that_the_records_have_whole_are_left_out(batch, tmp_path, monkeypatch):
    rows = [
        {"setting": "noisy", "trials": [50, 50]},
        {"setting": "noiseless", "trials": [50, 50]},
        {"setting": "noiseless", "trials": [2, 50]},
    ]
    (tmp_path / "mca-bars-components-12.json").write_text(json.dumps({"rows": rows}), encoding="utf-8")
    monkeypatch.setattr(batch, "RECORDS", tmp_path)
    assert batch.complete_rows(("mca-bars", 12)) == {"noisy"}
    assert batch.complete_rows(("mca-bars", None)) == set()
