"""What people expect of any command: JSON, --force, pipes, completion, examples, --debug wherever it is given."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from multicause import LinCA
from multicause.cli import main
from multicause.datasets import make_bars
from multicause.persistence import load_model, save_model
from multicause.tables import read_table, write_table

from command_line import call, refused, succeed

X = make_bars(60, 3, random_state=1000).X


@pytest.fixture
def model(folder):
    """A model in m, and its data in data.npy and data.csv."""
    write_table("data.npy", X)
    write_table("data.csv", X)
    estimator = LinCA(4, max_iter=2, tol=1e3, random_state=0).fit(X)
    save_model(estimator, "m")
    return estimator


def test_every_command_that_works_on_files_shows_examples():
    for name, command in main.commands.items():
        if name != "demo":
            assert f"multicause {name}" in (command.epilog or ""), name


@pytest.mark.parametrize("arguments", [("score", "m", "data.npy"), ("fit", "data.npy", "-n", 3, "--iterations", 2)])
def test_with_json_a_command_prints_one_object_and_nothing_else(model, arguments):
    said = json.loads(succeed(*arguments, "--json"))
    if arguments[0] == "score":
        assert said["score"] == pytest.approx(model.score(X))
        assert said["rows"] == 60
    else:
        fitted = load_model(said["model"])
        assert (said["components"], said["estimator"]) == (3, "LinCA")
        assert said["free_energy_per_data_point"] == fitted.free_energy_[-1]


def test_a_mistake_is_told_on_standard_error_with_json_too(model):
    assert "There is no file 'nowhere.npy'." in refused("score", "m", "nowhere.npy", "--json")


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "data.npy", "-o", "old.csv"),
        ("fit", "data.npy", "--trace", "old.csv"),
        ("fit", "data.npy", "--checkpoint", "old.csv"),
        ("fit", "data.npy", "--report", "old.csv"),
        ("transform", "m", "data.npy", "-o", "old.csv"),
        ("sample", "m", "-n", 3, "-o", "old.csv"),
        ("score", "m", "data.npy", "--per-sample", "old.csv"),
        ("report", "m", "-o", "old.csv"),
    ],
)
def test_what_is_there_already_is_replaced_with_force_only(model, folder, arguments):
    (folder / "old.csv").write_text("precious")
    assert "'old.csv' already exists. Give another name, or --force to overwrite it." in refused(*arguments)
    assert (folder / "old.csv").read_text() == "precious"
    if arguments[0] in ("transform", "sample", "score"):
        succeed(*arguments, "--force")
        assert (folder / "old.csv").read_text() != "precious"


def test_the_default_output_is_not_overwritten_either(model):
    arguments = ("fit", "data.npy", "-n", 3, "--iterations", 2)
    succeed(*arguments)
    assert "--output: the file 'data.multicause.safetensors' already exists." in refused(*arguments)
    succeed(*arguments, "--force")


def test_a_fit_that_goes_on_may_replace_what_it_left(model):
    arguments = ("fit", "data.npy", "-n", 3, "--iterations", 2, "--seed", 0, "--resume")
    succeed(*arguments)
    succeed(*arguments)


def piped(content, *arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=content)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_data_come_from_a_pipe_and_go_into_one(model, folder, kind):
    result = piped((folder / f"data.{kind}").read_bytes(), "transform", "m", "-", "-o", "-")
    assert result.exit_code == 0
    table = np.loadtxt(io.StringIO(result.stdout), delimiter=",", skiprows=1)
    np.testing.assert_array_equal(table, model.transform(X))
    assert "60 rows and 4 columns written to standard output" in result.stderr


def test_a_mistake_in_what_comes_from_a_pipe_names_it(model):
    result = piped(b"1,2\n3,x\n", "fit", "-")
    assert result.exit_code == 2
    assert "standard input has in line 2, column 2 'x', which is not a number" in result.stderr


def test_standard_input_that_is_closed_is_one_line():
    done = subprocess.run(["bash", "-c", f"{sys.executable} -m multicause fit - <&-"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Error: Standard input is closed" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_reader_that_has_seen_enough_is_no_error_of_ours(model):
    command = f"{sys.executable} -m multicause sample m -n 20000 -o - | head -n 2"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell):
    assert "_MULTICAUSE_COMPLETE" in succeed("completion", shell)


def test_names_of_experiments_are_completed():
    arguments = main.commands["bench"].params
    names = next(p for p in arguments if p.name == "names").shell_complete(None, "lin")
    assert [item.value for item in names] == ["linca"]


def test_debug_counts_wherever_it_is_given(folder):
    for arguments in (("--debug", "fit", "nowhere.csv"), ("fit", "nowhere.csv", "--debug")):
        assert type(call(*arguments).exception).__name__ == "TableError"


def test_missing_values_are_refused_with_the_models_that_take_them(folder):
    (folder / "gaps.csv").write_text("a,b\n1,\n2,3\n4,5\n")
    assert "--model gsc and --model linca take missing values" in refused("fit", "gaps.csv", "--model", "mca")
    assert "1 of 6 entries of gaps.csv is missing" in succeed("fit", "gaps.csv", "-n", 1, "--iterations", 2)


# HDF5 and Zarr


def stored(kind, name="X", array=X):
    if kind == "h5":
        import h5py

        with h5py.File("stored.h5", "a") as file:
            file[name] = array
    else:
        import zarr

        zarr.open_group("stored.zarr", mode="a").create_array(name, data=array)


@pytest.mark.parametrize("kind", ["h5", "zarr"])
def test_arrays_on_disk_are_fitted_and_transformed_by_rows(model, kind):
    stored(kind)
    stored(kind, "group/other", X[:, :5])
    arguments = ("-n", 4, "--iterations", 3, "--seed", 0)
    succeed("fit", f"stored.{kind}", *arguments, "-o", "a", "--report", "a.html")
    succeed("fit", "data.npy", *arguments, "-o", "b")
    np.testing.assert_array_equal(load_model("a").components_, load_model("b").components_)
    succeed("transform", "a", f"stored.{kind}", "-o", "codes.npy")
    np.testing.assert_allclose(np.load("codes.npy"), load_model("b").transform(X))
    succeed("fit", f"stored.{kind}:group/other", *arguments, "-o", "c")
    assert load_model("c").n_features_in_ == 5
    assert f"there is no array 'Y'. It holds: X, group/other. Name one: stored.{kind}:X" in refused(
        "fit", f"stored.{kind}:Y"
    )


def test_the_only_array_of_a_file_needs_no_name(folder):
    stored("h5", "deep/inside")
    np.testing.assert_array_equal(read_table("stored.h5")[0], X)
    stored("h5", "also")
    assert "which array to read is not said. It holds: also, deep/inside" in refused("fit", "stored.h5")


def test_a_file_of_arrays_that_is_not_there_or_damaged_is_one_line(folder):
    assert "There is no file 'nowhere.h5'." in refused("fit", "nowhere.h5")
    (folder / "broken.h5").write_bytes(b"nothing of the kind")
    assert "'broken.h5' cannot be read" in refused("fit", "broken.h5")
