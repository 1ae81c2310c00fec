"""The examples in docstrings, README and documentation run, and what these pages point to is there."""

import doctest
import importlib
import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from sklearn.datasets import load_sample_image

from multicause import estimators

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
GENERATED = ("_build", "auto_examples", "generated", "results", "project")
PAGES = [ROOT / "README.md"] + [page for page in sorted(DOCS.rglob("*.md")) if not set(GENERATED) & set(page.parts)]
BLOCKS = re.compile(r"^( *)```python\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("name", estimators.__all__)
def test_the_example_in_the_docstring_runs(name):
    module = importlib.import_module(getattr(estimators, name).__module__)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS.search(page.read_text("utf-8"))], ids=name_of)
def test_the_python_examples_of_a_page_run_in_order(page, folder, monkeypatch):
    monkeypatch.setattr("sklearn.datasets.load_sample_image", lambda name: load_sample_image(name)[::12, ::12])  # quick
    names: dict = {}
    for indent, block in BLOCKS.findall(page.read_text("utf-8")):
        exec(re.sub(f"^{indent}", "", block, flags=re.MULTILINE), names)
    plt.close("all")


def test_there_are_examples_on_every_page_that_teaches():
    tutorials = sorted((DOCS / "tutorials").glob("[!i]*.md"))
    assert len(tutorials) == 7
    for page in (ROOT / "README.md", DOCS / "index.md", DOCS / "guide.md", *tutorials):
        assert BLOCKS.search(page.read_text("utf-8")), page


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_pictures_of_a_page_lead_somewhere(page):
    """Those to generated pages are left to `make docs`."""
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    for target in targets:
        path = (page.parent / target).resolve()
        made = {"_figures", "auto_examples", "results", "project"} & set(path.relative_to(ROOT).parts)
        assert made or path.exists(), target
