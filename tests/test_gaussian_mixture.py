"""Gaussian mixtures: the kernel against the definition, the fit against scikit-learn's, truncation, and errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from multicause.backends.numba_cpu import load
from multicause.execution import split
from multicause.models import GaussianMixture
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.definition import DefinitionWalk
from multicause.testing import brute_force, check_model

from cases import MIXTURES

SHAPES = pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])


@st.composite
def sizes(draw, most_clusters=8):
    n_components = draw(st.integers(1, most_clusters))
    return n_components, draw(st.integers(1, n_components)), draw(st.integers(1, 9))


def make_case(covariance_type, size, seed, n_rows=13):
    """A mixture, its parameters, data near the model's, and random candidates."""
    n_components, n_candidates, n_features = size
    rng = np.random.default_rng(seed)
    model, params = MIXTURES[f"mixture_{covariance_type}"](n_components, n_features, rng)
    Y = 1.5 * model.sample(params, n_rows, rng)[0]
    candidates = np.sort(rng.permuted(np.tile(np.arange(n_components), (n_rows, 1)), axis=1)[:, :n_candidates], axis=1)
    return model, params, Y, candidates.astype(np.int32), rng


def walks(model, params, singletons, beta):
    """The kernel's walk and the definition's."""
    return [walk(model, params, 1, singletons, beta) for walk in (load("gaussian_mixture").Walk, DefinitionWalk)]


def assert_statistics_close(actual, wanted, tolerance):
    for name in wanted._fields:
        scale = np.max(np.abs(getattr(wanted, name)), initial=1.0)
        assert_allclose(getattr(actual, name), getattr(wanted, name), rtol=0, atol=tolerance * scale, err_msg=name)


@SHAPES
@given(size=sizes(), singletons=st.booleans(), beta=st.sampled_from([1.0, 0.3]), seed=st.integers(0, 10**6))
def test_kernel_and_definition_equal_brute_force(covariance_type, size, singletons, beta, seed):
    model, params, Y, candidates, rng = make_case(covariance_type, size, seed)
    weights = rng.uniform(0.0, 2.0, size=len(Y)) * (rng.random(len(Y)) < 0.8)
    oracle = brute_force(model, params, Y, candidates=candidates, max_active=1, singletons=singletons, beta=beta)
    wanted = model.accumulate(params, Y, oracle.states, weights[:, None] * oracle.q, beta)
    for walk in walks(model, params, singletons, beta):
        evidence = walk.evidence(Y)
        assert_allclose(walk.free_energies(evidence, candidates), oracle.free_energy, rtol=1e-10, atol=1e-10)
        free_energies, means = walk.means(evidence, candidates)
        assert_allclose(free_energies, oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_allclose(means, oracle.mean, rtol=0, atol=1e-10)
        assert_allclose(walk.reconstruct(walk.evidence(Y), candidates), oracle.mean @ params.means, rtol=0, atol=1e-9)
        free_energies, statistics = walk.accumulate(walk.evidence(Y), candidates, weights)[:2]
        assert_allclose(free_energies, oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_statistics_close(statistics, wanted, 1e-10)


@SHAPES
@given(size=sizes(most_clusters=30), seed=st.integers(0, 10**6))
def test_kernel_selects_what_the_definition_selects(covariance_type, size, seed):
    model, params, Y, _, _ = make_case(covariance_type, size, seed)
    kernel, definition = walks(model, params, False, 1.0)
    chosen, wanted = kernel.select(kernel.evidence(Y), size[1]), definition.select(Y, size[1])
    scores = model.selection_scores(params, Y)
    assert_allclose(
        np.take_along_axis(scores, chosen.astype(int), 1).sum(axis=1),
        np.take_along_axis(scores, wanted.astype(int), 1).sum(axis=1),
        rtol=1e-9,
        atol=1e-9,
    )
    assert (np.diff(chosen, axis=1) > 0).all()


@SHAPES
def test_two_chunks_give_the_statistics_of_the_definition(covariance_type):
    model, params, Y, _, _ = make_case(covariance_type, (8, 3, 6), seed=11, n_rows=300)
    results = []
    for use_kernel in (True, False):
        prepared = TruncatedPosterior(3, 1, singletons=False, use_kernel=use_kernel).prepare(model, params, 0.7)
        parts = [prepared.statistics(chunk) for chunk in split(Y, 8, chunk_size=256)]
        assert len(parts) == 2
        results.append(parts)
    for kernel, definition in zip(*results, strict=True):
        assert_allclose(kernel.free_energy, definition.free_energy, rtol=1e-10)
        assert_statistics_close(kernel.statistics, definition.statistics, 1e-10)


@SHAPES
def test_the_model_passes_its_own_check(covariance_type):
    check_model(GaussianMixture(4, 3, covariance_type, reg_covar=0.0))


@SHAPES
def test_only_states_with_a_single_one_are_possible(covariance_type):
    model, params, Y, _, _ = make_case(covariance_type, (3, 3, 2), seed=0)
    oracle = brute_force(model, params, Y)
    possible = oracle.states.sum(axis=1) == 1.0
    assert np.isfinite(oracle.log_joint[:, possible]).all()
    assert (oracle.log_joint[:, ~possible] == -np.inf).all()
    assert_array_equal(model.superpose(params, np.eye(3)), params.means)
