"""The end of a fit: what is kept, and what is said of it."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from multicause import ETNMF, LinCA, TruncatedGaussianMixture
from multicause.datasets import make_bars
from multicause.experiments.callbacks import Listener
from multicause.learning import Annealing, DataClassification, Stop, run
from multicause.learning.records import Record
from multicause.learning.stopping import GainBelow, fallen


class Learner(NamedTuple):
    """Leaves records of given free energies; its parameters are their numbers."""

    history: list
    rule: GainBelow | None = None
    comparable: bool = True

    @property
    def n_steps(self):
        return len(self.history)

    def stopping_rule(self, tol):
        return self.rule

    def steps(self, params, rng, restart=0, state=None):
        for number, value in enumerate(self.history):
            yield Record(number, number, value, 1.0, 0.0, comparable=self.comparable)


def outcome_of(history, tol=0.0, keeps_best=True, **settings):
    return run(Learner(history, **settings), None, np.random.default_rng(0), tol=tol, keeps_best=keeps_best)


def test_the_best_iterate_is_kept():
    outcome = outcome_of([0.0, 3.0, 2.0, 1.0])
    assert (outcome.params, outcome.stop, outcome.n_iter) == (1, Stop.FELL, 3)
    assert_array_equal(outcome.free_energy, [0.0, 3.0, 2.0, 1.0, 3.0])


def test_the_last_iterate_is_kept_where_it_is_asked_for():
    outcome = outcome_of([0.0, 3.0, 2.0, 1.0], keeps_best=False)
    assert (outcome.params, outcome.stop, outcome.n_iter) == (3, Stop.ENDED_LOWER, 3)
    assert_array_equal(outcome.free_energy, [0.0, 3.0, 2.0, 1.0])
    assert outcome_of([0.0, 1.0, 2.0, 3.0], keeps_best=False).stop is Stop.SCHEDULE_ENDED


def test_a_last_iterate_within_tol_of_the_best_is_kept():
    outcome = outcome_of([0.0, 3.0, 2.9995], tol=1e-3)
    assert (outcome.params, outcome.stop) == (2, Stop.SCHEDULE_ENDED)
    assert_array_equal(outcome.free_energy, [0.0, 3.0, 2.9995])


def test_free_energies_of_other_temperatures_do_not_compare():
    outcome = outcome_of([0.0, 3.0, 2.0], comparable=False)
    assert (outcome.params, outcome.stop) == (2, Stop.SCHEDULE_ENDED)


def test_going_up_and_down_is_told_from_falling():
    assert fallen([3.0, 2.0, 1.5, 1.4], 1e-3) is Stop.FELL
    assert fallen([3.0, 2.0, 2.5, 2.0, 2.4, 2.1], 1e-3) is Stop.OSCILLATES
    assert fallen([3.0], 1e-3) is None
    assert fallen([3.0, 2.0, 3.0], 1e-3) is None


def test_a_free_energy_that_falls_may_recover():
    """Two falls in a row are no convergence: five iterations below the best are."""
    recovers = [0.0, 1.0, 0.5, 0.4, 0.6, 2.0, 3.0, 3.0, 3.0]
    outcome = outcome_of(recovers, tol=1e-3, rule=GainBelow(1e-3))
    assert (outcome.stop, outcome.n_iter, outcome.free_energy[-1]) == (Stop.CONVERGED, 8, 3.0)
    falls = [0.0, 1.0, *(1.0 - 0.1 * np.arange(1, 20))]
    outcome = outcome_of(falls, tol=1e-3, rule=GainBelow(1e-3))
    assert (outcome.stop, outcome.n_iter, outcome.free_energy[-1]) == (Stop.FELL, 6, 1.0)


def scarce(**settings):
    """A fit whose candidates are too few, so that its free energy falls."""
    X = make_bars(200, 5, random_state=1000).X
    arguments = {"n_candidates": 2, "max_active": 2, "singletons": False, "start": "random", "random_state": 1}
    arguments |= {"selection": "model-based", "monotone": False}
    return LinCA(10, **{**arguments, **settings}), X


def scarce_clusters():
    """A mixture whose candidates are too few."""
    X = np.random.default_rng(0).normal(size=(300, 3)) * [3.0, 1.0, 0.3]
    return TruncatedGaussianMixture(8, n_candidates=2, max_iter=40, tol=0.0, random_state=0), X


def test_a_fit_to_the_letter_keeps_its_last_parameters_and_says_that_it_fell():
    estimator, X = scarce()
    with pytest.warns(ConvergenceWarning, match=r"the last parameters are kept.* a larger n_candidates.*'auto'"):
        fit = estimator.fit(X)
    assert fit.stop_ is Stop.ENDED_LOWER
    assert len(fit.free_energy_) == fit.n_iter_ + 1
    assert fit.free_energy_[-1] < fit.free_energy_.max()
    assert_allclose(fit.score(X), fit.free_energy_[-1], rtol=1e-12)


def test_a_fit_that_fell_keeps_its_best_and_names_what_helps():
    estimator, X = scarce_clusters()
    with pytest.warns(ConvergenceWarning, match=r"the largest one are kept\. What may help: a larger n_candidates"):
        fit = estimator.fit(X)
    assert fit.stop_ in (Stop.FELL, Stop.OSCILLATES)
    assert fit.free_energy_[-1] == fit.free_energy_.max() > fit.free_energy_[-2]
    assert_allclose(fit.score(X), fit.free_energy_[-1], rtol=1e-12)


@pytest.mark.parametrize("selection", ["model-based", "greedy"])
def test_steps_that_are_halved_keep_the_free_energy_from_falling(selection):
    estimator, X = scarce(selection=selection, monotone="auto", max_iter=40)
    fit = estimator.fit(X)
    assert (np.diff(fit.free_energy_) >= -1e-9 * np.abs(fit.free_energy_[1:])).all()
    assert fit.stop_ not in (Stop.FELL, Stop.OSCILLATES)
    assert_allclose(fit.score(X), fit.free_energy_[-1], rtol=1e-12)


class InterruptAfter(Listener):
    """A callback that is interrupted after some iterations."""

    def __init__(self, n):
        self.n, self.seen = n, 0

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.n:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("made", [lambda: scarce(max_iter=40, tol=0.0), scarce_clusters])
def test_a_fit_that_fell_resumes_to_the_bit(made, tmp_path):
    estimator, X = made()
    whole = estimator.fit(X)
    best = int(whole.free_energy_.argmax())
    for cut in (best + 2, best - 2):  # the best iterate is in the file, or still to come
        part = made()[0]
        path = tmp_path / f"{cut}.checkpoint"
        with pytest.raises(KeyboardInterrupt):
            part.set_callbacks(InterruptAfter(cut)).fit(X, checkpoint=path, checkpoint_every=1)
        resumed = made()[0].fit(X, checkpoint=path, resume=True)
        assert resumed.stop_ is whole.stop_
        assert_array_equal(resumed.free_energy_, whole.free_energy_)
        assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_classified_data_are_not_judged_by_the_free_energy_of_all():
    X = make_bars(300, 4, signed=True, random_state=1000).X
    annealing = Annealing(1.0, classification=DataClassification(start=0.2))
    fit = LinCA(8, max_active=2, n_candidates=4, annealing=annealing, max_iter=30, random_state=0).fit(X)
    assert fit.stop_ is Stop.SCHEDULE_ENDED
    assert len(fit.free_energy_) == fit.n_iter_ + 1


def test_components_that_no_data_point_uses_are_named():
    X = make_bars(60, 3, noise=0.1, random_state=1000).X
    with pytest.warns(ConvergenceWarning, match="What may help: a larger n_init"):
        fit = ETNMF(30, random_state=0, tol=1e-2, max_iter=500).fit(np.maximum(X, 0.0))
    assert fit.stop_ is Stop.COMPONENTS_UNUSED
    assert_array_equal(fit.unused_components_, np.flatnonzero(fit.activation_ * 60 < 1.0))
    assert fit.unused_components_.size > 0
