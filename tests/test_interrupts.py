"""Ctrl-C, as a real signal at moments where it used to cost the fit; benchmarks/interrupts.py has the random ones."""

import os
import signal
from threading import Thread

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multicause import InvECA, LinCA, RestrictedMCA, interrupts, load_model
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.execution import InProcess
from multicause.learning import Stop
from multicause.learning.checkpoints import Checkpoint
from multicause.learning.em import object_search
from multicause.learning.em.local_em import LocalEM
from multicause.learning.em.search import _Searching
from multicause.learning.records import Trace

from command_line import call

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BARS = make_bars(n_samples=300, size=3, random_state=0).X
SETTINGS = {"max_iter": 5, "tol": 0.0, "random_state": 0, "n_jobs": 1}


@pytest.fixture(autouse=True)
def interrupts_are_heard():
    """Also where the tests run in the background, in which shells let processes ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ctrl_c(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture
def during(monkeypatch):
    """Press Ctrl-C at the n-th call of a method, before it does anything; the next step of Python hears of it."""

    def arrange(owner, name, n=1):
        method, calls = getattr(owner, name), iter(range(1, 10**6))

        def interrupted(*args, **kwargs):
            if next(calls) == n:
                ctrl_c()
            return method(*args, **kwargs)

        monkeypatch.setattr(owner, name, interrupted)

    return arrange


@pytest.mark.parametrize(
    ("owner", "name", "n", "n_iter"),
    [
        (LinCA, "_keep", 1, 5),  # what was learned becomes attributes
        (Trace, "__call__", 3, 2),  # the record of an iteration
        (Trace, "close", 1, 5),  # all iterations are done
        (Checkpoint, "flush", 2, 1),
        (LinCA, "_attributes", 1, 5),
    ],
)
def test_an_interrupt_costs_no_iteration_that_was_recorded(owner, name, n, n_iter, during, tmp_path):
    keeping = {"trace": tmp_path / "t", "checkpoint": tmp_path / "c", "checkpoint_every": 1}
    whole = LinCA(6, **SETTINGS).fit(BARS)
    during(owner, name, n)
    fit = LinCA(6, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(BARS, **keeping)
    assert fit.n_iter_ == n_iter
    assert_array_equal(fit.free_energy_, whole.free_energy_[: n_iter + 1])
    assert len((tmp_path / "t").read_text().splitlines()) == n_iter + 1
    assert fit.transform(BARS).shape == (300, 6)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("owner", "name", "n"), [(_Searching, "_round", 3), (_Searching, "_is_content", 1), (LocalEM, "best_of_steps", 1)]
)
def test_an_interrupt_of_the_search_for_a_start_keeps_what_was_found(owner, name, n, during, tmp_path):
    drawn = LinCA(6, max_iter=1, start="random", random_state=0).fit(BARS)
    during(owner, name, n)
    fit = LinCA(6, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(BARS, checkpoint=tmp_path / "c")
    assert fit.stop_ is Stop.INTERRUPTED
    assert (fit.n_iter_, len(fit.free_energy_)) == (0, 1)
    assert fit.free_energy_[-1] > drawn.free_energy_[-1]
    assert_allclose(fit.score(BARS), fit.free_energy_[-1])


def test_an_interrupt_of_the_search_for_objects_keeps_what_was_found(during):
    X = make_scenes(100, shape_objects(2, 5), image_shape=(10, 10), probability=0.4, random_state=1000).X
    during(object_search._Searching, "_round", 2)
    fit = InvECA(2, (5, 5), init="random", n_candidates=2, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(X)
    assert fit.stop_ is Stop.INTERRUPTED
    assert_allclose(fit.score(X), fit.free_energy_[-1])
    first = InvECA(2, (5, 5), init="random", search=False, n_candidates=2, max_iter=1, random_state=0).fit(X)
    assert fit.free_energy_[-1] > first.free_energy_[0]


def test_an_interrupt_before_anything_was_found_leaves_the_estimator_as_it_was(during):
    during(_Searching, "_round", 1)
    fit = LinCA(6, **SETTINGS)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(BARS)
    assert not hasattr(fit, "components_")


def test_an_interrupt_between_two_restarts_keeps_the_earlier_ones(during):
    fit = LinCA(6, n_init=3, **SETTINGS)
    during(InProcess, "forget", 2)  # where the second one starts
    with pytest.raises(KeyboardInterrupt):
        fit.fit(BARS)
    assert fit.stop_ is Stop.INTERRUPTED
    assert_array_equal(fit.components_, LinCA(6, **SETTINGS).fit(BARS).components_)


def test_a_fit_without_any_iteration_leaves_the_estimator_as_it_was(during):
    fit = LinCA(6, **SETTINGS)
    during(LinCA, "_fit_of")
    with pytest.raises(KeyboardInterrupt):
        fit.fit(BARS)
    assert not hasattr(fit, "components_")
    assert fit.fit(BARS).n_iter_ == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["save_model", "summary"])
def test_the_command_line_saves_a_model_that_was_learned(when, number, monkeypatch, tmp_path):
    from multicause import persistence
    from multicause.cli import fit

    owner = {"save_model": persistence, "summary": fit}[when]
    method = getattr(owner, when)
    monkeypatch.setattr(owner, when, lambda *arguments: (ctrl_c(number), method(*arguments))[1])
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", BARS)
    result = call("fit", "x.npy", "-o", "m", "-n", 6, "--iterations", 5, "--tol", 0, "--threads", 1)
    assert result.exit_code == 128 + number, result.output
    assert load_model("m").n_iter_ == 5


def test_patterns_presented_one_by_one_are_all_learned_or_none(monkeypatch):
    from multicause.backends import numba_cpu

    kernels = numba_cpu.load("restricted_mca")
    X, present = np.abs(BARS), kernels.present
    network = RestrictedMCA(6, random_state=0, field_sum=20.0).partial_fit(X[:50])
    expected = RestrictedMCA(6, random_state=0, field_sum=20.0).partial_fit(X[:50]).partial_fit(X[50:])
    before = network.components_.copy()
    monkeypatch.setattr(kernels, "present", lambda *arguments: (ctrl_c(), present(*arguments)))
    with pytest.raises(KeyboardInterrupt):
        network.partial_fit(X[50:])
    monkeypatch.undo()
    assert_array_equal(network.components_, before)
    assert_array_equal(network.partial_fit(X[50:]).n_presentations_, expected.n_presentations_)


def test_held_interrupts_rise_at_the_end_and_a_second_one_at_once():
    seen = []

    def press_twice():
        with interrupts.watched(), interrupts.held():
            for press in ("first", "second"):
                ctrl_c()
                seen.append(press)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert seen == ["first"]


def test_after_the_first_record_interrupts_wait_for_the_next_moment_that_allows_them():
    seen = []
    with interrupts.watched() as watch:
        with interrupts.raised():
            seen.append("began")
        ctrl_c()
        seen.append("went on")
        with pytest.raises(KeyboardInterrupt), interrupts.raised():
            seen.append("not reached")
    assert seen == ["began", "went on"]
    assert watch.received == [signal.SIGINT]


def test_a_handler_of_ones_own_is_asked_instead():
    received, before = [], signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        with interrupts.watched(), interrupts.held():
            ctrl_c()
            assert received == []
        assert received == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_at_the_very_end_of_a_watch_rises_after_it(monkeypatch):
    before, set_handler = signal.getsignal(signal.SIGINT), signal.signal

    def pressed(number, handler):
        if handler is before:
            ctrl_c()
        return set_handler(number, handler)

    def watch():
        with interrupts.watched():
            monkeypatch.setattr(interrupts.signal, "signal", pressed)

    with pytest.raises(KeyboardInterrupt):
        watch()
    assert signal.getsignal(signal.SIGINT) is before


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts.watched():
            ctrl_c()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_signals_alone():
    found = []

    def work():
        with interrupts.watched(), interrupts.raised(), interrupts.held():
            found.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def test_an_error_is_not_hidden_by_what_was_held():
    def fail(pressed):
        with interrupts.watched(), interrupts.held():
            if pressed:
                ctrl_c()
            raise ValueError("of its own")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail(pressed=True)
    assert isinstance(caught.value.__context__, ValueError)
    with pytest.raises(ValueError, match="of its own"):
        fail(pressed=False)
