"""Fits on a Dask cluster: the bits of one process, whatever happens to the workers."""

import os
import signal
from threading import Timer

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from multicause import GSC, MCA, InvECA, LinCA, TruncatedGaussianMixture, load_model
from multicause.datasets import make_bars, make_scenes
from multicause.execution import InProcess, chunks_of, dask_worker, on, work_arrays
from multicause.execution.dask_cluster import DaskCluster
from multicause.execution.dask_worker import total
from multicause.learning import Annealing, DataClassification
from multicause.selection import GPSelect

from command_line import refused, succeed

SMALL = {"n_candidates": 4, "max_active": 3, "max_iter": 4, "tol": 0, "random_state": 0}
ESTIMATORS = {
    "plain": LinCA(8, **SMALL),
    "monotone": MCA(8, monotone=True, **SMALL),
    "learned selection": GSC(8, **SMALL | {"max_iter": 5}, selection=GPSelect(update_every=2)),
    "factored": GSC(8, posterior="factored", max_iter=3, tol=0, random_state=0),
    "clusters": TruncatedGaussianMixture(3, max_iter=2, tol=0, random_state=0),
    "classified": LinCA(8, **SMALL, annealing=Annealing(2.0, classification=DataClassification(start=0.2))),
}


@pytest.fixture(scope="module")
def X():
    return np.abs(make_bars(n_samples=1200, size=4, random_state=0).X)


@pytest.fixture
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client, chunks_of(256):
        yield client


@pytest.fixture(autouse=True, scope="module")
def quiet():
    import logging

    logging.getLogger("distributed").setLevel(logging.CRITICAL)


def assert_same_fit(first, second):
    name = "means_" if hasattr(first, "means_") else "components_"
    np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.free_energy_, second.free_energy_)


class At:
    """Does something before the E-step of an iteration."""

    def __init__(self, monkeypatch, number, action):
        from multicause.learning.em.em import EM

        before, calls = EM._e_step, []

        def e_step(em, *arguments, **named):
            calls.append(None)
            if len(calls) == number:
                action()
            return before(em, *arguments, **named)

        monkeypatch.setattr(EM, "_e_step", e_step)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cluster_gives_the_bits_of_one_process(client, X):
    weights = np.random.default_rng(0).random(len(X))
    for estimator in ESTIMATORS.values():
        here = clone(estimator).fit(X, sample_weight=weights)
        assert_same_fit(here, clone(estimator).fit(X, sample_weight=weights, executor=client))
    assert_same_fit(here, clone(estimator).fit(da.from_array(X, chunks=(700, 9)), sample_weight=weights))
    with on(client):
        np.testing.assert_array_equal(here.transform(X), here.transform(da.from_array(X, chunks=(700, 9))))


def test_places_that_are_learned_on_a_cluster_have_the_bits_of_one_process(client):
    images = make_scenes(n_samples=300, random_state=0).X
    estimator = InvECA(2, (3, 3), selection=GPSelect(update_every=2), max_iter=3, tol=0, random_state=0)
    shape = images.shape[1:] if images.ndim > 2 else None
    estimator.set_params(image_shape=None if shape else (8, 8))
    assert_same_fit(clone(estimator).fit(images), clone(estimator).fit(images, executor=client))


@pytest.mark.parametrize("name", ["plain", "monotone", "learned selection"])
def test_workers_that_leave_and_join_change_nothing(name, cluster, client, X, monkeypatch):
    here = clone(ESTIMATORS[name]).fit(X)

    def replace_a_worker():
        dask_worker._memories.clear()  # which workers of one process share
        cluster.sync(cluster.workers[0].close)
        cluster.scale(3)

    At(monkeypatch, 3, replace_a_worker)
    assert_same_fit(here, clone(ESTIMATORS[name]).fit(X, executor=client))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "monotone", "learned selection"])
def test_a_worker_that_is_killed_changes_nothing(name, X, monkeypatch):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
        chunks_of(256),
    ):
        here = clone(ESTIMATORS[name]).fit(X)

        def kill_soon():
            process = min(client.run(os.getpid).values())
            Timer(0.02, os.kill, (process, signal.SIGKILL)).start()

        At(monkeypatch, 3, kill_soon)
        there = clone(ESTIMATORS[name]).fit(X, executor=client)
        client.wait_for_workers(2, timeout=120)  # a cluster that closes while a worker starts may wait for ever
    assert_same_fit(here, there)


def test_memory_that_is_lost_is_made_again(client, X, monkeypatch):
    here = clone(ESTIMATORS["monotone"]).fit(X)
    At(monkeypatch, 3, dask_worker._memories.clear)
    assert_same_fit(here, clone(ESTIMATORS["monotone"]).fit(X, executor=client))


def test_a_checkpoint_fetches_what_chunks_remember(client, X, tmp_path, monkeypatch):
    here = clone(ESTIMATORS["monotone"]).fit(X)

    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        At(patch, 3, interrupt)
        with pytest.raises(KeyboardInterrupt):
            clone(ESTIMATORS["monotone"]).fit(X, executor=client, checkpoint=tmp_path / "run")
    resumed = clone(ESTIMATORS["monotone"]).fit(X, executor=client, checkpoint=tmp_path / "run", resume=True)
    assert_same_fit(here, resumed)


def test_nothing_is_left_on_the_workers(client, X):
    clone(ESTIMATORS["monotone"]).fit(X, executor=client)
    client.run(lambda: None)
    assert not dask_worker._memories
    kept = client.submit(lambda _: len(work_arrays._kept.buffers), 0, pure=False)
    assert kept.result() == 0


def test_a_cluster_without_workers_is_given_up(X):
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
        on(client, timeout=0.3),
        pytest.raises(TimeoutError, match=r"has had no worker for 0.3 s. Start workers"),
    ):
        LinCA(8, **SMALL).fit(X)


def test_errors_on_workers_are_those_of_one_process(client, X):
    with pytest.raises(ValueError, match="contains infinity"):
        LinCA(8).fit(da.from_array(np.where(X > 20.0, np.inf, X), chunks=(500, 16)))
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        LinCA(8).fit(da.from_array(X)[da.from_array(X)[:, 0] > 0.0])
    with pytest.raises(TypeError, match="Got int instead"):
        LinCA(8).fit(X, executor=3)


def test_a_dask_array_without_a_cluster_is_read_by_rows(X):
    with chunks_of(256):
        assert_same_fit(clone(ESTIMATORS["plain"]).fit(X), clone(ESTIMATORS["plain"]).fit(da.from_array(X, (700, 9))))


def test_sums_of_groups_meet_in_the_tree_of_one_process():
    def join(a, b):
        return f"({a}{b})"

    for n in range(1, 40):
        leaves = [f"{i}," for i in range(n)]
        assert total({(0, i): leaf for i, leaf in enumerate(leaves)}, join) == InProcess().map_reduce(str, leaves, join)


def test_groups_do_not_depend_on_workers_and_homes_are_kept():
    executor = DaskCluster.__new__(DaskCluster)
    executor._homes, executor._version = {}, 0
    groups = [[None]] * 8
    executor._settle(groups, {"a": 1, "b": 3})
    assert list(executor._homes.values()) == ["a"] * 2 + ["b"] * 6
    executor._settle(groups, {"b": 3, "c": 1})
    assert [executor._homes[i] for i in range(2)] == ["c"] * 2
    executor._settle(groups, {"b": 1, "c": 1})
    assert sorted(executor._homes.values()) == ["b"] * 4 + ["c"] * 4


def test_the_command_line_fits_on_a_cluster(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    fit = ["fit", tmp_path / "X.npy", "-n", 4, "--iterations", 2, "--seed", 0]
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as cluster:
        succeed(*fit, "-o", tmp_path / "there", "--scheduler", cluster.scheduler_address)
    succeed(*fit, "-o", tmp_path / "here")
    assert_same_fit(load_model(tmp_path / "there"), load_model(tmp_path / "here"))
    assert "leave out --scheduler" in refused(*fit[:2], "--model", "upoe", "--scheduler", "tcp://127.0.0.1:1")
