"""The public estimators: their answers, their determinism, and what they say to bad input."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multicause import ETNMF, GSC, MCA, MCA3, LinCA, RestrictedMCA, TruncatedGaussianMixture, UPoE
from multicause.datasets import make_bars
from multicause.execution import chunks_of, split
from multicause.execution.reproducible_matmul import TILE
from multicause.learning import Annealing, DataClassification, Stop
from multicause.testing import brute_force

BOTH = pytest.mark.parametrize("estimator", [LinCA, ETNMF])
ALL = pytest.mark.parametrize("estimator", [LinCA, ETNMF, MCA, GSC])


def bars(estimator, n_samples=300, size=4, seed=0):
    drawn = make_bars(n_samples, size, noise=1.0, signed=estimator in (LinCA, GSC), random_state=seed)
    return drawn._replace(X=np.maximum(drawn.X, 0.0) if estimator is ETNMF else drawn.X)


@ALL
def test_fit_transform_equals_fit_then_transform_to_the_bit(estimator):
    X = bars(estimator).X
    settings = {"n_candidates": 4, "max_active": 2, "max_iter": 20, "tol": 0.0, "random_state": 0}
    assert_array_equal(estimator(8, **settings).fit_transform(X), estimator(8, **settings).fit(X).transform(X))


@ALL
@pytest.mark.parametrize("n_features", [16, 49])
def test_transform_gives_the_same_bits_for_any_chunk_size_and_thread_count(estimator, n_features):
    X = bars(estimator, 1500, int(np.sqrt(n_features))).X
    fit = estimator(12, n_candidates=6, max_active=3, max_iter=3, tol=0.0, random_state=0).fit(X)
    whole = fit.transform(X), fit.score_samples(X)
    for chunk_size, n_jobs in ((1, 2), (256, 3), (700, 1), (10**6, 2)):
        fit.set_params(n_jobs=n_jobs)
        with chunks_of(chunk_size):
            assert_array_equal(fit.transform(X), whole[0])
            assert_array_equal(fit.score_samples(X), whole[1])


@ALL
def test_fit_gives_the_same_bits_for_any_thread_count(estimator):
    X = bars(estimator, 3000).X
    settings = {"n_candidates": 5, "max_active": 3, "max_iter": 6, "tol": 0.0, "random_state": 0}
    with chunks_of(256):
        fits = [estimator(10, n_jobs=n, **settings).fit(X) for n in (1, 2, 5)]
    for other in fits[1:]:
        assert_array_equal(other.components_, fits[0].components_)
        assert_array_equal(other.free_energy_, fits[0].free_energy_)


@ALL
def test_wide_data_are_cut_for_many_threads_and_give_the_same_bits_on_all_of_them(estimator):
    X = np.random.default_rng(0).random((2500, 100))
    assert len(split(X, 100)) == 4
    settings = {"n_candidates": 4, "max_active": 2, "max_iter": 2, "tol": 0.0, "random_state": 0}
    fits = [estimator(100, n_jobs=n, **settings).fit(X) for n in (1, 2, 4, 16)]
    for other in fits[1:]:
        assert_array_equal(other.components_, fits[0].components_)
        assert_array_equal(other.free_energy_, fits[0].free_energy_)


@pytest.mark.parametrize("n_features", [8, 200, 3000])
@pytest.mark.parametrize("n_components", [10, 200, 2000])
@pytest.mark.parametrize("n_rows", [1, 100, 1000, 20_000, 62_001, 400_000])
def test_chunks_are_equal_parts_of_all_rows_for_two_to_the_n_threads(n_rows, n_components, n_features):
    chunks = split(np.broadcast_to(0.0, (n_rows, n_features)), n_components)
    assert [chunks[0].start, *(chunk.stop for chunk in chunks)] == [*(chunk.start for chunk in chunks), n_rows]
    tiles = [-(-(chunk.stop - chunk.start) // TILE) for chunk in chunks]
    assert max(tiles) - min(tiles) <= 1
    n = len(chunks)
    assert n % 64 == 0 or n & (n - 1) == 0
    assert n == 1 or (n_rows // n) * (n_components + n_features) >= 51_200  # worth the Python around them
    assert n >= 64 or n_rows < 2 * 64 * max(600, 51_200 // (n_components + n_features), 2 * n_components)


@BOTH
def test_answers_equal_brute_force(estimator):
    X = bars(estimator, 40).X
    fit = estimator(8, n_candidates=None, max_iter=5, tol=0.0, random_state=0).fit(X)
    oracle = brute_force(*fit.fitted_model(), X)
    assert_allclose(fit.transform(X), oracle.mean, atol=1e-10)
    assert_allclose(fit.predict_proba(X), oracle.mean, atol=1e-10)
    assert_allclose(fit.score_samples(X), oracle.free_energy, rtol=1e-10)
    assert_allclose(fit.score(X), oracle.free_energy.mean(), rtol=1e-10)
    assert_allclose(fit.log_joint(X, oracle.states), oracle.log_joint)
    assert_allclose(fit.reconstruct(X), oracle.mean @ fit.components_ + getattr(fit, "intercept_", 0.0), atol=1e-8)


@ALL
def test_the_last_free_energy_is_that_of_the_learned_parameters(estimator):
    X = bars(estimator).X
    fit = estimator(6, n_candidates=None, random_state=0).fit(X)
    fell = fit.stop_ in (Stop.FELL, Stop.OSCILLATES)  # as the fixed-point steps of MCA may: the best comes once more
    assert fit.stop_ is Stop.CONVERGED or (fell and estimator is MCA)
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-12)
    assert len(fit.free_energy_) == fit.n_iter_ + 1 + fell


@BOTH
def test_the_causes_of_bars_are_found(estimator):
    drawn = bars(estimator, 1000, seed=1000)
    fit = estimator(8, n_init=8, random_state=0).fit(drawn.X)
    match = np.corrcoef(fit.components_, drawn.components)[:8, 8:].max(axis=0)
    assert (match > 0.98).all()
    assert abs(fit.activation_.mean() - drawn.states.mean()) < 0.05


@ALL
def test_single_precision_is_kept_and_statistics_are_not_lost_to_it(estimator):
    X = bars(estimator, 500).X
    double = estimator(8, max_iter=15, tol=0.0, random_state=0).fit(X)
    single = estimator(8, max_iter=15, tol=0.0, random_state=0).fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.noise_variance_, double.noise_variance_, rtol=1e-3)


@BOTH
def test_from_parameters_gives_a_fitted_estimator(estimator):
    drawn = bars(estimator)
    fit = estimator.from_parameters(
        components=drawn.components, activation=0.25, noise_variance=1.0, n_candidates=4, max_active=3
    )
    assert fit.stop_ is Stop.PARAMETERS_GIVEN
    assert_array_equal(fit.activation_, np.full(8, 0.25))
    X, S = fit.sample(500, random_state=1)
    assert X.shape == (500, 16)
    assert_array_equal(S, fit.sample(500, random_state=1)[1])
    assert np.mean((fit.predict_proba(drawn.X) > 0.5) == drawn.states) > 0.95
    assert fit.n_features_in_ == 16


def test_the_last_free_energy_is_the_score_also_with_preselection():
    X = bars(LinCA, 600).X
    fit = LinCA(20, n_candidates=5, max_active=3, random_state=0).fit(X)
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-12)


@BOTH
def test_given_arrays_are_copied(estimator):
    activation = np.full(8, 0.2)
    fit = estimator.from_parameters(components=np.eye(8), activation=activation, noise_variance=1.0)
    activation[:] = 0.9
    assert_array_equal(fit.activation_, np.full(8, 0.2))


def test_a_warm_start_respects_fixed_values_and_refuses_other_shapes():
    X = bars(LinCA).X
    fit = LinCA(8, max_iter=3, tol=0.0, warm_start=True, random_state=0).fit(X)
    fit.set_params(fixed=("noise_variance",), init={"noise_variance": 9.0}).fit(X)
    assert fit.noise_variance_ == 9.0
    with pytest.raises(ValueError, match=r"must hold names among .* Got 'foo'"):
        fit.set_params(fixed=("foo",)).fit(X)
    with pytest.raises(ValueError, match=r"warm_start=True continues from components_ of shape \(8, 16\).*\(6, 16\)"):
        fit.set_params(fixed=(), n_components=6).fit(X)


@BOTH
@pytest.mark.parametrize("scale", [1e-90, 1e-40, 1e40, 1e90])
def test_the_unit_of_the_data_does_not_matter(estimator, scale):
    X = bars(estimator).X
    settings = {"n_candidates": 5, "max_active": 3, "max_iter": 15, "tol": 0.0, "random_state": 0}
    plain, scaled = estimator(8, **settings).fit(X), estimator(8, **settings).fit(scale * X)
    assert_allclose(scaled.score(scale * X) + X.shape[1] * np.log(scale), plain.score(X), rtol=1e-6)


@BOTH
def test_the_unit_of_the_weights_does_not_matter(estimator):
    X = bars(estimator).X
    settings = {"max_iter": 10, "tol": 0.0, "random_state": 0}
    plain = estimator(8, **settings).fit(X)
    tiny = estimator(8, **settings).fit(X, sample_weight=np.full(len(X), 1e-12))
    assert_allclose(tiny.components_, plain.components_, rtol=1e-6, atol=1e-6)


def test_an_offset_that_swallows_the_data_is_warned_of():
    with pytest.warns(UserWarning, match=r"The mean of X is .* times its spread"):
        LinCA(2, fit_intercept=False, max_iter=2, tol=0.0).fit(1e7 + bars(LinCA).X)


def test_a_non_negative_model_scores_its_own_samples():
    fit = ETNMF.from_parameters(components=np.eye(4), activation=0.5, noise_variance=1.0)
    X = fit.sample(50, random_state=0)[0]
    assert X.min() < 0.0
    assert np.isfinite(fit.score(X))


def test_fits_in_threads_leave_blas_as_it_was():
    from threading import Thread

    from threadpoolctl import threadpool_info

    def blas_threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = blas_threads()
    X = bars(LinCA).X
    fits = [Thread(target=LinCA(8, max_iter=5 * (i + 1), tol=0.0, n_jobs=2).fit, args=(X,)) for i in range(4)]
    for fit in fits:
        fit.start()
    for fit in fits:
        fit.join()
    assert blas_threads() == before


def test_the_reason_for_stopping_prints_as_a_sentence():
    assert str(Stop.CONVERGED) == "the free-energy gain per data point fell below tol"


def test_samples_have_the_moments_of_the_model():
    rng = np.random.default_rng(0)
    components = rng.normal(size=(3, 4))
    activation = np.array([0.1, 0.5, 0.8])
    fit = LinCA.from_parameters(components=components, activation=activation, noise_variance=0.3)
    X, S = fit.sample(200_000, random_state=0)
    assert_allclose(S.mean(axis=0), activation, atol=0.01)
    assert_allclose(X.mean(axis=0), activation @ components, atol=0.02)
    covariance = components.T @ np.diag(activation * (1 - activation)) @ components + 0.3 * np.eye(4)
    assert_allclose(np.cov(X.T), covariance, atol=0.03)


@ALL
def test_integer_weights_are_repeated_rows(estimator):
    X = bars(estimator, 60).X
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    classified = Annealing(1.0, classification=DataClassification())
    settings = {"max_iter": 10, "tol": 0.0, "random_state": 0, "annealing": classified, "n_candidates": 4}
    weighted = estimator(8, **settings).fit(X, sample_weight=weights)
    repeated = estimator(8, **settings).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-6)


def test_a_memory_mapped_array_is_fitted_without_being_read_whole(tmp_path):
    X = bars(LinCA, 2000).X
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    settings = {"max_iter": 3, "tol": 0.0, "random_state": 0}
    with chunks_of(256):
        assert_array_equal(LinCA(8, **settings).fit(mapped).components_, LinCA(8, **settings).fit(X).components_)


def test_more_causes_than_features_are_legal():
    fit = LinCA(30, random_state=0, max_iter=5, tol=0.0).fit(np.random.default_rng(0).normal(size=(50, 3)))
    assert fit.components_.shape == (30, 3)
    assert np.isfinite(fit.free_energy_).all()


FINITE = {
    "one sample": np.ones((1, 4)),
    "fewer samples than candidates": np.arange(12.0).reshape(3, 4),
    "all zeros": np.zeros((20, 4)),
    "all equal": np.full((20, 4), 7.0),
    "a constant column": np.column_stack([np.full(30, 5.0), np.random.default_rng(0).random((30, 3))]),
    "duplicated rows": np.tile(np.random.default_rng(0).random((3, 4)), (20, 1)),
    "one feature": np.random.default_rng(0).random((30, 1)),
    "tiny values": 1e-90 * np.random.default_rng(0).random((30, 4)),
    "huge values": 1e90 * np.random.default_rng(0).random((30, 4)),
    "a huge offset": 1e6 + np.random.default_rng(0).random((30, 4)),
    "one huge outlier": np.vstack([np.random.default_rng(0).random((30, 4)), np.full((1, 4), 1e8)]),
    "a few 1e-150 among ones": np.where(np.random.default_rng(0).random((30, 4)) < 0.2, 1e-150, 1.0),
    "integers": np.random.default_rng(0).integers(0, 255, size=(30, 4)),
    "booleans": np.random.default_rng(0).random((30, 4)) < 0.5,
}


@ALL
@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FINITE)
def test_awkward_data_give_finite_results(estimator, name):
    X = FINITE[name]
    fit = estimator(5, n_candidates=3, max_active=2, max_iter=30, random_state=0).fit(X)
    for value in (fit.components_, fit.activation_, fit.noise_variance_, fit.free_energy_):
        assert np.isfinite(value).all()
    for answer in (fit.transform(X), fit.score_samples(X), fit.reconstruct(X)):
        assert np.isfinite(answer).all()
    assert ((fit.activation_ > 0.0) & (fit.activation_ < 1.0)).all()
    assert fit.noise_variance_ > 0.0


BAD_DATA = {
    "inf": (np.array([[1.0, np.inf], [1.0, 2.0]]), "Input X contains infinity"),
    "strings": (np.array([["a", "b"], ["c", "d"]]), "could not convert string to float"),
    "empty": (np.empty((0, 3)), "0 sample"),
    "no features": (np.empty((3, 0)), "0 feature"),
    "one-dimensional": (np.ones(5), "Expected 2D array"),
    "three-dimensional": (np.ones((2, 2, 2)), "dim 3"),
    "complex": (np.ones((3, 2)) * 1j, "Complex data not supported"),
    "1e150": (np.full((5, 2), 1e150), "largest magnitude in X is 1e.150, .* Rescale"),
    "1e-150": (np.full((5, 2), 1e-150), "largest magnitude in X is 1e-150, .* Rescale"),
}


@ALL
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_get_a_clear_error(estimator, name):
    X, message = BAD_DATA[name]
    with pytest.raises(ValueError, match=message):
        estimator(2).fit(X)


@pytest.mark.parametrize("estimator", [ETNMF, MCA])
def test_missing_entries_get_a_clear_error_where_the_model_has_no_place_for_them(estimator):
    with pytest.raises(ValueError, match="Input X contains NaN"):
        estimator(2).fit(np.array([[1.0, np.nan], [1.0, 2.0]]))


def test_negative_data_for_a_non_negative_model_are_named_and_can_be_allowed():
    X = bars(ETNMF).X.copy()
    X[3, 2] = -0.5
    with pytest.raises(ValueError, match=r"Negative values in data passed to ETNMF: X holds -0.5 at row 3, column 2"):
        ETNMF(2).fit(X)
    fit = ETNMF(8, allow_negative=True, random_state=0).fit(X)
    assert (fit.components_ >= 0.0).all()
    with pytest.raises(ValueError, match=r"Negative values in data passed to ETNMF: init\['components'\] holds -1"):
        ETNMF(2, allow_negative=True, init={"components": -np.ones((2, 16))}).fit(X)


BAD_ARGUMENTS = [
    ({"n_components": 0}, r"'n_components' parameter of LinCA must be .* Got 0 instead"),
    ({"n_components": 2.5}, r"'n_components' parameter of LinCA must be .* Got 2.5 instead"),
    (
        {"n_components": 4, "n_candidates": 5},
        r"'n_candidates' parameter of LinCA must be at most n_components=4. Got 5",
    ),
    ({"n_candidates": 3, "max_active": 4}, r"'max_active' parameter of LinCA must be at most n_candidates=3. Got 4"),
    ({"max_active": 0}, r"'max_active' parameter of LinCA must be .* Got 0 instead"),
    ({"n_components": 60, "n_candidates": 40, "max_active": 20}, "states per data point; at most 1,048,576"),
    ({"n_components": 60, "n_candidates": None}, "states per data point; at most 1,048,576"),
    ({"max_iter": 0}, "'max_iter' parameter"),
    ({"tol": -1.0}, "'tol' parameter"),
    ({"n_init": 0}, "'n_init' parameter"),
    ({"annealing": "13"}, "'annealing' parameter"),
    ({"activation_type": "own"}, "'activation_type' parameter"),
    ({"init": np.ones((16, 16))}, r"'init' parameter of LinCA must be an instance of 'dict' or None"),
    (
        {"init": {"weights": 1.0}},
        r"'init' parameter of LinCA must hold names among .*'noise_variance'.*\). Got 'weights'",
    ),
    ({"init": {"slab_mean": 1.0}}, r"must hold names among .*'noise_variance'.*\). Got 'slab_mean'"),
    ({"init": {"activation": 1.5}}, r"init\['activation'\]' must hold probabilities strictly between 0 and 1. Got 1.5"),
    ({"init": {"activation": [0.5, 0.5]}}, r"one number or one per component \(16\). Got shape \(2,\)"),
    ({"init": {"activation": [2.0] * 16}}, "strictly between 0 and 1"),
    ({"init": {"noise_variance": 0.0}}, r"init\['noise_variance'\]' must hold positive, finite variances. Got 0.0"),
    ({"init": {"components": np.ones((2, 2))}}, r"\(n_components, n_features\) = \(16, 16\). Got \(2, 2\)"),
    ({"fixed": ("weights",)}, r"must hold names among .*'noise_variance'.*\). Got 'weights'"),
    ({"fixed": ("activation",)}, r"give init=\{'activation': ...\} too"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_absurd_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        LinCA(**arguments).fit(bars(LinCA, 30).X)


@ALL
def test_an_initial_value_that_the_model_does_not_know_is_named(estimator):
    known = r"must hold names among \('components', 'activation', .*'noise_variance'.*\). Got 'background' instead"
    with pytest.raises(ValueError, match=f"The 'init' parameter of {estimator.__name__} {known}"):
        estimator(2, init={"background": 1.0}).fit(bars(estimator, 30).X)


def test_the_initial_values_that_a_model_knows_follow_its_noise():
    X, known = np.ones((5, 3)), r"must hold names among \('components', 'activation', 'background'\)"
    for estimator in (MCA, ETNMF):
        with pytest.raises(ValueError, match=f"'init' parameter of {estimator.__name__} {known}. Got 'noise_variance'"):
            estimator(2, noise="poisson", init={"noise_variance": 1.0}).fit(X)
        with pytest.raises(ValueError, match=f"'fixed' parameter of {estimator.__name__} {known}. Got 'noise_varian"):
            estimator(2, noise="poisson", fixed=("noise_variance",)).fit(X)
    for estimator in (MCA3, RestrictedMCA):
        with pytest.raises(ValueError, match=rf"'init' parameter of {estimator.__name__} must .* Got 'noise_variance'"):
            estimator(2, init={"noise_variance": 1.0}).fit(X)


def test_from_parameters_asks_for_what_the_noise_has_and_for_nothing_else():
    common = {"components": np.ones((2, 3)), "activation": 0.5}
    poisson = MCA.from_parameters(noise="poisson", **common)
    assert poisson.background_ == 0.0
    assert not hasattr(poisson, "noise_variance_")
    assert MCA.from_parameters(noise="poisson", background=2.0, **common).background_ == 2.0
    assert_array_equal(
        MCA.from_parameters(noise="gaussian-diagonal", noise_variance=2.0, **common).noise_variance_, np.full(3, 2.0)
    )


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (MCA, {}, "MCA.from_parameters needs 'noise_variance' with these settings"),
        (MCA, {"background": 1.0}, "MCA.from_parameters needs 'noise_variance' with these settings"),
        (
            MCA,
            {"noise_variance": 1.0, "background": 1.0},
            "MCA.from_parameters has no 'background' with these settings",
        ),
        (MCA, {"noise": "poisson", "noise_variance": 1.0}, "MCA.from_parameters has no 'noise_variance' with these"),
        (ETNMF, {"noise": "poisson"}, "ETNMF.from_parameters needs 'background' with these settings"),
        (LinCA, {}, "LinCA.from_parameters needs 'noise_variance' with these settings"),
        (LinCA, {"noise_variance": 1.0, "background": 1.0}, "unexpected keyword argument 'background'"),
        (GSC, {"slab_mean": 1.0}, "GSC.from_parameters needs 'noise_variance' with these settings"),
    ],
)
def test_from_parameters_names_what_is_missing_or_superfluous(estimator, settings, message):
    with pytest.raises(TypeError, match=message):
        estimator.from_parameters(components=np.ones((2, 3)), activation=0.5, **settings)


@pytest.mark.parametrize("n_rows", [0, -256, 2.5, "256", None])
def test_absurd_sizes_of_chunks_get_a_clear_error(n_rows):
    with (
        pytest.raises(ValueError, match=r"chunks_of needs a number of rows in the range \[1, inf\). Got .* instead"),
        chunks_of(n_rows),
    ):
        pass


def test_chunks_are_as_before_after_their_context_even_after_an_error():
    X = np.zeros((1000, 3))
    with chunks_of(256):
        assert len(split(X, 2)) == 4
        with chunks_of(500):
            assert len(split(X, 2)) == 2
        assert len(split(X, 2)) == 4
    with pytest.raises(ZeroDivisionError), chunks_of(256):
        raise ZeroDivisionError
    assert len(split(X, 2)) == 1


@pytest.mark.parametrize("estimator", [LinCA, MCA3, UPoE, TruncatedGaussianMixture])
def test_a_trace_that_cannot_be_written_gets_a_clear_error(estimator, tmp_path):
    X = np.abs(bars(estimator, 30).X)
    for trace in (1, True, [tmp_path / "trace.jsonl"]):  # a number would be an open file of the process
        with pytest.raises(TypeError, match=r"'trace' of a fit must be the path of a file or None. Got .* instead"):
            estimator(2, random_state=0).fit(X, trace=trace)
    with pytest.raises(FileNotFoundError, match=r"nowhere"):
        estimator(2, random_state=0).fit(X, trace=tmp_path / "nowhere" / "trace.jsonl")
    with pytest.raises(TypeError, match="unexpected keyword argument 'trace'"):
        estimator(2, trace=tmp_path / "trace.jsonl")
    assert not list(tmp_path.iterdir())


def test_wrong_states_and_sample_sizes_get_a_clear_error():
    fit = LinCA.from_parameters(components=np.ones((2, 3)), activation=0.5, noise_variance=1.0)
    with pytest.raises(ValueError, match=r"S must have one column per component: 2 of them. Got 3 instead"):
        fit.inverse_transform(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"n_samples must be an int in the range \[1, inf\). Got 0 instead"):
        fit.sample(0)
    with pytest.raises(ValueError, match="X has 2 features, but LinCA is expecting 3 features"):
        fit.transform(np.ones((1, 2)))
    with pytest.raises(ValueError, match=r"'noise_variance' must hold positive, finite variances. Got -1.0"):
        LinCA.from_parameters(components=np.ones((2, 3)), activation=0.5, noise_variance=-1.0)
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        LinCA(2).fit(np.ones((3, 2)), sample_weight=[1.0, -1.0, 1.0])
    said = "Sample weights must contain at least one non-zero number|The largest of sample_weight is 0"  # before 1.9
    with pytest.raises(ValueError, match=said):
        LinCA(2).fit(np.ones((3, 2)), sample_weight=np.zeros(3))


@ALL
def test_docstrings_name_the_real_arguments(estimator):
    section = inspect.getdoc(estimator).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(estimator).parameters)


def test_importing_multicause_compiles_nothing_and_does_not_load_numba():
    code = "import multicause; multicause.LinCA; import sys; print('numba' in sys.modules, 'matplotlib' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "False"]


def test_kernels_are_cached_on_disk_under_a_name_that_follows_their_sources(tmp_path):
    code = (
        "from multicause.backends.numba_cpu import load, cache_folder, source_hash; import numpy as np;"
        "kernel = load('vector_math'); kernel.exponentiate(np.zeros(3), np.empty(3));"
        "print(cache_folder()); print(source_hash()); print(sum(kernel.exponentiate.stats.cache_hits.values()))"
    )
    runs = []
    for _ in range(2):
        environment = {"MULTICAUSE_CACHE": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
        environment |= {"PYTHONPATH": ":".join(sys.path)}
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        runs.append(result.stdout.split())
    folder, digest, _ = runs[0]
    assert digest in folder
    assert folder.startswith(str(tmp_path))
    assert [hits for _, _, hits in runs] == ["0", "1"]
