"""Maximal causes analysis while it is hot: what the definition says, and what it is good for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multicause import MCA
from multicause.backends.numba_cpu.maximal_causes import MOST_KEPT, Walk
from multicause.datasets import make_bars
from multicause.learning import Annealing
from multicause.metrics import found_causes
from multicause.models import MaximalCauses
from multicause.models.base import FieldParams
from multicause.models.maximal_causes import sharpness, superpose
from multicause.posteriors.definition import DefinitionWalk

FIELDS = np.array([[3.0, 0.0, 1.0], [4.0, 2.0, 1.0]])
BOTH, FIRST = np.ones((1, 2)), np.array([[1.0, 0.0]])


@pytest.mark.parametrize(("temperature", "wanted"), [(1e9, [7.0, 2.0, 2.0]), (2.0, [5.0, 2.0, 2.0**0.5])])
def test_causes_add_up_while_hot(temperature, wanted):
    """T / (T - 1) is 1 at first, the sum, and 2 at T = 2, the length of a vector."""
    rho = sharpness(1.0 / temperature)
    assert_allclose(superpose(FIELDS, BOTH, rho), [wanted], rtol=1e-6)
    assert_allclose(superpose(FIELDS, FIRST, rho), FIELDS[:1])
    assert_allclose(superpose(FIELDS, np.zeros((1, 2)), rho), 0.0)


def test_the_largest_wins_in_the_end():
    assert_allclose(superpose(FIELDS, BOTH, sharpness(1.0)), [[4.0, 2.0, 1.0]])
    model = MaximalCauses(2, 3)
    params = FieldParams(FIELDS, np.full(2, 0.3), 1.0)
    Y = np.ones((1, 3))
    assert model.heated_log_joint(params, Y, BOTH, 1.0) == model.log_joint(params, Y, BOTH)
    assert model.heated_log_joint(params, Y, BOTH, 0.5) < model.log_joint(params, Y, BOTH)  # 5 is farther off than 4


def test_fields_learn_from_single_causes_as_many_times_as_it_is_hot():
    model, params = MaximalCauses(2, 3), FieldParams(FIELDS, np.full(2, 0.3), 1.0)
    states, Y = np.vstack([FIRST, BOTH]), np.array([[2.0, 4.0, 6.0]])
    hot, cold = (model.accumulate(params, Y, states, np.array([[1.0, 0.0]]), beta) for beta in (0.2, 1.0))
    assert_allclose(hot.a, 5.0 * cold.a)
    assert_allclose(hot.ay, 5.0 * cold.ay)
    assert_allclose(hot.s, cold.s)  # how often causes are active is counted as ever
    shared = model.accumulate(params, Y, states, np.array([[0.0, 1.0]]), 0.2)
    assert shared.a.max() <= 1.0 + 1e-12  # from two causes at once as ever


def test_many_states_of_many_dimensions_are_walked_alike():
    """Too many smooth maxima to be kept: they are computed a second time."""
    rng = np.random.default_rng(0)
    n_causes, n_features = 13, 70
    model = MaximalCauses(n_causes, n_features)
    params = FieldParams(rng.uniform(0.0, 3.0, (n_causes, n_features)), rng.uniform(0.1, 0.4, n_causes), 9.0)
    Y, everything = model.sample(params, 2, rng)[0], np.tile(np.arange(n_causes, dtype=np.int32), (2, 1))
    assert 2**n_causes * n_features > MOST_KEPT
    wanted, actual = (
        walk.accumulate(walk.evidence(Y), everything, np.ones(2))
        for walk in (
            DefinitionWalk(model, params, n_causes, False, 0.1),
            Walk(model, params, n_causes, False, 0.1),
        )
    )
    assert_allclose(actual[0], wanted[0], rtol=1e-10)
    for name in wanted[1]._fields:
        sums = getattr(wanted[1], name)
        assert_allclose(getattr(actual[1], name), sums, rtol=0, atol=1e-10 * np.max(np.abs(sums)), err_msg=name)


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
            activation_init=0.2,
            noise_variance_init=4.0,
            fixed=("activation", "noise_variance"),
            annealing=Annealing(13.0, 1.05, parameter_noise=0.05),
            data_classification=True,
            max_iter=100,
            random_state=seed,
        ).fit(bars.X)
        singles = fit.log_joint(bars.components, np.eye(10))
        found.append(found_causes(fit.components_, bars.components, singles).all_found)
    assert sum(found) >= 5
