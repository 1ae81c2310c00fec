"""Mixtures of probabilistic principal components: the kernel against the definition, and what the M-step maximises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from multicause import TruncatedGaussianMixture, load_model, save_model
from multicause.backends.numba_cpu import load
from multicause.execution import chunks_of
from multicause.models import FactorMixture
from multicause.models.gaussian_mixture import GaussianMixtureParams
from multicause.posteriors.e_steps.definition import DefinitionEStep
from multicause.posteriors.e_steps.factor_mixture import FactorMixtureEStep
from multicause.testing import brute_force, check_model

from cases import MIXTURES

NOISES = pytest.mark.parametrize("noise", ["shared", "own", 0.5])


def make_case(n_components, n_features, seed, n_rows=13, offset=0.0):
    rng = np.random.default_rng(seed)
    model, params = MIXTURES["mixture_factor"](n_components, n_features, rng)
    params = params._replace(means=params.means + offset)
    return model, params, model.sample(params, n_rows, rng)[0], rng


def clusters_in_planes(n_samples=600, seed=1000, noise=0.3):
    """Three clusters in ten dimensions, which vary along two, one and no directions; and without their noise."""
    rng = np.random.default_rng(seed)
    centres = 6.0 * rng.normal(size=(3, 10))
    axes = 3.0 * np.linalg.qr(rng.normal(size=(3, 10, 2)))[0].transpose(0, 2, 1)
    axes[1, 1:], axes[2] = 0.0, 0.0
    labels = rng.integers(3, size=n_samples)
    clean = centres[labels] + np.einsum("nk,nkd->nd", rng.normal(size=(n_samples, 2)), axes[labels])
    return clean + noise * rng.normal(size=clean.shape), clean, labels


@given(
    n_components=st.integers(1, 6),
    n_features=st.integers(1, 7),
    n_candidates=st.integers(1, 6),
    beta=st.sampled_from([1.0, 0.3]),
    offset=st.sampled_from([0.0, 1000.0]),
    seed=st.integers(0, 10**6),
)
def test_kernel_and_definition_equal_brute_force(n_components, n_features, n_candidates, beta, offset, seed):
    model, params, Y, rng = make_case(n_components, n_features, seed, offset=offset)
    n_candidates = min(n_candidates, n_components)
    weights = rng.uniform(0.0, 2.0, size=len(Y))
    kernel, definition = (kind(model, params, 1, False, beta) for kind in (FactorMixtureEStep, DefinitionEStep))
    candidates = kernel.select(kernel.terms(Y), n_candidates)
    assert_array_equal(candidates, definition.select(Y, n_candidates))
    oracle = brute_force(model, params, Y, candidates=candidates, max_active=1, singletons=False, beta=beta)
    for e_step in (kernel, definition):
        terms = e_step.terms(Y)
        assert_allclose(e_step.free_energies(terms, candidates), oracle.free_energy, rtol=1e-9, atol=1e-9)
        assert_allclose(e_step.means(terms, candidates), oracle.mean, rtol=0, atol=1e-9)
    wanted = definition.accumulate(Y, candidates, weights).statistics
    found = kernel.accumulate(kernel.terms(Y), candidates, weights).statistics
    for name in wanted._fields:
        scale = np.max(np.abs(getattr(wanted, name)), initial=1.0)
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-9 * scale, err_msg=name)
    assert_allclose(
        kernel.reconstruct(kernel.terms(Y), candidates), definition.reconstruct(Y, candidates), rtol=1e-9, atol=1e-8
    )


def test_posterior_variances_are_those_of_draws_from_the_posterior():
    model, params, _, rng = make_case(3, 4, seed=5)
    y = np.zeros((1, 4))
    e_step = FactorMixtureEStep(model, params, 1, False, 1.0)
    everything = np.arange(3, dtype=np.int32)[None]
    mean, variance = e_step.clean(e_step.terms(y), everything)[0]
    q = e_step.means(e_step.terms(y), everything)[0]
    noise = np.linalg.eigvalsh(params.covariances)[:, 0]
    draws = []
    for c in range(3):
        signal = params.covariances[c] - noise[c] * np.eye(4)
        gain = signal @ np.linalg.inv(params.covariances[c])
        n = round(400_000 * q[c])
        centre = params.means[c] + gain @ (y[0] - params.means[c])
        draws.append(rng.multivariate_normal(centre, noise[c] * gain, size=n, method="eigh"))
    draws = np.concatenate(draws)
    assert_allclose(mean, draws.mean(axis=0), atol=0.02)
    assert_allclose(variance, draws.var(axis=0), rtol=0.02, atol=1e-3)


@NOISES
@pytest.mark.parametrize("n_factors", [1, 3])
def test_the_m_step_is_a_maximum_among_covariances_of_its_form(noise, n_factors):
    """No nearby covariance of the same form is more likely under the same responsibilities."""
    rng = np.random.default_rng(0)
    model = FactorMixture(2, 5, n_factors=n_factors, noise=noise, reg_covar=0.0)
    Y = rng.normal(size=(80, 5)) @ np.diag([3.0, 2.0, 1.0, 0.8, 0.6])
    r = rng.dirichlet([1.0, 1.0], size=80)
    start = model.equal_clusters(rng.normal(size=(2, 5)), np.ones(5))
    best = model.m_step(start, model.accumulate(start, Y, np.eye(2), r))

    def likelihood(covariances):
        return float((r * model.log_joint(best._replace(covariances=covariances), Y, np.eye(2))).sum())

    spread, axes = np.linalg.eigh(best.covariances)
    top = likelihood(best.covariances)
    shared = rng.normal(size=100)
    for k in range(100):
        change = 0.02 * rng.normal(size=(2, 5, 5))
        turned = np.linalg.qr(axes + axes @ (change - change.transpose(0, 2, 1)))[0]
        kept = spread > spread[:, :1] * (1.0 + 1e-9)
        own = 0.0 if noise == 0.5 else shared[k] if noise == "shared" else rng.normal(size=(2, 1))
        scale = np.exp(0.02 * np.where(kept, rng.normal(size=(2, 5)), own))
        other = np.einsum("cik,ck,cjk->cij", turned, spread * scale, turned)
        assert likelihood(other) < top + 1e-9


def test_with_all_directions_and_noise_of_its_own_it_is_the_dense_mixture():
    X, _, _ = clusters_in_planes()
    settings = {"max_iter": 5, "tol": 0.0, "random_state": 0, "means_init": X[:3], "n_components": 3}
    settings |= {"weights_init": np.full(3, 1 / 3), "precisions_init": np.stack([np.eye(10)] * 3)}
    dense = TruncatedGaussianMixture(**settings).fit(X)
    factor = TruncatedGaussianMixture(covariance_type="factor", n_factors=9, noise="own", **settings).fit(X)
    assert_allclose(factor.covariances_, dense.covariances_, rtol=1e-8, atol=1e-10)
    assert_allclose(factor.free_energy_, dense.free_energy_, rtol=1e-10)


@NOISES
@pytest.mark.parametrize("n_candidates", [None, 2])
def test_the_free_energy_never_falls(noise, n_candidates):
    X, _, _ = clusters_in_planes()
    weights = np.random.default_rng(1).integers(0, 3, size=len(X))
    settings = {"monotone": True, "max_iter": 40, "tol": 0.0, "n_candidates": n_candidates, "random_state": 3}
    fit = TruncatedGaussianMixture(
        5, covariance_type="factor", n_factors=2, noise=noise, reg_covar=0.0, **settings
    ).fit(X, sample_weight=weights)
    assert (np.diff(fit.free_energy_) > -1e-9 * np.abs(fit.free_energy_[1:])).all()
    assert fit.free_energy_[-1] > fit.free_energy_[0]


def test_directions_and_noise_are_found_and_the_noise_is_taken_out():
    X, clean, _ = clusters_in_planes(n_samples=3000)
    fit = TruncatedGaussianMixture(3, covariance_type="factor", n_candidates=2, random_state=0).fit(X)
    spread = np.linalg.eigvalsh(fit.covariances_)
    assert_allclose(spread[:, 0], 0.09, rtol=0.03)
    found = sorted((spread > 0.09 * 1.5).sum(axis=1))  # one in six spurious directions clears the edge, barely
    assert found == [0, 1, 2]
    X_hat, variances = fit.reconstruct_with_variance(X)
    assert_array_equal(X_hat, fit.reconstruct(X))
    assert np.mean((X_hat - clean) ** 2) < 0.2 * np.mean((X - clean) ** 2)
    assert_allclose(np.mean((X_hat - clean) ** 2), variances.mean(), rtol=0.1)


def test_the_model_passes_its_own_check():
    check_model(FactorMixture(4, 3, n_factors=1, reg_covar=0.0))


def test_answers_have_the_same_bits_for_any_chunk_size_and_thread_count():
    X = np.random.default_rng(0).normal(size=(1500, 12))
    settings = {"covariance_type": "factor", "n_factors": 3, "n_candidates": 4, "max_iter": 3, "tol": 0.0}
    fit = TruncatedGaussianMixture(9, random_state=0, **settings).fit(X)
    whole = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
    for chunk_size, n_jobs in ((1, 2), (700, 1), (10**6, 2)):
        fit.set_params(n_jobs=n_jobs)
        with chunks_of(chunk_size):
            answers = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
        for answer, wanted in zip(answers, whole, strict=True):
            assert_array_equal(answer, wanted)


def test_clusters_between_which_single_precision_is_in_doubt_are_selected_as_in_double():
    model, params, Y, rng = make_case(20, 12, 1000, n_rows=300)
    alike = params.means[::2] + 1e-6 * rng.normal(size=(10, 12))
    means = np.stack([params.means[::2], alike], axis=1).reshape(20, 12)
    params = params._replace(means=means, covariances=np.repeat(params.covariances[::2], 2, axis=0))
    e_step = FactorMixtureEStep(model, params._replace(weights=np.full(20, 0.05)), 1, False, 1.0)
    exact = e_step._log_joint(Y, np.tile(np.arange(20, dtype=np.int32), (300, 1)))
    chosen = e_step.select(Y, 1)
    ones = np.ones(20)
    assert_array_equal(chosen, load("selection").top_candidates(exact, e_step.log_peak.max() * ones, ones, 1))
    for rows in (slice(37, 95), slice(130, 131), slice(None, None, -1)):
        assert_array_equal(e_step.select(Y[rows], 1), chosen[rows])


def test_clusters_of_rows_far_from_all_means_are_selected_as_exactly_as_those_of_near_rows():
    rng = np.random.default_rng(1000)
    long, short = rng.normal(size=4), rng.normal(size=(2, 4))
    covariances = [1e6 * np.outer(long, long) + np.outer(each, each) + 1e-2 * np.eye(4) for each in short]
    params = GaussianMixtureParams(np.full(2, 0.5), np.zeros((2, 4)), np.stack(covariances))
    model = FactorMixture(2, 4, noise="own")
    Y = model.sample(params, 400, rng)[0]
    kernel, definition = (kind(model, params, 1, False, 1.0) for kind in (FactorMixtureEStep, DefinitionEStep))
    assert_array_equal(kernel.select(kernel.terms(Y), 1), definition.select(Y, 1))


@pytest.mark.parametrize("unit", [1e-12, 2.0**200, 2.0**-300])
def test_data_in_any_unit_and_beyond_single_precision_have_the_same_clusters(unit):
    X, _, _ = clusters_in_planes()
    settings = {"covariance_type": "factor", "n_candidates": 2, "max_iter": 5, "tol": 0.0, "random_state": 0}
    near, far = (TruncatedGaussianMixture(6, **settings).fit(each) for each in (X, unit * X))
    assert_allclose(far.means_ / unit, near.means_, rtol=1e-9, atol=1e-9)


def test_densities_of_few_clusters_are_those_of_all():
    model, params, Y, rng = make_case(7, 5, 1000, n_rows=150)
    everywhere, nearby = (FactorMixtureEStep(model, params, 1, False, 1.0) for _ in range(2))
    nearby.search_locally(3)
    candidates = np.sort(rng.permuted(np.tile(np.arange(7, dtype=np.int32), (150, 1)), axis=1)[:, :4], axis=1)
    wanted = everywhere.accumulate(everywhere.terms(Y), candidates, np.ones(150))
    found = nearby.accumulate(nearby.terms(Y), candidates, np.ones(150))
    assert_allclose(found.free_energies, wanted.free_energies, rtol=1e-10)
    for one, other in zip(found.statistics, wanted.statistics, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_neighbours_hold_what_was_kept_and_nothing_that_is_more_likely_is_left_among_them():
    model, params, Y, _ = make_case(9, 5, 1001, n_rows=60)
    e_step = FactorMixtureEStep(model, params, 1, False, 1.0)
    log_joint = e_step._log_joint(Y, np.tile(np.arange(9, dtype=np.int32), (60, 1)))
    e_step.search_locally(4)
    assert (e_step.neighbours == np.arange(9)[:, None]).any(axis=1).all()
    kept = np.tile(np.array([[2, 5]], dtype=np.int32), (60, 1))
    found = e_step.among_neighbours(e_step.terms(Y), kept, 2)
    reach = np.unique(e_step.neighbours[[2, 5]])
    best = np.sort(reach[np.argsort(-log_joint[:, reach], axis=1)[:, :2]], axis=1)
    assert_array_equal(found, best)


def test_looking_among_neighbours_alone_finds_as_likely_clusters():
    rng = np.random.default_rng(1000)
    X = 4.0 * rng.normal(size=(40, 6))[rng.integers(40, size=4000)] + rng.normal(size=(4000, 6))
    settings = {"covariance_type": "factor", "n_candidates": 3, "noise": 1.0, "max_iter": 30, "tol": 0.0, "n_jobs": 1}
    everywhere = TruncatedGaussianMixture(60, random_state=0, **settings).fit(X)
    nearby = TruncatedGaussianMixture(60, selection="neighbours", random_state=0, **settings).fit(X)
    assert (np.diff(nearby.free_energy_) > -1e-9).all()
    assert nearby.score(X) > everywhere.score(X) - 0.05
    again = TruncatedGaussianMixture(60, selection="neighbours", random_state=0, **{**settings, "n_jobs": 2}).fit(X)
    assert_array_equal(again.means_, nearby.means_)


def test_a_model_is_saved_and_loaded(tmp_path):
    X, _, _ = clusters_in_planes()
    fit = TruncatedGaussianMixture(3, covariance_type="factor", noise=0.09, random_state=0).fit(X)
    save_model(fit, tmp_path / "mixture.safetensors")
    again = load_model(tmp_path / "mixture.safetensors")
    assert_array_equal(again.reconstruct(X), fit.reconstruct(X))
    assert again.get_params() == fit.get_params()


def test_mistakes_are_explained():
    X = np.random.default_rng(0).normal(size=(30, 3))
    for wrong in ({"n_factors": 0}, {"n_factors": "many"}, {"noise": 0.0}, {"noise": "none"}):
        with pytest.raises(ValueError, match=f"'{next(iter(wrong))}' parameter"):
            TruncatedGaussianMixture(2, covariance_type="factor", **wrong).fit(X)
    with pytest.raises(ValueError, match=r"selection='neighbours' needs clusters of few directions, .* Got 'diag'"):
        TruncatedGaussianMixture(4, covariance_type="diag", n_candidates=2, selection="neighbours").fit(X)
    with pytest.raises(ValueError, match=r"needs clusters whose noise is told .* Got 'full': use reconstruct"):
        TruncatedGaussianMixture(2).fit(X).reconstruct_with_variance(X)
