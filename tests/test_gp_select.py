"""GP-select: the regression against its definition, the choice of candidates, and what is learned with it."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, CompoundKernel, ConstantKernel, Matern, PairwiseKernel, WhiteKernel

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedEM, load_model, save_model
from multicause.backends import numba_cpu
from multicause.datasets import make_bars
from multicause.execution import InProcess, split
from multicause.experiments.gps_mixture import OPTIMUM, clusters_on_a_line, fit_mixture
from multicause.models import BinaryLinear, DataMoments
from multicause.selection import GPSelect
from multicause.selection.gaussian_process import (
    features,
    fit_kernel,
    leave_one_out,
    log_marginal_likelihood,
    named_kernel,
    noise_variance,
    pivots,
)
from multicause.selection.gp_select import Features

from cases import Bare

NAMES = ("composition", "linear", "rbf")
kernels = numba_cpu.load("gp_select")


def regression_problem(n_rows=30, n_features=4, n_causes=3, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(2.0, 3.0, size=(n_rows, n_features))
    moments = DataMoments(float(n_rows), Y.mean(axis=0), Y.var(axis=0))
    return Y, rng.random((n_rows, n_causes)), moments


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_equals_a_refit_without_each_point(name):
    Y, S, moments = regression_problem()
    kernel = named_kernel(name, moments)
    refits = [
        GaussianProcessRegressor(kernel, optimizer=None)
        .fit(np.delete(Y, n, axis=0), np.delete(S, n, axis=0))
        .predict(Y[n : n + 1])[0]
        for n in range(len(Y))
    ]
    assert_allclose(leave_one_out(kernel(Y), S), refits, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_the_marginal_likelihood_equal_finite_differences(name):
    Y, S, moments = regression_problem()
    kernel = named_kernel(name, moments)

    def likelihood(theta):
        return log_marginal_likelihood(kernel.clone_with_theta(theta), Y, S)

    error = check_grad(lambda t: likelihood(t).value, lambda t: likelihood(t).gradient, kernel.theta)
    assert error < 1e-4 * np.linalg.norm(likelihood(kernel.theta).gradient)
    wanted = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(Y, S).log_marginal_likelihood(kernel.theta)
    assert_allclose(likelihood(kernel.theta).value, wanted, rtol=1e-8)


def test_a_fitted_kernel_is_more_likely_and_its_rbf_part_is_flat_where_targets_are_linear():
    Y, _, moments = regression_problem(80)
    S = 0.5 + Y @ np.random.default_rng(1).normal(scale=0.05, size=(4, 3))
    start = named_kernel("composition", moments)
    fitted = fit_kernel(start, Y, S, 50)
    assert log_marginal_likelihood(fitted, Y, S).value > log_marginal_likelihood(start, Y, S).value
    assert fitted.k1.k1.k1.k2.length_scale > 10.0 * start.k1.k1.k1.k2.length_scale


@pytest.mark.parametrize("name", ["composition", "rbf"])
def test_pivots_reproduce_the_kernel_to_the_tolerance(name):
    Y, _, moments = regression_problem(60)
    kernel = named_kernel(name, moments)
    K = kernel(Y, Y.copy())
    for tolerance in (0.3, 1e-2, 1e-4):
        phi = features(kernel, Y, Y[pivots(kernel, Y, len(Y), tolerance)])
        left = np.trace(K - phi @ phi.T)
        assert -1e-8 < left <= tolerance * np.trace(K)
    every = pivots(kernel, Y, len(Y), 0.0)
    phi = features(kernel, Y, Y[every])
    assert_allclose(phi @ phi.T, K, atol=1e-6 * K.max())
    assert len(np.unique(every)) == len(every)


def selection_on(Y, S, selection, n_candidates=2, chunk_size=256):
    """GP-select after one look at targets S."""
    chunks = split(Y, S.shape[1], chunk_size)
    moments = DataMoments(float(len(Y)), Y.mean(axis=0), Y.var(axis=0))
    with InProcess() as executor:
        learning = selection.begin(executor, chunks, moments, S.shape[1], seed=7)
        for chunk in chunks:
            learning.observe(chunk, S[chunk.start : chunk.stop])
        learning.learn(0)
    return learning, chunks, moments


def not_the_model(n_candidates):
    raise AssertionError("the model was asked for candidates, though a selection function is learned")


@pytest.mark.parametrize("name", NAMES)
def test_at_full_rank_the_candidates_are_those_of_the_definition(name):
    Y, S, moments = regression_problem(80, n_causes=6)
    S[S < 0.3] = 0.0
    selection = GPSelect(name, rank=80, tolerance=0.0, random_fraction=0.0)
    learning, chunks, _ = selection_on(Y, S, selection)
    K = named_kernel(name, moments)(Y)
    order = np.argsort(-leave_one_out(K, S), axis=1)[:, :2]
    chosen = np.concatenate([learning.candidates(chunk, 2, not_the_model) for chunk in chunks])
    assert_array_equal(chosen, np.sort(order, axis=1))
    regression = GaussianProcessRegressor(named_kernel(name, moments), optimizer=None).fit(Y, S)
    new = np.random.default_rng(5).normal(2.0, 3.0, size=(10, 4))
    assert_allclose(learning.function(new), regression.predict(new), atol=1e-6)


def test_low_rank_leave_one_out_equals_refits_of_the_low_rank_regression():
    """(f - e s) / (1 - e), weights included, against solving the ridge regression without the row."""
    Y, S, _ = regression_problem(50)
    learning, chunks, _ = selection_on(Y, S, GPSelect("rbf", rank=7, random_fraction=0.0))
    features = chunks[0].recall(Features)
    phi, leverage = features.phi, features.leverage
    assert phi.shape == (50, 7)
    noise = noise_variance(learning.kernel, Y[0])
    fitted = phi @ learning._coefficients
    for n in (0, 13, 49):
        others = np.delete(phi, n, axis=0)
        solved = np.linalg.solve(others.T @ others + noise * np.eye(7), others.T @ np.delete(S, n, axis=0))
        loo = (fitted[n] - leverage[n] * S[n]) / (1.0 - leverage[n])
        assert_allclose(loo, phi[n] @ solved, rtol=1e-8)


def test_candidates_do_not_depend_on_chunks_and_random_ones_come_from_the_rest():
    rng = np.random.default_rng(0)
    Y, S = rng.normal(size=(600, 5)), rng.random((600, 12))
    settings = [selection_on(Y, S, GPSelect("linear"), chunk_size=size) for size in (256, 10_000)]
    first, second = (
        np.concatenate([learning.candidates(chunk, 5, not_the_model) for chunk in chunks])
        for learning, chunks, _ in settings
    )
    assert_array_equal(first, second)
    learning, chunks, _ = settings[1]
    assert (np.diff(first, axis=1) > 0).all()
    predicted = selection_on(Y, S, GPSelect("linear", random_fraction=0.0), chunk_size=10_000)
    best = predicted[0].candidates(predicted[1][0], 4, not_the_model)
    kept = (first[:, :, None] == best[:, None, :]).any(axis=1)
    assert kept.all()  # four of five by the selection function, the fifth at random
    extra = first.sum(axis=1) - best.sum(axis=1)
    counts = np.bincount(extra, minlength=12)
    assert counts.min() > 10  # any of the twelve is drawn now and then
    learning.iteration += 1
    assert (learning.candidates(chunks[0], 5, not_the_model) != first).any()


def test_a_single_candidate_is_never_drawn_at_random():
    """A share of the candidates, at least one, would be all of them."""
    X, labels = clusters_on_a_line(1000)
    means = np.array([X[labels == k].mean(axis=0) for k in range(3)])
    fit = fit_mixture(X, 1000, "rbf", OPTIMUM, max_iter=10, n_candidates=1, means=means)
    together = np.array([[np.mean((fit.predict(X) == c) & (labels == k)) for k in range(3)] for c in range(3)])
    assert together.max(axis=1).sum() > 0.97


def test_pick_draws_uniformly_without_repetition():
    drawn = kernels.pick(np.zeros((6000, 6)), 3, 3, 11, 0)
    assert all(len(set(row)) == 3 for row in drawn)
    pairs = np.unique(drawn, axis=0, return_counts=True)[1]
    assert len(pairs) == 20
    assert np.abs(pairs - 300).max() < 5 * np.sqrt(300)


@pytest.mark.parametrize("estimator", [LinCA, ETNMF, MCA, GSC])
def test_every_truncated_estimator_learns_with_it(estimator):
    bars = make_bars(500, 4, noise=1.0, superposition="max" if estimator is MCA else "linear", random_state=1000)
    X = np.maximum(bars.X, 0.0) if estimator is ETNMF else bars.X
    settings = {"n_candidates": 5, "max_active": 3, "max_iter": 40, "tol": 0.0, "random_state": 0}
    learned = estimator(8, selection=GPSelect(), **settings).fit(X)
    derived = estimator(8, start="random", **settings).fit(X)  # as a learned selection starts, too
    assert learned.score(X) > derived.score(X) - 0.1 * abs(derived.score(X))
    assert_allclose(learned.free_energy_[-1], learned.score(X), rtol=1e-12)
    assert learned.selection_function_(X).shape == (500, 8)
    again = estimator(8, selection=GPSelect(), **settings, n_jobs=1).fit(X)
    assert_array_equal(again.components_, learned.components_)


def test_most_of_the_selection_function_is_the_posterior():
    bars = make_bars(1000, 4, noise=1.0, signed=True, random_state=1001)
    fit = LinCA(8, n_candidates=5, max_active=3, selection=GPSelect(), max_iter=40, tol=0, n_init=3, random_state=0)
    fit.fit(bars.X)
    new = make_bars(500, 4, noise=1.0, signed=True, random_state=1002).X
    assert np.corrcoef(fit.selection_function_(new).ravel(), fit.predict_proba(new).ravel())[0, 1] > 0.8


def test_missing_entries_count_as_average_ones():
    X = make_bars(300, 4, noise=1.0, signed=True, random_state=0).X
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    fit = LinCA(8, n_candidates=4, selection=GPSelect(), max_iter=15, tol=0, random_state=0).fit(X)
    assert np.isfinite(fit.transform(X)).all()


def test_a_fit_with_random_candidates_converges():
    X = make_bars(300, 4, noise=1.0, signed=True, random_state=0).X
    fit = LinCA(8, n_candidates=4, selection=GPSelect(update_every=3), max_iter=300, random_state=0).fit(X)
    assert fit.n_iter_ < 300
    fit.set_params(selection="model-based").fit(X)
    assert not hasattr(fit, "selection_function_")


def test_a_saved_selection_chooses_alike(tmp_path):
    X = make_bars(300, 4, noise=1.0, signed=True, random_state=0).X
    fit = LinCA(8, n_candidates=4, selection=GPSelect("rbf"), max_iter=12, tol=0, random_state=0).fit(X)
    save_model(fit, tmp_path / "fit.model")
    loaded = load_model(tmp_path / "fit.model")
    assert loaded.selection == GPSelect("rbf")
    assert_array_equal(loaded.transform(X), fit.transform(X))
    own = LinCA(8, n_candidates=4, selection=GPSelect(Matern()), max_iter=2, tol=0, random_state=0).fit(X)
    with pytest.raises(TypeError, match="GPSelect with the name of a kernel"):
        save_model(own, tmp_path / "own.model")


def test_a_kernel_of_ones_own_gets_noise_where_it_has_none():
    X = make_bars(200, 3, noise=1.0, signed=True, random_state=0).X
    for kernel in (Matern(10.0), ConstantKernel(0.5) * RBF(10.0) + WhiteKernel(0.2)):
        fit = LinCA(6, n_candidates=3, selection=GPSelect(kernel), max_iter=12, tol=0, random_state=0).fit(X)
        assert noise_variance(fit.selection_function_.kernel(), X[0]) > 0.0
    assert fit.selection_function_.kernel().n_dims == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cubic"}, r"'kernel' of GPSelect must be one of .*Got 'cubic'"),
        ({"kernel": 3}, r"'kernel' of GPSelect must be"),
        ({"update_every": 0}, r"'update_every' of GPSelect must be an int in the range \[1, inf\)\. Got 0"),
        ({"rank": -1}, r"'rank' of GPSelect must be an int"),
        ({"rank": 2.5}, r"'rank' of GPSelect must be an int"),
        ({"random_fraction": 1.5}, r"'random_fraction' of GPSelect must be between 0 and 1\. Got 1\.5"),
        ({"tolerance": "much"}, r"'tolerance' of GPSelect must be between 0 and 1"),
        ({"max_steps": None}, r"'max_steps' of GPSelect must be an int"),
        ({"first": "all"}, r"'first' of GPSelect must be one of .*Got 'all'"),
    ],
)
def test_absurd_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GPSelect(**settings)


def test_impossible_combinations_are_refused():
    X = make_bars(50, 3, random_state=0).X
    with pytest.raises(ValueError, match=r"'rank' of GPSelect must be at most the number of data points, 50\. Got 51"):
        LinCA(6, n_candidates=3, selection=GPSelect(rank=51)).fit(X)
    with pytest.raises(ValueError, match="'selection' parameter of LinCA must be"):
        LinCA(6, n_candidates=3, selection="gp").fit(X)
    with pytest.raises(ValueError, match="does not support a selection"):
        GSC(6, posterior="factored", selection=GPSelect()).fit(X)
    with pytest.raises(ValueError, match="'kernel' of GPSelect must be"):
        GPSelect(CompoundKernel([RBF()]) if not CompoundKernel([RBF()]).requires_vector_input else PairwiseKernel)


def test_truncated_em_of_a_model_equals_the_estimator_of_that_model():
    X = make_bars(300, 4, noise=1.0, signed=True, random_state=0).X
    settings = {"n_candidates": 4, "max_active": 3, "max_iter": 10, "tol": 0.0, "random_state": 0}
    for selection in ("model-based", GPSelect()):
        wanted = LinCA(8, selection=selection, start="random", **settings).fit(X)
        model = wanted._fit_of(8, DataMoments(300.0, X.mean(axis=0), X.var(axis=0))).model
        em = TruncatedEM(model, selection=selection, **settings).fit(X)
        assert_allclose(em.params_.components, wanted.components_, rtol=1e-9, atol=1e-9)
        assert_allclose(em.transform(X), wanted.transform(X), atol=1e-10)
        assert_allclose(em.reconstruct(X), wanted.reconstruct(X), atol=1e-8)
        assert em.sample(3, random_state=0)[0].shape == (3, 16)


def test_truncated_em_learns_the_selection_of_a_model_that_has_none():
    X = make_bars(500, 4, noise=1.0, signed=True, random_state=1000).X
    em = TruncatedEM(Bare(8), n_candidates=5, max_active=3, max_iter=30, tol=0, random_state=0).fit(X)
    assert em.selection_function_.selection == GPSelect()
    assert em.score(X) > LinCA(1, random_state=0).fit(X).score(X)
    assert not hasattr(em, "sample")
    assert not hasattr(em, "reconstruct")
    exact = TruncatedEM(Bare(8), n_candidates=None, max_iter=5, tol=0, random_state=0).fit(X)
    assert not hasattr(exact, "selection_function_")
    assert (np.diff(exact.free_energy_) > -1e-9).all()
    warm = TruncatedEM(Bare(8), n_candidates=None, max_iter=5, tol=0, random_state=0, warm_start=True).fit(X)
    assert warm.fit(X).free_energy_[0] == pytest.approx(exact.free_energy_[-1], rel=1e-9)


@pytest.mark.parametrize(
    ("model", "selection", "message"),
    [
        (None, "auto", "'model' parameter of TruncatedEM must be a model. Got None"),
        (BinaryLinear, "auto", "must be a model. Got <class"),
        (object(), "auto", r"lacks n_components \(an int\), init_params, log_joint, accumulate, m_step\."),
        (
            Bare(3),
            "model-based",
            "the model Bare: it lacks selection_scores, without which selection must be a GPSelect",
        ),
    ],
)
def test_a_model_that_lacks_something_is_told_what(model, selection, message):
    with pytest.raises(TypeError, match=message):
        TruncatedEM(model, selection=selection).fit(np.ones((5, 2)))


def test_a_model_for_other_data_is_refused():
    with pytest.raises(ValueError, match="is for data of 16 columns, but X has 2"):
        TruncatedEM(BinaryLinear(3, 16)).fit(np.ones((5, 2)))


def test_the_noisy_or_example_finds_its_bars(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    monkeypatch.delitem(sys.modules, "noisy_or", raising=False)
    import noisy_or

    assert (noisy_or.main() > 0.95).all()
    assert "8 of 8 bars found" in capsys.readouterr().out
