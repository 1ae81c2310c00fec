"""The templates for GPUs, compiled for the host where there is a compiler, and on the device where there is one.

Everything around the kernels is the same for both: what passes here for the host fails on a device by its compiler or
by a race alone.
"""

from pathlib import Path

import numpy as np
import pytest
from cases import LINEAR, MIXTURES, MODELS

from multicause.backends import cuda
from multicause.backends.cuda.host import HostRuntime, compiler
from multicause.execution import InProcess, split
from multicause.execution.on_device import OnDevice
from multicause.models import combine
from multicause.posteriors import TruncatedPosterior

MAXIMAL = ["maximal_gaussian", "maximal_diagonal"]
SUPPORTED = [*LINEAR, *MAXIMAL, "spike_slab_isotropic_diagonal", "spike_slab_diagonal_diagonal", "spike_slab_full_diagonal"]
SIZES = [(10, 8), (10, 4), (6, 5), (5, 3), (2, 2), (1, 1), (11, 3)]  # H' and gamma


QUESTIONS = ["free_energies", "means", "codes", "reconstructions"]


@pytest.fixture(scope="session", params=["host", pytest.param("device", marks=pytest.mark.cuda)])
def runtime(request, tmp_path_factory):
    if request.param == "device":
        if cuda.problem() is not None:
            pytest.skip(cuda.problem())
        return cuda.runtime()
    if compiler() is None:
        pytest.skip("no C++ compiler: the templates for GPUs are not tested")
    return HostRuntime(cuda.source(), Path(tmp_path_factory.getbasetemp().parent) / "templates")


def on(runtime, X, n_components, weights=None):
    executor = OnDevice(runtime)
    return executor, executor.split(X, n_components, 150, weights)


def close(found, wanted, tolerance):
    """Relative to the largest entry of each field."""
    for name, a, b in zip(wanted._fields, found, wanted, strict=True):
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-300)
        assert np.shape(a) == np.shape(b), name
        assert float(np.abs(np.asarray(a) - b).max(initial=0.0)) <= tolerance * scale, name


def problem(case, n_components, seed=0, n_features=9, n_rows=333):
    rng = np.random.default_rng(seed)
    model, params = (MODELS | MIXTURES)[case](n_components, n_features, rng)
    return model, params, model.sample(params, n_rows, rng)[0], rng.uniform(0.2, 3.0, n_rows)


@pytest.mark.parametrize("case", SUPPORTED)
@pytest.mark.parametrize(("n_candidates", "max_active"), SIZES)
@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_device_gives_the_statistics_of_the_processor(runtime, case, n_candidates, max_active, beta):
    model, params, X, weights = problem(case, 14)
    prepared = TruncatedPosterior(n_candidates, max_active).prepare(model, params, beta)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, 14, weights=weights), combine)
    executor, chunks = on(runtime, X, 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert len(chunks) > 1
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)


@pytest.mark.parametrize("case", SUPPORTED)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("n_candidates", [8, 5])
def test_device_gives_the_answers_of_the_processor(runtime, case, question, n_candidates):
    model, params, X, _ = problem(case, 8, seed=1)
    prepared = TruncatedPosterior(n_candidates, 3).prepare(model, params)
    wanted = np.concatenate(list(InProcess().map(getattr(prepared, question), split(X, 8))))
    executor, chunks = on(runtime, X, 8)
    found = np.concatenate(list(executor.map(getattr(prepared, question), chunks)))
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", MIXTURES)
@pytest.mark.parametrize(("n_candidates", "singletons"), [(3, False), (8, False), (2, True)])
@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_mixtures_on_a_device_are_those_of_the_processor(runtime, case, n_candidates, singletons, beta):
    model, params, X, weights = problem(case, 8, seed=3)
    prepared = TruncatedPosterior(n_candidates, 1, singletons).prepare(model, params, beta)
    here, there = split(X, 8, weights=weights), on(runtime, X, 8, weights)
    wanted = InProcess().map_reduce(prepared.statistics, here, combine)
    found = there[0].map_reduce(prepared.statistics, there[1], combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)
    for question in [*QUESTIONS, *(["clean"] if case == "mixture_factor" else [])]:
        a = np.concatenate(list(InProcess().map(getattr(prepared, question), here)))
        b = np.concatenate(list(there[0].map(getattr(prepared, question), there[1])))
        assert b == pytest.approx(a, rel=1e-9, abs=1e-9), question


@pytest.mark.parametrize("case", [*SUPPORTED, *MIXTURES])
def test_single_precision_is_as_good_as_it_can_be(runtime, case):
    model, params, X, weights = problem(case, 14, seed=2)
    prepared = TruncatedPosterior(6, 1 if case in MIXTURES else 3, case not in MIXTURES).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, 14, weights=weights), combine)
    executor, chunks = on(runtime, X.astype(np.float32), 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-4)
    close(found.statistics, wanted.statistics, 1e-4)
