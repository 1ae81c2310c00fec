"""What holds between the rooms: parts that fit, settings that change between fit and question, restarts that stand."""

import warnings

import numpy as np
import pytest

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedEM, TruncatedGaussianMixture
from multicause.datasets import make_bars
from multicause.learning import Annealing
from multicause.models import (
    BernoulliNoise,
    BinaryLinear,
    GaussianNoise,
    MaximalCauses,
    Maximum,
    PoissonLinear,
    SpikeSlabMax,
    Sum,
)
from multicause.posteriors.e_steps import DefinitionEStep, e_step_of
from multicause.selection import GPSelect

from cases import MODELS, Bare


@pytest.fixture(scope="module")
def X():
    return make_bars(200, 3, superposition="max", noise=1.0, random_state=0).X.clip(0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BinaryLinear(3, 4, superposition=Maximum()),
        lambda: BinaryLinear(3, 4, noise=GaussianNoise("diagonal")),
        lambda: PoissonLinear(3, 4, noise=BernoulliNoise()),
        lambda: MaximalCauses(3, 4, superposition=Sum()),
        lambda: MaximalCauses(3, 4, noise=GaussianNoise("full")),
        lambda: SpikeSlabMax(3, 4, noise=GaussianNoise("full")),
    ],
)
def test_a_model_refuses_parts_that_it_does_not_honour(make):
    with pytest.raises(TypeError, match="is put together from"):
        make()


def test_a_model_that_redefines_itself_is_enumerated_by_its_own_definition():
    class Mine(BinaryLinear):
        def log_joint(self, params, Y, states):
            return 2.0 * super().log_joint(params, Y, states)

    assert e_step_of(Mine(3, 4)) is DefinitionEStep
    assert e_step_of(BinaryLinear(3, 4)) is not DefinitionEStep


@pytest.mark.parametrize(
    ("fit", "change", "message"),
    [
        (MCA(4), {"noise": "poisson"}, "it has no background_. Fit it again"),
        (GSC(4), {"noise": "full"}, "it has no noise_covariance_. Fit it again"),
    ],
)
def test_a_fitted_model_of_other_noise_says_that_it_must_be_fitted_again(fit, change, message, X):
    fit.set_params(max_iter=3, tol=0, random_state=0).fit(X)
    with pytest.raises(ValueError, match=message):
        fit.set_params(**change).transform(X)


def test_a_refit_with_other_noise_leaves_nothing_of_the_last_one(X):
    fit = MCA(4, max_iter=3, tol=0, random_state=0).fit(X)
    fit.set_params(noise="poisson").fit(X)
    assert not hasattr(fit, "noise_variance_")
    full = GSC(4, noise="full", max_iter=3, tol=0, random_state=0).fit(X)
    assert not hasattr(full.set_params(noise="isotropic").fit(X), "noise_covariance_")


@pytest.mark.parametrize(
    ("estimator", "background", "message"),
    [
        (ETNMF(4, noise="poisson"), 0.0, "must be one number, positive"),
        (MCA(4, noise="exponential"), 0.0, "must be one number, positive"),
        (MCA(4, noise="bernoulli"), 1.5, "at least 0 and below 1"),
        (MCA(4, noise="poisson"), -1.0, "must be one number, at least 0"),
        (MCA(4, noise="poisson"), "dark", "must be one number, at least 0"),
    ],
)
def test_a_background_outside_the_range_of_the_noise_is_refused(estimator, background, message, X):
    with pytest.raises(ValueError, match=message):
        estimator.set_params(init={"background": background}).fit(X / X.max())


def test_an_interrupt_while_a_later_fit_starts_keeps_the_earlier_ones(monkeypatch, X):
    from multicause.estimators import truncated_gaussian_mixture as module

    started = []

    def start(em, rng, n_starts):
        started.append(1)
        if len(started) == 2:
            raise KeyboardInterrupt
        return best_clusters(em, rng, n_starts)

    best_clusters = module.best_clusters
    monkeypatch.setattr(module, "best_clusters", start)
    mixture = TruncatedGaussianMixture(3, n_init=3, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        mixture.fit(X)
    assert mixture.means_.shape == (3, 9)


def test_learned_selection_with_nothing_to_select_changes_nothing(X):
    fits = [LinCA(4, n_candidates=None, selection=s, random_state=0).fit(X) for s in ("model-based", GPSelect())]
    np.testing.assert_array_equal(fits[0].free_energy_, fits[1].free_energy_)


def test_a_model_based_selection_asked_for_after_a_learned_one_is_used(X):
    few = {"n_candidates": 2, "max_active": 2, "singletons": False}
    learned = LinCA(6, selection=GPSelect(), max_iter=5, tol=0, random_state=0, **few).fit(X)
    by_function = learned.score_samples(X)
    known = {"components": learned.components_, "activation": learned.activation_}
    own = LinCA.from_parameters(noise_variance=learned.noise_variance_, selection="model-based", **few, **known)
    by_model = learned.set_params(selection="model-based").score_samples(X)
    np.testing.assert_array_equal(by_model, own.score_samples(X))
    assert (by_model != by_function).any()


def test_single_precision_counts_give_no_warning(X):
    counts = np.random.default_rng(0).poisson(X).astype(np.float32)
    counts[:, 0] = 0.0
    fit = MCA(6, n_candidates=3, noise="poisson", max_iter=30, tol=0, random_state=0).fit(counts)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(fit.score(counts))


def test_a_warning_points_at_the_line_that_called_fit(X):
    with pytest.warns(match="raise max_iter or tol") as caught:
        LinCA(4, max_iter=2, tol=1e-12, random_state=0).fit(X)
    assert caught[0].filename == __file__
    with pytest.warns(match="far from 0") as caught:
        LinCA(4, fit_intercept=False, random_state=0).fit(X + 1000.0)
    assert caught[0].filename == __file__


def test_what_a_model_of_ones_own_has_no_place_for_is_refused(X):
    noisy = TruncatedEM(Bare(3), annealing=Annealing(3.0, parameter_noise=0.1))
    with pytest.raises(ValueError, match="The model Bare takes no parameter_noise: it lacks perturb"):
        noisy.fit(X)


def test_truncated_em_trains_the_nonlinear_spike_and_slab_model(X):
    em = TruncatedEM(SpikeSlabMax(4, 9), n_candidates=3, max_iter=4, tol=0, random_state=0).fit(X)
    assert np.isfinite(em.free_energy_).all()
    assert em.free_energy_[-1] > em.free_energy_[0]


@pytest.mark.parametrize("name", ["nonnegative_linear", "poisson_linear", "maximal_poisson", "maximal_bernoulli"])
def test_a_latent_alone_has_the_mean_of_its_unit_vector(name):
    model, params = MODELS[name](4, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(model.superposition.alone(params), model.superpose(params, np.eye(4)))
