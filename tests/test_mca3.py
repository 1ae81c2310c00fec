"""MCA3: its expectations against the equations in plain loops, its answers, its determinism, and bad input."""

import inspect
from itertools import combinations
from math import exp, log

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gammaln, logsumexp

from multicause import MCA3
from multicause.datasets import make_bars
from multicause.execution import Chunk, chunks_of
from multicause.learning import Annealing, ConditionalCooling, Stop
from multicause.metrics.reliability import found_causes
from multicause.models.base import DataMoments, combine
from multicause.models.few_maximal_causes import ThirdOrderCauses, ThirdOrderParams, expected_field_sum
from multicause.posteriors.enumerated import EnumeratedPosterior, LogJointTable

SEEDS = pytest.mark.parametrize("seed", range(4))
TEMPERATURES = pytest.mark.parametrize("temperature", [1.0, 1.5, 11.0])


def bars(n_samples=300, size=3, noise="poisson", seed=0):
    return make_bars(n_samples, size, superposition="max", noise=noise, random_state=seed)


def random_case(seed, n_components=5, n_features=4, n_samples=30):
    """Fields with ties and zeros, unequal activations, data with all-zero and non-integer rows."""
    rng = np.random.default_rng(seed)
    components = rng.gamma(1.0, 4.0, size=(n_components, n_features)) + 1e-3
    components[1, :2] = components[0, :2]
    params = ThirdOrderParams(components, rng.uniform(0.05, 0.5, n_components), alpha=rng.uniform(0.5, 3.0))
    Y = rng.poisson(rng.gamma(1.0, 4.0, size=(n_samples, n_features))).astype(float)
    Y[0], Y[1] = 0.0, rng.random(n_features)
    return ThirdOrderCauses(n_components, n_features), params, Y


def terms(params, y, sizes, beta):
    """pi-bar and exp(I) of each set of causes (MCA eq. 18, 36), as a dictionary from sets to numbers."""
    W, pi, found = params.components, params.activation, {}
    for size in sizes:
        for causes in combinations(range(len(W)), size):
            rate = [max(W[h][d] for h in causes) for d in range(len(y))]
            I = sum(log(r) * y_d - r for r, y_d in zip(rate, y, strict=True))  # noqa: E741
            odds = np.prod([pi[h] / (1.0 - pi[h]) for h in causes])
            found[causes] = odds**beta * exp(beta * I)
    return found


def sigmoid(x, temperature):
    if temperature == 1.0:
        return 1.0 if x > 0 else 0.5 if x == 0 else 0.0
    return 1.0 / (1.0 + exp(-0.2 / (temperature - 1.0) * x))


def by_hand(params, y, temperature):
    """<s>, <A> and the mass of at most two causes, by equations 16, 17 and 33."""
    W, (n_components, n_features) = params.components, params.components.shape
    f = terms(params, y, (1, 2, 3), 1.0 / temperature)
    empty = 1.0 if not y.any() else 0.0
    total = empty + sum(f.values())
    s, a = np.zeros(n_components), np.zeros((n_components, n_features))
    for causes, value in f.items():
        for i in causes:
            s[i] += value * (params.alpha if len(causes) == 3 else 1.0) / total
            if len(causes) <= 2:
                (c,) = [h for h in causes if h != i] or [None]
                for d in range(n_features):
                    share = 1.0 if c is None else sigmoid(W[i, d] - W[c, d], temperature)
                    a[i, d] += value * share / total
    few = (empty + sum(value for causes, value in f.items() if len(causes) <= 2)) / total
    return s, a, few


@SEEDS
@TEMPERATURES
def test_statistics_equal_the_equations_in_plain_loops(seed, temperature):
    model, params, Y = random_case(seed)
    weights = np.random.default_rng(seed).uniform(0.0, 2.0, len(Y))
    prepared = EnumeratedPosterior(3).prepare(model, params, 1.0 / temperature)
    statistics = prepared.statistics(Chunk(Y, 0, len(Y), weights)).statistics
    hand = [by_hand(params, y, temperature) for y in Y]
    s, a, few = (np.array(part) for part in zip(*hand, strict=True))
    assert_allclose(statistics.weight, weights.sum(), rtol=1e-12)
    assert_allclose(statistics.s, weights @ s, rtol=1e-10)
    assert_allclose(statistics.a, np.einsum("n,nhd->hd", weights, a), rtol=1e-10)
    assert_allclose(statistics.ay, np.einsum("n,nhd,nd->hd", weights, a, Y), rtol=1e-10)
    assert_allclose(statistics.at_most_two, weights @ few, rtol=1e-10)


@SEEDS
def test_tabulated_log_joints_equal_the_definition(seed):
    model, params, Y = random_case(seed)
    states = model.states()
    table, definition = LogJointTable.of(model, params, states)(Y), model.log_joint(params, Y, states)
    possible = np.isfinite(definition)
    assert_allclose(table[possible], definition[possible], rtol=1e-12)
    assert (table[~possible] < -1e299).all()


@SEEDS
def test_free_energies_and_means_are_those_of_the_listed_states(seed):
    model, params, Y = random_case(seed)
    prepared, chunk = EnumeratedPosterior(3).prepare(model, params), Chunk(Y, 0, len(Y))
    log_joint = model.log_joint(params, Y, model.states())
    q = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    assert_allclose(prepared.free_energies(chunk), logsumexp(log_joint, axis=1), rtol=1e-12)
    assert_allclose(prepared.means(chunk), q @ model.states(), atol=1e-12)
    assert_allclose(prepared.reconstructions(chunk), q @ model.superpose(params, model.states()), atol=1e-10)


def test_the_tempered_free_energy_is_a_lower_bound_that_a_low_temperature_attains():
    model, params, Y = random_case(0)
    chunk = Chunk(Y, 0, len(Y))
    posterior = EnumeratedPosterior(3)
    exact, *tempered = (posterior.prepare(model, params, beta).free_energies(chunk) for beta in (1.0, 0.999, 0.2))
    assert (tempered[0] <= exact + 1e-12).all()
    assert (tempered[1] < tempered[0]).all()
    assert_allclose(tempered[0], exact, rtol=1e-4)


def test_the_m_step_counts_sparse_data_twice_to_correct_alpha():
    model, params, Y = random_case(1)
    statistics = EnumeratedPosterior(3).prepare(model, params).statistics(Chunk(Y, 0, len(Y))).statistics
    after = model.m_step(params, statistics)
    pi = statistics.s / len(Y)
    assert_allclose(after.activation, pi)
    odds = pi / (1.0 - pi)
    pairs = sum(odds[a] * odds[b] for a, b in combinations(range(len(pi)), 2))
    expected = np.prod(1.0 - pi) * (1.0 + odds.sum() + pairs)
    assert_allclose(after.alpha, params.alpha + expected - statistics.at_most_two / len(Y), rtol=1e-10)
    assert_allclose(after.components, statistics.ay / statistics.a)


def test_two_chunks_give_the_statistics_of_one():
    model, params, Y = random_case(2)
    prepared = EnumeratedPosterior(3).prepare(model, params, 0.5)
    parts = combine(prepared.statistics(Chunk(Y, 0, 11)), prepared.statistics(Chunk(Y, 11, 30)))
    whole = prepared.statistics(Chunk(Y, 0, 30))
    assert_allclose(parts.free_energy, whole.free_energy)
    for one, other in zip(parts.statistics, whole.statistics, strict=True):
        assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize(("size", "value"), [(5, 10.0), (8, 3.0)])
def test_the_field_sum_of_bars_is_guessed_from_their_moments(size, value):
    p = 1.0 - (1.0 - 1.0 / size) ** 2  # a pixel lies on two of the bars
    moments = DataMoments(1.0, np.full(size**2, p * value), np.full(size**2, p * (1.0 - p) * value**2))
    assert_allclose(expected_field_sum(moments, 2 * size), size * value)


def test_the_causes_of_bars_are_found():
    drawn = bars(500, 5, seed=1000)
    fit = MCA3(10, random_state=0).fit(drawn.X)
    singles = fit.log_joint(drawn.components, np.eye(10))
    assert found_causes(fit.components_, drawn.components, singles, threshold=1.0).all_found
    assert fit.stop_ is Stop.SCHEDULE_ENDED
    assert abs(fit.activation_.mean() - drawn.states.mean()) < 0.02


def test_the_network_finds_fields_for_the_start():
    drawn = bars(500, 5, seed=1001)
    fit = MCA3(10, init="online", random_state=0).fit(drawn.X)
    singles = fit.log_joint(drawn.components, np.eye(10))
    assert found_causes(fit.components_, drawn.components, singles, threshold=1.0).all_found
    other = MCA3(10, init="online", random_state=0).fit(drawn.X)
    assert_array_equal(fit.components_, other.components_)


def test_answers_equal_the_definition():
    X = bars().X
    fit = MCA3(6, random_state=0).fit(X)
    states = fit.fitted_model().model.states()
    log_joint = fit.log_joint(X, states)
    q = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    assert_allclose(fit.transform(X), q @ states, atol=1e-10)
    assert_allclose(fit.predict_proba(X), q @ states, atol=1e-10)
    assert_allclose(fit.score_samples(X), logsumexp(log_joint, axis=1), rtol=1e-10)
    assert_allclose(fit.score(X), fit.free_energy_[-1], rtol=1e-12)
    assert_allclose(fit.inverse_transform(states), (states[:, :, None] * fit.components_).max(axis=1))
    assert_allclose(fit.reconstruct(X), q @ fit.inverse_transform(states), atol=1e-8)
    assert len(fit.free_energy_) == fit.n_iter_ + 1


def test_the_zero_state_explains_nothing_but_zeros():
    fit = MCA3.from_parameters(components=np.ones((2, 3)), activation=0.25)
    zeros, ones = np.zeros((1, 3)), np.ones((1, 3))
    assert_allclose(fit.score_samples(zeros), np.log(0.75**2 + (1 - 0.75**2) * np.exp(-3.0)))
    assert_allclose(fit.score_samples(ones), np.log((1 - 0.75**2) * np.exp(-3.0)))
    assert_allclose(fit.score_samples(2 * ones), fit.score_samples(ones) - 3 * gammaln(3.0))


def test_results_have_the_same_bits_for_any_thread_count_and_answers_for_any_chunk_size():
    X = bars(1500).X
    cooling = ConditionalCooling(initial=4.6, parameter_noise=0.1)
    settings = {"cooling": cooling, "max_iter": 20, "random_state": 0}
    message = "MCA3: the iterations ran out before the components converged: raise max_iter"
    with chunks_of(256), pytest.warns(match=message):
        fits = [MCA3(6, n_jobs=n, **settings).fit(X) for n in (1, 3)]
    assert fits[0].stop_ is Stop.NOT_AT_REST
    assert_array_equal(fits[0].components_, fits[1].components_)
    answers = []
    for chunk_size, n_jobs in ((256, 1), (700, 2)):
        fits[0].set_params(n_jobs=n_jobs)
        with chunks_of(chunk_size):
            answers.append((fits[0].transform(X), fits[0].score_samples(X), fits[0].reconstruct(X)))
    for before, after in zip(*answers, strict=True):
        assert_array_equal(before, after)


def test_integer_weights_are_repeated_rows():
    X = bars(60).X
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = MCA3(6, random_state=0).fit(X, sample_weight=weights)
    repeated = MCA3(6, random_state=0).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-6)


def well_explained(fit, X):
    """Mean free energy over the better-explained half of the data, which chooses among restarts."""
    free_energies = np.sort(fit.score_samples(X[X.any(axis=1)]))
    return free_energies[len(free_energies) // 2 :].mean()


def finds_all(fit, drawn):
    return found_causes(fit.components_, drawn.components, fit.log_joint(drawn.components, np.eye(10)), None).all_found


def test_restarts_find_bars_that_a_single_fit_misses():
    drawn = bars(500, 5, noise=0.0, seed=1005)
    calm = ConditionalCooling(initial=11.0)
    fits = [MCA3(10, cooling=calm, n_init=n, random_state=1005).fit(drawn.X) for n in (1, 4)]
    assert [finds_all(fit, drawn) for fit in fits] == [False, True]
    assert well_explained(fits[1], drawn.X) > well_explained(fits[0], drawn.X)


def test_shaken_fields_find_bars_that_calm_ones_miss():
    found = []
    for seed in range(1010, 1018):
        drawn = bars(500, 5, noise=0.0, seed=seed)
        fits = (MCA3(10, cooling=cooling, random_state=seed) for cooling in (ConditionalCooling(11.0), "auto"))
        found.append([finds_all(fit.fit(drawn.X), drawn) for fit in fits])
    calm, shaken = np.sum(found, axis=0)
    assert calm < shaken == len(found)


def test_an_annealing_lasts_as_long_as_iterations_are_given():
    fit = MCA3(6, cooling=Annealing(5.0, 1.5, parameter_noise=0.5), max_iter=37, random_state=0).fit(bars(100).X)
    assert fit.n_iter_ == 37
    assert MCA3(6, random_state=0).fit(bars(100).X).n_iter_ == 200


def test_a_warm_start_goes_on():
    X = bars(200).X
    many = MCA3(6, random_state=0).fit(X)
    learned = many.free_energy_[-1]
    again = many.set_params(warm_start=True, cooling=ConditionalCooling(initial=1.5)).fit(X)
    assert again.n_iter_ < 60
    assert again.free_energy_[-1] == pytest.approx(learned, rel=1e-4)
    with pytest.raises(ValueError, match=r"components_ of shape \(6, 9\), .* ask for \(7, 9\). Set warm_start=False"):
        again.set_params(n_components=7).fit(X)


def test_without_cooling_the_fit_ends_when_fields_rest():
    fit = MCA3(6, cooling=None, random_state=0).fit(bars().X)
    assert fit.stop_ is Stop.SCHEDULE_ENDED
    assert 20 <= fit.n_iter_ < 500


def test_single_precision_is_kept():
    X = bars().X.astype(np.float32)
    fit = MCA3(6, random_state=0).fit(X)
    assert fit.components_.dtype == fit.transform(X).dtype == fit.reconstruct(X).dtype == np.float32


FINITE = {
    "one sample": np.ones((1, 4)),
    "fewer samples than causes": np.arange(12.0).reshape(3, 4),
    "all zeros": np.zeros((20, 4)),
    "some zero rows": np.vstack([np.zeros((5, 4)), np.full((5, 4), 3.0), np.eye(4)]),
    "all equal": np.full((20, 4), 7.0),
    "a constant column": np.column_stack([np.full(30, 5.0), np.random.default_rng(0).random((30, 3))]),
    "a column of zeros": np.column_stack([np.zeros(30), np.random.default_rng(0).random((30, 3))]),
    "one feature": np.random.default_rng(0).random((30, 1)),
    "tiny values": 1e-90 * np.random.default_rng(0).random((30, 4)),
    "huge values": 1e90 * np.random.default_rng(0).random((30, 4)),
    "one huge outlier": np.vstack([np.random.default_rng(0).random((30, 4)), np.full((1, 4), 1e8)]),
    "a few 1e-150 among ones": np.where(np.random.default_rng(0).random((30, 4)) < 0.2, 1e-150, 1.0),
    "integers": np.random.default_rng(0).integers(0, 255, size=(30, 4)),
    "booleans": np.random.default_rng(0).random((30, 4)) < 0.5,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [{}, {"init": "online"}, {"cooling": None}], ids=str)
@pytest.mark.parametrize("n_components", [1, 5])
@pytest.mark.parametrize("name", FINITE)
def test_awkward_data_give_finite_results(name, n_components, settings):
    X = FINITE[name]
    fit = MCA3(n_components, max_iter=100, random_state=0, **settings).fit(X)
    for value in (fit.components_, fit.activation_, fit.alpha_, fit.free_energy_):
        assert np.isfinite(value).all()
    for answer in (fit.transform(X), fit.score_samples(X), fit.reconstruct(X)):
        assert np.isfinite(answer).all()
    assert ((fit.activation_ > 0.0) & (fit.activation_ < 1.0)).all()
    assert (fit.components_ >= 0.0).all()


BAD_DATA = {
    "nan": (np.array([[1.0, np.nan], [1.0, 2.0]]), "Input X contains NaN"),
    "negative": (np.array([[1.0, 2.0], [1.0, -2.0]]), "passed to MCA3: X holds -2 at row 1, column 1. Counts are not"),
    "1e150": (np.full((5, 2), 1e150), "largest magnitude in X is 1e.150, .* Rescale"),
}


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_get_a_clear_error(name):
    X, message = BAD_DATA[name]
    with pytest.raises(ValueError, match=message):
        MCA3(2).fit(X)


BAD_ARGUMENTS = [
    ({"n_components": 0}, r"'n_components' parameter of MCA3 must be .* Got 0 instead"),
    ({"n_components": 200}, r"n_components=200 of MCA3 means 1,333,501 states of at most 3 latents; .* use MCA"),
    ({"cooling": 13.0}, "'cooling' parameter"),
    ({"init": "net"}, "'init' parameter"),
    ({"max_iter": 0}, "'max_iter' parameter"),
    ({"init": {"activation": [0.5, 0.5]}}, r"one number or one per component \(9\). Got shape \(2,\)"),
    ({"init": {"components": np.ones((2, 2))}}, r"\(n_components, n_features\) = \(9, 9\). Got \(2, 2\)"),
    (
        {"init": {"components": -np.ones((9, 9))}},
        r"passed to MCA3: init\['components'\] holds -1 .* They are intensities",
    ),
    ({"init": {"noise_variance": 1.0}}, "'init' parameter of MCA3 must hold names among .* Got 'noise_variance'"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_absurd_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        MCA3(**arguments).fit(bars(30).X)


def test_given_parameters_are_kept():
    drawn = bars()
    fit = MCA3.from_parameters(components=drawn.components, activation=1 / 3)
    assert fit.stop_ is Stop.PARAMETERS_GIVEN
    assert fit.alpha_ == 1.0
    assert np.mean((fit.predict_proba(drawn.X) > 0.5) == drawn.states) > 0.9
    X, S = fit.sample(2000, random_state=1)
    assert_allclose(X[S.sum(axis=1) == 0], 0.0)
    assert_allclose(X.mean(), fit.inverse_transform(S).mean(), rtol=0.03)


def test_docstrings_name_the_real_arguments():
    section = inspect.getdoc(MCA3).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(MCA3).parameters)
