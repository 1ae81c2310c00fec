"""What is written: a device is no file to replace, an input is no place for a result, a full disk ends no fit."""

import io
import os
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest

from multicause import LinCA
from multicause.files import atomic_write
from multicause.persistence import save_model
from multicause.tables import read_table

from command_line import refused, succeed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With a table x.npy and a model m.safetensors of it."""
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 3))
    np.save("x.npy", X)
    save_model(LinCA(2, max_iter=3, tol=0.0, random_state=0).fit(X), "m.safetensors")
    return tmp_path


@pytest.fixture
def pipe(tmp_path):
    """A FIFO, and what comes out of it."""
    path, received = tmp_path / "pipe.csv", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    reader.start()

    def drain():
        reader.join(timeout=30)
        return received[0]

    return path, drain


def test_a_pipe_is_written_to_and_not_replaced(pipe):
    path, drain = pipe
    atomic_write(path, b"content")
    assert drain() == b"content"
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_an_array_is_written_to_a_pipe_though_its_writer_seeks(pipe, save):
    path, drain = pipe
    atomic_write(path, lambda handle: save(handle, np.arange(3.0)))
    found = np.load(io.BytesIO(drain()))
    np.testing.assert_array_equal(found if save is np.save else found["arr_0"], np.arange(3.0))


def test_a_command_writes_to_a_pipe(pipe, folder):
    path, drain = pipe
    succeed("transform", "m.safetensors", "x.npy", "-o", path)
    assert drain().count(b"\n") == 41
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_not_replaced(folder):
    device = folder / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices may be made here")
    atomic_write(device, b"content")
    assert stat.S_ISCHR(device.stat().st_mode)


@pytest.mark.parametrize(
    "arguments",
    [
        ("transform", "m.safetensors", "x.npy", "-o", "x.npy"),
        ("transform", "m.safetensors", "x.npy", "-o", "./sub/../x.npy"),
        ("score", "m.safetensors", "x.npy", "--per-sample", "x.npy"),
        ("sample", "m.safetensors", "-n", "3", "-o", "s.csv", "--states", "s.csv"),
    ],
)
def test_no_command_writes_over_what_it_reads_or_writes_already(arguments, folder):
    (folder / "sub").mkdir()
    before = (folder / "x.npy").read_bytes()
    assert "name the same file" in refused(*arguments)
    assert (folder / "x.npy").read_bytes() == before
    assert not (folder / "s.csv").exists()


def test_another_name_of_the_data_is_the_data(folder):
    os.link("x.npy", "same.jsonl")
    before = (folder / "x.npy").read_bytes()
    said = refused("fit", "x.npy", "-n", "2", "-o", "m2", "--trace", "same.jsonl", "--force")
    assert "name the same file" in said
    assert (folder / "x.npy").read_bytes() == before


def test_a_link_that_leads_in_a_circle_is_no_file(folder):
    os.symlink("b.npy", "a.npy")
    os.symlink("a.npy", "b.npy")
    assert "There is no file 'a.npy'" in refused("fit", "a.npy", "-n", "2")


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="there names of files are text")
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_that_cannot_be_shown_cost_no_result(encoding, folder):
    name = b"caf\xe9.npy"
    os.rename(b"x.npy", name)
    command = [sys.executable, "-m", "multicause", "fit", name, "-n", "2", "--iterations", "2", "--report", "page.html"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert "LinCA of caf\\udce9.npy" in ended.stdout
    assert "LinCA of caf?.npy" in (folder / "page.html").read_text("utf-8")
    assert os.path.exists(b"caf\xe9.multicause.safetensors")


def test_a_recording_is_not_overwritten_by_its_sources(tmp_path, monkeypatch):
    from multicause.media import write_audio

    monkeypatch.chdir(tmp_path)
    write_audio("source1.wav", np.random.default_rng(0).uniform(-0.5, 0.5, size=(400, 2)), 8000)
    before = (tmp_path / "source1.wav").read_bytes()
    assert "name the same file" in refused("separate", "source1.wav", "-o", ".")
    assert (tmp_path / "source1.wav").read_bytes() == before


def test_an_interrupt_that_was_answered_is_no_signal_at_the_end(tmp_path):
    (tmp_path / "command.py").write_text(
        "import sys, click; from multicause.cli.errors import OneLineErrors\n"
        "@click.group(cls=OneLineErrors)\ndef main(): pass\n"
        "@main.command()\ndef stop(): exec('raise KeyboardInterrupt')\nmain(['stop'])"
    )
    ended = subprocess.run([sys.executable, "-m", "command"], capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr.split()) == (1, ["Aborted!"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_under_a_trace_is_a_warning_and_the_fit_stands(folder):
    X, _ = read_table("x.npy")
    with pytest.warns(RuntimeWarning, match=r"The trace ends here: .*No space left.*The fit goes on") as caught:
        fit = LinCA(2, max_iter=4, tol=0.0, random_state=0).fit(X, trace="/dev/full")
    assert len([w for w in caught if "trace" in str(w.message)]) == 1
    assert fit.n_iter_ == 4
