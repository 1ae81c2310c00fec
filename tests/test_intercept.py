"""The intercept: data that lie anywhere give the components of data about zero."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multicause import GSC, LinCA, load_model, save_model
from multicause.datasets import make_bars
from multicause.experiments.plain_data import share_found
from multicause.models import BinaryLinear, NonnegativeLinear
from multicause.models.additions import additions_to
from multicause.models.dictionary_model import PROXIMAL, InterceptParams
from multicause.models.intercept import regress_with_constant
from multicause.models.weighted_median import weighted_median
from multicause.testing import all_states, brute_force

from cases import LINEAR, SPIKE_SLAB

BARS = make_bars(600, 5, pixel_value=1.0, noise=0.2, random_state=0)
OFFSET = 20.0 + np.arange(25.0)
WITH_INTERCEPT = {name: make for name, make in (LINEAR | SPIKE_SLAB).items() if name.endswith("intercept")}


def directions(seed=0):
    W = np.random.default_rng(seed).standard_normal((6, 25))
    return GSC.from_parameters(components=W, activation=0.3, noise_variance=0.04).sample(2000, random_state=seed)[0], W


@pytest.mark.parametrize("offset", [-0.3, np.linspace(-1.0, 1.0, 25), OFFSET], ids=["small", "mixed", "large"])
@pytest.mark.parametrize("estimator", [LinCA, GSC])
def test_an_offset_changes_nothing_but_the_intercept(estimator, offset):
    X = BARS.X if estimator is LinCA else directions()[0]
    fits = [estimator(10, random_state=0).fit(X + by) for by in (0.0, offset)]
    assert_allclose(fits[1].components_, fits[0].components_, atol=1e-6)
    assert_allclose(fits[1].intercept_, fits[0].intercept_ + offset, atol=1e-6)
    assert_allclose(fits[1].predict_proba(X + offset), fits[0].predict_proba(X), atol=1e-6)
    assert_allclose(fits[1].reconstruct(X + offset), fits[0].reconstruct(X) + offset, atol=1e-6)
    assert_allclose(fits[1].score(X + offset), fits[0].score(X), rtol=1e-8)


@pytest.mark.parametrize(("estimator", "data"), [(LinCA, (BARS.X, BARS.components)), (GSC, directions())])
def test_a_plain_call_finds_the_causes_of_data_far_from_zero(estimator, data):
    X, causes = data
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*far from 0")
        fit = estimator(len(causes), random_state=0).fit(X + OFFSET)
    assert share_found(fit.components_, causes) == 1.0
    assert np.abs(fit.intercept_ - OFFSET).max() < 0.2


def test_the_starts_of_the_papers_have_none_unless_it_is_asked_for():
    X = BARS.X + 20.0
    with pytest.warns(match="fit_intercept=True"):
        assert not hasattr(LinCA(10, start="random", max_iter=30, random_state=0).fit(X), "intercept_")
    assert hasattr(LinCA(10, start="random", fit_intercept=True, random_state=0).fit(X), "intercept_")


@pytest.mark.parametrize("name", WITH_INTERCEPT)
def test_statistics_move_with_the_intercept(name):
    rng = np.random.default_rng(0)
    model, params = WITH_INTERCEPT[name](3, 4, rng)
    Y, weights = rng.normal(size=(5, 4)), rng.dirichlet(np.ones(8), size=5)
    states = all_states(3)
    other = params._replace(intercept=rng.normal(size=4))
    about_other = model.recentre(model.accumulate(params, Y, states, weights), params, other)
    if name.startswith("binary"):
        wanted = model.accumulate(other, Y, states, weights)
        for field in wanted._fields:
            assert_allclose(getattr(about_other, field), getattr(wanted, field), atol=1e-9, err_msg=field)
    total = weights.sum(axis=1) @ (Y - other.intercept)
    assert_allclose(about_other.y, total, atol=1e-9)
    squares = (Y - other.intercept).T @ (weights.sum(axis=1)[:, None] * (Y - other.intercept))
    assert_allclose(about_other.yy, squares.trace() if name.startswith("binary") else model.noise.reduce(squares))


@pytest.mark.parametrize("fixed", [(), ("components",), ("intercept",)])
def test_the_m_step_leaves_no_gradient_but_the_pull_to_the_old_components(fixed):
    rng = np.random.default_rng(1)
    s, Y = rng.random((40, 3)), rng.normal(size=(40, 5)) + 3.0
    W = rng.normal(size=(3, 5))
    new = regress_with_constant(W, 40.0, s.sum(axis=0), s.T @ s, s.T @ Y, Y.sum(axis=0), frozenset(fixed))[0]
    residual = Y - s @ new[:-1] - new[-1]
    use = np.append(np.diag(s.T @ s), 40.0)[:, None]
    pull = PROXIMAL * use * (new - np.vstack([W, np.zeros(5)]))
    if "components" not in fixed:
        assert_allclose(s.T @ residual, pull[:-1], atol=1e-9)
    if "intercept" not in fixed:
        assert_allclose(residual.sum(axis=0), 0.0 if fixed else pull[-1], atol=1e-9)
    assert ("components" in fixed) == np.array_equal(new[:-1], W)
    assert ("intercept" in fixed) == (not new[-1].any())


def test_a_latent_that_is_mostly_on_is_turned_round_and_the_likelihood_stays():
    rng = np.random.default_rng(2)
    model = BinaryLinear(3, 4, intercept=True)
    params = InterceptParams(rng.normal(size=(3, 4)), np.array([0.2, 0.9, 0.6]), 0.5, rng.normal(size=4))
    turned = additions_to(model).turned(params)
    assert_allclose(turned.activation, [0.2, 0.1, 0.4])
    Y = rng.normal(size=(6, 4))
    before, after = (brute_force(model, one, Y).free_energy for one in (params, turned))
    assert_allclose(after, before, rtol=1e-12)
    held = BinaryLinear(3, 4, intercept=True, fixed=frozenset({"activation"}))
    assert additions_to(held).turned(params) is params


def test_missing_entries_are_filled_in_above_the_intercept():
    X = BARS.X + OFFSET
    gaps = np.random.default_rng(0).random(X.shape) < 0.1
    fit = LinCA(10, random_state=0).fit(np.where(gaps, np.nan, X))
    assert share_found(fit.components_, BARS.components) == 1.0
    error = (fit.reconstruct(np.where(gaps, np.nan, X)) - X)[gaps]
    assert np.sqrt(np.mean(error**2)) < 0.35


def test_it_is_kept_in_files_given_held_and_gone_on_from(tmp_path):
    X = BARS.X + OFFSET
    fit = LinCA(10, random_state=0, warm_start=True, max_iter=3, tol=0.0).fit(X)
    save_model(fit, tmp_path / "model")
    assert_array_equal(load_model(tmp_path / "model").score_samples(X), fit.score_samples(X))
    before = fit.free_energy_[-1]
    assert fit.fit(X).free_energy_[0] == pytest.approx(before, rel=1e-9)
    given = LinCA.from_parameters(**fit.fitted_model().params._asdict())
    assert_allclose(given.score(X), fit.score(X), rtol=0.05)
    held = LinCA(10, init={"intercept": OFFSET}, fixed="intercept", max_iter=5, tol=0.0, random_state=0).fit(X)
    assert_array_equal(held.intercept_, OFFSET)


def test_batches_learn_it():
    batches = LinCA(10, random_state=0)
    for seed in range(8):
        batches.partial_fit(make_bars(600, 5, pixel_value=1.0, noise=0.2, random_state=seed).X + OFFSET)
    assert share_found(batches.components_, BARS.components) == 1.0
    assert np.abs(batches.intercept_ - OFFSET).max() < 0.1


def test_what_it_has_no_place_for_is_refused():
    X = BARS.X
    with pytest.raises(ValueError, match=r"must hold names among .* Got 'intercept' instead"):
        LinCA(10, fit_intercept=False, init={"intercept": 0.0}).fit(X)
    with pytest.raises(ValueError, match="one number or one per feature"):
        LinCA(10, init={"intercept": np.zeros(3)}).fit(X)
    with pytest.raises(TypeError, match="has no 'intercept' with these settings"):
        LinCA.from_parameters(
            components=BARS.components, activation=0.2, noise_variance=1.0, intercept=0.0, fit_intercept=False
        )
    assert "intercept_" not in vars(LinCA(10, fit_intercept=False).fit(X))


@pytest.mark.parametrize("estimator", [LinCA, GSC])
def test_a_weight_of_two_is_a_row_given_twice_far_from_zero(estimator):
    X = directions()[0][:400] + OFFSET
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    fit, repeated = (estimator(6, random_state=0, max_iter=5, tol=0.0) for _ in range(2))
    fit.fit(X, sample_weight=weights)
    repeated.fit(np.repeat(X, weights, axis=0))
    assert_allclose(fit.free_energy_[-1], repeated.free_energy_[-1], rtol=1e-9)
    assert_allclose(fit.intercept_, repeated.intercept_, rtol=1e-9)


def test_a_weighted_median_takes_rows_as_often_as_their_weights_say_and_what_is_seen_alone():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(40, 5)), rng.integers(0, 4, 40)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 4] = np.nan
    repeated = np.repeat(X[:, :4], weights, axis=0)
    for unit in (1.0, 0.3):
        found = weighted_median(X, weights * unit)
        assert_array_equal(found[:4], np.nanmedian(repeated, axis=0))
        assert np.isnan(found[4])


def test_the_noise_does_not_grow_with_the_offset():
    X = directions()[0]
    near, far = (LinCA(6, random_state=0, max_iter=20).fit(X + by) for by in (20.0, 1e8))
    assert_allclose(far.noise_variance_, near.noise_variance_, rtol=1e-4)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*rounding errors")
        LinCA(6, random_state=0, max_iter=2, tol=0.0).fit(X + 1e8)


def test_an_intercept_is_not_dropped_from_a_fitted_model():
    X = BARS.X + OFFSET
    fit = LinCA(10, random_state=0).fit(X)
    fit.set_params(fit_intercept=False)
    for question in (fit.score, fit.reconstruct, fit.predict_proba):
        with pytest.raises(ValueError, match="it has intercept_, which fit_intercept=False leaves out"):
            question(X)
    with pytest.warns(match="far from 0"):
        assert not hasattr(fit.fit(X), "intercept_")


def test_a_warm_fit_cannot_hold_what_it_does_not_have():
    fit = LinCA(10, start="random", random_state=0, warm_start=True).fit(BARS.X)
    fit.set_params(init={"intercept": 20.0}, fixed="intercept")
    with pytest.raises(ValueError, match=r"must hold names among .* Got 'intercept' instead"):
        fit.fit(BARS.X)


def test_components_without_a_sign_have_no_intercept():
    with pytest.raises(TypeError, match="NonnegativeLinear takes no intercept"):
        NonnegativeLinear(3, 4, intercept=True)
