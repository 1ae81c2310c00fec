"""partial_fit: what it must have in common with a fit of all data, whatever the model."""

import numpy as np
import pytest
from sklearn.base import clone

from multicause import ETNMF, GSC, MCA, Annealing, LinCA, TruncatedGaussianMixture, load_model, save_model
from multicause.datasets import make_bars
from multicause.execution import chunks_of
from multicause.learning.em.online import StepSizes, pooled
from multicause.models import DataMoments
from multicause.selection import GPSelect

SMALL = {"n_candidates": 4, "max_active": 3, "random_state": 0}
ESTIMATORS = [
    LinCA(8, **SMALL),
    ETNMF(8, **SMALL),
    ETNMF(8, noise="poisson", **SMALL),
    MCA(8, **SMALL),
    GSC(8, **SMALL),
    GSC(8, slab="full", noise="full", **SMALL),
    GSC(8, posterior="factored", random_state=0),
    TruncatedGaussianMixture(4, random_state=0),
    TruncatedGaussianMixture(4, covariance_type="diag", random_state=0),
    TruncatedGaussianMixture(4, covariance_type="spherical", random_state=0),
]


@pytest.fixture(scope="module")
def X():
    return np.abs(make_bars(n_samples=1000, size=4, random_state=0).X)


def streamed(estimator, batches, **settings):
    for batch in batches:
        estimator = estimator.partial_fit(batch, **settings)
    return estimator


def learned(estimator):
    return [value for name, value in sorted(vars(estimator).items()) if name.endswith("_") and name != "stop_"]


def flat(value):
    if isinstance(value, dict):
        return [leaf for name in sorted(value) for leaf in flat(value[name])]
    return [value]


def assert_same(first, second):
    for a, b in zip(learned(first), learned(second), strict=True):
        for x, y in zip(flat(a), flat(b), strict=True):
            np.testing.assert_array_equal(x, y)


STARTED = [
    *(clone(estimator).set_params(init={"components": np.linspace(1.0, 9.0, 128).reshape(8, 16)})
      for estimator in ESTIMATORS[:4]),
    TruncatedGaussianMixture(
        2, means_init=[[1.0] * 16, [9.0] * 16], weights_init=[0.5, 0.5], precisions_init=[np.eye(16)] * 2
    ),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", STARTED, ids=str)
def test_a_first_batch_of_all_data_is_one_iteration_of_a_fit(estimator, X):
    batch = clone(estimator).partial_fit(X)
    fit = clone(estimator).set_params(max_iter=1, tol=0).fit(X)
    name = "means_" if hasattr(fit, "means_") else "components_"
    np.testing.assert_allclose(getattr(batch, name), getattr(fit, name), rtol=1e-9)
    assert batch.free_energy_ == pytest.approx(fit.free_energy_[:1], rel=1e-12)
    assert batch.n_iter_ == 1
    assert str(batch.stop_).startswith("partial_fit learned")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_stream_of_the_same_data_stays_where_their_fit_ended(estimator, X):
    """With all latents as candidates: where some are left out, an EM step may lower the free energy."""
    rows = X[:500]
    all_states = {"n_candidates": None, "max_active": "auto"} if hasattr(estimator, "max_active") else {}
    fit = clone(estimator).set_params(max_iter=30, tol=1e-5, **all_states).fit(rows)
    before = fit.score(rows)
    assert streamed(fit, [rows] * 4).score(rows) > before - 1e-3 * abs(before)


@pytest.mark.parametrize("estimator", [ESTIMATORS[5], *ESTIMATORS[7:]], ids=str)
def test_statistics_about_other_parameters_give_the_same_m_step(estimator, X):
    """Sums about the means of the last batch, moved to those of the next."""
    model, params = clone(estimator).partial_fit(X[:500]).fitted_model()
    rng = np.random.default_rng(0)
    states = np.eye(model.n_components)
    weights = rng.dirichlet(np.ones(len(states)), size=40)
    statistics = model.accumulate(params, X[:40], states, weights)
    after = params._replace(**{
        name: value + rng.normal(size=value.shape) for name, value in params._asdict().items()
        if name in ("means", "slab_mean")
    })  # fmt: skip
    expected = model.m_step(params, statistics)
    found = model.m_step(after, model.recentre(statistics, params, after))
    for name in {"means", "covariances", "slab_covariance", "slab_mean"} & set(params._fields):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_stream_that_was_saved_goes_on_to_the_bit(estimator, X, tmp_path):
    batches = np.array_split(X, 5)
    whole = streamed(clone(estimator), batches)
    begun = streamed(clone(estimator), batches[:2])
    save_model(begun, tmp_path / "begun.multicause")
    assert_same(streamed(load_model(tmp_path / "begun.multicause"), batches[2:]), whole)


@pytest.mark.parametrize("estimator", [ESTIMATORS[0], ESTIMATORS[5], ESTIMATORS[7]], ids=str)
def test_a_stream_has_the_same_bits_for_every_number_of_threads(estimator, X):
    with chunks_of(256):
        one, three = (streamed(clone(estimator).set_params(n_jobs=n), np.array_split(X, 2)) for n in (1, 3))
    assert_same(one, three)


def test_a_weight_of_two_is_a_row_given_twice_in_a_batch(X):
    weights = 1.0 + (np.arange(500) % 2)
    twice = np.repeat(X[:500], weights.astype(int), axis=0)
    weighted = streamed(LinCA(8, **SMALL), [X[:500]] * 3, sample_weight=weights)
    repeated = streamed(LinCA(8, **SMALL), [twice] * 3)
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-7, atol=1e-9)


def test_a_fit_starts_a_stream_and_forgets_the_one_before(X):
    linca = LinCA(8, max_iter=30, **SMALL).fit(X)
    before = linca.score(X)
    streamed(linca, np.array_split(X, 2))
    assert linca.score(X) > before - 0.2
    assert linca.n_iter_ == linca.stream_["n_batches"] == 2
    assert not hasattr(linca.fit(X), "stream_")


def test_single_precision_stays_through_a_stream(X):
    linca = streamed(LinCA(8, **SMALL), [X[:500].astype(np.float32), X[500:]])
    assert linca.components_.dtype == np.float32


def test_moments_of_two_parts_are_those_of_all():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    parts = [DataMoments(float(len(part)), part.mean(axis=0), part.var(axis=0)) for part in (rows[:20], rows[20:])]
    both = pooled(*parts)
    np.testing.assert_allclose(both.mean, rows.mean(axis=0))
    np.testing.assert_allclose(both.variance, rows.var(axis=0))


def test_steps_decay_as_their_formula_says():
    assert [StepSizes(0.5, 2.0)(t) for t in (0, 2, 14)] == [1.0, 0.5, 0.25]


def test_what_a_stream_has_no_place_for_is_refused(X):
    for settings in ({"annealing": Annealing()}, {"monotone": True}, {"selection": GPSelect()}):
        with pytest.raises(ValueError, match="sees each batch once and does not support"):
            LinCA(8, **settings).partial_fit(X)
    linca = LinCA(8, **SMALL).partial_fit(X)
    with pytest.raises(ValueError, match=r"partial_fit continues from components_ of shape \(8, 16\)"):
        linca.set_params(n_components=6).partial_fit(X)
    etnmf = ETNMF(8, **SMALL).partial_fit(X)
    etnmf.stream_["statistics"]["ss"] = np.zeros((2, 2))
    with pytest.raises(ValueError, match="learned with other settings"):
        etnmf.partial_fit(X)
    with pytest.raises(ValueError, match="learning_decay"):
        LinCA(8, learning_decay=0.4).partial_fit(X)


@pytest.mark.parametrize("estimator", [LinCA(8, **SMALL), ETNMF(8, **SMALL), MCA(8, **SMALL), GSC(8, **SMALL)])
def test_a_stream_begins_with_the_search_that_a_fit_begins_with(estimator, X):
    found = clone(estimator).partial_fit(X)
    drawn = clone(estimator).set_params(start="random").partial_fit(X)
    assert found.free_energy_[0] > drawn.free_energy_[0] + 0.1  # of the batch, at the parameters before it
