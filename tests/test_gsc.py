"""Spike-and-slab sparse coding as an estimator: its noises and slabs, its rival posterior, missing entries, errors."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from multicause import GSC, Annealing, LinCA
from multicause.datasets import make_bars
from multicause.execution import InProcess, chunks_of, split
from multicause.learning import EM, Plan, run
from multicause.learning.initialisation.moments import data_moments
from multicause.models import GaussianNoise, SpikeSlabLinear, SpikeSlabPrior
from multicause.models.spike_slab_linear import as_matrix
from multicause.posteriors import ExactPosterior, FactoredPosterior, TruncatedPosterior
from multicause.testing import brute_force, check_model

from cases import SPIKE_SLAB

NOISES = pytest.mark.parametrize("noise", ["isotropic", "diagonal", "full"])
SLABS = pytest.mark.parametrize("slab", ["diagonal", "full"])


def signed_bars(n_samples=400, size=3, seed=0):
    return make_bars(n_samples, size, noise=0.5, signed=True, random_state=seed).X


def with_gaps(X, share, seed=0):
    gaps = np.random.default_rng(seed).random(X.shape) < share
    return np.where(gaps, np.nan, X)


@NOISES
@SLABS
def test_answers_equal_brute_force(noise, slab):
    X = signed_bars(40)
    fit = GSC(5, posterior="exact", noise=noise, slab=slab, max_iter=5, tol=0.0, random_state=0).fit(X)
    model, params = fit.fitted_model()
    oracle = brute_force(model, params, X)
    codes = np.einsum("nk,nkh->nh", oracle.q, model.codes(params, X, oracle.states))
    assert_allclose(fit.predict_proba(X), oracle.mean, atol=1e-9)
    assert_allclose(fit.transform(X), codes, atol=1e-9)
    assert_allclose(fit.reconstruct(X), codes @ fit.components_ + getattr(fit, "intercept_", 0.0), atol=1e-8)
    assert_allclose(fit.score_samples(X), oracle.free_energy, rtol=1e-9)
    assert_allclose(fit.log_joint(X, oracle.states), oracle.log_joint)


@NOISES
@SLABS
def test_the_learned_attributes_have_the_shapes_of_their_kind(noise, slab):
    fit = GSC(4, noise=noise, slab=slab, max_iter=3, tol=0.0, random_state=0).fit(signed_bars())
    assert np.shape(fit.noise_variance_) == (() if noise == "isotropic" else (9,))
    assert hasattr(fit, "noise_covariance_") == (noise == "full")
    assert fit.slab_mean_.shape == (4,)
    assert fit.slab_covariance_.shape == ((4, 4) if slab == "full" else (4,))
    rebuilt = GSC.from_parameters(
        components=fit.components_,
        activation=fit.activation_,
        slab_mean=fit.slab_mean_,
        slab_covariance=fit.slab_covariance_,
        intercept=fit.intercept_,
        noise_variance=fit.noise_covariance_ if noise == "full" else fit.noise_variance_,
        noise=noise,
        slab=slab,
    )
    assert_array_equal(rebuilt.transform(signed_bars()), fit.transform(signed_bars()))


@NOISES
@SLABS
def test_the_model_keeps_the_contract(noise, slab):
    check_model(SpikeSlabLinear(4, 5, prior=SpikeSlabPrior(slab=slab), noise=GaussianNoise(noise)))


def test_samples_have_the_moments_of_the_model():
    rng = np.random.default_rng(0)
    slab, noise = np.array([[1.0, 0.6], [0.6, 2.0]]), np.array([[0.5, 0.2, 0.0], [0.2, 0.4, 0.1], [0.0, 0.1, 0.3]])
    fields, activation, mean = rng.normal(size=(2, 3)), np.array([0.3, 0.6]), np.array([1.0, -2.0])
    fit = GSC.from_parameters(
        components=fields,
        activation=activation,
        slab_mean=mean,
        slab_covariance=slab,
        noise_variance=noise,
        noise="full",
        slab="full",
    )
    X, codes = fit.sample(200_000, random_state=0)
    pairs = np.outer(activation, activation)
    np.fill_diagonal(pairs, activation)
    second = pairs * (slab + np.outer(mean, mean))
    covariance = second - np.outer(activation * mean, activation * mean)
    assert_allclose(codes.mean(axis=0), activation * mean, atol=0.02)
    assert_allclose(np.cov(X.T), fields.T @ covariance @ fields + noise, atol=0.1)
    assert_allclose(fit.inverse_transform(codes), codes @ fields)


@pytest.mark.parametrize("name", [name for name in SPIKE_SLAB if name.endswith("_diagonal")])
@given(seed=st.integers(0, 10**6), n_components=st.integers(1, 2))
def test_the_factored_posterior_is_exact_where_causes_do_not_interact(name, seed, n_components):
    rng = np.random.default_rng(seed)
    model, params = SPIKE_SLAB[name](n_components, 4, rng)
    if n_components == 2:  # fields that are orthogonal once the noise is white
        noise = np.linalg.inv(as_matrix(model.noise_covariance(params)))
        fields = params.components
        fields[1] -= (fields[1] @ noise @ fields[0]) / (fields[0] @ noise @ fields[0]) * fields[0]
    Y = model.sample(params, 20, rng)[0]
    exact = ExactPosterior(n_components).prepare(model, params)
    factored = FactoredPosterior(tol=1e-12).prepare(model, params)
    chunk = split(Y, n_components)[0]
    wanted, found = exact.statistics(chunk), factored.statistics(split(Y, n_components)[0])
    assert_allclose(found.free_energy, wanted.free_energy, rtol=1e-9)
    for a, b in zip(found.statistics, wanted.statistics, strict=True):
        assert_allclose(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("noise", "missing"), [("isotropic", 0.0), ("isotropic", 0.2), ("diagonal", 0.0), ("diagonal", 0.2), ("full", 0.0)]
)
@given(seed=st.integers(0, 10**6))
def test_the_factored_bound_never_falls_and_stays_below_the_evidence(noise, missing, seed):
    rng = np.random.default_rng(seed)
    model, truth = SPIKE_SLAB[f"spike_slab_{noise}_diagonal"](4, 5, rng)
    X = with_gaps(model.sample(truth, 80, rng)[0], missing, seed)
    with InProcess(1) as executor:
        chunks = split(X, 4)
        moments = data_moments(executor, chunks)
        em = EM(model, FactoredPosterior(), Plan(10), executor, chunks, moments)
        outcome = run(em, model.init_params(moments, rng), rng)
        evidence = ExactPosterior(4).prepare(model, outcome.params).free_energies(chunks[0])
    history = outcome.free_energy
    assert (np.diff(history) >= -1e-9 * np.abs(history[:-1])).all()
    assert history[-1] <= evidence.mean() + 1e-9 * np.abs(evidence.mean())


@NOISES
@SLABS
def test_the_free_energy_never_falls_with_missing_entries(noise, slab):
    X = with_gaps(signed_bars(150), 0.2)
    settings = {"n_candidates": 3, "max_active": 2, "monotone": True, "max_iter": 8, "tol": 0.0, "random_state": 0}
    settings["start"] = "random"  # a search takes a minute where covariances are full
    for selection in ("model-based", "greedy"):
        history = GSC(4, noise=noise, slab=slab, selection=selection, **settings).fit(X).free_energy_
        assert (np.diff(history) >= -1e-9 * np.abs(history[:-1])).all()


def test_a_greedy_selection_of_all_causes_is_exact_and_one_of_few_does_not_depend_on_threads():
    X = signed_bars()
    common = {"max_iter": 5, "tol": 0.0, "random_state": 0}
    exact, everything = (GSC(5, posterior=p, selection=s, n_candidates=None, **common).fit(X)
                         for p, s in (("exact", "model-based"), ("truncated", "greedy")))  # fmt: skip
    assert_array_equal(exact.components_, everything.components_)
    few = {"selection": "greedy", "n_candidates": 3, "max_active": 2, **common}
    with chunks_of(256):
        one, many = (GSC(6, n_jobs=jobs, **few).fit(X) for jobs in (1, 2))
    assert_array_equal(one.components_, many.components_)


@pytest.mark.parametrize(("n_components", "n_candidates"), [(8, 8), (10, 10), (11, 6), (40, 6)])
def test_six_greedy_candidates_are_enough_where_there_are_more_than_ten_causes(n_components, n_candidates):
    common = {"selection": "greedy", "max_active": 5, "random_state": 0, "max_iter": 2, "tol": 0.0}
    by_default, given = GSC(n_components, **common), GSC(n_components, n_candidates=n_candidates, **common)
    X = signed_bars()
    assert_array_equal(by_default.fit(X).free_energy_, given.fit(X).free_energy_)


@pytest.mark.parametrize("estimator", [GSC, LinCA])
@pytest.mark.parametrize("monotone", [True, False])
def test_a_fit_with_missing_entries_fills_them_in(estimator, monotone):
    X = make_bars(1500, 4, noise=0.5, random_state=1000).X
    gaps = with_gaps(X, 0.2)
    fit = estimator(8, n_candidates=None, max_iter=60, n_init=3, random_state=0, monotone=monotone).fit(gaps)
    assert (np.diff(fit.free_energy_) >= -1e-9 * np.abs(fit.free_energy_[:-1])).all()
    missing = np.isnan(gaps)
    error = np.mean((fit.reconstruct(gaps) - X)[missing] ** 2)
    assert error < 0.5 * np.var(X[missing])


@pytest.mark.parametrize("estimator", [GSC(8, n_candidates=4, max_active=3), LinCA(8, n_candidates=4, max_active=3)])
def test_a_row_has_the_same_bits_whichever_rows_with_gaps_stand_beside_it(estimator):
    X = with_gaps(signed_bars(600, 4), 0.02)
    fit = estimator.set_params(max_iter=3, tol=0.0, random_state=0).fit(X)
    whole = fit.transform(X), fit.score_samples(X)
    with chunks_of(256):
        assert_array_equal(fit.transform(X), whole[0])
    alone = np.concatenate([fit.score_samples(row[None]) for row in X[:50]])
    assert_array_equal(alone, whole[1][:50])


def test_a_feature_that_is_never_observed_and_a_row_without_entries_are_harmless():
    X = signed_bars()
    X[:, 4], X[7] = np.nan, np.nan
    fit = GSC(6, max_iter=5, tol=0.0, random_state=0).fit(X)
    assert np.isfinite(fit.components_).all()
    assert np.isfinite(fit.reconstruct(X)).all()
    assert np.isfinite(fit.score_samples(X)).all()


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-3])
@pytest.mark.parametrize("offset", [0.0, 10.0])
def test_raw_and_scaled_data_both_work_by_default(scale, offset):
    """They are explained better than by noise of the data's variance about their mean."""
    X = signed_bars(1000, 4, seed=1000)
    spread = X.std()
    data = scale * (X / spread + offset)
    of_noise_alone = -0.5 * 16 * (np.log(2.0 * np.pi * scale**2) + 1.0)
    assert GSC(8, random_state=0).fit(data).score(data) > of_noise_alone + 3.0


BAD_ARGUMENTS = [
    ({"posterior": "mean field"}, "'posterior' parameter of GSC must be a str among"),
    ({"noise": "pink"}, "'noise' parameter of GSC must be a str among"),
    ({"posterior": "factored", "slab": "full"}, "does not support slab='full'. Use posterior='truncated'"),
    ({"posterior": "factored", "annealing": Annealing(2.0)}, "does not support annealing"),
    ({"posterior": "factored", "selection": "greedy"}, "does not support a selection"),
    ({"selection": "guess"}, "'selection' parameter of GSC must be a str among"),
    ({"posterior": "exact", "n_components": 40}, "at most .* can be enumerated"),
    ({"init": {"slab_mean": [1.0, 2.0, 3.0]}}, r"init\['slab_mean'\].? must be one finite number or one per component"),
    ({"init": {"slab_covariance": -1.0}}, r"init\['slab_covariance'\].? must hold positive, finite variances"),
    (
        {"init": {"slab_covariance": np.eye(4)}},
        r"init\['slab_covariance'\].? must have one of the shapes .* 'diagonal'",
    ),
    ({"init": {"noise_variance": [1.0] * 9}}, r"init\['noise_variance'\].? must have one of the shapes .* 'isotropic'"),
    ({"slab": "full", "init": {"slab_covariance": -np.eye(4) + 2.0}}, "must be symmetric and positive definite"),
    ({"fixed": ("slab",)}, "'fixed' parameter of GSC must hold names among"),
    ({"fixed": ("slab_mean",)}, "give init={'slab_mean': ...} too"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        GSC(**{"n_components": 4, **arguments}).fit(signed_bars(60))


def test_the_factored_posterior_takes_no_missing_entries_under_correlated_noise():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        GSC(3, posterior="factored", noise="full").fit(with_gaps(signed_bars(60), 0.1))


def test_answers_that_rounding_makes_infinite_are_refused_by_their_row():
    rng = np.random.default_rng(0)
    X, refused = rng.random((20, 6)), []
    slab = {"activation": 0.3, "noise_variance": 0.5, "slab_mean": np.zeros(4), "slab_covariance": np.ones(4)}
    for _ in range(50):
        components = np.where(rng.random((4, 6)) < 0.6, 10.0 ** rng.integers(6, 12), rng.random((4, 6)))
        gsc = GSC.from_parameters(components=components, **slab, n_candidates=None)
        try:
            assert np.isfinite(gsc.transform(X)).all()
        except ValueError as error:
            refused.append(str(error))
    assert 0 < len(refused) < 50
    assert all(re.match(r"The result of GSC for row \d+ of X is not finite", said) for said in refused)


def test_what_is_fixed_stays():
    init = {"slab_mean": 0.5, "slab_covariance": 2.0, "noise_variance": 0.3, "activation": 0.2}
    fixed = ("slab_mean", "slab_covariance", "noise_variance", "activation")
    fit = GSC(4, fixed=fixed, max_iter=3, tol=0.0, random_state=0, init=init).fit(signed_bars())
    assert (fit.slab_mean_ == 0.5).all()
    assert (fit.slab_covariance_ == 2.0).all()
    assert fit.noise_variance_ == 0.3
    assert (fit.activation_ == 0.2).all()


def test_truncation_finds_what_the_exact_posterior_finds_among_few_causes():
    rng = np.random.default_rng(0)
    model, params = SPIKE_SLAB["spike_slab_isotropic_diagonal"](8, 12, rng)
    params = params._replace(activation=np.full(8, 0.1), noise_variance=0.05)
    Y = model.sample(params, 300, rng)[0]
    chunk = split(Y, 8)[0]
    exact = ExactPosterior(8).prepare(model, params).free_energies(chunk)
    truncated = TruncatedPosterior(5, 4).prepare(model, params).free_energies(chunk)
    assert (truncated <= exact + 1e-9).all()
    assert np.median(np.exp(truncated - exact)) > 0.98
