"""Fits in several threads, in forked processes and in joblib's workers: the same bits as alone."""

import multiprocessing
import sys
from threading import Condition, Thread

import numpy as np
import pytest
from joblib import Parallel, delayed
from numpy.testing import assert_array_equal
from sklearn.base import clone
from threadpoolctl import threadpool_info

from multicause import GSC, MCA, LinCA, NonlinearGSC, TruncatedGaussianMixture, UPoE
from multicause.backends import numba_cpu
from multicause.execution import chunks_of, split
from multicause.execution.in_process import InProcess, effective_threads, single_threaded_blas

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = np.abs(np.random.default_rng(0).laplace(size=(700, 4)))
SETTINGS = {"max_iter": 4, "random_state": 0, "n_jobs": 2}
ESTIMATORS = [
    LinCA(4, n_candidates=3, **SETTINGS),
    MCA(4, n_candidates=3, **SETTINGS),
    GSC(4, n_candidates=3, **SETTINGS),
    NonlinearGSC(4, n_candidates=2, n_sweeps=3, n_burn_in=2, **SETTINGS),
    TruncatedGaussianMixture(3, **SETTINGS),
    UPoE(2, **SETTINGS),
]


def FORKS(test):
    """What runs where a process with threads can fork."""
    cannot = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forking after threads is not safe there")
    return cannot(pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")(test))


def answers(estimator):
    """Of a fit in three chunks."""
    with chunks_of(256):
        fit = clone(estimator).fit(X)
        return fit.transform(X), fit.score_samples(X)


def assert_same(first, second):
    for a, b in zip(first, second, strict=True):
        assert_array_equal(a, b)


def test_four_threads_that_fit_at_once_get_the_bits_of_one():
    alone = [answers(estimator) for estimator in ESTIMATORS]
    found = {}

    def work(i):
        order = np.roll(np.arange(len(ESTIMATORS)), i)  # so that different kernels meet
        found[i] = {j: answers(ESTIMATORS[j]) for j in order}

    threads = [Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for one in found.values():
        for j, expected in enumerate(alone):
            assert_same(one[j], expected)


def in_child(send):
    send.send([answers(estimator) for estimator in ESTIMATORS])


def fork():
    receive, send = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=in_child, args=(send,))
    child.start()
    return child, receive


def result_of(child, receive):
    try:
        assert receive.poll(60), "the child hangs"
        return receive.recv()
    finally:
        child.join(1)
        child.kill()


@FORKS
def test_a_forked_child_fits_as_its_parent_did():
    before = [answers(estimator) for estimator in ESTIMATORS]  # threads, BLAS and kernels have been in use
    for one, expected in zip(result_of(*fork()), before, strict=True):
        assert_same(one, expected)


@FORKS
def test_a_child_that_was_forked_while_others_fit_is_not_held_up_by_them():
    answers(ESTIMATORS[0])
    with single_threaded_blas, single_threaded_blas._lock, numba_cpu._loading:  # as another thread may have them
        child, receive = fork()
    assert_same(result_of(child, receive)[0], answers(ESTIMATORS[0]))


def in_worker(estimator):
    blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return answers(estimator), effective_threads(None), max(blas, default=1)


def test_workers_of_joblib_give_the_same_bits_and_keep_to_their_share_of_the_cores():
    share = max(effective_threads(-1) // 2, 1)
    for found, n_threads, n_blas in Parallel(n_jobs=2, backend="loky")([delayed(in_worker)(ESTIMATORS[0])] * 2):
        assert_same(found, answers(ESTIMATORS[0]))
        assert n_threads <= share
        assert n_blas <= share


class InAnyOrder(InProcess):
    """Chunks end in an order of their own: each waits for those that are drawn to end before it."""

    def __init__(self, n_threads, seed):
        super().__init__(n_threads)
        self._rng = np.random.default_rng(seed)
        self.orders = []

    def map_reduce(self, task, chunks, combine, together=None):
        place = dict(enumerate(self._rng.permutation(len(chunks))))
        ended, turn = [], Condition()

        def delayed(indexed):
            number, chunk = indexed
            result = task(chunk)
            with turn:
                turn.wait_for(lambda: place[number] == len(ended), timeout=30)
                ended.append(number)
                turn.notify_all()
            return result

        total = super().map_reduce(delayed, list(enumerate(chunks)), combine)
        self.orders.append(tuple(ended))
        return total


def test_sums_have_the_same_bits_in_whatever_order_chunks_arrive():
    data = np.random.default_rng(1).lognormal(sigma=3.0, size=(13 * 128, 3))  # whose sum depends on the order
    chunks = split(data, 3, 128)
    parts = {i: chunk.rows().sum(axis=0) for i, chunk in enumerate(chunks)}
    assert len({sum(parts[i] for i in np.random.default_rng(s).permutation(13)).tobytes() for s in range(9)}) > 1
    totals, orders = set(), set()
    for seed in range(20):
        with InAnyOrder(13, seed) as executor:
            totals.add(executor.map_reduce(lambda chunk: chunk.rows().sum(axis=0), chunks, np.add).tobytes())
            orders |= set(executor.orders)
    assert len(orders) == 20
    with InProcess(1) as executor:
        totals.add(executor.map_reduce(lambda chunk: chunk.rows().sum(axis=0), chunks, np.add).tobytes())
    assert len(totals) == 1


@pytest.mark.parametrize("estimator", ESTIMATORS[:5], ids=lambda e: type(e).__name__)
def test_a_fit_has_the_same_bits_in_whatever_order_chunks_arrive(estimator, monkeypatch):
    wanted, seeds = answers(estimator), iter(range(100))
    monkeypatch.setattr(type(estimator), "_executor", lambda self, X, **more: InAnyOrder(3, next(seeds)))
    for _ in range(3):
        assert_same(answers(estimator), wanted)
