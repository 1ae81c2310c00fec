"""In a notebook: progress that is seen, results that do not fill the page, a logger to listen to."""

import logging
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from multicause import LinCA
from multicause.datasets import make_bars
from multicause.learning import progress
from multicause.picture_files import Picture
from multicause.tasks import separate_sources

BARS = make_bars(100, 3, random_state=1000)


@pytest.fixture
def notebook(monkeypatch):
    """What a notebook would show: each text, in order."""
    shown = []

    def display(text, display_id):
        assert display_id
        shown.append(str(text))
        return SimpleNamespace(update=lambda text: shown.append(str(text)))

    shell, room = ModuleType("IPython"), ModuleType("IPython.display")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())
    room.display = display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", room)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    return shown


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_verbose_shows_progress_in_a_notebook(notebook):
    fitted = LinCA(4, max_iter=5, tol=0.0, verbose=1, start="random", random_state=0).fit(BARS.X)
    assert notebook[0].startswith("LinCA ░")
    assert any("s left" in text for text in notebook)
    assert f"5/5  F = {fitted.free_energy_[-1]:.4f}" in notebook[-1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_verbose_a_notebook_stays_empty(notebook):
    LinCA(4, max_iter=3, tol=0.0, random_state=0).fit(BARS.X)
    assert notebook == []


def test_ipython_on_a_terminal_is_no_notebook(monkeypatch):
    shell = ModuleType("IPython")
    shell.get_ipython = SimpleNamespace
    monkeypatch.setitem(sys.modules, "IPython", shell)
    assert not progress.in_notebook()


def test_a_notebook_that_is_executed_keeps_what_was_said_last():
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: no notebook is executed")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    code = (
        "from multicause import LinCA\nfrom multicause.datasets import make_bars\nbars = make_bars(100, 3)\n"
        "LinCA(4, max_iter=3, tol=0, verbose=1).fit(bars.X)\nbars"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    texts = [out["data"]["text/plain"] for out in book.cells[0].outputs if "data" in out]
    assert any("3/3  F = " in text for text in texts)
    assert any(text.startswith("Bars(X=float64 (100, 9)") for text in texts)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_logger_tells_of_fits_and_of_iterations(caplog):
    with caplog.at_level(logging.DEBUG, logger="multicause"):
        fitted = LinCA(4, max_iter=3, tol=0.0, random_state=0).fit(BARS.X)
    lines = [record.getMessage() for record in caplog.records if record.name == "multicause"]
    assert lines[-1] == f"LinCA: {fitted.stop_} (3 iterations)"
    assert sum("LinCA: start 0, iteration" in line for line in lines) == len(fitted.free_energy_)
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="multicause"):
        LinCA(4, max_iter=3, tol=0.0, random_state=0).fit(BARS.X)
    assert not caplog.records


def test_results_say_shapes_instead_of_numbers():
    assert repr(BARS) == "Bars(X=float64 (100, 9), components=float64 (6, 9), states=float64 (100, 6))"
    assert repr(Picture(np.zeros((2, 3)), exif=b"12")) == (
        "Picture(pixels=float64 (2, 3), alpha=None, is_stack=False, profile=None, exif=2 bytes)"
    )
    mixtures = np.random.default_rng(1000).laplace(size=(300, 2))
    assert len(repr(separate_sources(mixtures, random_state=0, max_iter=3, n_init=1))) < 300
