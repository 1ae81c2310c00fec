"""The search for a start: proposals, moves, and what plain calls find."""

import warnings
from functools import partial

import numpy as np
import pytest

from multicause import ETNMF, GSC, MCA, LinCA
from multicause.datasets import make_bars
from multicause.execution import InProcess, split
from multicause.experiments.plain_data import fields, share_found, sparse_case
from multicause.learning import EM, Annealing, Plan
from multicause.learning.em.proposals import choose_beside_each_other, smoothed
from multicause.learning.em.search import Search
from multicause.learning.initialisation.moments import data_moments
from multicause.learning.initialisation.rows import draw_rows, evenly, sample_rows
from multicause.models import BinaryLinear, MaximalCauses, SpikeSlabLinear
from multicause.models.additions import additions_to
from multicause.posteriors import TruncatedPosterior
from multicause.tasks import denoise_image


def bars(estimator, seed, n_samples=600, size=5):
    superposition = "max" if estimator is MCA else "linear"
    return make_bars(n_samples, size, superposition=superposition, pixel_value=1.0, noise=0.2, random_state=seed)


def plain(estimator, seed=0, **settings):
    own = {"allow_negative": True} if estimator is ETNMF else {}
    return estimator(10, random_state=seed, n_jobs=1, **own, **settings)


@pytest.mark.parametrize("estimator", [LinCA, ETNMF, MCA])
@pytest.mark.parametrize("seed", range(3))
def test_a_plain_call_finds_all_bars(estimator, seed):
    data = bars(estimator, seed)
    fit = plain(estimator, seed).fit(data.X)
    assert share_found(fit.components_, data.components) == 1.0


@pytest.mark.parametrize("seed", [1003, 1004])
def test_few_rows_are_searched_until_two_searches_end_alike(seed):
    data = make_bars(400, 5, pixel_value=1.0, noise=0.3, random_state=seed)
    fit = LinCA(10, random_state=seed, n_jobs=1).fit(data.X)
    assert share_found(fit.components_, data.components) == 1.0


def test_a_plain_call_of_gsc_finds_directions():
    rng = np.random.default_rng(1000)
    W = rng.standard_normal((20, 25))
    truth = {"components": W, "activation": 0.1, "noise_variance": 0.09}
    X = GSC.from_parameters(**truth).sample(2000, random_state=0)[0]
    assert share_found(GSC(20, random_state=0).fit(X).components_, W) == 1.0


@pytest.mark.parametrize("seed", range(2))
def test_coefficients_that_hardly_vary_are_not_taken_for_a_latent_that_is_always_on(seed):
    """Beside an intercept at the mean, a coefficient about 0 explains the variance of a bar that is there or not."""
    data = make_bars(2000, 5, random_state=1000)
    fit = GSC(10, random_state=seed).fit(data.X)
    assert share_found(fit.components_, data.components) == 1.0
    assert fit.activation_.max() < 0.4


def test_latents_of_a_maximum_that_are_no_candidates_are_not_looked_for_again():
    case = sparse_case(MCA, partial(fields, 20, 25, True), 2000, 0.2, 1035)
    assert case.share_found(case.plain.fit(case.X)) == 1.0


def test_the_search_leads_to_a_larger_free_energy_than_a_random_start():
    X = bars(LinCA, 1000, size=8, n_samples=1000).X
    searched, random = (LinCA(16, start=start, random_state=0).fit(X) for start in ("search", "random"))
    assert searched.free_energy_[-1] > random.free_energy_[-1] + 0.1


@pytest.mark.parametrize("told", [{"init": {"noise_variance": 1.0}}, {"annealing": Annealing(2.0)}])
def test_nothing_is_searched_where_the_user_says_how_to_begin(told, monkeypatch):
    monkeypatch.setattr(Search, "__call__", lambda self, em, rng: pytest.fail("it searched"))
    X = bars(LinCA, 0, 100).X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain(LinCA, max_iter=2, **told).fit(X)
        plain(LinCA, max_iter=2, start="random").fit(X)
        plain(LinCA, start="random").partial_fit(X)


@pytest.mark.parametrize("estimator", [MCA(4, selection="greedy"), ETNMF(4, noise="poisson", selection="greedy")])
def test_greedy_selection_is_refused_where_there_is_none(estimator):
    with pytest.raises(ValueError, match=r"has no greedy selection\. Use selection='auto'\."):
        estimator.fit(np.ones((20, 4)))


def test_the_search_does_not_depend_on_threads_or_the_order_of_rows():
    X = bars(LinCA, 3).X
    one, two = (LinCA(10, random_state=0, n_jobs=n).fit(X) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    turned = LinCA(10, random_state=0).fit(X[::-1])
    np.testing.assert_allclose(turned.components_, one.components_, rtol=1e-6, atol=1e-8)


def test_a_weight_of_two_is_a_row_given_twice_to_the_search():
    X, weights = bars(LinCA, 4, 300).X, np.random.default_rng(0).integers(0, 3, 300)
    weighted = LinCA(10, random_state=0).fit(X, sample_weight=weights)
    repeated = LinCA(10, random_state=0).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)


def test_missing_entries_do_not_keep_the_search_from_the_bars():
    data = bars(LinCA, 5)
    X = np.where(np.random.default_rng(0).random(data.X.shape) < 0.05, np.nan, data.X)
    assert share_found(plain(LinCA).fit(X).components_, data.components) == 1.0


def test_a_search_in_a_sample_serves_all_data():
    data = bars(LinCA, 6, 3000)
    with InProcess() as executor:
        chunks = split(data.X, 10)
        moments = data_moments(executor, chunks)
        em = EM(BinaryLinear(10, 25), TruncatedPosterior(8, 4), Plan(10), executor, chunks, moments)
        started = Search(least_rows=500)(em, np.random.default_rng(0))
    assert started.posterior == em.posterior
    assert share_found(started.params.components, data.components) == 1.0


@pytest.mark.parametrize("name", ["binary_linear", "maximal_causes", "spike_slab_linear"])
def test_the_gain_of_one_more_latent_is_that_of_the_definition(name):
    model = {
        "binary_linear": BinaryLinear(3, 4),
        "maximal_causes": MaximalCauses(3, 4),
        "spike_slab_linear": SpikeSlabLinear(3, 4),
    }[name]
    rng = np.random.default_rng(0)
    W = np.abs(rng.standard_normal((3, 4)))
    own = {"slab_mean": np.zeros(3), "slab_covariance": np.ones(3)} if name == "spike_slab_linear" else {}
    kind = type(model.init_params(_moments(4), rng))
    params = kind(components=W, activation=np.full(3, 0.5), noise_variance=0.3, **own)
    Y, additions = rng.standard_normal((6, 4)), additions_to(model)
    gains = additions.gains(params, Y, np.zeros((6, 4)), params)
    wanted = model.log_joint(params, Y, np.eye(3)) - model.log_joint(params, Y, np.zeros((1, 3)))
    np.testing.assert_allclose(gains, wanted, rtol=1e-10)


def test_a_refit_raises_what_proposals_gain():
    data = bars(LinCA, 7)
    model = BinaryLinear(10, 25)
    params = model.init_params(_moments(25), np.random.default_rng(0))._replace(noise_variance=0.04)
    additions, mean = additions_to(model), np.zeros_like(data.X)
    rows = np.arange(4)
    latents = additions.seeds(params, data.X, mean, data.X[rows] + 0.3, rows)
    use = (additions.gains(params, data.X, mean, latents) > 0.0).astype(float)
    better = additions.refit(params, data.X, mean, latents, use)
    assert (
        (use * additions.gains(params, data.X, mean, better)).sum(0)
        >= (use * additions.gains(params, data.X, mean, latents)).sum(0)
    ).all()


def test_proposals_are_chosen_beside_each_other():
    gains = np.array([[5.0, 5.0, 0.0], [5.0, 4.0, 0.0], [0.0, 0.0, 3.0]])
    chosen, added = choose_beside_each_other(gains, np.ones(3), 3)
    assert chosen.tolist() == [0, 2]  # the second column adds nothing to the first
    np.testing.assert_allclose(added, [10.0, 3.0])


def test_what_is_left_of_a_row_is_smoothed_by_what_badly_explained_rows_share():
    rng = np.random.default_rng(0)
    direction = np.repeat([1.0, 0.0], 50)
    residuals = 0.5 * rng.standard_normal((400, 100))
    residuals[:100] += direction
    smooth = smoothed(residuals, np.ones(400), (np.arange(400) < 100) + 0.1, np.array([0]), 10)[0]
    assert np.linalg.norm(smooth - direction) < 0.5 * np.linalg.norm(residuals[0] - direction)


def test_rows_are_drawn_by_their_mass_alone():
    assert set(draw_rows(np.array([0.0, 1.0, 0.0, 3.0]), 50, np.random.default_rng(0))) == {1, 3}
    np.testing.assert_array_equal(evenly(np.array([1.0, 0.0, 3.0]), 4), [0, 2, 2, 2])


def test_a_sample_holds_rows_of_the_data_in_a_fixed_order():
    X = np.random.default_rng(0).standard_normal((300, 3))
    with InProcess() as executor:
        chunks = split(X, 3, 128)
        em = EM(BinaryLinear(3, 3), TruncatedPosterior(3, 3), Plan(1), executor, chunks, data_moments(executor, chunks))
        few, weights, n_distinct = sample_rows(em, 100, np.random.default_rng(0))
        rows, _, _ = sample_rows(em, 300, np.random.default_rng(0))
    assert few.shape == (100, 3)
    assert weights.sum() == pytest.approx(300.0)
    assert n_distinct == 300
    assert {tuple(row) for row in few} <= {tuple(row) for row in X}
    assert {tuple(row) for row in rows} == {tuple(row) for row in X}


def _moments(n_features):
    from multicause.models import DataMoments

    return DataMoments(1.0, np.zeros(n_features), np.ones(n_features))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rounding_does_not_choose_what_is_moved():
    """Where posteriors are sharp, 1 - mean is a rounding error."""
    image = np.random.default_rng(3).normal(size=(24, 24)).cumsum(axis=0)
    settings = {"model": "gsc", "n_components": 12, "max_iter": 2, "random_state": 0}
    wanted = denoise_image(image, **settings).image
    for seed in range(3):
        rounding = 1e-13 * np.random.default_rng(seed).normal(size=image.shape)
        other = denoise_image(image * (1.0 + rounding), **settings).image
        assert other == pytest.approx(wanted, abs=1e-6)
