"""Learned places against Gaussian-process regression on all windows, written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from multicause import InvECA, LinCA, load_model, save_model
from multicause.datasets import make_scenes, shape_objects
from multicause.execution import split
from multicause.execution.in_process import InProcess
from multicause.models.base import DataMoments
from multicause.selection import GPSelect
from multicause.selection.gaussian_process import leave_one_out
from multicause.selection.gp_images import ImageSelect, ImageSelectionFunction
from multicause.selection.gp_places import PixelwiseKernel, PlacedMeans, PlaceSelect

N, H, P = 8, 3, 9
SHAPE, WINDOW = (4, 4, 2), (2, 2)
TOLERANCE = 5e-5  # second moments are summed in single precision


def images(rng, n=N):
    return rng.normal(size=(n, 32))


def moments(X, weights):
    mean = np.average(X, axis=0, weights=weights)
    return DataMoments(float(len(X)), mean, np.average(np.square(X - mean), axis=0, weights=weights))


def windows_of(X):
    """All windows, one image after the other, (n * P, 8)."""
    corners = [(i, j) for i in range(3) for j in range(3)]
    return np.array([y[i : i + 2, j : j + 2].ravel() for y in X.reshape(-1, *SHAPE) for i, j in corners])


def learned(X, table, gp, weights=None, select=PlaceSelect):
    """The selection after one E-step that saw `table`, (n, H, P)."""
    chunks = split(X, H, 256, weights)
    with InProcess(1) as executor:
        state = select(gp, SHAPE, WINDOW).begin(executor, chunks, moments(X, weights), H, seed=1)
        everywhere = np.tile(np.arange(P), (len(X), H, 1))
        state.observe(chunks[0], PlacedMeans(np.tile(np.arange(H), (len(X), 1)), everywhere, table))
        state.learn(0)
        return state, chunks[0]


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    table = rng.random((N, H, P)) * (rng.random((N, H, P)) < 0.15)
    return images(rng), table, rng


def test_the_kernel_is_a_mean_over_pixels():
    rng = np.random.default_rng(0)
    knots = np.linspace(-1.0, 2.0, 7)
    kappa = ConstantKernel(0.7) * RBF(0.8) + ConstantKernel(0.2)
    kernel = PixelwiseKernel(kappa, knots)
    X, Y = rng.choice(knots, size=(5, 6)), rng.choice(knots, size=(4, 6))
    wanted = np.mean([kappa(X[:, [d]], Y[:, [d]]) for d in range(6)], axis=0)
    assert_allclose(kernel(X, Y), wanted, atol=1e-12)
    assert_allclose(kernel.diag(X), np.diag(kernel(X)), atol=1e-12)
    between = rng.uniform(-1.0, 2.0, size=(5, 6))
    fine = PixelwiseKernel(kappa, np.linspace(-1.0, 2.0, 300))
    assert_allclose(fine(between), np.mean([kappa(between[:, [d]]) for d in range(6)], axis=0), atol=1e-4)


def test_the_gradient_of_the_kernel_equals_finite_differences():
    rng = np.random.default_rng(1)
    kernel = PixelwiseKernel(ConstantKernel(0.7) * RBF(0.8), np.linspace(-2.0, 2.0, 6)) + WhiteKernel(0.1)
    X, C = rng.normal(size=(4, 3)), rng.normal(size=(4, 4))

    def value(theta):
        return float((C * kernel.clone_with_theta(theta)(X)).sum())

    def gradient(theta):
        return np.einsum("ij,ijp->p", C, kernel.clone_with_theta(theta)(X, eval_gradient=True)[1])

    assert kernel.n_dims == 3
    assert check_grad(value, gradient, kernel.theta) < 1e-5


@pytest.mark.parametrize("kernel", ["composition", "rbf", "linear", RBF(0.5)])
def test_predictions_equal_regression_on_all_windows(case, kernel):
    X, table, rng = case
    state, chunk = learned(X, table, GPSelect(kernel))
    windows = windows_of(X)
    T = table.transpose(0, 2, 1).reshape(N * P, H)
    K = state.kernel(windows)
    smooth = state.kernel(windows, windows.copy())
    wanted = (smooth @ np.linalg.solve(K, T)).reshape(N, P, H).transpose(0, 2, 1)
    assert_allclose(state.function(X), wanted, atol=TOLERANCE)
    others = leave_one_out(K, T).reshape(N, P, H).transpose(0, 2, 1)
    something = table > 0.0
    assert_allclose(state.scores(chunk)[something], others[something], atol=TOLERANCE)
    assert_allclose(state.scores(chunk)[~something], wanted[~something], atol=TOLERANCE)
    new = images(rng, 3)
    seen = state.kernel(windows_of(new), windows)
    assert_allclose(
        state.function(new), (seen @ np.linalg.solve(K, T)).reshape(3, P, H).transpose(0, 2, 1), atol=TOLERANCE
    )


def test_enough_pivots_are_as_good_as_all_features(case):
    """With 16 features of a window each, in 8 directions, all windows span what there is."""
    X, table, _ = case
    full, _ = learned(X, table, GPSelect("linear"))
    pivoted, _ = learned(X, table, GPSelect("linear", rank=N * P, tolerance=0.0))
    few, _ = learned(X, table, GPSelect("linear", rank=2))
    assert_allclose(pivoted.function(X), full.function(X), atol=TOLERANCE)
    assert np.abs(few.function(X) - full.function(X)).max() > 1e-2


def test_a_weight_of_two_is_a_row_given_twice(case):
    X, table, _ = case
    weights = np.ones(N)
    weights[2], weights[5] = 2.0, 0.0
    rows = np.repeat(np.arange(N), weights.astype(int))
    weighted, _ = learned(X, table, GPSelect(), weights)
    repeated, _ = learned(X[rows], table[rows], GPSelect())
    assert_array_equal(weighted.knots, repeated.knots)
    assert_allclose(weighted.function(X), repeated.function(X), atol=TOLERANCE)


def test_the_kernel_learns_from_windows_where_something_is(case):
    X, table, _ = case
    state, _ = learned(X, table, GPSelect(update_every=1))
    first = state.kernel.theta.copy()
    state.learn(1)
    assert not np.array_equal(state.kernel.theta, first)
    assert np.isfinite(state.function(X)).all()


def test_places_are_predicted_of_new_images(tmp_path):
    """Learned along with a fit, a function of windows finds objects in images that it has not seen."""
    drawn = make_scenes(400, shape_objects(2, 5), image_shape=(12, 12), probability=0.5, random_state=1000)
    fit = InvECA(2, (5, 5), selection=GPSelect(), max_iter=15, tol=0.0, random_state=0).fit(drawn.X[:300])
    new = slice(300, 400)
    present = fit.transform(drawn.X[new]) > 0.5
    found = fit.selection_function_(drawn.X[new].reshape(100, -1)).argmax(axis=2)
    corners = fit.locate(drawn.X[new])
    assert present.sum() > 60
    agree = (corners[..., 0] * 8 + corners[..., 1])[present] == found[present]
    assert agree.mean() > 0.95
    again = InvECA(2, (5, 5), selection=GPSelect(), max_iter=15, tol=0.0, random_state=0, n_jobs=1).fit(drawn.X[:300])
    assert_array_equal(again.selection_function_.values, fit.selection_function_.values)
    save_model(fit, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    assert_array_equal(loaded.locate(drawn.X[new]), corners)
    assert_allclose(loaded.selection_function_.kernel().theta, fit.selection_function_.theta)


def test_whole_images_predict_the_table_of_places(case):
    """Regression of all components at all places on the image, leaving out the image itself; all N are pivots."""
    X, table, rng = case
    kernel = 2.0 * RBF(4.0) + WhiteKernel(0.1)
    state, chunk = learned(X, table, GPSelect(kernel, tolerance=0.0), select=ImageSelect)
    K = kernel(X)
    expected = leave_one_out(K, table.reshape(N, -1))
    inverse = np.linalg.inv(K)
    leverage = 1.0 - 0.1 * np.diag(inverse)
    scores = state.scores(chunk).reshape(N, -1)  # but for a positive factor
    assert_allclose(scores, expected * (1.0 - leverage)[:, None], atol=1e-5)
    new = images(rng, 3)
    smooth = kernel(new, X) @ inverse @ table.reshape(N, -1)
    assert_allclose(state.function(new), smooth.reshape(3, H, P), atol=1e-5)


def test_whole_images_repeat_what_was_learned_from(tmp_path):
    """As in the paper: places are right where they were learned, and the function survives a file."""
    drawn = make_scenes(300, shape_objects(2, 5), image_shape=(8, 8), probability=0.5, random_state=1000)
    settings = {"max_iter": 10, "tol": 0.0, "random_state": 0}
    fit = InvECA(2, (5, 5), selection=GPSelect(whole_images=True, rank=250), **settings).fit(drawn.X)
    assert isinstance(fit.selection_function_, ImageSelectionFunction)
    present, corners = fit.transform(drawn.X) > 0.5, fit.locate(drawn.X)
    found = fit.selection_function_(drawn.X.reshape(300, -1)).argmax(axis=2)
    assert ((corners[..., 0] * 4 + corners[..., 1])[present] == found[present]).mean() > 0.95
    save_model(fit, tmp_path / "model.safetensors")
    assert_array_equal(load_model(tmp_path / "model.safetensors").locate(drawn.X), corners)


def test_whole_images_are_for_places_alone():
    with pytest.raises(ValueError, match="which InvECA alone has"):
        LinCA(2, n_candidates=1, selection=GPSelect(whole_images=True)).fit(np.eye(4))
    with pytest.raises(ValueError, match="'whole_images' of GPSelect must be a bool"):
        GPSelect(whole_images=1)
