"""Maximal causes analysis while it is hot, what it is good for, and what it finds under noise of every kind."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment

from multicause import MCA
from multicause.backends.numba_cpu import load
from multicause.datasets import bar_components, make_bars
from multicause.execution import split
from multicause.learning import Annealing, DataClassification
from multicause.metrics import found_causes
from multicause.models import DictionaryParams, MaximalCauses, MeanParams
from multicause.models.noises import NOISES
from multicause.models.superpositions import Maximum, Smoothing
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.e_steps.definition import DefinitionEStep
from multicause.posteriors.e_steps.maximal_causes import MaximalCausesEStep

MOST_KEPT, MOST_RANKED = load("maximal_causes").MOST_KEPT, load("maxima").MOST_RANKED  # imported, they would go stale
FIELDS = np.array([[3.0, 0.0, 1.0], [4.0, 2.0, 1.0]])
PARAMS = DictionaryParams(FIELDS, np.full(2, 0.3), 1.0)
BOTH, FIRST = np.ones((1, 2)), np.array([[1.0, 0.0]])


@pytest.mark.parametrize(("temperature", "wanted"), [(1e9, [7.0, 2.0, 2.0]), (2.0, [5.0, 2.0, 2.0**0.5])])
def test_causes_add_up_while_hot(temperature, wanted):
    """T / (T - 1) is 1 at first, the sum, and 2 at T = 2, the length of a vector."""
    smooth = Maximum.at(1.0 / temperature)
    assert_allclose(smooth.mean(PARAMS, BOTH), [wanted], rtol=1e-6)
    assert_allclose(smooth.mean(PARAMS, FIRST), FIELDS[:1])
    assert_allclose(smooth.mean(PARAMS, np.zeros((1, 2))), 0.0)


def test_the_largest_wins_in_the_end():
    assert_allclose(Maximum.at(1.0).mean(PARAMS, BOTH), [[4.0, 2.0, 1.0]])
    model, Y = MaximalCauses(2, 3), np.ones((1, 3))
    assert model.heated(1.0).log_joint(PARAMS, Y, BOTH) == model.log_joint(PARAMS, Y, BOTH)
    assert model.heated(0.5).log_joint(PARAMS, Y, BOTH) < model.log_joint(PARAMS, Y, BOTH)  # 5 is farther off than 4


def test_fields_learn_from_single_causes_as_many_times_as_it_is_hot():
    model = MaximalCauses(2, 3)
    states, Y = np.vstack([FIRST, BOTH]), np.array([[2.0, 4.0, 6.0]])
    hot, cold = (model.heated(beta).accumulate(PARAMS, Y, states, np.array([[1.0, 0.0]])) for beta in (0.2, 1.0))
    assert_allclose(hot.a, 5.0 * cold.a)
    assert_allclose(hot.ay, 5.0 * cold.ay)
    assert_allclose(hot.s, cold.s)  # how often causes are active is counted as ever
    shared = model.heated(0.2).accumulate(PARAMS, Y, states, np.array([[0.0, 1.0]]))
    assert shared.a.max() <= 1.0 + 1e-12  # from two causes at once as ever


SMOOTHINGS = [
    Smoothing(),
    Smoothing(judging=False, emphasis=False),
    Smoothing(judging=False),
    Smoothing(emphasis=False),
    Smoothing(learning=False),
    Smoothing(learning=False, emphasis=False),
]


@pytest.mark.parametrize("noise", ["gaussian", "poisson"])
@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=str)
def test_the_kernel_equals_the_definition_whatever_is_smoothed(smoothing, noise):
    rng = np.random.default_rng(0)
    model = MaximalCauses(4, 3, noise=NOISES[noise], smoothing=smoothing).heated(0.4)
    of_noise = {"gaussian": 2.0, "poisson": 0.1}[noise]
    params = (DictionaryParams if noise == "gaussian" else MeanParams)(
        rng.uniform(0.5, 5.0, (4, 3)), rng.uniform(0.1, 0.5, 4), of_noise
    )
    Y, everything = model.sample(params, 6, rng)[0], np.tile(np.arange(4, dtype=np.int32), (6, 1))
    wanted, actual = (
        e_step.accumulate(e_step.terms(Y), everything, np.ones(6))
        for e_step in (kind(model, params, 3, False, 0.4) for kind in (DefinitionEStep, MaximalCausesEStep))
    )
    assert_allclose(actual.free_energies, wanted.free_energies, rtol=1e-10)
    for found, sums in zip(actual.statistics, wanted.statistics, strict=True):
        assert_allclose(found, sums, rtol=1e-9, atol=1e-10)


def test_smoothing_to_the_letter_of_the_papers():
    """ET: components learn by the smooth maximum alone; MCA08: by the maximum."""
    hot = MaximalCauses(2, 3, smoothing=Smoothing(judging=False, emphasis=False)).heated(0.5)
    assert (hot.sharing.rho, hot.superposition.is_hard, hot.weight_of_singles) == (2.0, True, 1.0)
    hard = MaximalCauses(2, 3, noise=NOISES["poisson"], smoothing=Smoothing(learning=False)).heated(0.5)
    assert hard.sharing.is_hard


def test_smoothing_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"judging=True.*needs learning=True"):
        Smoothing(learning=False, judging=True)
    with pytest.raises(TypeError, match="is for Gaussian noise"):
        MaximalCauses(2, 3, noise=NOISES["poisson"], smoothing=Smoothing(judging=True))


TIES = {
    "none": lambda rng, shape: rng.uniform(0.0, 3.0, shape),
    "zeros": lambda rng, shape: rng.uniform(0.0, 3.0, shape) * (rng.random(shape) < 0.5),
    "some": lambda rng, shape: rng.integers(0, 3, shape).astype(float),
    "all": lambda rng, shape: np.ones(shape),
}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(
    ("n_candidates", "max_active"), [(3, 1), (5, 3), (5, 5), (9, 4), (load("maxima").MOST_RANKED + 1, 2)]
)
def test_components_of_the_same_size_share_what_they_explain(ties, n_candidates, max_active):
    rng = np.random.default_rng(0)
    n_causes, n_features = 12, 21
    model = MaximalCauses(n_causes, n_features)
    params = DictionaryParams(TIES[ties](rng, (n_causes, n_features)), rng.uniform(0.1, 0.4, n_causes), 0.5)
    Y, weights = model.sample(params, 20, rng)[0], rng.uniform(0.0, 2.0, 20)
    candidates = np.sort(rng.permuted(np.tile(np.arange(n_causes, dtype=np.int32), (20, 1)), axis=1)[:, :n_candidates])
    wanted, actual = (
        e_step.accumulate(e_step.terms(Y), candidates, weights)
        for e_step in (kind(model, params, max_active, True, 1.0) for kind in (DefinitionEStep, MaximalCausesEStep))
    )
    assert_allclose(actual.free_energies, wanted.free_energies, rtol=1e-12)
    for a, b in zip(actual.statistics, wanted.statistics, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_many_states_of_many_dimensions_are_walked_alike():
    """Too many smooth maxima to be kept: they are computed a second time."""
    rng = np.random.default_rng(0)
    n_causes, n_features = 13, 70
    model = MaximalCauses(n_causes, n_features)
    params = DictionaryParams(rng.uniform(0.0, 3.0, (n_causes, n_features)), rng.uniform(0.1, 0.4, n_causes), 9.0)
    Y, everything = model.sample(params, 2, rng)[0], np.tile(np.arange(n_causes, dtype=np.int32), (2, 1))
    assert 2**n_causes * n_features > load("maximal_causes").MOST_KEPT
    wanted, actual = (
        e_step.accumulate(e_step.terms(Y), everything, np.ones(2))
        for e_step in (
            DefinitionEStep(model.heated(0.1), params, n_causes, False, 0.1),
            MaximalCausesEStep(model.heated(0.1), params, n_causes, False, 0.1),
        )
    )
    assert_allclose(actual.free_energies, wanted.free_energies, rtol=1e-10)
    for name in wanted.statistics._fields:
        found, sums = getattr(actual.statistics, name), getattr(wanted.statistics, name)
        assert_allclose(found, sums, rtol=0, atol=1e-10 * np.max(np.abs(sums)), err_msg=name)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_one_annealed_fit_finds_all_bars(noise):
    """The setting of ET §4.2.1, in which half to three quarters of the fits did without the two rules above."""
    found = []
    for seed in range(1000, 1006):
        bars = make_bars(500, superposition="max", noise=noise, random_state=seed)
        fit = MCA(
            10,
            n_candidates=5,
            max_active=3,
            init={"activation": 0.2, "noise_variance": 4.0},
            fixed=("activation", "noise_variance"),
            annealing=Annealing(13.0, 1.05, parameter_noise=0.05, classification=DataClassification()),
            max_iter=100,
            random_state=seed,
        ).fit(bars.X)
        singles = fit.log_joint(bars.components, np.eye(10))
        found.append(found_causes(fit.components_, bars.components, singles).all_found)
    assert sum(found) >= 5


def bars_with(noise, n_samples=500, seed=1000):
    """Bars on 3 x 3 pixels, two on average, drawn from the model with this noise; and the components."""
    on, off = {"bernoulli": (0.9, 0.05), "exponential": (10.0, 0.5), "poisson": (10.0, 0.5)}.get(noise, (10.0, 0.0))
    components, activation = np.where(bar_components(3) > 0.0, on, off), np.full(6, 1.0 / 3.0)
    variance = {"gaussian": 4.0, "gaussian-diagonal": np.linspace(0.5, 9.0, 9)}.get(noise)
    if variance is None:
        params = MeanParams(components, activation, off)
    else:
        params = DictionaryParams(components, activation, variance)
    model = MaximalCauses(6, 9, noise=NOISES[noise])
    return model.sample(params, n_samples, np.random.default_rng(seed))[0], params


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("noise", ["gaussian-diagonal", "bernoulli", "exponential"])
def test_bars_are_found_under_noise_of_every_kind(noise):
    """Under exponential noise plain fits miss one or two of six in most cases: the start is near the bars there."""
    X, truth = bars_with(noise)
    near = {"components": truth.components * np.random.default_rng(0).uniform(0.5, 2.0, truth.components.shape)}
    fit = MCA(6, noise=noise, random_state=0, init=near if noise == "exponential" else None).fit(X)
    likeness = np.corrcoef(fit.components_, truth.components)[:6, 6:]
    assert (likeness[linear_sum_assignment(-likeness)] > 0.9).all()
    assert_allclose(fit.activation_, 1.0 / 3.0, atol=0.15)
    if noise == "gaussian-diagonal":
        assert_allclose(fit.noise_variance_, truth.noise_variance, rtol=0.25)
    else:
        assert not hasattr(fit, "noise_variance_")
        assert fit.background_ > 0.0


@pytest.mark.parametrize("settings", [{}, {"n_candidates": 4, "max_active": 3}], ids=["all", "truncated"])
@pytest.mark.parametrize("noise", NOISES)
def test_the_free_energy_of_a_monotone_fit_never_falls(noise, settings):
    """To its last iteration: without halved M-steps it falls in each of these fits."""
    X, _ = bars_with(noise, 200)
    fit = MCA(6, noise=noise, monotone=True, max_iter=40, tol=0.0, random_state=0, **settings).fit(X)
    assert len(fit.free_energy_) == 41
    assert (np.diff(fit.free_energy_) >= -1e-9 * np.abs(fit.free_energy_[:-1])).all()


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("noise", ["gaussian", "gaussian-diagonal", "poisson", "exponential"])
def test_many_states_looked_up_in_sums_over_sets_equal_the_definition(noise, tied):
    """638 states of ten candidates: more than are grown one by one."""
    rng = np.random.default_rng(1000)
    components = rng.gamma(1.0, 2.0, size=(12, 9)) * (rng.random((12, 9)) < 0.6)
    if tied:
        components = np.round(components)  # zeros and equal values
    own = {"gaussian": {"noise_variance": 1.5}, "gaussian-diagonal": {"noise_variance": rng.uniform(0.5, 2.0, 9)}}
    given = own.get(noise, {"background": 0.1})
    components = np.maximum(components, given.get("background", 0.0))  # as the M-step has them
    settings = {"noise": noise, "n_candidates": 10, "max_active": 5}
    fit = MCA.from_parameters(components=components, activation=0.2, **given, **settings)
    model, params = fit.fitted_model()
    chunk = split(np.maximum(model.sample(params, 15, rng)[0], 0.0), 12)[0]
    found, wanted = (
        TruncatedPosterior(10, 5, use_kernel=kernel).prepare(model, params).statistics(chunk)
        for kernel in (True, False)
    )
    assert_allclose(found.free_energy, wanted.free_energy, rtol=1e-12)
    for name, a, b in zip(wanted.statistics._fields, found.statistics, wanted.statistics, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10, err_msg=name)
