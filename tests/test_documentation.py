"""The examples in docstrings, README and guide run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

from multicause import estimators

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", estimators.__all__)
def test_the_example_in_the_docstring_runs(name):
    module = importlib.import_module(getattr(estimators, name).__module__)
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md", "docs/from_laptop_to_cluster.md"])
def test_the_python_examples_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^( *)```python\n(.*?)^ *```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict = {}
    if page != "README.md":  # the guide speaks of the README's estimator and data
        exec("from multicause import LinCA\nfrom multicause.datasets import make_bars", names)
        exec("X = make_bars(200, 4, signed=True, random_state=0).X\nlinca = LinCA(8, random_state=0).fit(X)", names)
    for indent, block in blocks:
        exec(re.sub(f"^{indent}", "", block, flags=re.MULTILINE), names)
    assert len(blocks) >= 1
