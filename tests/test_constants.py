"""A row without "(ours)" follows its paper: its settings are those of the table of constants."""

from dataclasses import asdict, fields, is_dataclass

import pytest

from multicause.experiments import EXPERIMENTS, Options
from multicause.experiments.constants import CONSTANTS
from multicause.experiments.et_bars import BarsSetting
from multicause.experiments.mca_likelihood import Start
from multicause.experiments.mca_settings import MaximalSetting


def settings_of(name, row):
    """All settings of a row, those it leaves at their defaults included."""
    of_bars, of_maxima = name.startswith("et-"), name.startswith("mca-")
    kind = Start if name == "mca-likelihood" else MaximalSetting if of_maxima else BarsSetting if of_bars else None
    if kind is None:
        return {"n_init": 1, **row.setting}
    whole = kind(**row.setting)
    assert is_dataclass(whole)
    return {field.name: getattr(whole, field.name) for field in fields(whole)}


def paper_rows(name):
    """Rows of the generative algorithms; factorisations of scikit-learn stand beside them as in the paper's figure."""
    return [row for row in EXPERIMENTS[name].table(Options()) if not row.ours and not row.title.startswith("NMF")]


@pytest.mark.parametrize("name", CONSTANTS)
def test_the_papers_rows_have_the_papers_constants(name):
    rows = paper_rows(name)
    assert {row.title for row in rows} == set(CONSTANTS[name].rows)
    for row in rows:
        found, wanted = settings_of(name, row), CONSTANTS[name].of(row.title)
        assert {key: found[key] for key in wanted} == wanted, row.title


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_row_of_our_own_differs_from_each_of_the_papers(name):
    of_paper = [settings_of(name, row) for row in paper_rows(name)]
    for row in EXPERIMENTS[name].table(Options()):
        if row.ours and row.setting:
            own = settings_of(name, row)
            assert all(str(own) != str(other) or row.task.__name__ == "bm3d_house" for other in of_paper), row.title


def test_constants_say_where_they_are_from():
    assert all(constants.where and asdict(constants)["shared"] for constants in CONSTANTS.values())
