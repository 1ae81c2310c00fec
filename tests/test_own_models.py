"""A model of one's own: what is enough for it, and what is said when it is wrong."""

import runpy
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from multicause import ETNMF, LinCA, TruncatedEM
from multicause.models import BinaryLinear
from multicause.posteriors.e_steps import DefinitionEStep, e_step_of
from multicause.posteriors.e_steps.binary_linear import BinaryLinearEStep
from multicause.testing import check_model

EXAMPLE = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "noisy_or.py"))
NoisyOr = EXAMPLE["NoisyOr"]
X = EXAMPLE["noisy_bars"](n_samples=30, size=3)[0]


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("estimator", [LinCA, ETNMF])
def test_the_models_pass_their_own_check(estimator):
    given = {"components": np.ones((3, 4)), "activation": 0.5, "noise_variance": 1.0}
    check_model(estimator.from_parameters(**given).fitted_model().model)


def test_the_example_of_the_guide_passes_with_data_and_without_sample():
    check_model(NoisyOr(4), X)


class Sparser(BinaryLinear):
    """An M-step of one's own over parts that are ours."""

    def m_step(self, params, statistics):
        return super().m_step(params, statistics)._replace(activation=np.full(self.n_components, 0.1))


class SlowlyTheSame(Sparser):
    """The same with a log joint in loops, as people write it."""

    def log_joint(self, params, Y, states):
        return np.array([super(Sparser, self).log_joint(params, y[None], states)[0] for y in Y])


def test_a_model_of_our_parts_keeps_the_compiled_e_step():
    assert issubclass(e_step_of(Sparser(3, 9)), BinaryLinearEStep)
    assert e_step_of(SlowlyTheSame(3, 9)) is DefinitionEStep
    fits = [
        TruncatedEM(model(3, X.shape[1]), n_candidates=None, max_iter=4, tol=0.0, random_state=0).fit(X)
        for model in (Sparser, SlowlyTheSame)
    ]
    np.testing.assert_allclose(fits[0].params_.components, fits[1].params_.components, rtol=1e-8, atol=1e-10)
    assert (fits[0].params_.activation == 0.1).all()


def test_sums_need_no_name_of_ours():
    class Renamed(NoisyOr):
        Sums = namedtuple("Sums", "total s more")

        def accumulate(self, params, Y, states, weights):
            return self.Sums(*super().accumulate(params, Y, states, weights))

        def m_step(self, params, sums):
            return super().m_step(params, EXAMPLE["Sums"](*sums))

    check_model(Renamed(4), X)
    assert np.isfinite(TruncatedEM(Renamed(4), n_candidates=None, max_iter=2, random_state=0).fit(X).score(X))


class TransposedLogJoint(NoisyOr):
    def log_joint(self, params, Y, states):
        return super().log_joint(params, Y, states).T


class NaNFromMStep(NoisyOr):
    def m_step(self, params, sums):
        return super().m_step(params, sums)._replace(activation=np.full(self.n_components, np.nan))


class OtherShapes(NoisyOr):
    def m_step(self, params, sums):
        return super().m_step(params, sums)._replace(activation=0.2)


class TakesTooMuch(NoisyOr):
    def accumulate(self, params, Y, states, weights, beta):
        return super().accumulate(params, Y, states, weights)


class NotAdditive(NoisyOr):
    def accumulate(self, params, Y, states, weights):
        return super().accumulate(params, Y, states, weights)._replace(s=np.ones(self.n_components))


class Worsens(NoisyOr):
    def m_step(self, params, sums):
        return params._replace(components=1.0 - params.components)


class NoMStep(NoisyOr):
    m_step = None


class ManyFeatures(NoisyOr):
    n_features = None

    def sample(self, params, n_samples, rng):
        return X[:n_samples], np.zeros((n_samples, self.n_components))


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (NoMStep, TypeError, "NoMStep is not a GenerativeModel: it lacks m_step"),
        (
            TakesTooMuch,
            TypeError,
            r"TakesTooMuch.accumulate is called as accumulate\(params, Y, states, weights\), but",
        ),
        (TransposedLogJoint, AssertionError, r"log_joint must be \(N, K\) = \(30, 16\).*not \(16, 30\) \(transposed\)"),
        (NaNFromMStep, AssertionError, "m_step must give finite parameters: 'activation' is NaN"),
        (OtherShapes, AssertionError, r"m_step must keep the shape of 'activation', \(4,\); it gave \(\)"),
        (NotAdditive, AssertionError, "'s' of all data must be the sum over its parts"),
        (Worsens, AssertionError, "must not lower the likelihood"),
    ],
)
def test_check_model_says_what_is_wrong(model, error, message):
    with pytest.raises(error, match=message):
        check_model(model(4), X)


def test_check_model_asks_for_data_where_it_cannot_draw_them():
    with pytest.raises(TypeError, match=r"NoisyOr lacks sample, so that .* give some, check_model\(m, X\)"):
        check_model(NoisyOr(4))
    with pytest.raises(TypeError, match="ManyFeatures lacks n_features"):
        check_model(ManyFeatures(4))
    check_model(ManyFeatures(4), X)
    with pytest.raises(ValueError, match="X must be finite, with two rows or more"):
        check_model(NoisyOr(4), X[0])


def test_a_table_of_as_many_rows_as_states_does_not_hide_a_transposed_log_joint():
    with pytest.raises(AssertionError, match="transposed"):
        check_model(TransposedLogJoint(4), X[:16])


class Fails(NoisyOr):
    selection_scores = None

    def __init__(self, method):
        super().__init__(4)
        setattr(self, method, self.fail)

    def fail(self, *arguments):
        raise IndexError("of my own making")


@pytest.mark.parametrize("method", ["init_params", "log_joint", "accumulate", "m_step"])
def test_an_error_in_a_fit_names_the_method_that_failed(method):
    with pytest.raises(IndexError, match="of my own making") as raised:
        TruncatedEM(Fails(method), n_candidates=None, max_iter=2, random_state=0).fit(X)
    assert f"Fails.{method}" in raised.value.__notes__[0]


def test_a_log_joint_of_another_shape_is_named_in_a_fit():
    with pytest.raises(ValueError, match=r"log_joint must be \(N, K\)") as raised:
        TruncatedEM(TransposedLogJoint(4), n_candidates=None, max_iter=2, random_state=0).fit(X)
    assert "TransposedLogJoint.log_joint" in raised.value.__notes__[0]


def test_a_model_that_leaves_its_number_of_features_open_is_trained():
    fitted = TruncatedEM(ManyFeatures(4), n_candidates=None, max_iter=3, tol=0.0, random_state=0).fit(X)
    assert np.isfinite(fitted.score(X))


def test_models_of_ours_get_no_note():
    model = BinaryLinear(3, X.shape[1])
    model.__dict__["m_step"] = Fails("m_step").fail
    with pytest.raises(IndexError) as raised:
        TruncatedEM(model, n_candidates=None, max_iter=2, random_state=0).fit(X)
    assert not hasattr(raised.value, "__notes__")
