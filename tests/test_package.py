"""The package as others take it in: what it says of itself, and what it asks for."""

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import multicause
from multicause import LinCA
from multicause._compat import HAS_CALLBACKS
from multicause.datasets import make_bars

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NEEDED = [Requirement(each) for each in PROJECT["dependencies"]]
OPTIONAL = [Requirement(each) for extra in PROJECT["optional-dependencies"].values() for each in extra]


def test_version_changelog_and_citation_agree():
    assert version("multicause") == multicause.__version__ == PROJECT["version"]
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines() if line.startswith("## "))
    assert newest.split()[1] == PROJECT["version"]
    assert f"version: {PROJECT['version']}" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_every_dependency_has_a_lower_bound_that_is_met_and_no_upper_one():
    for requirement in NEEDED + OPTIONAL:
        assert [bound.operator for bound in requirement.specifier] == [">="], requirement
    for requirement in NEEDED:
        assert requirement.specifier.contains(version(requirement.name), prereleases=True), requirement


@pytest.mark.parametrize(
    ("name", "released"),
    [("numpy", "2.5"), ("scipy", "1.18"), ("scikit-learn", "1.9.1"), ("numba", "0.68.0"), ("pillow", "12.3"),
     ("threadpoolctl", "3.7")],
)  # fmt: skip
def test_versions_that_machines_out_there_have_are_admitted(name, released):
    (bounds,) = [requirement.specifier for requirement in NEEDED if requirement.name == name]
    assert bounds.contains(released)


def test_types_are_shipped():
    assert (Path(multicause.__file__).parent / "py.typed").exists()


@pytest.mark.skipif(HAS_CALLBACKS, reason="this scikit-learn has callbacks")
def test_fits_go_without_callbacks_where_scikit_learn_has_none():
    fit = LinCA(6, max_iter=3, tol=0.0, random_state=0).fit(make_bars(100, 3, random_state=0).X)
    assert fit.n_iter_ == 3
