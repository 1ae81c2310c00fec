"""A row without "(ours)" follows its paper: its settings are those of the table of constants."""

from dataclasses import fields, is_dataclass

import pytest

from multicause.datasets import data_folder, speech_windows
from multicause.experiments import EXPERIMENTS, Options
from multicause.experiments.constants import CONSTANTS
from multicause.experiments.et_bars import BarsSetting, bars_trial, quality_curves
from multicause.experiments.et_likelihood import learn_bars, select_both_ways
from multicause.experiments.et_parts import N_WINDOWS
from multicause.experiments.experiment import STANDS_IN
from multicause.experiments.mca_likelihood import Start, likelihood_trial
from multicause.experiments.mca_settings import MaximalSetting, maximal_trial


def settings_of(name, row):
    """All settings of a row, those it leaves at their defaults included."""
    estimator = row.setting.get("estimator", type)
    if not isinstance(estimator, type):
        return estimator.get_params()
    kinds = {bars_trial: BarsSetting, quality_curves: BarsSetting, learn_bars: BarsSetting, likelihood_trial: Start}
    kind = {**kinds, select_both_ways: BarsSetting, maximal_trial: MaximalSetting}.get(row.task)
    if kind is not None:
        return {"n_init": 1, **attributes(kind(**row.setting))}
    named = {"n_init": 1, **row.setting}
    return named | {
        key: v for part in ("curve", "reading") if part in named for key, v in attributes(named[part]).items()
    }


def attributes(whole):
    assert is_dataclass(whole)
    return {field.name: getattr(whole, field.name) for field in fields(whole)}


def paper_rows(name):
    """Rows of the generative algorithms; factorisations of scikit-learn stand beside them as in the paper's figure.

    Both those of the default size and those of the paper's; also those of which but the rival is another.
    """
    rows = {row.title: row for full in (False, True) for row in EXPERIMENTS[name].table(Options(full=full))}
    return [
        row
        for row in rows.values()
        if (row.follows_paper or row.title.endswith(STANDS_IN)) and not row.title.startswith("NMF")
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_papers_rows_have_the_papers_constants(name):
    rows = paper_rows(name)
    assert {row.title for row in rows} == (set(CONSTANTS[name].rows) if name in CONSTANTS else set())
    for row in rows:
        found, wanted = settings_of(name, row), CONSTANTS[name].of(row.title)
        assert {key: found[key] for key in wanted} == wanted, row.title
        assert set(found) - set(wanted) <= set(CONSTANTS[name].silent), row.title
        assert row.wanted_trials == (CONSTANTS[name].trials_of(row.title) or row.wanted_trials), row.title


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_row_of_our_own_differs_from_each_of_the_papers(name):
    of_paper = [settings_of(name, row) for row in paper_rows(name)]
    for row in EXPERIMENTS[name].table(Options()):
        if not row.follows_paper and not row.title.endswith(STANDS_IN) and row.setting:
            own = settings_of(name, row)
            assert all(str(own) != str(other) or row.task.__name__ == "bm3d_house" for other in of_paper), row.title


def test_every_row_of_ours_says_so_in_words():
    assert all(constants.rows for constants in CONSTANTS.values())
    titles = [row.title for name in EXPERIMENTS for row in EXPERIMENTS[name].table(Options())]
    assert all(title.count("(ours") <= 1 for title in titles)
    assert not [title for title in titles if "|" in title]  # which would end a cell of RESULTS.md


def test_constants_say_where_they_are_from():
    assert all(constants.where for constants in CONSTANTS.values())


def test_no_table_needs_data(monkeypatch):
    monkeypatch.delenv("MULTICAUSE_DATA", raising=False)
    assert all(list(EXPERIMENTS[name].table(Options(full=full))) for name in EXPERIMENTS for full in (False, True))


@pytest.mark.skipif(data_folder() is None, reason="MULTICAUSE_DATA names no folder")
def test_titles_tell_the_number_of_windows_of_speech():
    assert len(speech_windows()) == N_WINDOWS
