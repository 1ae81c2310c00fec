"""Learning a product of experts: white data, projection pursuit and L-BFGS, against the definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multicause import UPoE
from multicause.execution import InProcess, split
from multicause.learning.experts.descent import Loss, Preconditioner
from multicause.learning.experts.pursuit import PATIENCE, Pursuit, find_direction, projection_index
from multicause.learning.experts.white_data import WhiteData, as_it_is, make_white
from multicause.models import HyperbolicSecant, StudentT, StudentTMixture
from multicause.models.product_of_experts import likelihood


def sources(n_samples=2000, n_sources=4, seed=0, bimodal=False):
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n_samples, n_sources))
    if bimodal:
        S = rng.choice([-1.0, 1.0], size=S.shape) + 0.4 * rng.normal(size=S.shape)
    return 3.0 + S @ rng.normal(size=(n_sources, n_sources))


def white_data(seed=0, bimodal=False):
    return make_white(InProcess(), split(sources(seed=seed, bimodal=bimodal), 4, 512), None, "UPoE")[0]


def test_data_are_made_white_whatever_their_units():
    X = sources()
    X = X * np.array([1e-8, 1.0, 1e5, 1e12]) + np.array([0.0, 1e3, 0.0, -1e14])
    data, whitening, _ = make_white(InProcess(), split(X, 4, 512), None, "UPoE")
    assert_allclose(data.second_moment(), np.eye(4), atol=1e-10)
    assert_allclose(np.hstack(data.blocks).mean(axis=1), 0.0, atol=1e-6)
    assert_allclose(whitening.forward @ whitening.backward, np.eye(4), atol=1e-9)
    assert_allclose(whitening.log_determinant, np.linalg.slogdet(whitening.forward)[1], rtol=1e-10)


def test_data_of_nearly_equal_columns_are_made_white_in_a_second_round():
    X = sources()
    X[:, 1] = X[:, 0] + 3e-6 * X[:, 1]
    data, whitening, _ = make_white(InProcess(), split(X, 4, 512), None, "UPoE")
    assert_allclose(data.second_moment(), np.eye(4), atol=1e-10)
    assert_allclose(whitening.forward @ whitening.backward, np.eye(4), atol=1e-8)


@pytest.mark.filterwarnings("ignore:UPoE. X varies")
def test_points_that_are_no_more_than_the_dimensions_are_told_from_others():
    rng = np.random.default_rng(0)
    few = np.repeat(rng.normal(size=(5, 4)), [1, 3, 2, 4, 1], axis=0)
    for X, simplex in ((few, True), (np.vstack([few, rng.normal(size=(1, 4))]), False), (few[:, :3], False)):
        data = make_white(InProcess(), split(X, 4, 256), None, "UPoE")[0]
        assert data.is_simplex() is simplex
    for algorithm in ("parallel", "sequential"):  # which have nothing to add to pursuit there
        fit, pursuit = (UPoE(algorithm=a, random_state=0).fit(few) for a in (algorithm, "pursuit"))
        np.testing.assert_array_equal(fit.components_, pursuit.components_)


def test_one_poor_minimum_does_not_end_the_search():
    data = white_data()
    found = find_direction(data, StudentT(), np.ones(4), 200, 1e-6)
    poor, good = found._replace(q=0.1), found._replace(q=-0.1)

    class Scripted(Pursuit):
        def _best_of_starts(self, rng):
            return script.pop(0)

    pursuit = Scripted(data, as_it_is(4), np.eye(4), StudentT(), None)
    script = [poor, poor, good]
    assert pursuit._next(None) == (good, True, 2 * found.n_iter)
    script = [poor] * 10
    assert pursuit._next(None)[1] is False
    assert len(script) == 10 - 1 - PATIENCE


def test_an_accepted_direction_becomes_a_coordinate_and_the_rest_stays_orthogonal():
    data, rng = white_data(), np.random.default_rng(1)
    X = np.hstack(data.blocks).copy()
    accepted = []
    for n_left in (4, 3, 2, 1):
        w = rng.normal(size=n_left)
        w /= np.linalg.norm(w)
        z = data.project(w)
        accepted.append(data.accept(w))
        turned = np.hstack(data.blocks)
        assert_allclose(turned[len(accepted) - 1], z, atol=1e-12)
        assert_allclose(turned, data.rotation @ X, atol=1e-12)
    assert_allclose(np.array(accepted) @ np.array(accepted).T, np.eye(4), atol=1e-12)


@pytest.mark.parametrize("expert", [StudentT(), StudentTMixture(), HyperbolicSecant()], ids=lambda e: type(e).__name__)
def test_pursuit_ends_in_a_minimum_of_the_index_over_the_sphere_and_the_expert(expert):
    data = white_data(seed=1, bimodal=isinstance(expert, StudentTMixture))
    start = np.random.default_rng(0).normal(size=4)
    found = find_direction(data, expert, start, 200, 1e-10)
    assert found.converged
    z = data.project(found.direction)
    assert_allclose(found.q, projection_index(found.expert, z, data.weights), rtol=1e-10)
    gradient = data.pull(found.expert.derivative(z) - z)
    tangent = gradient - (gradient @ found.direction) * found.direction
    assert np.linalg.norm(tangent) < 1e-4
    rng = np.random.default_rng(2)
    for _ in range(50):
        other = found.direction + 0.05 * rng.normal(size=4)
        assert projection_index(found.expert, data.project(other / np.linalg.norm(other)), data.weights) > found.q
    refitted = found.expert.fit(z, data.weights, 200)
    assert found.q - projection_index(refitted, z, data.weights) < 1e-7


def test_pursuit_is_not_drawn_to_the_maxima_that_fasticas_step_also_converges_to():
    rng = np.random.default_rng(0)
    S = np.column_stack([rng.uniform(-1.0, 1.0, size=(5000, 3)), rng.laplace(size=5000)])
    data = make_white(InProcess(), split(S, 4, 1024), None, "UPoE")[0]
    fixed = StudentT(fixed=("mean", "inverse_scale", "inverse_temperature"))
    for seed in range(10):  # near one of the sub-Gaussian sources, which is a maximum of the index
        start = np.eye(4)[seed % 3] + 0.05 * np.random.default_rng(seed).normal(size=4)
        found = find_direction(data, fixed, start, 200, 1e-9)
        z = data.project(found.direction)
        assert np.mean(z**4) > 4.0  # the super-Gaussian source, not one of kurtosis below that of a Gaussian


@pytest.mark.parametrize("white", [True, False])
def test_the_loss_is_the_definitions_likelihood(white):
    rng = np.random.default_rng(0)
    data = white_data()
    if not white:
        data = WhiteData.of(InProcess(), split(sources(), 4, 512), as_it_is(4))
    X = np.hstack(data.blocks).T
    W, experts = rng.normal(size=(3, 4)), (StudentT(), StudentTMixture(), StudentT(0.3, 2.0, 1.4))
    expected = likelihood(W, experts, X)
    point = Loss(data, white).at(W, experts, slice(0, 3))
    assert_allclose(point.value, -expected.value, rtol=1e-10)
    assert_allclose(point.gradient, -expected.gradient, atol=1e-10)
    one = Loss(data, white).at(W, experts, slice(1, 2))
    assert_allclose(one.gradient, -expected.gradient[1:2], atol=1e-10)


@pytest.mark.parametrize("free", [slice(0, 3), slice(2, 3)], ids=["all", "one"])
def test_the_preconditioner_is_symmetric_and_positive(free):
    data, rng = white_data(), np.random.default_rng(0)
    W = rng.normal(size=(3, 4))
    loss = Loss(data)
    precondition = Preconditioner(loss.at(W, (StudentT(),) * 3, free), loss.moment, free)
    size = len(range(3)[free]) * 4
    matrix = np.array([precondition(row.reshape(-1, 4)).ravel() for row in np.eye(size)])
    assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > 0.0


def test_few_of_many_points_only_show_the_way():
    X = sources(48_000, 3)
    data = make_white(InProcess(), split(X, 3, 4096), None, "UPoE")[0]
    few = data.thinned(10_000)
    assert 10_000 <= few.blocks[0].shape[1] * len(few.blocks) <= 14_000
    assert data.thinned(20_000) is None
    fit = UPoE(random_state=0, tol=1e-10).fit(X)
    reordered = UPoE(random_state=0, tol=1e-10).fit(X[np.random.default_rng(0).permutation(len(X))])
    overlap = np.abs(fit.directions_ @ reordered.directions_.T).max(axis=1)
    assert_allclose(overlap, 1.0, atol=1e-4)


@pytest.mark.parametrize("n_components", [2, 4])
def test_parallel_ends_where_the_definitions_gradient_vanishes(n_components):
    X = sources()
    fit = UPoE(n_components, algorithm="parallel", tol=1e-12, max_iter=500, random_state=0).fit(X)
    white = (X - fit.mean_) @ fit.whitening_.T
    gradient = likelihood(fit.directions_, fit.experts_, white).gradient
    assert np.abs(gradient).max() < 1e-4
    for expert, z in zip(fit.experts_, fit.directions_ @ white.T, strict=True):
        weights = np.full(len(z), 1.0 / len(z))
        refitted = expert.fit(z, weights, 100)
        assert refitted.log_density(z).mean() - expert.log_density(z).mean() < 1e-8
