"""Kernels and the definition against brute force, on random cases over the whole table of models."""

import os
import subprocess
import sys
from functools import partial
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from multicause.backends.numba_cpu import load
from multicause.execution import InProcess, split
from multicause.models import BinaryLinear, DictionaryParams, combine
from multicause.models.base import HasCoefficients, heated
from multicause.models.subsets import count_subsets, subset_tree
from multicause.posteriors import ExactPosterior, TruncatedPosterior
from multicause.posteriors.e_steps import DefinitionEStep, e_step_of
from multicause.selection import top_candidates
from multicause.testing import brute_force

from cases import LINEAR, MODELS, SPIKE_SLAB

MOST_CAUSES = dict.fromkeys(LINEAR, 12) | dict.fromkeys(SPIKE_SLAB, 6)


@st.composite
def truncations(draw, most_causes):
    n_components = draw(st.integers(1, most_causes))
    n_candidates = draw(st.integers(1, n_components))
    return n_components, n_candidates, draw(st.integers(1, n_candidates))


def make_case(name, n_components, n_candidates, seed, n_rows=13, n_features=None):
    """A model, its parameters, data near the model's, and random candidates."""
    rng = np.random.default_rng(seed)
    model, params = MODELS[name](n_components, n_features or int(rng.integers(1, 8)), rng)
    Y = model.sample(params, n_rows, rng)[0]
    candidates = np.sort(rng.permuted(np.tile(np.arange(n_components), (n_rows, 1)), axis=1)[:, :n_candidates], axis=1)
    return model, params, Y, candidates.astype(np.int32), rng


def e_steps(model, params, max_active, singletons, beta):
    """The fused E-step and the one by the model's definition."""
    assert e_step_of(model) is not DefinitionEStep
    settings = heated(model, beta), params, max_active, singletons, beta
    return e_step_of(model)(*settings), DefinitionEStep(*settings)


def coefficients(model, params, Y, states):
    """The latents' coefficients given each state, (N, K, H)."""
    if isinstance(model, HasCoefficients):
        return model.codes(params, Y, states)
    return np.broadcast_to(states, (len(Y), *states.shape))


def assert_statistics_close(actual, wanted, tolerance):
    for name in wanted._fields:
        scale = np.max(np.abs(getattr(wanted, name)), initial=1.0)
        assert_allclose(getattr(actual, name), getattr(wanted, name), rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data(), singletons=st.booleans(), beta=st.sampled_from([1.0, 0.3]), seed=st.integers(0, 10**6))
def test_kernel_and_definition_equal_brute_force(name, data, singletons, beta, seed):
    n_components, n_candidates, max_active = data.draw(truncations(MOST_CAUSES.get(name, 8)))
    model, params, Y, candidates, rng = make_case(name, n_components, n_candidates, seed)
    weights = rng.uniform(0.0, 2.0, size=len(Y))
    oracle = brute_force(
        model, params, Y, candidates=candidates, max_active=max_active, singletons=singletons, beta=beta
    )
    hot = heated(model, beta)
    wanted = hot.accumulate(params, Y, oracle.states, weights[:, None] * oracle.q)
    active = coefficients(model, params, Y, oracle.states)
    for e_step in e_steps(model, params, max_active, singletons, beta):
        terms = e_step.terms(Y)
        assert_allclose(e_step.free_energies(terms, candidates), oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_allclose(e_step.means(terms, candidates), oracle.mean, rtol=0, atol=1e-10)
        if beta == 1.0:
            rebuilt = np.einsum("nk,nkd->nd", oracle.q, model.superpose(params, active))
            assert_allclose(e_step.reconstruct(terms, candidates), rebuilt, rtol=0, atol=1e-9)
        free_energies, statistics, means = e_step.accumulate(terms, candidates, weights)
        assert_allclose(free_energies, oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_statistics_close(statistics, wanted, 1e-10)
        assert_allclose(means, oracle.mean, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("n_components", [1, 4, 12])
def test_truncation_over_every_state_equals_the_exact_posterior(name, n_components):
    model, params, Y, _, _ = make_case(name, n_components, n_components, seed=n_components)
    oracle = brute_force(model, params, Y)
    everything = np.tile(np.arange(n_components, dtype=np.int32), (len(Y), 1))
    for use_kernel in (True, False):
        e_step = ExactPosterior(n_components, use_kernel).prepare(model, params).here.e_step
        terms = e_step.terms(Y)
        assert_allclose(e_step.free_energies(terms, everything), oracle.free_energy, rtol=1e-10)
        assert_allclose(e_step.means(terms, everything), oracle.mean, atol=1e-10)


@pytest.mark.parametrize("name", MODELS)
def test_every_log_joint_of_the_kernel_equals_the_definition(name):
    """With gamma = H' = |s| and one state's candidates, differences of log normalisers single out each state."""
    n_components = 7
    model, params, Y, _, _ = make_case(name, n_components, 1, seed=3)
    oracle = brute_force(model, params, Y)
    e_step, _ = e_steps(model, params, n_components, False, 1.0)
    terms = e_step.terms(Y)
    (of_rows,) = terms if name in SPIKE_SLAB else (terms,)
    for state, log_joint in zip(oracle.states, oracle.log_joint.T, strict=True):
        members = np.flatnonzero(state).astype(np.int32)
        if members.size == 0:
            empty = of_rows.constant + getattr(of_rows, "empty", 0.0)
            possible = np.isfinite(log_joint)  # a rate of 0 allows nothing but zeros
            assert_allclose(empty[possible], log_joint[possible], rtol=1e-10)
            assert (empty[~possible] < -1e200).all()
            continue
        candidates = np.tile(members, (len(Y), 1))
        subsets = oracle.states @ state == oracle.states.sum(axis=1)
        wanted = np.logaddexp.reduce(oracle.log_joint[:, subsets], axis=1)
        assert_allclose(e_step.free_energies(terms, candidates), wanted, rtol=1e-10)


@pytest.mark.parametrize("name", MODELS)
@given(truncation=truncations(most_causes=20), seed=st.integers(0, 10**6))
def test_kernel_selects_what_the_definition_selects(name, truncation, seed):
    n_components, n_candidates, _ = truncation
    model, params, Y, _, _ = make_case(name, n_components, n_candidates, seed)
    kernel, definition = e_steps(model, params, 1, True, 1.0)
    chosen = kernel.select(kernel.terms(Y), n_candidates)
    wanted = definition.select(Y, n_candidates)
    scores = model.selection_scores(params, Y)
    # equal up to causes whose scores tie within rounding
    assert_allclose(
        np.take_along_axis(scores, chosen.astype(int), 1).sum(axis=1),
        np.take_along_axis(scores, wanted.astype(int), 1).sum(axis=1),
        rtol=1e-9,
        atol=1e-9,
    )
    assert (np.diff(chosen, axis=1) > 0).all()


@pytest.mark.parametrize("name", SPIKE_SLAB)
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["complete", "gaps"])
@given(seed=st.integers(0, 2**32 - 1))
def test_greedy_selection_of_the_kernel_equals_the_definition(name, share, seed):
    model, params, Y, _, rng = make_case(name, 7, 4, seed)
    Y[rng.random(Y.shape) < share] = np.nan
    kernel, definition = e_steps(model, params, 1, True, 1.0)
    chosen, wanted = kernel.select_greedily(kernel.terms(Y), 4), definition.select_greedily(Y, 4)
    states = np.zeros((2, len(Y), model.n_components))
    for state, causes in zip(states, (chosen, wanted), strict=True):
        np.put_along_axis(state, causes.astype(int), 1.0, axis=1)
    # equal up to causes whose scores tie within rounding
    scores = [model.greedy_scores(params, Y, state[:, None]) for state in states]
    assert_allclose(*scores, rtol=1e-6, atol=1e-6)
    assert (np.diff(chosen, axis=1) > 0).all()


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("share", [0.0, 0.3], ids=["complete", "gaps"])
@given(seed=st.integers(0, 2**32 - 1))
def test_growing_a_state_in_the_kernel_equals_the_definition(name, share, seed):
    model, params, Y, _, rng = make_case(name, 7, 4, seed)
    Y[rng.random(Y.shape) < share] = np.nan
    kernel, definition = e_steps(model, params, 4, False, 1.0)
    chosen, wanted = kernel.select_greedily(kernel.terms(Y), 4), definition.select_greedily(Y, 4)
    # the same, but for latents whose scores tie within rounding
    assert (chosen == wanted).all(axis=1).mean() >= 0.9
    assert_allclose(kernel.free_energies(kernel.terms(Y), chosen), definition.free_energies(Y, chosen), rtol=1e-9)
    assert (np.diff(chosen, axis=1) > 0).all()


@pytest.mark.parametrize("name", LINEAR)
def test_the_short_way_of_greedy_candidates_equals_the_long_one(name):
    model, params, Y, _, rng = make_case(name, 7, 4, 0)
    weights = rng.uniform(0.0, 2.0, size=len(Y))
    kernel, _ = e_steps(model, params, 3, True, 0.7)
    terms = kernel.terms(Y)
    long = kernel.accumulate(terms, kernel.select_greedily(terms, 4), weights)
    short = kernel.sums(Y, weights, 4, greedy=True)
    assert_allclose(short.free_energy, long.free_energies @ weights, rtol=1e-10)
    assert_statistics_close(short.statistics, long.statistics, 1e-9)


def test_a_latent_that_others_hide_is_a_candidate_of_greedy_selection_only():
    components = np.array([[4.0, 4.0, 0.0], [4.0, 3.0, 1.0], [0.0, 0.0, 1.0], [3.0, 4.0, 1.0]])
    params = DictionaryParams(components, np.full(4, 0.25), 0.01)
    e_step = e_steps(BinaryLinear(4, 3), params, 2, False, 1.0)[0]
    terms = e_step.terms(np.array([[4.0, 4.0, 1.0]]))
    assert 2 not in e_step.select(terms, 2)
    assert e_step.select_greedily(terms, 2).tolist() == [[0, 2]]


def test_top_candidates_prefers_the_first_of_equals():
    scores = np.array([[1.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    wanted = [[1, 2], [0, 1]]
    assert top_candidates(scores, 2).tolist() == wanted
    assert load("selection").top_candidates(scores, np.zeros(4), np.ones(4), 2).tolist() == wanted


@given(st.integers(1, 10).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_the_subset_tree_holds_every_small_subset_once_with_parents_first(sizes):
    n_candidates, max_active = sizes
    tree = subset_tree(n_candidates, max_active)
    subsets = [tuple(members[:depth]) for members, depth in zip(tree.members, tree.depth, strict=True)]
    assert len(set(subsets)) == len(subsets) == count_subsets(n_candidates, max_active)
    for row, subset in enumerate(subsets[1:], start=1):
        assert subsets[tree.parent[row]] == subset[:-1]
        assert tree.parent[row] < row


@given(st.lists(st.floats(-800, 0), min_size=1, max_size=40))
def test_the_fast_exponential_is_exact_to_rounding_and_flushes_small_weights(values):
    exponentiate = load("vector_math").exponentiate
    x = np.array(values)
    result = np.empty_like(x)
    exponentiate(x, result)
    large = x >= -69.0
    assert_allclose(result[large], np.exp(x[large]), rtol=4e-16 * 4)
    assert (result[~large] == 0.0).all()


def test_the_fast_exponential_survives_a_caller_that_may_reassociate():
    """Numba hands a caller's options down to what it compiles: a first call from there must not spoil the function."""
    code = (
        "from multicause.backends.numba_cpu import load; import numba, numpy as np;"
        "exponentiate = load('vector_math').exponentiate;"
        "call = numba.njit(lambda x, y: exponentiate(x, y), fastmath=True);"
        "x = np.linspace(-3, 3, 64); y = np.empty(64); call(x, y); exponentiate(x, y);"
        "print(abs(y / np.exp(x) - 1).max() < 1e-14)"
    )
    with TemporaryDirectory() as cache:
        environment = {**os.environ, "MULTICAUSE_CACHE": cache, "PYTHONPATH": ":".join(sys.path)}
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.stdout.strip() == "True", result.stderr


@given(st.lists(st.floats(1e-300, 1e300), min_size=1, max_size=40))
def test_the_fast_logarithm_is_exact_to_rounding(values):
    x = np.array(values)
    wanted = np.log(x)
    load("vector_math").take_logs(x)
    assert_allclose(x, wanted, rtol=1e-15, atol=1e-15)


def unit_noise(params):
    """Noise of variance one, in the shape of the model's."""
    shape = np.shape(params.noise_variance)
    return np.eye(shape[0]) if len(shape) == 2 else np.ones(shape)


@pytest.mark.parametrize("name", MODELS)
def test_extreme_data_give_finite_expectations(name):
    """Log joints a million apart, and noise so small that all weights but one vanish."""
    model, params, Y, candidates, _ = make_case(name, 8, 4, seed=5)
    if hasattr(params, "noise_variance"):
        params, Y = params._replace(noise_variance=1e-7 * unit_noise(params)), 1e2 * Y
    elif name != "maximal_bernoulli":
        params, Y = params._replace(components=1e-7 * params.components), 1e4 * Y
    e_step, _ = e_steps(model, params, 3, True, 1.0)
    terms = e_step.terms(Y)
    means = e_step.means(terms, candidates)
    assert np.isfinite(e_step.free_energies(terms, candidates)).all()
    assert ((means >= 0.0) & (means <= 1.0 + 1e-12)).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_posterior_without_kernel_gives_the_same_statistics(name):
    model, params, Y, _, _ = make_case(name, 8, 3, seed=11, n_rows=300, n_features=6)
    results = []
    for use_kernel in (True, False):
        prepared = TruncatedPosterior(3, 2, use_kernel=use_kernel).prepare(model, params, 0.7)
        parts = [prepared.statistics(chunk) for chunk in split(Y, 8, chunk_size=256)]
        assert len(parts) == 2
        results.append(combine(*parts))
    assert_allclose(results[0].free_energy, results[1].free_energy, rtol=1e-10)
    assert_statistics_close(results[0].statistics, results[1].statistics, 1e-10)


@pytest.mark.parametrize("name", ["binary_linear", *SPIKE_SLAB])
@given(
    truncation=truncations(most_causes=6),
    singletons=st.booleans(),
    beta=st.sampled_from([1.0, 0.3]),
    seed=st.integers(0, 10**6),
)
def test_with_missing_entries_the_kernel_equals_the_definition(name, truncation, singletons, beta, seed):
    n_components, n_candidates, max_active = truncation
    model, params, Y, candidates, rng = make_case(name, n_components, n_candidates, seed)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    weights = rng.uniform(0.0, 2.0, size=len(Y))
    kernel, definition = e_steps(model, params, max_active, singletons, beta)
    assert_allclose(kernel.reconstruct(kernel.terms(Y), candidates), definition.reconstruct(Y, candidates), atol=1e-9)
    free_energies, statistics, means = kernel.accumulate(kernel.terms(Y), candidates, weights)
    wanted_energies, wanted, wanted_means = definition.accumulate(Y, candidates, weights)
    assert_allclose(free_energies, wanted_energies, rtol=1e-9, atol=1e-9)
    assert_allclose(means, wanted_means, rtol=0, atol=1e-9)
    assert_statistics_close(statistics, wanted, 1e-9)


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data(), singletons=st.booleans(), beta=st.sampled_from([1.0, 0.3]), seed=st.integers(0, 10**6))
def test_the_short_way_through_a_chunk_equals_brute_force(name, data, singletons, beta, seed):
    n_components, n_candidates, max_active = data.draw(truncations(MOST_CAUSES.get(name, 8)))
    model, params, Y, _, rng = make_case(name, n_components, n_candidates, seed)
    weights = rng.uniform(0.0, 2.0, size=len(Y))
    kernel, _ = e_steps(model, params, max_active, singletons, beta)
    found = kernel.sums(Y, weights, n_candidates)
    if found is None:
        return
    oracle = brute_force(
        model, params, Y, candidates=kernel.select(kernel.terms(Y), n_candidates), max_active=max_active,
        singletons=singletons, beta=beta,
    )  # fmt: skip
    wanted = heated(model, beta).accumulate(params, Y, oracle.states, weights[:, None] * oracle.q)
    assert_allclose(found[0], oracle.free_energy @ weights, rtol=1e-10, atol=1e-10)
    assert_statistics_close(found[1], wanted, 1e-10)


@pytest.mark.parametrize("name", ["binary_linear", "maximal_gaussian", "spike_slab_diagonal_diagonal"])
@pytest.mark.parametrize(("n_rows", "size"), [(1000, 128), (1500, 128), (5000, 384)])  # a power of two chunks, or not
def test_threads_that_share_an_e_step_have_the_bits_of_chunk_by_chunk(name, n_rows, size):
    model, params, Y, _, rng = make_case(name, 6, 3, seed=3, n_rows=n_rows)
    chunks = split(Y, 6, size, rng.uniform(0.0, 2.0, size=n_rows))
    assert len({chunk.n_parts for chunk in chunks}) > (size > 128)
    prepared = TruncatedPosterior(3, 2).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, chunks, combine)
    for n_threads in (1, 2, 5):
        with InProcess(n_threads) as executor:
            for _ in range(5):
                found = executor.map_reduce(None, chunks, combine, prepared.together)
                assert found.free_energy == wanted.free_energy
                for value, other in zip(found.statistics, wanted.statistics, strict=True):
                    np.testing.assert_array_equal(value, other)


def test_threads_that_must_wait_for_room_for_their_sums_come_to_an_end(monkeypatch):
    teamwork = load("teamwork")
    model, params, Y, _, _ = make_case("binary_linear", 6, 3, seed=3, n_rows=5000)
    chunks = split(Y, 6, 128)
    prepared = TruncatedPosterior(3, 2).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, chunks, combine)
    least = partial(teamwork.n_rows_for, 0)
    monkeypatch.setattr(teamwork, "n_rows_for", lambda n_threads, n_parts, n_chunks: least(n_parts, n_chunks))
    with InProcess(12) as executor:
        for _ in range(20):
            assert executor.map_reduce(None, chunks, combine, prepared.together).free_energy == wanted.free_energy


def test_threads_that_share_an_e_step_turn_to_chunks_where_entries_are_missing():
    model, params, Y, _, _ = make_case("binary_linear", 6, 3, seed=3, n_rows=1000)
    Y[700, 0] = np.nan
    chunks = split(Y, 6, 128)
    prepared = TruncatedPosterior(3, 2).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, chunks, combine)
    with InProcess(2) as executor:
        assert prepared.together(chunks) is not None
        assert executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)[0] == wanted[0]
        assert prepared.together(chunks) is None  # it is not tried again


def test_there_is_a_short_way_where_threads_wait_for_each_other():
    def is_short(name, share=0.0):
        model, params, Y, _, rng = make_case(name, 6, 3, seed=1)
        Y[rng.random(Y.shape) < share] = np.nan
        return e_step_of(model)(model, params, 2, True, 1.0).sums(Y, np.ones(len(Y)), 3) is not None

    assert is_short("binary_linear")
    assert sum(is_short(name) for name in MODELS if name.startswith("maximal")) >= 2
    assert sum(is_short(name) for name in SPIKE_SLAB) >= 2
    assert not is_short("binary_linear", share=0.5)
    assert not any(is_short(name, share=0.5) for name in SPIKE_SLAB)
