"""UPoE: what it learns, what it answers, and what it says to bad input."""

import inspect
import json
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from multicause import UPoE, load_model, save_model
from multicause.experiments.callbacks import Listener
from multicause.learning import Stop
from multicause.metrics import amari_index
from multicause.models import Expert, HyperbolicSecant, StudentT
from multicause.models.product_of_experts import white_log_density

ALGORITHMS = pytest.mark.parametrize("algorithm", ["pursuit", "parallel", "sequential"])


def sources(n_samples=2000, n_sources=4, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.laplace(size=(n_samples, n_sources))
    mixing = rng.normal(size=(n_sources, n_sources))
    return 3.0 + S @ mixing, mixing


@ALGORITHMS
def test_the_likelihood_rises_with_every_expert_by_the_index_and_is_the_score(algorithm):
    X, _ = sources()
    fit = UPoE(3, algorithm=algorithm, random_state=0).fit(X)
    assert (np.diff(fit.free_energy_) > -1e-12).all()
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-10)
    assert_allclose(fit.free_energy_[-1] - fit.free_energy_[0], -fit.projection_index_.sum(), rtol=1e-9)
    if algorithm != "parallel":
        assert_allclose(np.diff(fit.free_energy_), -fit.projection_index_, rtol=1e-7, atol=1e-10)


def test_pursuits_directions_are_orthonormal_and_the_others_have_length_one():
    X, _ = sources()
    pursuit = UPoE(3, algorithm="pursuit", random_state=0).fit(X)
    assert_allclose(pursuit.directions_ @ pursuit.directions_.T, np.eye(3), atol=1e-12)
    parallel = UPoE(3, algorithm="parallel", random_state=0).fit(X)
    assert_allclose(np.linalg.norm(parallel.directions_, axis=1), 1.0, rtol=1e-12)
    assert parallel.score(X) > pursuit.score(X)


@ALGORITHMS
def test_mixed_sources_are_recovered(algorithm):
    X, mixing = sources(10_000, 5, seed=1000)
    fit = UPoE(5, algorithm=algorithm, random_state=0).fit(X)
    assert fit.stop_ in (Stop.EXPERTS_FOUND, Stop.CONVERGED)
    assert amari_index(fit.mixing_.T, mixing) < 0.03


def test_sources_of_two_modes_are_found_by_mixtures_and_not_by_a_student_t():
    rng = np.random.default_rng(1000)
    S = rng.choice([-1.0, 1.0], size=(5000, 4)) + 0.4 * rng.normal(size=(5000, 4))
    mixing = rng.normal(size=(4, 4))
    mixture = UPoE(4, expert="student-t-mixture", random_state=0).fit(S @ mixing)
    assert amari_index(mixture.mixing_.T, mixing) < 0.03
    assert (mixture.projection_index_ < -0.1).all()
    student = UPoE(random_state=0).fit(S @ mixing)
    assert len(student.components_) < 4 or amari_index(student.mixing_.T, mixing) > 0.2


@pytest.mark.parametrize("n_gaussian", [0, 3])
def test_experts_are_added_until_none_helps_on_held_out_data_either(n_gaussian):
    rng = np.random.default_rng(1000)
    S = np.hstack([rng.laplace(size=(8000, 3)), rng.normal(size=(8000, n_gaussian))])
    X = S @ rng.normal(size=(3 + n_gaussian, 3 + n_gaussian))
    fit = UPoE(algorithm="pursuit", validation_fraction=0.3, random_state=0).fit(X)
    assert len(fit.components_) == 3
    assert fit.stop_ is (Stop.NO_MORE_EXPERTS if n_gaussian else Stop.EXPERTS_FOUND)
    assert (fit.projection_index_ < -0.01).all()


def test_rows_of_weight_zero_count_neither_in_training_nor_among_the_held_out():
    X, _ = sources(10_000)
    weights = np.repeat([1.0, 0.0], 5000)
    X[5000:] *= 100.0
    fit = UPoE(validation_fraction=0.2, random_state=0).fit(X, sample_weight=weights)
    assert len(fit.components_) == 4
    assert_allclose(fit.mean_, X[:5000].mean(axis=0), atol=0.2)


def test_data_that_are_less_peaked_than_a_gaussian_get_no_expert():
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    fit = UPoE(random_state=0).fit(X)
    assert fit.components_.shape == (0, 2)
    assert fit.transform(X).shape == (5000, 0)
    assert_allclose(fit.inverse_transform(np.empty((3, 0))), np.tile(X.mean(axis=0), (3, 1)))
    assert_allclose(fit.score(X), fit.free_energy_[0], rtol=1e-12)
    assert fit.sample(5, random_state=0)[0].shape == (5, 2)


def test_projections_and_data_belong_together():
    X, _ = sources()
    fit = UPoE(2, random_state=0).fit(X)
    Z = fit.transform(X)
    assert_allclose(Z, (X - X.mean(axis=0)) @ fit.components_.T, atol=1e-9)
    assert_allclose(fit.components_ @ fit.mixing_, np.eye(2), atol=1e-9)
    assert_allclose(fit.inverse_transform(Z), fit.mean_ + Z @ fit.mixing_.T, atol=1e-9)
    assert_allclose(fit.transform(fit.reconstruct(X)), Z, atol=1e-9)
    assert_allclose(Z.std(axis=0), 1.0, rtol=1e-9)
    assert_allclose(UPoE(4, random_state=0).fit(X).reconstruct(X), X, atol=1e-8)


def test_the_largest_entry_of_a_component_is_positive():
    for seed in range(5):
        fit = UPoE(4, random_state=seed).fit(sources(500, seed=seed)[0])
        assert (fit.components_[range(4), np.abs(fit.components_).argmax(axis=1)] > 0.0).all()


@ALGORITHMS
def test_a_change_of_units_changes_the_log_density_by_the_jacobian(algorithm):
    X, _ = sources()
    A = np.random.default_rng(3).normal(size=(4, 4)) * np.array([1e-6, 1.0, 10.0, 1e6])
    plain = UPoE(algorithm=algorithm, random_state=0, tol=1e-10).fit(X)
    mapped = UPoE(algorithm=algorithm, random_state=0, tol=1e-10).fit(X @ A - 7.0)
    assert_allclose(mapped.score(X @ A - 7.0) + np.linalg.slogdet(A)[1], plain.score(X), atol=2e-4)


def test_directions_without_variance_are_dropped_with_a_word_and_densities_are_those_of_the_others():
    X, _ = sources(n_sources=3)
    B = np.random.default_rng(0).normal(size=(3, 5))
    wide = np.column_stack([X @ B, np.full(len(X), 7.0)])
    with pytest.warns(UserWarning, match=r"X varies in 3 of 6 directions only \(among them the constant columns 5\)"):
        fit = UPoE(3, random_state=0, tol=1e-10).fit(wide)
    assert fit.whitening_.shape == (3, 6)
    assert (fit.components_[:, 5] == 0.0).all()
    plain = UPoE(3, random_state=0, tol=1e-10).fit(X)
    jacobian = 0.5 * np.linalg.slogdet(B @ B.T)[1]
    assert_allclose(fit.score(wide) + jacobian, plain.score(X), atol=1e-3)
    with pytest.raises(ValueError, match=r"'n_components' parameter of UPoE must be at most the 3 .* Got 4 instead"):
        UPoE(4).fit(X)
    with pytest.warns(UserWarning, match="3 of 6"), pytest.raises(ValueError, match="at most the 3 dimensions"):
        UPoE(4).fit(wide)
    with pytest.raises(ValueError, match=r"'n_dimensions' parameter of UPoE must be at most the rank of X, which is 3"):
        UPoE(n_dimensions=4).fit(wide)


def test_fewer_samples_than_columns_are_said_and_handled():
    X = np.random.default_rng(0).normal(size=(5, 8))
    with pytest.warns(UserWarning, match="X varies in 4 of 8 directions only.*More samples than columns"):
        fit = UPoE(2, random_state=0).fit(X)
    assert np.isfinite(fit.score_samples(X)).all()


def test_the_largest_principal_directions_can_be_kept():
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(1000, 6)) * np.array([9.0, 8.0, 7.0, 0.1, 0.1, 0.1])
    fit = UPoE(n_dimensions=3, random_state=0).fit(X)
    assert fit.whitening_.shape == (3, 6)
    assert np.abs(fit.whitening_[:, 3:]).max() < 1e-2
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-10)


def test_white_data_can_be_taken_as_they_are():
    X, _ = sources()
    white = UPoE(4, random_state=0, tol=1e-10).fit(X)
    Y = (X - white.mean_) @ white.whitening_.T
    fit = UPoE(4, whiten=False, random_state=0, tol=1e-10).fit(Y)
    assert_array_equal(fit.whitening_, np.eye(4))
    assert_allclose(fit.score(Y), white.score(X) - white._params().whitening.log_determinant, atol=1e-4)
    for algorithm in ("pursuit", "parallel", "sequential"):  # data that are not white after all have their likelihood
        wide = Y * np.array([1.0, 2.0, 3.0, 0.5])
        fit = UPoE(2, algorithm=algorithm, whiten=False, random_state=0).fit(wide)
        assert_allclose(fit.free_energy_[-1], fit.score(wide), rtol=1e-10)
    with pytest.raises(ValueError, match=r"UPoE\(whiten=False\) keeps all dimensions .* Leave out n_dimensions=2"):
        UPoE(whiten=False, n_dimensions=2).fit(Y)


def test_samples_are_as_likely_as_the_data_they_were_learned_from():
    X, _ = sources(5000)
    fit = UPoE(random_state=0).fit(X)
    drawn, Z = fit.sample(5000, random_state=1)
    assert_allclose(fit.transform(drawn), Z, atol=1e-8)
    assert abs(fit.score(drawn) - fit.score(X)) < 0.15
    assert_array_equal(drawn, fit.sample(5000, random_state=1)[0])


@ALGORITHMS
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(algorithm):
    X, _ = sources(20_000, 60)
    fits = [UPoE(3, algorithm=algorithm, n_jobs=n, random_state=3).fit(X) for n in (1, 2, 3)]
    for other in fits[1:]:
        assert_array_equal(other.components_, fits[0].components_)
        assert_array_equal(other.score_samples(X[:500]), fits[0].score_samples(X[:500]))
    whole = fits[0].score_samples(X), fits[0].transform(X)
    assert_array_equal(fits[0].score_samples(X[700:1300]), whole[0][700:1300])
    assert_array_equal(fits[0].transform(X[700:1300]), whole[1][700:1300])


@ALGORITHMS
def test_integer_weights_are_repeated_rows(algorithm):
    X, _ = sources(300)
    weights = np.random.default_rng(0).integers(0, 4, size=300)
    weighted = UPoE(3, algorithm=algorithm, random_state=0).fit(X, sample_weight=weights)
    repeated = UPoE(3, algorithm=algorithm, random_state=0).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-5, atol=1e-7)
    assert_allclose(weighted.free_energy_[-1], repeated.free_energy_[-1], rtol=1e-9)


def test_single_precision_is_kept_and_answers_are_those_of_double():
    X, _ = sources()
    single = UPoE(3, random_state=0).fit(X.astype(np.float32))
    assert single.components_.dtype == single.mixing_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.whitening_.dtype == np.float64
    assert_allclose(single.score(X), UPoE(3, random_state=0).fit(X).score(X), rtol=1e-4)


def test_batches_lead_to_where_all_data_lead():
    X, mixing = sources(30_000, 6, seed=1000)
    fit = UPoE(6, random_state=0)
    after = {}
    for number, start in enumerate(range(0, len(X), 300)):
        fit.partial_fit(X[start : start + 300])
        after[number] = amari_index(fit.mixing_.T, mixing)
    assert after[0] > 0.05
    assert after[99] < 0.012
    whole = UPoE(6, random_state=0).fit(X)
    assert abs(fit.score(X) - whole.score(X)) < 0.01
    assert fit.n_samples_seen_ == len(X)
    assert_allclose(fit.covariance_, np.cov(X.T, bias=True), rtol=1e-8)
    assert_allclose(fit.mean_, X.mean(axis=0), rtol=1e-9)
    assert_allclose(fit.directions_ @ fit.directions_.T, np.eye(6), atol=1e-10)


def test_the_first_batch_is_a_fit_and_batches_may_follow_a_fit_or_a_loaded_model(tmp_path):
    X, _ = sources(4000)
    first = UPoE(3, random_state=0).partial_fit(X[:1000])
    assert_array_equal(first.components_, UPoE(3, random_state=0).fit(X[:1000]).components_)
    save_model(first, tmp_path / "model")
    loaded = load_model(tmp_path / "model").partial_fit(X[1000:2000])
    assert_array_equal(loaded.components_, first.partial_fit(X[1000:2000]).components_)
    fitted = UPoE(3, random_state=0).fit(X[:2000])
    before = fitted.score(X[2000:])
    assert fitted.partial_fit(X[2000:]).score(X[2000:]) > before - 0.01
    weighted = UPoE(3, random_state=0).fit(X[:2000])
    weighted.partial_fit(X[2000:], sample_weight=np.full(2000, 0.5))
    assert weighted.n_samples_seen_ == 3000.0


@pytest.mark.parametrize("expert", ["student-t", "student-t-mixture", HyperbolicSecant(1.3)], ids=str)
def test_a_model_file_keeps_the_experts(expert, tmp_path):
    X, _ = sources(500)
    saved = UPoE(2, expert=expert, random_state=0).fit(X)
    save_model(saved, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.experts_ == saved.experts_
    assert loaded.get_params() == saved.get_params()
    assert_array_equal(loaded.score_samples(X), saved.score_samples(X))


class Interrupting(Expert):
    """A user's expert of fixed shape, whose user presses Ctrl-C in time."""

    def __init__(self, in_time=None):
        self.in_time, self.calls = in_time, 0

    def energy(self, z):
        return HyperbolicSecant().energy(z)

    def derivative(self, z):
        return HyperbolicSecant().derivative(z)

    def second_derivative(self, z):
        return HyperbolicSecant().second_derivative(z)

    def log_normaliser(self):
        return HyperbolicSecant().log_normaliser()

    def sample(self, n_samples, rng):
        return HyperbolicSecant().sample(n_samples, rng)

    def fit(self, z, weights, n_steps=50):
        self.calls += n_steps == 50  # once or more for each expert
        if self.calls == self.in_time:
            raise KeyboardInterrupt
        return self


def test_an_interrupted_fit_keeps_the_experts_found():
    X, _ = sources()
    fit = UPoE(4, expert=Interrupting(3), random_state=0)
    with pytest.raises(KeyboardInterrupt):
        fit.fit(X)
    assert fit.stop_ is Stop.INTERRUPTED
    assert 1 <= len(fit.components_) < 4
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-10)


def test_a_users_expert_is_used_as_it_is():
    X, _ = sources()
    fit = UPoE(2, expert=Interrupting(), random_state=0).fit(X)
    assert all(isinstance(expert, Interrupting) for expert in fit.experts_)
    white = (X - fit.mean_) @ fit.whitening_.T
    expected = (
        white_log_density(fit.directions_, (HyperbolicSecant(),) * 2, white) + fit._params().whitening.log_determinant
    )
    assert_allclose(fit.score_samples(X), expected, rtol=1e-10)


@pytest.mark.usefixtures("callbacks")
def test_a_callback_can_stop_the_fit_between_experts():
    class StopAfterTwo(Listener):
        def on_fit_task_end(self, estimator, context):
            return context.task_name == "iteration" and context.task_id >= 2

    X, _ = sources()
    fit = UPoE(4, random_state=0).set_callbacks(StopAfterTwo()).fit(X)
    assert fit.stop_ is Stop.CALLBACK
    assert len(fit.components_) == 2
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-10)


def test_a_trace_has_a_line_per_expert(tmp_path):
    X, _ = sources()
    fit = UPoE(3, algorithm="pursuit", random_state=0).fit(X, trace=tmp_path / "trace.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1, 2, 3]
    assert_allclose([line["free_energy"] for line in lines], fit.free_energy_)
    assert [line["final"] for line in lines] == [False, False, False, True]


def test_iterations_that_run_out_are_warned_of():
    X, _ = sources()
    with pytest.warns(ConvergenceWarning, match="the iterations ran out"):
        fit = UPoE(2, max_iter=2, tol=0.0, random_state=0).fit(X)
    assert fit.stop_ is Stop.ITERATIONS_RAN_OUT


def test_a_grid_search_chooses_by_likelihood():
    X, _ = sources(1500)
    X = np.hstack([X, np.random.default_rng(1).normal(size=(1500, 1))])
    search = GridSearchCV(UPoE(random_state=0), {"n_components": [1, 4]}, cv=2).fit(X)
    assert search.best_params_ == {"n_components": 4}


def test_more_starts_find_no_worse_an_expert():
    X, _ = sources(300, 8)
    one, many = (UPoE(1, n_init=n, random_state=0).fit(X).projection_index_[0] for n in (1, 10))
    assert many <= one


BAD = {
    "NaN": ([[1.0, np.nan], [1.0, 2.0]], "Input X contains NaN"),
    "infinity": ([[1.0, np.inf], [1.0, 2.0]], "Input X contains infinity"),
    "strings": ([["a", "b"], ["c", "d"]], "could not convert string to float"),
    "empty": (np.empty((0, 3)), "0 sample"),
    "no features": (np.empty((3, 0)), "0 feature"),
    "one sample": (np.ones((1, 3)), "1 sample"),
    "one-dimensional": (np.ones(5), "Expected 2D array"),
    "all equal": (np.full((9, 3), 2.5), "UPoE needs data that vary, but all rows of X are equal"),
    "1e150": (np.full((5, 2), 1e150), "largest magnitude in X is 1e.150, .* Rescale"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_get_a_clear_error(name):
    X, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        UPoE().fit(X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_components": 0}, r"'n_components' parameter of UPoE must be .* Got 0 instead"),
        ({"algorithm": "ica"}, r"'algorithm' parameter of UPoE must be .* Got 'ica' instead"),
        ({"expert": "laplace"}, r"'expert' parameter of UPoE must be a str among .* or an instance of .*Expert"),
        ({"expert": StudentT}, r"'expert' parameter of UPoE must be"),
        ({"expert": 3.0}, r"'expert' parameter of UPoE must be .* Got 3.0 instead"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"validation_fraction": 0.999}, "'validation_fraction' of UPoE leaves 0 of 50 samples to learn from"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"n_init": 0}, "'n_init' parameter"),
    ],
)
def test_absurd_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        UPoE(**arguments).fit(sources(50)[0])


def test_wrong_projections_and_sample_sizes_get_a_clear_error():
    fit = UPoE(2, random_state=0).fit(sources(200)[0])
    with pytest.raises(ValueError, match=r"S must have one column per component: 2 of them. Got 3 instead"):
        fit.inverse_transform(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"n_samples must be an int in the range \[1, inf\). Got 0 instead"):
        fit.sample(0)
    with pytest.raises(ValueError, match="X has 2 features, but UPoE is expecting 4 features"):
        fit.transform(np.ones((1, 2)))


AWKWARD = {
    "two values": np.random.default_rng(0).random((60, 3)) < 0.5,
    "duplicated rows": np.tile(np.random.default_rng(0).random((6, 3)), (20, 1)),
    "many zeros": np.maximum(np.random.default_rng(0).normal(size=(80, 3)) - 1.0, 0.0),
    "one feature": np.random.default_rng(0).random((30, 1)),
    "tiny values": 1e-90 * np.random.default_rng(0).random((30, 3)),
    "huge values": 1e90 * np.random.default_rng(0).random((30, 3)),
    "a huge offset": 1e6 + np.random.default_rng(0).random((30, 3)),
    "integers": np.random.default_rng(0).integers(0, 255, size=(30, 3)),
}


@ALGORITHMS
@pytest.mark.parametrize("expert", ["student-t", "student-t-mixture"])
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_data_give_finite_results(algorithm, expert, name):
    X = AWKWARD[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = UPoE(algorithm=algorithm, expert=expert, max_iter=50, random_state=0).fit(X)
    assert np.isfinite(fit.score_samples(X)).all()
    assert np.isfinite(fit.transform(X)).all()
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-6, atol=1e-6)


def test_the_docstring_names_the_real_arguments():
    section = inspect.getdoc(UPoE).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(UPoE).parameters)
