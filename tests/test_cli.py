"""The command line: every command does its work, and every mistake is answered in one line."""

import importlib
import json
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

from multicause import ETNMF, MCA3, LinCA, RestrictedMCA, UPoE
from multicause.cli import main, reproduce
from multicause.datasets import DatasetNotFound, make_bars
from multicause.experiments import Verdict
from multicause.learning import ConditionalCooling
from multicause.persistence import load_model, save_model
from multicause.tables import read_table, write_table

from command_line import call, refused, succeed


@pytest.fixture
def bars(folder):
    """Data in data.csv, with named columns, and a model of it in bars.model."""
    data = make_bars(120, 3, random_state=1000)
    write_table("data.csv", data.X, [f"pixel{d}" for d in range(9)])
    write_table("data.npy", data.X)
    model = LinCA(6, max_iter=3, tol=1e3, random_state=1000).fit(data.X)
    model.feature_names_in_ = np.array([f"pixel{d}" for d in range(9)], dtype=object)
    save_model(model, "bars.model")
    return data


# Start-up


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_import_nothing_heavy(option):
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom multicause.cli import main\n"
        f"assert CliRunner().invoke(main, [{option!r}]).exit_code == 0\n"
        "print(sorted({'numpy', 'sklearn', 'matplotlib', 'numba', 'rich', 'scipy'} & set(sys.modules)))"
    )
    assert python(code).strip() == "[]"


def test_the_estimators_are_found_in_the_package_without_being_imported_with_it():
    code = (
        "import sys, multicause\nassert 'LinCA' in dir(multicause) and 'numpy' not in sys.modules\n"
        "from multicause import *\nprint(LinCA.__name__, ETNMF.__name__, hasattr(multicause, 'NoSuchThing'))"
    )
    assert python(code).split() == ["LinCA", "ETNMF", "False"]


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "multicause", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("multicause, version ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_under_the_help_page_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "multicause", "--help"], stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr.decode()) == (2, "Error: [Errno 28] No space left on device\n")


def test_every_command_has_a_help_page():
    listed = succeed("--help")
    for name in main.commands:
        assert name in listed
        assert succeed(name, "--help").startswith(f"Usage: main {name}")


# fit


def test_fit_saves_a_model_and_tells_of_it(bars, folder):
    said = succeed(
        *("fit", "data.csv", "-n", 6, "--iterations", 4, "--tol", 1e-12),
        *("--restarts", 2, "--seed", 1000, "--threads", 1),
    )
    model = load_model("data.multicause.safetensors")
    assert model.n_iter_ <= 4
    assert model.n_init == 2
    assert list(model.feature_names_in_) == [f"pixel{d}" for d in range(9)]
    assert (model.verbose, model.n_jobs) == (0, None)
    for words in ("raise --iterations or --tol", "components", "noise variance", f"{model.activation_.sum():.6g}"):
        assert words in said


def test_fit_equals_the_estimator_with_the_same_settings(bars, folder):
    arguments = ("--candidates", 4, "--max-active", 2, "--anneal", 5, "--iterations", 5, "--seed", 1000, "-o", "m")
    succeed("fit", "data.npy", "-n", 6, "--tol", 0.5, *arguments)
    model = load_model("m")
    assert (model.n_candidates, model.max_active, model.annealing.initial, model.tol) == (4, 2, 5.0, 0.5)
    again = LinCA(**model.get_params()).fit(bars.X)
    np.testing.assert_array_equal(model.components_, again.components_)


@pytest.mark.parametrize(("model", "estimator"), [("mca3", MCA3), ("restricted-mca", RestrictedMCA)])
def test_fit_offers_the_models_of_all_states_of_few_causes(model, estimator, folder):
    X = make_bars(120, 3, superposition="max", noise="poisson", random_state=1000).X
    write_table("counts.npy", X)
    arguments = ("--model", model, "-n", 6, "--iterations", 5, "--anneal", 4, "--seed", 1000, "--threads", 1)
    said = succeed("fit", "counts.npy", *arguments, "--report", "page.html")
    assert "noise variance" not in said
    fitted = load_model("counts.multicause.safetensors")
    cooling = ConditionalCooling(initial=4.0, final=1.0)
    with pytest.warns(ConvergenceWarning):
        again = estimator(6, cooling=cooling, max_iter=5, random_state=1000, n_jobs=1).fit(X)
    np.testing.assert_array_equal(fitted.components_, again.components_)


def test_fit_offers_products_of_experts(folder):
    rng = np.random.default_rng(1000)
    X = rng.laplace(size=(400, 3)) @ rng.normal(size=(3, 3))
    write_table("mixed.npy", X)
    said = succeed("fit", "mixed.npy", "--model", "upoe", "--restarts", 2, "--seed", 0, "-o", "m", "--report", "r.html")
    fitted = load_model("m")
    again = UPoE(n_init=2, random_state=0).fit(X)
    np.testing.assert_array_equal(fitted.components_, again.components_)
    assert f"{-again.projection_index_.sum():.6g}" in said
    assert "Gains" in (folder / "r.html").read_text()
    assert f"Mean log-likelihood per data point: {again.score(X):.8g} nats" in succeed("score", "m", "mixed.npy")
    succeed("transform", "m", "mixed.npy", "-o", "back.npy", "--reconstruct")
    np.testing.assert_allclose(np.load("back.npy"), again.reconstruct(X), rtol=1e-12)
    succeed("sample", "m", "-n", 7, "-o", "drawn.npy")
    assert np.load("drawn.npy").shape == (7, 3)


def test_fit_writes_a_trace_and_a_report(bars, folder, monkeypatch):
    write_table("positive.npy", np.abs(bars.X))
    arguments = (
        "fit",
        "positive.npy",
        "--model",
        "etnmf",
        "-n",
        6,
        "--iterations",
        3,
        "--seed",
        0,
        "--report",
        "r.html",
    )
    monkeypatch.setattr(sys, "argv", ["multicause", *map(str, arguments)])
    said = succeed(*arguments, "--trace", "t.jsonl", "--hold-out", 0.25)
    assert isinstance(load_model("positive.multicause.safetensors"), ETNMF)
    assert all("free_energy" in json.loads(line) for line in (folder / "t.jsonl").read_text().splitlines())
    page = (folder / "r.html").read_text()
    for words in ("ETNMF of positive.npy", "Components", "Activations", "max_active", "auto → 6", " (30 data points)"):
        assert words in page
    for line in ("multicause fit positive.npy --model etnmf -n 6", "test_size=0.25, random_state=0)"):
        assert line in page
    assert "r.html" in said
    assert "score of 30 held-out rows" in said


def test_the_python_lines_of_a_report_repeat_the_fit(bars, folder):
    succeed(
        "fit",
        "data.csv",
        "-n",
        6,
        "--anneal",
        4,
        "--iterations",
        5,
        "--seed",
        3,
        "-o",
        "m",
        "--hold-out",
        0.2,
        "--report",
        "r.html",
    )
    code = unescape(re.search('<pre class="code".*?>(.*?)</pre>', (folder / "r.html").read_text(), re.DOTALL)[1])
    lines = code.partition("from multicause.persistence")[0].partition("\n\n")[2]
    repeated = {}
    exec(lines, repeated)
    np.testing.assert_array_equal(repeated["model"].components_, load_model("m").components_)


def test_report_writes_a_page_about_a_model_with_data_and_without(bars, folder):
    said = succeed("report", "bars.model")
    assert "Report written to bars.html" in said
    assert "Reconstructions" not in (folder / "bars.html").read_text()
    succeed("report", "bars.model", "--data", "data.csv", "--shape", "3x3", "-o", "page.html")
    assert "Reconstructions" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shape", "3by3"), "'3by3' is not a shape such as 28x28"),
        (("--shape", "4x4"), r"--shape: shape must be .* with a product of 9"),
        (("-o", "bars.model"), "--output and MODEL name the same file"),
        (("--data", "nowhere.csv"), "There is no file 'nowhere.csv'"),
    ],
)
def test_report_refuses_what_it_cannot_do(bars, arguments, message):
    assert re.search(message, refused("report", "bars.model", *arguments))


def test_an_interrupted_fit_saves_what_it_has(bars, folder, monkeypatch):
    def interrupt(self, record):
        if record.number == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("multicause.learning.records.ProgressBar.__call__", interrupt)
    result = call("fit", "data.npy", "-n", 6, "-o", "m", "--tol", 0)
    assert result.exit_code == 130, result.output
    assert load_model("m").stop_.value in " ".join(result.stdout.split())


# transform, score, sample


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_transform_writes_the_posterior_means_under_the_names_of_the_causes(bars, folder):
    succeed("transform", "bars.model", "data.csv", "-o", "causes.csv")
    values, names = read_table("causes.csv")
    np.testing.assert_array_equal(values, load_model("bars.model").transform(bars.X))
    assert names == [f"linca{h}" for h in range(6)]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_transform_can_write_the_reconstruction(bars, folder):
    succeed("transform", "bars.model", "data.npy", "-o", "clean.npz", "--reconstruct")
    values, names = read_table("clean.npz")
    np.testing.assert_array_equal(values, load_model("bars.model").reconstruct(bars.X))
    assert names == [f"pixel{d}" for d in range(9)]


def test_score_prints_the_mean_and_writes_each_value(bars, folder):
    result = call("score", "bars.model", "data.npy", "--per-sample", "each.csv")
    assert (result.exit_code, result.stderr) == (0, "")  # nor does it warn of data without column names
    values, names = read_table("each.csv")
    assert names == ["log_likelihood"]
    assert f"{values.mean():.8g} nats (120 data points)" in result.stdout


def test_sample_writes_data_and_states_and_follows_its_seed(bars, folder):
    for output in ("a.csv", "b.csv"):
        succeed("sample", "bars.model", "-n", 7, "-o", output, "--seed", 5, "--states", "states.csv", "--force")
    X, names = read_table("a.csv")
    states, causes = read_table("states.csv")
    assert X.shape == (7, 9)
    assert states.shape == (7, 6)
    assert (names[0], causes[0]) == ("pixel0", "linca0")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()


# demo, doctor


def test_demo_finds_all_causes_and_leaves_a_page_and_pictures(folder, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    said = succeed("demo", "--output", "shown/here", "--open")
    assert said.count("12 of 12 causes found") == 2
    page = folder / "shown/here/index.html"
    assert page.read_text().count("all 12 causes found") == 2
    before, after = re.search(r"([\d.]+) dB before, ([\d.]+) dB after", said).groups()
    assert float(after) > float(before) + 6.0  # a quarter of the noise is left, or less
    assert page.read_text().index("A photograph without its noise") < page.read_text().index("LinCA on signed bars")
    assert len(list(page.parent.glob("*.png"))) == 10
    assert opened == [page.as_uri()]


def test_doctor_finds_the_kernels_well(monkeypatch, folder):
    monkeypatch.setenv("MULTICAUSE_DATA", str(folder / "nowhere"))
    said = succeed("doctor")
    for words in ("scikit-learn", "BLAS", "threads used", "kernel cache", "MISSING", "soundfile", "passed"):
        assert words in said


def test_doctor_names_the_command_that_installs_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)
    assert 'soundfile is missing: pip install "multicause[audio]"' in succeed("doctor")


@pytest.mark.parametrize("outcome", [(0.1, 1e-3), (0.1, float("nan")), RuntimeError("no compiler")])
def test_doctor_exits_with_1_when_the_self_test_fails(monkeypatch, outcome):
    def failing():
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr("multicause.cli.self_test.compare_with_brute_force", failing)
    result = call("doctor")
    assert result.exit_code == 1
    assert "FAILED" in result.stdout


# reproduce, bench: with experiments made up for the test


def experiment(name, run):
    def table(options):
        titles = ["noisy", "larger"] if getattr(options, "full", False) else ["noisy"]
        return [SimpleNamespace(title=f"{name}, {each}", follows_paper=True, ours=False) for each in titles]

    return SimpleNamespace(name=name, title=f"Title of {name}", paper="ET", run=run, table=table)


def result_with(verdict, figure=None):
    row = SimpleNamespace(
        setting="noisy",
        measure="found",
        published="50/50",
        measured=0.98,
        interval=(0.9, 1),
        verdict=verdict,
        ours=False,
    )
    return SimpleNamespace(
        rows=[row],
        figure=figure,
        seconds=1.5,
        to_json=lambda: {"measured": np.float64(0.98), "made_with": {"each": np.arange(2)}},
    )


@pytest.fixture
def experiments(monkeypatch):
    """Experiments that meet, fall short, have no figure to compare with, or lack their data."""
    seen = []

    def runs(result):
        def run(options):
            seen.append(options)
            options.report("one trial done")
            return result

        return run

    def lacks_data(options):
        raise DatasetNotFound("The data file 'x' was asked for.")

    known = {
        "good": experiment("good", runs(result_with(Verdict.MET, Figure()))),
        "short": experiment("short", runs(result_with(Verdict.SHORT))),
        "open": experiment("open", runs(result_with(None))),
        "no-data": experiment("no-data", lacks_data),
    }
    module = ModuleType("multicause.experiments")
    module.EXPERIMENTS, module.Options, module.Verdict, module.__path__ = known, SimpleNamespace, Verdict, []
    monkeypatch.setitem(sys.modules, "multicause.experiments", module)
    return seen


def test_reproduce_writes_results_and_prints_the_verdict(experiments, folder):
    said = succeed("reproduce", "good", "open", "--trials", 3, "--jobs", 2, "--quick", "--output", "out/here")
    for words in ("Title of good", "50/50", "0.98 [0.9, 1]", "met", "no figure published"):
        assert words in said
    assert json.loads((folder / "out/here/good.json").read_text()) == {"measured": 0.98, "made_with": {"each": [0, 1]}}
    assert (folder / "out/here/good.png").read_bytes().startswith(b"\x89PNG")
    assert not (folder / "out/here/open.png").exists()
    page = (folder / "out/here/good.html").read_text()
    for words in (
        "Title of good",
        "<td>50/50</td><td>0.98 [0.9, 1]</td><td>met</td>",
        "Published figures: 1 met",
        "<svg",
    ):
        assert words in page
    assert (experiments[0].trials, experiments[0].jobs, experiments[0].quick) == (3, 2, True)


@pytest.mark.parametrize(
    ("measure", "published", "shown"),
    [
        ("found", "98%", "96.4% [90%, 100%]"),
        ("share on its side", "-", "96.4% [90%, 100%]"),
        ("dB", "30.1", "0.964 [0.9, 1]"),
    ],
)
def test_percentages_stand_beside_percentages(measure, published, shown):
    row = SimpleNamespace(measure=measure, published=published, measured=0.964, interval=(0.9, 1.0))
    assert reproduce._ours(row) == shown


def test_reproduce_with_another_number_of_components_keeps_its_results_apart(experiments, folder):
    succeed("reproduce", "good", "--components", 12, "--output", "out")
    assert experiments[0].components == 12
    assert (folder / "out" / "good-components-12.json").exists()


def test_reproduce_exits_with_1_when_a_figure_is_not_met(experiments, folder):
    result = call("reproduce", "short", "good")
    assert result.exit_code == 1
    assert "short" in result.stdout
    assert (folder / "results/good.json").exists()


def test_reproduce_goes_on_after_an_experiment_without_its_data(experiments, folder):
    result = call("reproduce", "no-data", "good")
    assert result.exit_code == 2
    assert "Error: no-data was skipped. The data file 'x' was asked for." in result.stderr
    assert (folder / "results/good.json").exists()


def test_reproduce_names_the_experiments_it_knows(experiments):
    said = succeed("reproduce", "--list")
    assert all(f"Title of {name}" in said for name in ("good", "short", "open", "no-data"))
    assert "1 + 1" in said
    rows = {line.strip() for line in succeed("reproduce", "--list", "good").splitlines()}
    assert {"good, noisy", "good, larger   with --full"} <= rows
    assert "--all runs every experiment. Leave it out to run good." in refused("reproduce", "good", "--all")
    assert "--quick and --full ask for different sizes." in refused("reproduce", "--quick", "--full")
    assert "There is no experiment 'godo'. Known are: good, short, open, no-data." in refused("reproduce", "godo")


@pytest.fixture
def benchmarks(experiments, monkeypatch):
    module = ModuleType("multicause.experiments.bench")
    module.BENCHMARKS = {
        "fast": lambda quick: [("one iteration", "0.1 s" if quick else "0.2 s", "0.15 s", quick)],
        "plain": lambda quick: [("exponent", "1.02", "", None)],
    }
    module.ON_DEVICES = {}
    monkeypatch.setitem(sys.modules, "multicause.experiments.bench", module)


def test_bench_prints_what_was_measured(benchmarks):
    said = succeed("bench", "--quick")
    for words in ("one iteration", "0.1 s", "0.15 s", "met", "exponent", "for information"):
        assert words in said


def test_bench_writes_a_record_of_each_benchmark(benchmarks, folder):
    succeed("bench", "--quick", "--output", "out")
    record = json.loads((folder / "out/bench-fast.json").read_text())
    assert record["lines"] == [{"what": "one iteration", "measured": "0.1 s", "wanted": "0.15 s", "met": True}]
    assert set(record["made_with"]) == {"commit", "versions", "machine", "date"}
    assert (folder / "out/bench-plain.json").exists()


def test_bench_exits_with_1_when_it_falls_short(benchmarks):
    assert call("bench", "fast").exit_code == 1


def test_bench_names_the_benchmarks_it_knows(benchmarks):
    assert succeed("bench", "--list").split() == ["fast", "plain"]
    assert "There is no benchmark 'fats'. Known are: fast, plain." in refused("bench", "fats")


def test_a_missing_benchmark_room_is_one_line_and_leaves_the_other_commands_alone(experiments, monkeypatch):
    monkeypatch.setitem(sys.modules, "multicause.experiments.bench", None)
    assert "multicause.experiments.bench" in refused("bench")
    succeed("--help")


# Mistakes


BAD_FITS = {
    "missing file": (("nowhere.csv",), "There is no file 'nowhere.csv'."),
    "unknown extension": (("data.xlsx",), "has the extension '.xlsx', wanted one of .npy, .npz, .csv, .parquet"),
    "a folder": (("folder.csv",), "There is no file 'folder.csv'."),
    "nan": (("nan.csv", "--model", "mca"), "'nan.csv' holds nan at row 3, column 2 (counted from 0)"),
    "infinity": (("inf.npy",), "'inf.npy' holds inf at row 0, column 1"),
    "text": (("text.csv",), "has in line 2, column 2 'b', which is not a number"),
    "mca3 of candidates": (
        ("data.npy", "--model", "mca3", "--candidates", 3),
        "it takes no --candidates and no --exact.",
    ),
    "restricted mca with tol": (
        ("data.npy", "--model", "restricted-mca", "--tol", 1),
        "it takes no --tol. Leave it out",
    ),
    "upoe of candidates": (
        ("data.npy", "--model", "upoe", "--exact"),
        "it takes no --candidates and no --exact. Leave it out.",
    ),
    "upoe annealed": (("data.npy", "--model", "upoe", "--anneal", 3), "it takes no --anneal. Leave it out."),
    "negative": (("data.npy", "--model", "etnmf"), "Negative values in data passed to ETNMF"),
    "too many active": (("data.npy", "--candidates", 2, "--max-active", 3), "must be at most n_candidates=2. Got 3"),
    "too many candidates": (("data.npy", "-n", 3, "--candidates", 4), "must be at most n_components=3. Got 4"),
    "no components": (("data.npy", "-n", 0), "Invalid value for '-n' / '--components': 0 is not in the range x>=1."),
    "not a number": (("data.npy", "-n", "six"), "'six' is not a valid integer"),
    "cold start": (("data.npy", "--anneal", 0.5), "Annealing needs temperatures initial >= final >= 1."),
    "no folder": (("data.npy", "-o", "no/where/m"), "does not exist. Create it first."),
    "no trace folder": (("data.npy", "--trace", "no/where/t"), "does not exist. Create it first."),
    "no such option": (("data.npy", "--cannidates", 3), "No such option '--cannidates'"),
    "no data": ((), "Missing argument 'DATA'. See 'main fit --help'."),
}


@pytest.fixture
def bad_files(bars, folder):
    """Files that are wrong in one way each."""
    broken = bars.X.copy()
    broken[3, 2] = np.nan
    write_table("nan.csv", broken)
    broken[0, 1] = np.inf
    write_table("inf.npy", broken)
    (folder / "text.csv").write_text("1,2\n3,b\n")
    (folder / "data.xlsx").write_text("x")
    (folder / "folder.csv").mkdir()
    (folder / "corrupt.model").write_bytes(b"\x00" * 100)
    write_table("wide.csv", bars.X[:, :4])
    write_table("other.csv", bars.X, [*(f"pixel{d}" for d in range(8)), "time"])


@pytest.mark.parametrize("mistake", BAD_FITS)
def test_fit_answers_a_mistake_in_one_line(mistake, bad_files, folder):
    arguments, words = BAD_FITS[mistake]
    assert words in refused("fit", *arguments)
    assert not list(folder.glob("*.safetensors"))


@pytest.mark.parametrize("model", ["gsc", "linca"])
def test_fit_says_how_many_entries_are_missing(model, bad_files, folder):
    said = succeed("fit", "nan.csv", "--model", model, "-n", 4, "--iterations", 2)
    assert "1 of 1,080 entries of nan.csv is missing" in said
    assert (folder / "nan.multicause.safetensors").exists()


BAD_USES = {
    "corrupt model": (("transform", "corrupt.model", "data.npy", "-o", "o.npy"), "'corrupt.model' is cut short"),
    "no model": (("score", "nowhere", "data.npy"), "There is no model file 'nowhere'."),
    "model is data": (("score", "data.npy", "data.npy"), "no model file at all"),
    "columns": (
        ("transform", "bars.model", "wide.csv", "-o", "o.npy"),
        "has 4 columns, but the model was fitted to 9.",
    ),
    "names": (("score", "bars.model", "other.csv"), "Column 8 of 'other.csv' is named 'time'"),
    "infinity to score": (("score", "bars.model", "inf.npy"), "holds inf at row 0"),
    "output format": (("transform", "bars.model", "data.npy", "-o", "o.txt"), "'o.txt' must end in one of .npy"),
    "no output": (("sample", "bars.model", "-n", 3), "Missing option '-o' / '--output'"),
    "no samples": (("sample", "bars.model", "-n", 0, "-o", "o.npy"), "0 is not in the range x>=1"),
    "no command": (("fitt", "data.npy"), "No such command 'fitt'."),
}


@pytest.mark.parametrize("mistake", BAD_USES)
def test_a_model_that_cannot_be_used_is_one_line(mistake, bad_files, folder):
    arguments, words = BAD_USES[mistake]
    assert words in refused(*arguments)
    assert not list(folder.glob("o.*"))


def test_a_missing_extra_is_one_line_with_the_command_that_installs_it(bars, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (folder / "data.parquet").write_bytes(b"PAR1")
    assert 'pip install "multicause[tables]"' in refused("fit", "data.parquet")


def test_debug_lets_the_traceback_through(folder):
    result = call("--debug", "fit", "nowhere.csv")
    assert type(result.exception).__name__ == "TableError"


def test_a_mistake_of_ours_is_not_taken_for_the_users(bars, monkeypatch):
    reading = importlib.import_module("multicause.cli.score")
    monkeypatch.setattr(reading, "load", lambda path: 1 + "a")
    assert isinstance(call("score", "bars.model", "data.npy").exception, TypeError)


def test_fit_refuses_to_write_over_its_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text("1,2,4\n3,4,5\n5,6,7\n")
    result = CliRunner().invoke(main, ["fit", "d.csv", "-o", "d.csv"])
    assert result.exit_code == 2
    assert "--output and DATA name the same file" in result.output
    assert (tmp_path / "d.csv").read_text().startswith("1,2,4")
