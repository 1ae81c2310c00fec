"""RestrictedMCA: its expectations against the equations in plain loops, learning pattern by pattern, and bad input."""

import inspect
import pickle
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone

from multicause import RestrictedMCA, load_model, save_model
from multicause.backends import numba_cpu
from multicause.execution import Chunk, chunks_of
from multicause.learning import ConditionalCooling, Stop
from multicause.metrics.reliability import found_causes
from multicause.models.few_maximal_causes import RestrictedCauses, RestrictedParams
from multicause.posteriors.enumerated import EnumeratedPosterior
from test_mca3 import FINITE, bars, well_explained

SEEDS = pytest.mark.parametrize("seed", range(4))
SOLVERS = pytest.mark.parametrize("solver", ["batch", "online"])


def random_case(seed, n_components=5, n_features=4, n_samples=30):
    rng = np.random.default_rng(seed)
    model = RestrictedCauses(n_components, n_features, field_sum=13.0, activation=rng.uniform(0.1, 0.6))
    components = model.normalise(rng.gamma(1.0, 4.0, size=(n_components, n_features)) + 1e-3)
    Y = rng.poisson(rng.gamma(1.0, 4.0, size=(n_samples, n_features))).astype(float)
    Y[0], Y[1] = 0.0, rng.random(n_features)
    return model, RestrictedParams(components, model.activations()), Y


def by_hand(params, y, beta):
    """g_i by equations 22 and 36."""
    W, pi = params.components, params.activation[0]

    def weight(*causes):
        rate = W[list(causes)].max(axis=0)
        return np.exp(beta * sum(y_d * np.log(r) - r for y_d, r in zip(y, rate, strict=True)))

    single = np.array([weight(h) for h in range(len(W))])
    pairs = sum(weight(a, b) for a, b in combinations(range(len(W)), 2))
    return single / (single.sum() + (pi / (1.0 - pi)) ** beta * pairs)


@SEEDS
@pytest.mark.parametrize("temperature", [1.0, 1.5, 16.0])
def test_statistics_equal_the_equations_in_plain_loops(seed, temperature):
    model, params, Y = random_case(seed)
    weights = np.random.default_rng(seed).uniform(0.0, 2.0, len(Y))
    prepared = EnumeratedPosterior(2).prepare(model, params, 1.0 / temperature)
    statistics = prepared.statistics(Chunk(Y, 0, len(Y), weights)).statistics
    g = np.array([by_hand(params, y, 1.0 / temperature) for y in Y])
    assert_allclose(statistics.ay, np.einsum("n,nh,nd->hd", weights, g, Y), rtol=1e-10)
    assert_allclose(statistics.weight, weights[Y.any(axis=1)].sum(), rtol=1e-12)
    after = model.m_step(params, statistics)
    assert_allclose(after.components, 13.0 * statistics.ay / statistics.ay.sum(axis=1, keepdims=True), rtol=1e-12)


@SEEDS
def test_the_kernel_answers_as_the_equations_do(seed):
    _, params, Y = random_case(seed)
    kernel, beta = numba_cpu.load("restricted_mca"), 1.0 / 16.0
    odds = (params.activation[0] / (1.0 - params.activation[0])) ** beta
    for y in Y:
        assert_allclose(kernel.responses(y, params.components, beta, odds), by_hand(params, y, beta), rtol=1e-10)


@SEEDS
def test_presented_patterns_change_the_fields_as_the_rule_says(seed):
    model, params, Y = random_case(seed)
    kernel, beta, rate = numba_cpu.load("restricted_mca"), 0.1, 0.7
    noise = np.random.default_rng(seed).normal(0.0, 0.5, size=(len(Y), *params.components.shape))
    odds = (params.activation[0] / (1.0 - params.activation[0])) ** beta
    learned, W = params.components.copy(), params.components
    kernel.present(Y, noise, learned, model.field_sum, model.floor, (rate, beta, odds))
    for y, eta in zip(Y, noise, strict=True):
        if y.any():
            g = by_hand(params._replace(components=W), y, beta)
            W = np.maximum(W + rate * g[:, None] * y + eta, model.floor)
            W = np.maximum(13.0 * W / W.sum(axis=1, keepdims=True), model.floor)
    assert_allclose(learned, W, rtol=1e-8)
    assert_allclose(learned.sum(axis=1), 13.0, rtol=1e-8)


@SOLVERS
def test_the_causes_of_bars_are_found(solver):
    drawn = bars(500, 5, seed=1000)
    fit = RestrictedMCA(10, solver=solver, random_state=0).fit(drawn.X)
    singles = fit.log_joint(drawn.components, np.eye(10))
    assert found_causes(fit.components_, drawn.components, singles, threshold=1.0).all_found
    assert fit.stop_ is Stop.SCHEDULE_ENDED
    assert_allclose(fit.components_.sum(axis=1), fit.field_sum_)
    assert abs(fit.field_sum_ - 50.0) < 3.0
    assert fit.n_presentations_ == (50_000 if solver == "online" else 0)
    assert len(fit.free_energy_) == fit.n_iter_ + 1
    assert_allclose(fit.free_energy_[-1], fit.score(drawn.X), rtol=1e-12)


def test_equal_fields_part_when_they_are_shaken():
    X = bars(200, noise=0.0).X
    equal = np.ones((6, X.shape[1]))
    calm, shaken = (
        RestrictedMCA(6, cooling=cooling, random_state=0, init={"components": equal}).fit(X).components_
        for cooling in (ConditionalCooling(7.3), "auto")
    )
    assert len(np.unique(calm.round(), axis=0)) < 4  # rounding alone parts some of them, late
    assert len(np.unique(shaken.round(), axis=0)) == 6
    assert_allclose(shaken.sum(axis=1), shaken.sum(axis=1)[0])


def test_answers_equal_the_definition():
    X = bars().X
    fit = RestrictedMCA(6, random_state=0).fit(X)
    states = fit.fitted_model().model.states()
    assert states.sum(axis=1).max() == 2.0
    log_joint = fit.log_joint(X, states)
    q = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    assert_allclose(fit.transform(X), q @ states, atol=1e-10)
    assert_allclose(fit.score_samples(X), logsumexp(log_joint, axis=1), rtol=1e-10)
    assert_allclose(fit.reconstruct(X), q @ fit.inverse_transform(states), atol=1e-8)


def test_patterns_may_come_one_by_one_or_in_batches():
    X = bars(60).X
    settings = {"n_components": 6, "field_sum": 30.0, "random_state": 3}
    at_once = RestrictedMCA(**settings).partial_fit(X)
    one_by_one, in_parts = RestrictedMCA(**settings), RestrictedMCA(**settings)
    for row in X:
        one_by_one.partial_fit(row[None])
    for part in (X[:7], X[7:]):
        in_parts.partial_fit(part)
    assert_array_equal(one_by_one.components_, at_once.components_)
    assert_array_equal(in_parts.components_, at_once.components_)
    assert one_by_one.n_presentations_ == 60
    assert (at_once.components_ != RestrictedMCA(**settings | {"random_state": 4}).partial_fit(X).components_).any()


def test_bars_are_found_pattern_by_pattern():
    drawn = bars(500, 5, seed=1000)
    fit = RestrictedMCA(10, field_sum=50.0, random_state=0)
    for _ in range(30):
        fit.partial_fit(drawn.X)
    singles = fit.log_joint(drawn.components, np.eye(10))
    assert found_causes(fit.components_, drawn.components, singles, threshold=None).all_found
    assert fit.n_presentations_ == 15_000


def test_a_fit_a_pickle_and_a_file_can_be_learned_on(tmp_path):
    X = bars(60).X
    fit = RestrictedMCA(6, solver="online", n_presentations=100, random_state=0).fit(X)
    assert fit.n_presentations_ == 100
    copy = pickle.loads(pickle.dumps(fit))
    save_model(fit, tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors")
    for other in (copy, loaded):
        assert_array_equal(other.partial_fit(X).components_, clone(fit).fit(X).partial_fit(X).components_)
        assert other.n_presentations_ == 160
    assert_allclose(loaded.components_.sum(axis=1), fit.field_sum_)


def test_an_online_fit_draws_rows_in_proportion_to_their_weights():
    X = bars(60).X
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    settings = {"n_components": 6, "solver": "online", "n_presentations": 500, "random_state": 0}
    weighted = RestrictedMCA(**settings).fit(X, sample_weight=weights)
    repeated = RestrictedMCA(**settings).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-6)


def test_integer_weights_are_repeated_rows():
    X = bars(60).X
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = RestrictedMCA(6, random_state=0).fit(X, sample_weight=weights)
    repeated = RestrictedMCA(6, random_state=0).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-6)


@SOLVERS
def test_results_have_the_same_bits_for_any_thread_count(solver):
    X = bars(1000).X
    settings = {"solver": solver, "n_presentations": 1000, "random_state": 0}
    with chunks_of(256):
        fits = [RestrictedMCA(6, n_jobs=n, **settings).fit(X) for n in (1, 3)]
        transformed = fits[0].transform(X)
    assert_array_equal(fits[0].components_, fits[1].components_)
    with chunks_of(600):
        assert_array_equal(transformed, fits[1].transform(X))


@SOLVERS
def test_restarts_keep_the_fit_that_explains_half_of_the_data_best(solver):
    X = bars(200, 4).X
    X = X[X.any(axis=1)][:150]
    gains = []
    for seed in range(3):
        settings = {"solver": solver, "n_presentations": 300, "random_state": seed}
        one, many = (RestrictedMCA(6, n_init=n, **settings).fit(X) for n in (1, 4))
        gains.append(well_explained(many, X) - well_explained(one, X))
    assert min(gains) >= 0.0
    assert max(gains) > 0.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [{}, {"solver": "online"}, {"cooling": None}], ids=str)
@pytest.mark.parametrize("n_components", [1, 5])
@pytest.mark.parametrize("name", FINITE)
def test_awkward_data_give_finite_results(name, n_components, settings):
    X = FINITE[name]
    fit = RestrictedMCA(n_components, max_iter=100, n_presentations=500, random_state=0, **settings).fit(X)
    fit.partial_fit(X)
    for value in (fit.components_, fit.activation_, fit.field_sum_, fit.free_energy_):
        assert np.isfinite(value).all()
    for answer in (fit.transform(X), fit.score_samples(X), fit.reconstruct(X)):
        assert np.isfinite(answer).all()
    assert (fit.components_ >= 0.0).all()


BAD_DATA = {
    "nan": (np.array([[1.0, np.nan], [1.0, 2.0]]), "Input X contains NaN"),
    "negative": (np.array([[1.0, 2.0], [1.0, -2.0]]), "passed to RestrictedMCA: X holds -2 at row 1, column 1"),
    "1e150": (np.full((5, 2), 1e150), "largest magnitude in X is 1e.150, .* Rescale"),
}


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_get_a_clear_error(name, learn):
    X, message = BAD_DATA[name]
    with pytest.raises(ValueError, match=message):
        getattr(RestrictedMCA(2), learn)(X)


BAD_ARGUMENTS = [
    ({"n_components": 0}, r"'n_components' parameter of RestrictedMCA must be .* Got 0 instead"),
    ({"n_components": 600}, r"n_components=600 of RestrictedMCA means 180,301 states of at most 2 latents"),
    ({"solver": "sgd"}, "'solver' parameter"),
    ({"activation": 1.0}, "'activation' parameter"),
    ({"field_sum": 0.0}, "'field_sum' parameter"),
    ({"cooling": "slow"}, "'cooling' parameter"),
    ({"temperature": 0.5}, "'temperature' parameter"),
    ({"learning_rate": 0.0}, "'learning_rate' parameter"),
    ({"weight_noise": -1.0}, "'weight_noise' parameter"),
    ({"n_presentations": 0}, "'n_presentations' parameter"),
    ({"init": {"components": np.ones((2, 2))}}, r"\(n_components, n_features\) = \(9, 9\). Got \(2, 2\)"),
]


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_absurd_arguments_get_a_clear_error(arguments, message, learn):
    with pytest.raises(ValueError, match=message):
        getattr(RestrictedMCA(**arguments), learn)(bars(30).X)


def test_given_parameters_are_kept_and_can_be_learned_on():
    drawn = bars()
    fit = RestrictedMCA.from_parameters(components=drawn.components, activation=1 / 3)
    assert fit.stop_ is Stop.PARAMETERS_GIVEN
    assert fit.field_sum_ == 30.0
    assert np.mean((fit.predict_proba(drawn.X) > 0.5) == drawn.states) > 0.85
    assert fit.sample(7, random_state=0)[0].shape == (7, 9)
    fit.partial_fit(drawn.X[:5])
    assert_allclose(fit.components_.sum(axis=1), 30.0)
    with pytest.raises(ValueError, match=r"'activation' of RestrictedMCA must be one probability .* Use MCA3"):
        RestrictedMCA.from_parameters(components=np.ones((2, 3)), activation=[0.1, 0.2])


def test_docstrings_name_the_real_arguments():
    section = inspect.getdoc(RestrictedMCA).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(RestrictedMCA).parameters)
