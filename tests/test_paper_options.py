"""Options that follow the papers where the defaults do otherwise."""

import numpy as np
import pytest

from multicause import GSC, InvECA, LinCA, RestrictedMCA, UPoE
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.experiments.callbacks import Listener
from multicause.learning import Stop
from multicause.learning.em.hebbian import HebbianRule
from multicause.models import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics
from multicause.models.priors import SpikeSlabPrior

# ---- ET Figure 4C: what an estimator knows while it learns ----


@pytest.mark.usefixtures("callbacks")
def test_a_callback_may_ask_the_estimator_of_each_iteration():
    bars = make_bars(100, size=3, random_state=0)
    scores = []

    class Listening(Listener):
        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            if fitted_estimator is not None:
                scores.append(fitted_estimator.score(bars.X))

    fit = LinCA(6, max_iter=4, tol=0.0, random_state=0).set_callbacks(Listening()).fit(bars.X)
    np.testing.assert_allclose(scores, fit.free_energy_[: len(scores)])
    assert len(scores) >= 4


# ---- GSC eq. 8, 9: a full Psi by matched moments ----


def correlated(seed=0, n_samples=3000):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((4, 4))
    truth = SpikeSlabParams(
        3.0 * rng.standard_normal((4, 6)),
        np.full(4, 0.5),
        np.array([1.0, 2.0, -1.0, 0.0]),
        0.3 * A @ A.T + np.eye(4),
        0.1,
    )
    return SpikeSlabLinear(4, 6, SpikeSlabPrior(slab="full")).sample(truth, n_samples, rng)[0], truth


def summed(s, x):
    """Sums over data points whose states and coefficients are known."""
    (n, H), nothing = s.shape, np.zeros((s.shape[1], s.shape[1]))
    xy, yy = np.zeros((H, 2)), np.zeros(())
    return SpikeSlabStatistics(float(n), s.sum(axis=0), x.sum(axis=0), x.T @ x, xy, yy, np.zeros(H), nothing, s.T @ s)


def test_matched_moments_are_those_of_the_paper_entry_by_entry():
    rng = np.random.default_rng(0)
    H, s = 3, (rng.random((50, 3)) < 0.6).astype(float)
    x = s * rng.normal([1.0, -2.0, 0.5], 1.0, size=(50, 3))
    statistics = summed(s, x)
    params = SpikeSlabParams(np.ones((H, 2)), np.full(H, 0.6), np.zeros(H), np.eye(H), 1.0)
    new = SpikeSlabPrior(slab="full", slab_update="moments").new_correlated_slab(params, statistics, frozenset())
    mean = x.sum(axis=0) / s.sum(axis=0)
    np.testing.assert_allclose(new["slab_mean"], mean)
    expected = np.array(
        [
            [sum(x[n, h] * x[n, g] - s[n, h] * s[n, g] * mean[h] * mean[g] for n in range(50)) / (s[:, h] @ s[:, g])
             for g in range(H)] for h in range(H)
        ]
    )  # fmt: skip
    np.testing.assert_allclose(new["slab_covariance"], expected, rtol=1e-12)


def test_a_pair_never_active_together_keeps_its_covariance_and_no_eigenvalue_is_negative():
    s = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    x = s * np.array([2.0, 3.0])
    statistics = summed(s, x)
    params = SpikeSlabParams(np.ones((2, 2)), np.full(2, 0.5), np.zeros(2), np.array([[1.0, 0.4], [0.4, 1.0]]), 1.0)
    new = SpikeSlabPrior(slab="full", slab_update="moments").new_correlated_slab(params, statistics, frozenset())
    assert np.linalg.eigvalsh(new["slab_covariance"]).min() > 0.0
    held = SpikeSlabPrior(slab="full", slab_update="moments").new_correlated_slab(
        params, statistics, frozenset({"slab_covariance"})
    )
    np.testing.assert_array_equal(held["slab_covariance"], params.slab_covariance)


def test_both_updates_find_correlated_coefficients_and_only_the_exact_one_never_falls():
    X, truth = correlated()
    start = {"components": truth.components, "activation": 0.5, "noise_variance": 0.1}
    settings = {"slab": "full", "posterior": "exact", "fixed": ("components",), "max_iter": 20, "tol": 0.0}
    exact, matched = (
        GSC(4, slab_update=update, init=start, random_state=0, **settings).fit(X) for update in ("exact", "moments")
    )
    assert np.abs(exact.slab_covariance_ - truth.slab_covariance).max() < 0.2
    assert np.abs(matched.slab_covariance_ - truth.slab_covariance).max() < 0.4
    assert np.diff(exact.free_energy_).min() > -1e-10
    assert exact.free_energy_[-1] > matched.free_energy_[-1]


def test_an_unknown_update_is_refused():
    with pytest.raises(ValueError, match=r"'slab_update' parameter of GSC must be a str among"):
        GSC(2, slab_update="paper").fit(np.ones((5, 3)))


# ---- MCA §6.4: a network that cools ----


def test_a_network_cools_in_equal_steps_to_its_final_temperature():
    rule = HebbianRule(20.0, final_temperature=2.0)
    assert [rule.at(share).temperature for share in (0.0, 0.5, 1.0)] == [20.0, 11.0, 2.0]
    assert HebbianRule(20.0).at(0.7).temperature == 20.0
    X = make_bars(200, size=3, superposition="max", noise="poisson", random_state=0).X
    settings = {"solver": "online", "n_presentations": 4000, "random_state": 0}
    settings |= {"temperature": 8.0, "learning_rate": 0.1, "weight_noise": 0.0}
    warm, cooled, cold = (RestrictedMCA(6, final_temperature=final, **settings).fit(X) for final in (None, 1.5, 8.0))
    assert not np.allclose(warm.components_, cooled.components_)
    np.testing.assert_allclose(warm.components_, cold.components_, rtol=1e-6)  # no change of temperature
    with pytest.raises(ValueError, match=r"'final_temperature' parameter of RestrictedMCA"):
        RestrictedMCA(6, solver="online", final_temperature=0.5).fit(X)


# ---- GPS §5.3: objects learned from a random start ----


def test_objects_may_start_at_random_or_as_given():
    drawn = make_scenes(120, shape_objects(2, 6), image_shape=(12, 12), probability=0.5, random_state=1000)
    settings = {"n_candidates": 2, "tol": 0.0, "random_state": 0}
    random = InvECA(2, (6, 6), init="random", search=False, max_iter=1, **settings).fit(drawn.X)
    recurring = InvECA(2, (6, 6), search=False, max_iter=1, **settings).fit(drawn.X)
    given = InvECA(2, (6, 6), init={"components": drawn.objects}, max_iter=1, **settings).fit(drawn.X)

    def likeness(fit):
        return max(abs(np.corrcoef(W.ravel(), drawn.objects[0].ravel())[0, 1]) for W in fit.components_)

    assert likeness(random) < 0.7 < likeness(given)
    assert not np.allclose(random.components_, recurring.components_)
    with pytest.raises(
        ValueError, match=r"The 'init' of InvECA has values for component\. Known are: components, masks"
    ):
        InvECA(2, (6, 6), init={"component": drawn.objects}, **settings).fit(drawn.X)
    with pytest.raises(ValueError, match=r"init\['components'\]"):
        InvECA(2, (6, 6), init={"components": np.ones((3, 5))}, **settings).fit(drawn.X)


# ---- UPoE §3.3, §5.1: back-fitting, the end of learning; and missing entries ----


def mixed(n_sources=4, n_samples=2000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.laplace(size=(n_samples, n_sources)) ** 3 @ rng.normal(size=(n_sources, n_sources))


def test_back_fitted_experts_make_the_data_at_least_as_likely_as_those_that_stay():
    X = mixed()
    scores = {name: UPoE(3, algorithm=name, random_state=0).fit(X).score(X) for name in ("pursuit", "sequential")}
    fit = UPoE(3, algorithm="backfitting", random_state=0).fit(X)
    assert fit.components_.shape == (3, 4)
    assert fit.score(X) == pytest.approx(fit.free_energy_[-1], abs=1e-8)
    assert fit.score(X) >= max(scores.values()) - 1e-6
    assert (np.diff(fit.free_energy_) > 0.0).all()


def test_experts_that_do_not_help_are_not_added_and_stop_says_so():
    uniform = np.random.default_rng(0).uniform(-1.0, 1.0, size=(3000, 3))  # no heavy tails in any direction
    fit = UPoE(3, random_state=0).fit(uniform)
    assert len(fit.components_) < 3
    assert fit.stop_ is Stop.NO_MORE_EXPERTS
    assert "no further expert" in str(fit.stop_)
    assert UPoE(3, algorithm="pursuit", random_state=0).fit(mixed(3)).stop_ is Stop.EXPERTS_FOUND


@pytest.mark.parametrize("settings", [{}, {"n_components": 2}])
def test_missing_entries_are_filled_in_by_their_most_probable_values(settings):
    X = mixed()
    fit = UPoE(random_state=0, **settings).fit(X[200:])
    gappy = X[:40].copy()
    gappy[:, 1] = np.nan
    gappy[::3, 3] = np.nan
    filled, gaps = fit.reconstruct(gappy), np.isnan(gappy)
    np.testing.assert_array_equal(filled[~gaps], gappy[~gaps])
    assert np.isfinite(filled).all()
    covariance, mean, log_density = np.cov(X.T), X.mean(axis=0), fit.score_samples
    linear = gappy.copy()
    for row in linear:
        m = np.isnan(row)
        row[m] = mean[m] + covariance[np.ix_(m, ~m)] @ np.linalg.solve(covariance[np.ix_(~m, ~m)], (row - mean)[~m])
    assert (log_density(filled) >= log_density(linear) - 1e-9).all()
    assert np.abs(filled - X[:40])[gaps].mean() < 0.9 * np.abs(linear - X[:40])[gaps].mean()
    small = 1e-3 * X.std() * np.random.default_rng(1).standard_normal((30, gaps.sum()))
    for step in small:  # no better value nearby
        moved = filled.copy()
        moved[gaps] += step
        assert (log_density(moved) <= log_density(filled) + 1e-4).all()


def test_a_gaussian_fills_gaps_by_its_conditional_mean():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 3)) @ rng.normal(size=(3, 3))
    uniform = UPoE(random_state=0).fit(rng.uniform(-1.0, 1.0, size=(3000, 3)) @ np.linalg.cholesky(np.cov(X.T)).T)
    assert len(uniform.components_) == 0
    C = uniform.dewhitening_ @ uniform.dewhitening_.T
    y = np.array([0.3, np.nan, -0.2])
    expected = uniform.mean_[1] + C[1, [0, 2]] @ np.linalg.solve(C[np.ix_([0, 2], [0, 2])], (y - uniform.mean_)[[0, 2]])
    assert uniform.reconstruct(y[None])[0, 1] == pytest.approx(expected, rel=1e-6)


def test_gaps_are_refused_where_they_are_not_filled_in():
    X = mixed()
    fit = UPoE(2, random_state=0).fit(X)
    gappy = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    for ask in (fit.transform, fit.score, UPoE(2).fit):
        with pytest.raises(ValueError, match="NaN"):
            ask(gappy)
