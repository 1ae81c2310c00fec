"""Compiled kernels on disk: whatever happens to the files, kernels compute what they should."""

import errno
import importlib.util
import os
import re
import subprocess
import sys

import pytest
from numba.core import config

from multicause.backends import compilation, kernel_cache

SOURCE = """
from numba import njit

@njit(cache=True)
def twice(x):
    return 2 * x
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Imports the module above anew, as another process would, with its cache in a folder of its own."""
    source = tmp_path / "kernels.py"
    source.write_text(SOURCE)
    monkeypatch.setattr(kernel_cache, "_warned", False)
    with monkeypatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))  # Numba reads it again when anything is compiled
        config.reload_config()
        yield lambda source=source: _imported(source)
    config.reload_config()


def _imported(source):
    spec = importlib.util.spec_from_file_location("kernels", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kernel_cache.use_kernel_caches(module)
    return module.twice


def kept(tmp_path):
    """The kernels of that module; a thread that another test has left may keep its own there, too."""
    return sorted((tmp_path / "cache").rglob("kernels.twice-*.kernel"))


def hits(kernel):
    return sum(kernel.stats.cache_hits.values())


def test_a_kernel_is_compiled_once_per_signature(load, tmp_path):
    first = load()
    assert (first(2), first(2.5)) == (4, 5.0)
    assert len(kept(tmp_path)) == 2
    again = load()
    assert (again(2), again(2.5)) == (4, 5.0)
    assert hits(again) == 2


def test_a_copy_of_the_sources_elsewhere_compiles_nothing(load, tmp_path):
    assert load()(2) == 4
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "kernels.py"
    copy.write_text(SOURCE)
    kernel = load(copy)
    assert (kernel(2), hits(kernel)) == (4, 1)


@pytest.mark.parametrize("damage", ["empty", "short", "flipped", "exchanged", "foreign", "folder"])
def test_a_damaged_file_is_compiled_anew_and_mended(damage, load, tmp_path):
    kernel = load()
    assert (kernel(2), kernel(2.5)) == (4, 5.0)
    paths = kept(tmp_path)
    contents = [path.read_bytes() for path in paths]
    for path, content, other in zip(paths, contents, contents[::-1], strict=True):
        middle = len(content) // 2
        if damage == "folder":
            path.unlink()
            path.mkdir()
            continue
        damaged = {
            "empty": b"",
            "short": content[:middle],
            "flipped": content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :],
            "exchanged": other,
            "foreign": b"\x80\x04 something else",
        }
        path.write_bytes(damaged[damage])
    mended = load()
    if damage == "folder":
        with pytest.warns(RuntimeWarning, match="could not be kept"):
            assert (mended(2), mended(2.5)) == (4, 5.0)
        return
    assert (mended(2), mended(2.5), hits(mended)) == (4, 5.0, 0)
    healthy = load()
    assert (healthy(2), healthy(2.5), hits(healthy)) == (4, 5.0, 2)


def test_a_full_disk_is_a_warning_that_comes_once(load, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kernel_cache, "atomic_write", full)
    kernel = load()
    with pytest.warns(RuntimeWarning, match="No space left.*MULTICAUSE_CACHE") as caught:
        assert (kernel(2), kernel(2.5)) == (4, 5.0)
    assert len(caught) == 1


CALL = (
    "import numpy as np; from multicause.backends.numba_cpu import load;"
    "print(load('missing').observed_overlap(np.ones(3), np.ones(3), np.ones(3)))"
)


def in_a_process(code, cache):
    """One in which nobody else compiles anything."""
    environment = {**os.environ, "MULTICAUSE_CACHE": str(cache or ""), "PYTHONPATH": ":".join(sys.path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_without_a_folder_to_write_to_a_kernel_warns_and_leaves_nothing_beside_the_sources(tmp_path):
    (tmp_path / "file").write_text("no folder")
    process = in_a_process(CALL, tmp_path / "file" / "cache")
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert err.count("cannot be written to. Kernels are compiled anew") == 1
    sources = os.path.dirname(kernel_cache.__file__)
    assert not [name for _, _, names in os.walk(sources) for name in names if name.endswith((".nbi", ".nbc"))]


@pytest.mark.skipif(os.name == "nt", reason="there users are known by other means")
def test_a_user_without_a_home_is_warned_and_gets_an_answer():
    unknown = "import os; os.getuid = lambda: 54321; os.environ['XDG_CACHE_HOME'] = ''; os.environ.pop('HOME', None);"
    process = in_a_process(unknown + CALL, None)
    said, err = process.communicate()
    assert (process.returncode, said) == (0, "3.0\n"), err
    assert err.count("cannot be written to. Kernels are compiled anew") == 1


def test_two_processes_may_compile_at_once(tmp_path):
    processes = [in_a_process(CALL, tmp_path) for _ in range(2)]
    answers = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert answers[0][0] == answers[1][0] != ""
    assert not list(tmp_path.rglob("*.tmp"))


TELLING = """
import io, sys
import numpy as np
from multicause.backends import compilation, numba_cpu

class Terminal(io.StringIO):
    def isatty(self):
        return True

sys.stderr = terminal = Terminal()
ones = np.ones(3)
for dtypes in [("float64", "float32"), ("float64",)]:
    with compilation.compilation_told():
        for dtype in dtypes:
            numba_cpu.load("missing").observed_overlap(*3 * [ones.astype(dtype)])
    print(*terminal.getvalue().splitlines(), sep="\\n", end="\\n--\\n")
"""


def test_a_person_is_told_once_that_kernels_are_compiled_and_how_long_it_took(tmp_path):
    told, after = in_a_process(TELLING, tmp_path).communicate()[0].split("--\n")[:2]
    first, second = told.splitlines()
    assert "compiling kernels for this machine, which happens once" in first
    assert re.fullmatch(r"multicause: 2 kernels compiled in \d+\.\d s; later fits load them from disk", second)
    assert after == told


LOGGING = """
import logging, sys
import numpy as np
from multicause.backends import compilation, numba_cpu

logging.basicConfig(level="INFO", stream=sys.stdout, format="%(name)s")
with compilation.compilation_told():
    numba_cpu.load("missing").observed_overlap(*3 * [np.ones(3)])
"""


def test_a_pipe_hears_nothing_of_compiling_but_a_log_does(tmp_path):
    assert in_a_process(LOGGING, tmp_path / "logged").communicate() == ("multicause\n" * 2, "")
    assert in_a_process(CALL, tmp_path / "silent").communicate() == ("3.0\n", "")


def test_compiling_a_kernel_within_another_counts_its_time_once():
    counted = compilation.Compilation()
    counted.began()
    counted.began()
    counted.ended()
    assert counted.seconds == 0.0
    counted.ended()
    assert counted.n_kernels == 2
    assert counted.seconds > 0.0


SUMS = """
import numpy as np
from numba import njit

fast = njit(cache=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc", "contract"})

@fast
def weigh(beta, x, weights):
    for k in range(x.size):
        x[k] = max(beta * (x[k] - 0.1), -80.0)
    for k in range(x.size):
        weights[k] = np.exp(x[k])
    total, energy = 0.0, 0.0
    for k in range(x.size):
        total += weights[k]
        energy += weights[k] * x[k]
    return total, energy

@fast
def both(x):
    return weigh(1.0, x, np.empty(x.size)), weigh(0.5, x, np.empty(x.size))
"""
SUM_UP = """
import numpy as np, sums
from multicause.backends.kernel_cache import use_kernel_caches
use_kernel_caches(sums)
print([sums.both(np.random.default_rng(n).normal(size=n)) for n in range(90, 120)])
print(sum(sums.both.stats.cache_hits.values()))
"""


def test_a_process_that_compiles_a_kernel_has_the_bits_of_one_that_loads_it(tmp_path):
    """A kernel's copy of a function that it calls, optimised once more, rounds in another way than the function."""
    (tmp_path / "sums.py").write_text(SUMS)
    paths = {"PYTHONPATH": ":".join([str(tmp_path), *sys.path]), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    run = [sys.executable, "-c", SUM_UP]
    said = [subprocess.run(run, env={**os.environ, **paths}, capture_output=True, text=True).stdout for _ in range(2)]
    (compiled, no_hits), (loaded, hits) = (text.splitlines() for text in said)
    assert (no_hits, hits) == ("0", "1")
    assert compiled == loaded
