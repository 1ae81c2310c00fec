"""Gaussian mixtures: the kernel against the definition, the fit against scikit-learn's, truncation, and errors."""

import inspect
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture as ReferenceMixture

from multicause import TruncatedGaussianMixture, load_model, save_model
from multicause.execution import chunks_of, split
from multicause.experiments.plain_data import clusters_case
from multicause.learning import Stop
from multicause.models import GaussianMixture
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.e_steps.definition import DefinitionEStep
from multicause.posteriors.e_steps.gaussian_mixture import GaussianMixtureEStep
from multicause.testing import brute_force, check_model

from cases import MIXTURES

SHAPES = pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])


@st.composite
def sizes(draw, most_clusters=8):
    n_components = draw(st.integers(1, most_clusters))
    return n_components, draw(st.integers(1, n_components)), draw(st.integers(1, 9))


def make_case(covariance_type, size, seed, n_rows=13):
    """A mixture, its parameters, data near the model's, and random candidates."""
    n_components, n_candidates, n_features = size
    rng = np.random.default_rng(seed)
    model, params = MIXTURES[f"mixture_{covariance_type}"](n_components, n_features, rng)
    Y = 1.5 * model.sample(params, n_rows, rng)[0]
    candidates = np.sort(rng.permuted(np.tile(np.arange(n_components), (n_rows, 1)), axis=1)[:, :n_candidates], axis=1)
    return model, params, Y, candidates.astype(np.int32), rng


def e_steps(model, params, singletons, beta):
    """The kernel's E-step and the definition's."""
    return [kind(model, params, 1, singletons, beta) for kind in (GaussianMixtureEStep, DefinitionEStep)]


def assert_statistics_close(actual, wanted, tolerance):
    for name in wanted._fields:
        scale = np.max(np.abs(getattr(wanted, name)), initial=1.0)
        assert_allclose(getattr(actual, name), getattr(wanted, name), rtol=0, atol=tolerance * scale, err_msg=name)


@SHAPES
@given(size=sizes(), singletons=st.booleans(), beta=st.sampled_from([1.0, 0.3]), seed=st.integers(0, 10**6))
def test_kernel_and_definition_equal_brute_force(covariance_type, size, singletons, beta, seed):
    model, params, Y, candidates, rng = make_case(covariance_type, size, seed)
    weights = rng.uniform(0.0, 2.0, size=len(Y)) * (rng.random(len(Y)) < 0.8)
    oracle = brute_force(model, params, Y, candidates=candidates, max_active=1, singletons=singletons, beta=beta)
    wanted = model.accumulate(params, Y, oracle.states, weights[:, None] * oracle.q)
    for e_step in e_steps(model, params, singletons, beta):
        terms = e_step.terms(Y)
        assert_allclose(e_step.free_energies(terms, candidates), oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_allclose(e_step.means(terms, candidates), oracle.mean, rtol=0, atol=1e-10)
        assert_allclose(e_step.reconstruct(e_step.terms(Y), candidates), oracle.mean @ params.means, rtol=0, atol=1e-9)
        found = e_step.accumulate(e_step.terms(Y), candidates, weights)
        assert_allclose(found.free_energies, oracle.free_energy, rtol=1e-10, atol=1e-10)
        assert_allclose(found.means, oracle.mean, rtol=0, atol=1e-10)
        assert_statistics_close(found.statistics, wanted, 1e-10)


@SHAPES
@given(size=sizes(most_clusters=30), seed=st.integers(0, 10**6))
def test_kernel_selects_what_the_definition_selects(covariance_type, size, seed):
    model, params, Y, _, _ = make_case(covariance_type, size, seed)
    kernel, definition = e_steps(model, params, False, 1.0)
    chosen, wanted = kernel.select(kernel.terms(Y), size[1]), definition.select(Y, size[1])
    scores = model.selection_scores(params, Y)
    assert_allclose(
        np.take_along_axis(scores, chosen.astype(int), 1).sum(axis=1),
        np.take_along_axis(scores, wanted.astype(int), 1).sum(axis=1),
        rtol=1e-9,
        atol=1e-9,
    )
    assert (np.diff(chosen, axis=1) > 0).all()


@SHAPES
def test_two_chunks_give_the_statistics_of_the_definition(covariance_type):
    model, params, Y, _, _ = make_case(covariance_type, (8, 3, 6), seed=11, n_rows=300)
    results = []
    for use_kernel in (True, False):
        prepared = TruncatedPosterior(3, 1, singletons=False, use_kernel=use_kernel).prepare(model, params, 0.7)
        parts = [prepared.statistics(chunk) for chunk in split(Y, 8, chunk_size=256)]
        assert len(parts) == 2
        results.append(parts)
    for kernel, definition in zip(*results, strict=True):
        assert_allclose(kernel.free_energy, definition.free_energy, rtol=1e-10)
        assert_statistics_close(kernel.statistics, definition.statistics, 1e-10)


@SHAPES
def test_the_model_passes_its_own_check(covariance_type):
    check_model(GaussianMixture(4, 3, covariance_type, reg_covar=0.0))


@SHAPES
def test_only_states_with_a_single_one_are_possible(covariance_type):
    model, params, Y, _, _ = make_case(covariance_type, (3, 3, 2), seed=0)
    oracle = brute_force(model, params, Y)
    possible = oracle.states.sum(axis=1) == 1.0
    assert np.isfinite(oracle.log_joint[:, possible]).all()
    assert (oracle.log_joint[:, ~possible] == -np.inf).all()
    assert_array_equal(model.superpose(params, np.eye(3)), params.means)


def clusters(n_components, n_features=3, n_samples=400, distance=8.0, seed=0):
    """Data around well-separated centres, and which centre."""
    rng = np.random.default_rng(seed)
    centres = distance * rng.permutation(np.argwhere(np.ones((4,) * n_features)))[:n_components]
    labels = rng.integers(n_components, size=n_samples)
    return centres[labels] + rng.normal(size=(n_samples, n_features)), labels


def start(X, n_components, covariance_type, seed=0):
    """A poor start, of all kinds of initial values."""
    rng = np.random.default_rng(seed)
    n_features = X.shape[1]
    precisions = {
        "full": np.stack([np.linalg.inv(np.cov(X.T)) * scale for scale in rng.uniform(0.5, 2.0, size=n_components)]),
        "diag": rng.uniform(0.5, 2.0, size=(n_components, n_features)) / X.var(axis=0),
        "spherical": rng.uniform(0.5, 2.0, size=n_components) / X.var(),
    }
    return {
        "weights_init": rng.dirichlet(np.ones(n_components)),
        "means_init": X[rng.choice(len(X), n_components, replace=False)] + rng.normal(size=(n_components, n_features)),
        "precisions_init": precisions[covariance_type],
        "covariance_type": covariance_type,
    }


def assert_fits_close(one, other, tolerance):
    for name in ("weights_", "means_", "covariances_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=tolerance, atol=tolerance, err_msg=name)


@SHAPES
@pytest.mark.parametrize("n_iter", [1, 7, 25])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_with_all_clusters_as_candidates_a_fit_is_that_of_scikit_learn(covariance_type, n_iter):
    X, _ = clusters(6, distance=2.5)
    given = start(X, 5, covariance_type)
    wanted = ReferenceMixture(5, max_iter=n_iter, tol=0.0, **given).fit(X)
    found = TruncatedGaussianMixture(5, n_candidates=5, max_iter=n_iter, tol=0.0, reg_covar=1e-6, **given).fit(X)
    assert_fits_close(found, wanted, 1e-8)
    assert_allclose(found.free_energy_[:-1], wanted.lower_bounds_, rtol=1e-10)
    assert_allclose(found.free_energy_[-1], wanted.score(X), rtol=1e-10)
    assert_allclose(found.predict_proba(X), wanted.predict_proba(X), atol=1e-8)
    assert_array_equal(found.predict(X), wanted.predict(X))
    assert_allclose(found.score_samples(X), wanted.score_samples(X), rtol=1e-10)
    assert_array_equal(found.transform(X), found.predict_proba(X))


@SHAPES
@pytest.mark.parametrize("n_candidates", [None, 1, 2, 4])
@pytest.mark.parametrize("reg_covar", [0.0, 1e-6])
def test_the_free_energy_never_falls(covariance_type, n_candidates, reg_covar):
    X, _ = clusters(9, distance=2.0)
    weights = np.random.default_rng(1).integers(0, 3, size=len(X))
    settings = {"monotone": True, "max_iter": 60, "tol": 0.0, "reg_covar": reg_covar, "n_candidates": n_candidates}
    begins = [{"covariance_type": covariance_type, "random_state": 0}]
    if reg_covar > 0.0:  # without, one cluster of a poor start collapses
        begins.append(start(X, 5, covariance_type))
    for begin in begins:
        fit = TruncatedGaussianMixture(5, **settings, **begin).fit(X, sample_weight=weights)
        assert (np.diff(fit.free_energy_) > -1e-9 * np.abs(fit.free_energy_[1:])).all()
        assert fit.free_energy_[-1] > fit.free_energy_[0]


@SHAPES
def test_two_candidates_of_many_separated_clusters_learn_what_all_of_them_learn(covariance_type):
    X, labels = clusters(40, n_samples=4000, distance=20.0)
    settings = {"covariance_type": covariance_type, "max_iter": 20, "tol": 0.0, "random_state": 0}
    few = TruncatedGaussianMixture(40, n_candidates=2, **settings).fit(X)
    full = TruncatedGaussianMixture(40, **settings).fit(X)
    assert_fits_close(few, full, 1e-8)
    assert_allclose(few.score(X), full.score(X), rtol=1e-8)
    assert_array_equal(few.predict(X), full.predict(X))
    found = few.predict(X)
    assert len(set(zip(found, labels, strict=True))) == 40  # one label each: every cluster is found


@SHAPES
def test_truncation_is_a_lower_bound_that_grows_with_the_candidates(covariance_type):
    model, params, Y, _, _ = make_case(covariance_type, (12, 12, 3), seed=2, n_rows=200)
    given = {"weights": params.weights, "means": params.means, "covariances": params.covariances}
    settings = {"covariance_type": covariance_type}
    scores = [
        TruncatedGaussianMixture.from_parameters(n_candidates=n, **given, **settings).score_samples(Y)
        for n in (1, 3, 6, 11, 12)
    ]
    for fewer, more in pairwise(scores):
        assert (fewer <= more + 1e-12).all()
    assert scores[0].mean() < scores[1].mean() - 1e-3
    assert_allclose(scores[-1], brute_force(model, params, Y).free_energy, rtol=1e-10)


@SHAPES
@pytest.mark.parametrize("seed", range(4))
def test_integer_weights_are_repeated_rows_in_any_order(covariance_type, seed):
    X, labels = clusters(9, n_samples=200, distance=3.0)
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, size=len(X)) * np.where(labels < 3, 10, 1)
    settings = {"covariance_type": covariance_type, "n_candidates": 3, "max_iter": 1, "tol": 0.0, "random_state": seed}
    weighted = TruncatedGaussianMixture(6, **settings).fit(X, sample_weight=weights)
    repeated = TruncatedGaussianMixture(6, **settings).fit(rng.permutation(X.repeat(weights, axis=0)))
    scaled = TruncatedGaussianMixture(6, **settings).fit(X, sample_weight=1e-12 * weights)
    assert_fits_close(weighted, repeated, 1e-8)
    assert_fits_close(weighted, scaled, 1e-8)


@SHAPES
@pytest.mark.parametrize("n_features", [3, 30])
def test_answers_have_the_same_bits_for_any_chunk_size_and_thread_count(covariance_type, n_features):
    X = np.random.default_rng(0).normal(size=(1500, n_features))
    settings = {"covariance_type": covariance_type, "n_candidates": 4, "max_iter": 3, "tol": 0.0, "random_state": 0}
    fit = TruncatedGaussianMixture(12, **settings).fit(X)
    assert_array_equal(TruncatedGaussianMixture(12, **settings).fit_transform(X), fit.transform(X))
    assert_array_equal(TruncatedGaussianMixture(12, **settings).fit_predict(X), fit.predict(X))
    whole = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
    for chunk_size, n_jobs in ((1, 2), (256, 3), (700, 1), (10**6, 2)):
        fit.set_params(n_jobs=n_jobs)
        with chunks_of(chunk_size):
            answers = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
        for answer, wanted in zip(answers, whole, strict=True):
            assert_array_equal(answer, wanted)
    with chunks_of(256):
        fits = [TruncatedGaussianMixture(12, n_jobs=n, **settings).fit(X) for n in (1, 2, 5)]
    for other in fits[1:]:
        assert_array_equal(other.means_, fits[0].means_)
        assert_array_equal(other.covariances_, fits[0].covariances_)
        assert_array_equal(other.free_energy_, fits[0].free_energy_)


@SHAPES
def test_a_large_offset_costs_no_digits(covariance_type):
    X, _ = clusters(4, distance=4.0)
    settings = {"covariance_type": covariance_type, "max_iter": 10, "tol": 0.0, "random_state": 0, "n_candidates": 2}
    plain = TruncatedGaussianMixture(4, **settings).fit(X)
    moved = TruncatedGaussianMixture(4, **settings).fit(X + 2.0**18)
    assert_allclose(moved.covariances_, plain.covariances_, rtol=1e-8, atol=1e-8)
    assert_allclose(moved.means_ - 2.0**18, plain.means_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_the_units_of_the_features_do_not_matter(covariance_type):
    X, _ = clusters(4, distance=4.0)
    units = np.array([1e-3, 1.0, 1e4])
    settings = {"covariance_type": covariance_type, "max_iter": 10, "tol": 0.0, "random_state": 0, "n_candidates": 2}
    plain = TruncatedGaussianMixture(4, reg_covar=0.0, **settings).fit(X)
    scaled = TruncatedGaussianMixture(4, reg_covar=0.0, **settings).fit(X * units)
    assert_allclose(scaled.means_ / units, plain.means_, rtol=1e-8, atol=1e-8)


def test_a_cluster_without_data_stays_where_it_is():
    X, _ = clusters(2)
    given = start(X, 3, "full")
    given["means_init"][2] = 1e4
    fit = TruncatedGaussianMixture(3, n_candidates=2, max_iter=5, tol=0.0, **given).fit(X)
    assert_allclose(fit.means_[2], 1e4)
    assert_allclose(fit.covariances_[2], np.linalg.inv(given["precisions_init"][2]), rtol=1e-9)
    assert 0.0 < fit.weights_[2] < 1e-14


def test_single_precision_is_kept():
    X, _ = clusters(4)
    double = TruncatedGaussianMixture(4, random_state=0).fit(X)
    single = TruncatedGaussianMixture(4, random_state=0).fit(X.astype(np.float32))
    assert single.means_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.covariances_, double.covariances_, rtol=1e-3, atol=1e-3)


@SHAPES
def test_samples_have_the_moments_of_the_model_and_are_learned_again(covariance_type):
    _, params, _, _, _ = make_case(covariance_type, (2, 2, 2), seed=4)
    given = {"weights": [0.3, 0.7], "means": [[0.0, 0.0], [9.0, 9.0]], "covariances": params.covariances}
    fit = TruncatedGaussianMixture.from_parameters(covariance_type=covariance_type, **given)
    assert fit.stop_ is Stop.PARAMETERS_GIVEN
    X, S = fit.sample(50_000, random_state=0)
    assert_allclose(S.mean(axis=0), [0.3, 0.7], atol=0.01)
    again = TruncatedGaussianMixture(2, covariance_type=covariance_type, random_state=0).fit(X)
    order = np.argsort(again.weights_)
    assert_allclose(again.weights_[order], fit.weights_, atol=0.01)
    assert_allclose(again.means_[order], fit.means_, atol=0.05)
    assert_allclose(again.covariances_[order], fit.covariances_, atol=0.05, rtol=0.05)
    assert_array_equal(fit.inverse_transform(np.eye(2)), fit.means_)


@SHAPES
def test_a_saved_mixture_answers_alike(covariance_type, tmp_path):
    X, _ = clusters(4)
    fit = TruncatedGaussianMixture(4, covariance_type=covariance_type, n_candidates=2, random_state=0).fit(X)
    save_model(fit, tmp_path / "mixture.safetensors")
    again = load_model(tmp_path / "mixture.safetensors")
    assert_array_equal(again.transform(X), fit.transform(X))
    assert again.get_params() == fit.get_params()


def test_a_warm_start_goes_on_and_refuses_other_shapes():
    X, _ = clusters(6, distance=2.5)
    given = start(X, 5, "full")
    whole = TruncatedGaussianMixture(5, max_iter=9, tol=0.0, **given).fit(X)
    parts = TruncatedGaussianMixture(5, max_iter=4, tol=0.0, warm_start=True, **given).fit(X)
    assert_fits_close(parts.set_params(max_iter=5).fit(X), whole, 1e-10)
    message = r"continues from covariances_ of shape \(5, 3, 3\), .* ask for \(5, 3\). Set warm_start=False"
    with pytest.raises(ValueError, match=message):
        parts.set_params(covariance_type="diag").fit(X)
    message = r"continues from weights_ of shape \(5,\), .* ask for \(4,\). Set warm_start=False"
    with pytest.raises(ValueError, match=message):
        parts.set_params(covariance_type="full", n_components=4).fit(X)


RNG = np.random.default_rng(0)
AWKWARD = {
    "all zeros": np.zeros((20, 4)),
    "all equal": np.full((20, 4), 7.0),
    "a constant column": np.column_stack([np.full(30, 5.0), RNG.random((30, 3))]),
    "equal columns": np.tile(RNG.random((30, 1)), (1, 4)),
    "duplicated rows": np.tile(RNG.random((3, 4)), (20, 1)),
    "as many samples as clusters": RNG.random((5, 4)),
    "one feature": RNG.random((30, 1)),
    "tiny values": 1e-90 * RNG.random((30, 4)),
    "huge values": 1e90 * RNG.random((30, 2)),
    "a huge offset": 1e6 + RNG.random((30, 4)),
    "one huge outlier": np.vstack([RNG.random((30, 4)), np.full((1, 4), 1e8)]),
    "integers": RNG.integers(0, 255, size=(30, 4)),
    "booleans": RNG.random((30, 4)) < 0.5,
}


@SHAPES
@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_data_give_finite_results(covariance_type, name):
    X = AWKWARD[name]
    n_components = 2 if name == "huge values" else 5
    settings = {"covariance_type": covariance_type, "n_candidates": 2, "max_iter": 30, "random_state": 0}
    fit = TruncatedGaussianMixture(n_components, **settings).fit(X)
    for value in (fit.weights_, fit.means_, fit.covariances_, fit.free_energy_):
        assert np.isfinite(value).all()
    for answer in (fit.transform(X), fit.score_samples(X), fit.reconstruct(X)):
        assert np.isfinite(answer).all()
    assert_allclose(fit.transform(X).sum(axis=1), 1.0)


BAD_ARGUMENTS = [
    ({"n_components": 0}, r"'n_components' parameter of TruncatedGaussianMixture must be .* Got 0 instead"),
    (
        {"n_candidates": 4},
        r"'n_candidates' parameter of TruncatedGaussianMixture must be at most n_components=3. Got 4",
    ),
    ({"n_components": 31}, r"n_components = 31, n_samples = 30. Use fewer components"),
    ({"covariance_type": "tied"}, "'covariance_type' parameter"),
    ({"reg_covar": -1.0}, "'reg_covar' parameter"),
    ({"means_init": np.zeros((2, 2))}, r"'means_init' must have shape .* = \(3, 2\)\. Got \(2, 2\)"),
    ({"means_init": np.zeros((3, 5))}, r"'means_init' must have shape .* = \(3, 2\)\. Got \(3, 5\)"),
    ({"weights_init": [0.5, 0.5]}, r"'weights_init' must have one entry per component \(3\)"),
    ({"weights_init": [0.5, 0.5, 0.5]}, r"'weights_init' must be positive and sum to 1. .* sum is 1.5"),
    ({"weights_init": [0.5, 0.5, 0.0]}, "'weights_init' must be positive"),
    ({"precisions_init": np.ones(3)}, r"'precisions_init' must have shape \(3, 2, 2\) where covariance_type='full'"),
    ({"precisions_init": -np.ones(3), "covariance_type": "spherical"}, "'precisions_init' must be positive"),
    ({"precisions_init": np.tile([[1.0, 2.0], [2.0, 1.0]], (3, 1, 1))}, "positive definite, which that of component 0"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_absurd_arguments_get_a_clear_error(arguments, message):
    X = np.random.default_rng(0).random((30, 2))
    with pytest.raises(ValueError, match=message):
        TruncatedGaussianMixture(**{"n_components": 3, **arguments}).fit(X)


@SHAPES
def test_covariances_that_collapse_are_explained(covariance_type):
    X = np.repeat(np.random.default_rng(0).random((2, 3)), 10, axis=0)
    with pytest.raises(ValueError, match=r"not positive definite.*a larger reg_covar"):
        TruncatedGaussianMixture(2, covariance_type=covariance_type, reg_covar=0.0).fit(X)
    bad = {"full": -np.eye(3)[None], "diag": np.zeros((1, 3)), "spherical": [-1.0]}[covariance_type]
    with pytest.raises(ValueError, match="'covariances' must be"):
        TruncatedGaussianMixture.from_parameters(
            weights=[1.0], means=np.zeros((1, 3)), covariances=bad, covariance_type=covariance_type
        )


def test_docstrings_name_the_real_arguments():
    section = inspect.getdoc(TruncatedGaussianMixture).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(TruncatedGaussianMixture).parameters)


@pytest.mark.parametrize("seed", [1004, 1005, 1006])
def test_a_plain_call_finds_thirty_clusters(seed):
    """Of which k-means alone leaves out three or four."""
    case = clusters_case(30, 10, seed)
    case.plain.fit(case.X)
    assert case.share_found(case.plain) == 1.0
    assert case.plain.score(case.X) > case.truth.score(case.X)
