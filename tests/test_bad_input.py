"""What is said to bad input, one fault at a time; see test_odd_inputs for all that may be combined."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multicause import (
    ETNMF,
    GSC,
    MCA,
    MCA3,
    InvECA,
    LinCA,
    NonlinearGSC,
    RestrictedMCA,
    TruncatedEM,
    TruncatedGaussianMixture,
    UPoE,
)
from multicause.models.subsets import count_subsets, too_many_subsets
from odd_inputs import ESTIMATORS, is_clear, learned, plain

from cases import Bare

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X = plain()
MASK = np.random.default_rng(0).random(X.shape) < 0.2
HIDDEN = np.ma.masked_array(X, MASK)
TAKE_MISSING = [name for name in ESTIMATORS if ESTIMATORS[name]()._allows_missing]


@pytest.mark.parametrize("name", TAKE_MISSING)
def test_masked_entries_are_missing_where_the_model_takes_missing_values(name):
    missing = np.where(MASK, np.nan, X)
    masked, with_nan = ESTIMATORS[name]().fit(HIDDEN), ESTIMATORS[name]().fit(missing)
    assert_array_equal(masked.components_, with_nan.components_)
    assert_array_equal(masked.transform(HIDDEN), with_nan.transform(missing))


@pytest.mark.parametrize("name", sorted(ESTIMATORS.keys() - set(TAKE_MISSING)))
def test_masked_entries_are_refused_elsewhere_with_the_way_out(name):
    said = rf"X is a masked array of which {MASK.sum()} entries are masked.*fill them in first.*use LinCA or GSC"
    with pytest.raises(ValueError, match=said):
        ESTIMATORS[name]().fit(HIDDEN)
    fit = ESTIMATORS[name]().fit(np.ma.masked_array(X))
    with pytest.raises(ValueError, match=said):
        fit.transform(HIDDEN)


def test_whole_numbers_may_be_masked():
    counts = np.ma.masked_array(np.round(9 * X).astype(int), MASK)
    fit = LinCA(2, max_iter=2, tol=0.0, random_state=0).fit(counts)
    assert np.isfinite(fit.reconstruct(counts)).all()


MASKED_ELSEWHERE = {
    "weights": lambda: LinCA(2).fit(X, sample_weight=HIDDEN[:, 0]),
    "latents": lambda: LinCA(2, max_iter=2).fit(X).inverse_transform(HIDDEN[:, :2]),
    "init": lambda: LinCA(4, init={"components": HIDDEN[:4]}).fit(X),
    "means": lambda: TruncatedGaussianMixture(4, means_init=HIDDEN[:4]).fit(X),
    "corners": lambda: (
        InvECA(2, (1, 1), image_shape=(2, 2), max_iter=2).fit(X).inverse_transform(np.ma.masked_all((3, 2, 2), int))
    ),
}


@pytest.mark.parametrize("what", MASKED_ELSEWHERE)
def test_weights_latents_and_parameters_cannot_be_masked(what):
    with pytest.raises(ValueError, match=r"is a masked array of which .* entries are masked"):
        MASKED_ELSEWHERE[what]()


@pytest.mark.parametrize("estimator", [LinCA, GSC])
def test_columns_that_are_never_observed_are_named(estimator):
    unseen = np.where(np.arange(4) % 2, np.nan, X)
    estimator = partial(estimator, n_components=2, max_iter=2, tol=0.0)
    with pytest.warns(UserWarning, match=r"X has no observed value in column 1, 3: all entries there are NaN.*Leave"):
        estimator().fit(unseen)
    weights = np.ones(len(X))
    unseen[0], weights[0] = X[0], 0.0
    with pytest.warns(UserWarning, match=r"no observed value in column 1, 3.* NaN, or of weight 0"):
        estimator().fit(unseen, sample_weight=weights)
    fit = estimator().fit(unseen)
    assert np.isfinite(fit.transform(unseen[1:])).all()


def test_columns_that_are_never_observed_are_named_by_their_names():
    import pandas as pd

    with pytest.warns(UserWarning, match="no observed value in column 'b'"):
        LinCA(2, max_iter=2, tol=0.0).fit(pd.DataFrame({"a": [1.0, 2.0], "b": [np.nan, np.nan]}))


@pytest.mark.parametrize("weight", [1e300, 1e-300, 5e-324, 1e51])
@pytest.mark.parametrize("estimator", [LinCA, TruncatedGaussianMixture, UPoE])
def test_weights_whose_sums_overflow_or_vanish_are_refused(estimator, weight):
    with pytest.raises(ValueError, match=r"The largest of sample_weight is .*divide them by their mean"):
        estimator(2).fit(X, sample_weight=np.full(len(X), weight))


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_mixture_of_more_clusters_than_rows_of_any_weight_can_be_fitted(covariance_type, n_rows):
    weights = (np.arange(len(X)) < n_rows).astype(float)
    mixture = TruncatedGaussianMixture(3, covariance_type=covariance_type, max_iter=5, random_state=0)
    mixture.fit(X, sample_weight=weights)
    assert np.isfinite(mixture.free_energy_).all()
    assert_allclose(mixture.reconstruct(X[:n_rows]), X[:n_rows], atol=1e-6)


EXTREME_STARTS = [
    (LinCA(4, init={"components": np.full((4, 4), 1e200)}), "must hold numbers of at most 1e.100. Got 1e.200"),
    (LinCA(4, init={"noise_variance": 1e-300}), "must hold variances of at least 1e-200. Got 1e-300"),
    (TruncatedGaussianMixture(3, means_init=np.full((3, 4), 1e200)), "'means_init' must hold numbers of at most"),
    (TruncatedGaussianMixture(3, means_init=np.full((3, 4), 1e99)), "start far from all data.* nearer to the data"),
    (
        TruncatedGaussianMixture(3, covariance_type="diag", precisions_init=np.full((3, 4), 1e300)),
        "'precisions_init' must hold numbers of at most",
    ),
    (
        TruncatedGaussianMixture(3, covariance_type="spherical", precisions_init=np.full(3, 1e-300)),
        "'precisions_init' must hold variances of at least",
    ),
]


@pytest.mark.parametrize(("estimator", "said"), EXTREME_STARTS)
def test_an_extreme_start_is_named(estimator, said):
    with pytest.raises(ValueError, match=said):
        estimator.fit(X)


FAR_OFF = [
    (GSC(4, n_candidates=3, init={"noise_variance": 1e-199}), "The free energy became nan in iteration 0"),
    (GSC(4, init={"components": np.full((4, 4), 1e99)}), "The M-step of SpikeSlabLinear gave NaN"),
    (GSC(4, noise="full", init={"components": np.full((4, 4), 1e99)}), "The M-step of SpikeSlabLinear failed"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("estimator", "said"), FAR_OFF)
def test_a_start_is_blamed_where_the_data_are_fine(estimator, said):
    with pytest.raises(FloatingPointError, match=rf"{said}.* start that init gives is too extreme .* energy of -\d"):
        estimator.fit(X)


class Broken(Bare):
    """A model whose M-step fails after a while."""

    def m_step(self, params, statistics):
        return super().m_step(params, statistics)._replace(activation=np.full(self.n_components, np.nan))


def test_an_m_step_that_returns_nan_is_named():
    said = r"The M-step of Broken gave NaN or infinity for activation in iteration 0.*look at m_step of Broken"
    with pytest.raises(FloatingPointError, match=said):
        TruncatedEM(Broken(3)).fit(X)


@pytest.mark.parametrize("power", [12, 15, 30, 99])
def test_the_score_of_an_outlier_is_finite(power):
    fit = NonlinearGSC(3, max_iter=2, random_state=0).fit(X)
    outliers = np.array([[1.0, 2.0, 3.0, 10.0**power], [10.0**power] * 4, [-(10.0**power)] * 4])
    assert np.isfinite(fit.score_samples(outliers)).all()
    assert (fit.score_samples(outliers) < -1e20).all()


TOO_MANY_STATES = [
    LinCA(15000, n_candidates=None),
    ETNMF(100_000, n_candidates=None),
    MCA(15000, n_candidates=15000, max_active=7000),
    GSC(15000, posterior="exact"),
    MCA3(15000),
    RestrictedMCA(15000),
    TruncatedEM(Bare(15000), n_candidates=None),
    InvECA(15000, (1, 1), image_shape=(2, 2), n_candidates=None),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("estimator", TOO_MANY_STATES, ids=lambda estimator: type(estimator).__name__)
def test_absurdly_many_states_are_refused_at_once(estimator):
    with pytest.raises(ValueError, match=r"(more than 10\^\d+|\d,\d+) states .* at most .* Lower"):
        estimator.fit(X)


def test_the_number_of_states_is_right():
    for n_candidates, max_active in ((5, 2), (20, 7), (30, 30), (45, 45)):
        n_states = count_subsets(n_candidates, max_active)
        assert too_many_subsets(n_candidates, max_active, n_states) is None
        assert too_many_subsets(n_candidates, max_active, n_states - 1) == f"{n_states:,}"
    assert too_many_subsets(2, 2, 8, places=2) == "9"  # none, one of two at two places, both at two each
    assert too_many_subsets(1000, 1000, 10) == "more than 10^299"  # 2^1000 is 1.07e301, its largest term 2.7e299


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_refused_fit_leaves_the_earlier_one(name):
    fit = ESTIMATORS[name]().fit(X)
    before = learned(fit)
    weightless = (X[:, :3], np.full(len(X), np.nan)), (X[:, :2], np.zeros(len(X)))
    for bad, weights in (*weightless, (np.full((9, 4), np.inf), None)):
        with pytest.raises(ValueError, match=r"NaN|infinity|non-zero|n_features"):
            fit.fit(bad, sample_weight=weights)
    assert learned(fit).keys() == before.keys()
    assert all(learned(fit)[key] is value for key, value in before.items())


@pytest.mark.filterwarnings("ignore:UPoE. X varies in 1 of 4 directions only")
def test_a_batch_that_swallows_all_earlier_data_is_refused_and_forgotten():
    fit = UPoE(3, random_state=0).partial_fit(X)
    before = fit.transform(X)
    with pytest.raises(ValueError, match="Beside this batch the data seen before hardly vary"):
        fit.partial_fit(np.vstack([X, np.full((1, 4), 1e60)]))
    assert_array_equal(fit.transform(X), before)


def test_states_that_are_not_binary_are_refused():
    fit = LinCA(2, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="S must hold states of zeros and ones"):
        fit.log_joint(X, np.array([[0.5, 1.0]]))
    with pytest.raises(ValueError, match=r"largest magnitude in S is 1e\+150"):
        fit.inverse_transform(np.array([[1e150, 1.0]]))


def test_corners_that_are_no_whole_numbers_are_refused():
    fit = InvECA(2, (1, 1), image_shape=(2, 2), max_iter=2).fit(X)
    with pytest.raises(ValueError, match="S must hold corners, which are whole numbers"):
        fit.inverse_transform(np.full((1, 2, 2), 0.5))


def test_ragged_lists_of_images_are_refused_by_the_checks_of_scikit_learn():
    with pytest.raises(ValueError, match="inhomogeneous shape") as refused:
        InvECA(2, (1, 1), image_shape=(2, 2)).fit([[1.0, 2.0], [1.0]])
    assert is_clear(refused.value)


@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.parametrize("value", [0.0, 1e-50, 1e20, 1e69])
def test_images_of_one_value_give_finite_results(value):
    X = np.full((20, 4), value)
    fit = InvECA(2, (1, 1), image_shape=(2, 2), max_iter=2, random_state=0).fit(X)
    assert np.isfinite(fit.score(X))


@pytest.mark.parametrize("estimator", [MCA3, RestrictedMCA])
def test_counts_whose_squares_vanish_give_finite_results(estimator):
    rows = np.vstack([np.full((1, 4), 5e-324), X])
    fit = estimator(4, max_iter=3, random_state=0).fit(rows, sample_weight=np.eye(len(rows))[0])
    assert np.isfinite(fit.score(rows))


def test_samples_of_rates_beyond_whole_numbers_are_drawn():
    rates = np.array([[1e10, 1e30]])
    fit = MCA.from_parameters(components=rates, activation=0.999, noise="poisson")
    drawn = fit.sample(50, random_state=0)[0]
    assert_allclose(drawn[drawn.any(axis=1)].mean(axis=0), rates[0], rtol=1e-4)


def test_integers_beyond_all_floating_point_numbers_are_refused_by_name():
    fit = LinCA(2, max_iter=2, tol=0.0, random_state=0).fit(X)
    endless = [[10**400] * 4] * 3
    for call in (fit.fit, fit.partial_fit, fit.transform):
        with pytest.raises(ValueError, match=r"X holds an integer beyond the range.*Rescale"):
            call(endless)
    with pytest.raises(ValueError, match="S holds an integer beyond"):
        fit.inverse_transform([[10**400] * 2])


def test_data_that_are_said_to_be_white_must_not_be_huge():
    with pytest.raises(ValueError, match=r"UPoE\(whiten=False\) takes X to be white.*Set whiten=True"):
        UPoE(2, whiten=False).fit(1e30 * X)


def test_read_only_data_do_not_compile_kernels_anew():
    from multicause.backends import numba_cpu

    kernel = numba_cpu.load("binary_linear")
    data = X.copy()
    fit = LinCA(4, n_candidates=2, max_iter=2, random_state=0).fit(data)
    n_compiled = {name: len(f.signatures) for name, f in vars(kernel).items() if hasattr(f, "signatures")}
    data.flags.writeable = False
    fit.fit(data).transform(data)
    assert n_compiled == {name: len(f.signatures) for name, f in vars(kernel).items() if hasattr(f, "signatures")}


UNCOMPILED = """
import sys, warnings
import numpy as np
from odd_inputs import answers_of_all
warnings.simplefilter("error", RuntimeWarning)
np.savez(sys.argv[1], **answers_of_all())
"""


def test_all_estimators_work_without_the_compiler(tmp_path):
    from odd_inputs import answers_of_all

    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", UNCOMPILED, tmp_path / "answers.npz"]
    subprocess.run(command, env=environment, check=True, timeout=300)
    uncompiled = np.load(tmp_path / "answers.npz")
    for name, answer in answers_of_all().items():
        assert_allclose(uncompiled[name], answer, rtol=1e-6, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("estimator", [LinCA(10**12), GSC(10**12, n_candidates=3), MCA(10**12)])
def test_components_beyond_all_memory_are_refused_by_name(estimator):
    with pytest.raises(ValueError, match=r"'n_components' .*fit into memory.*1,000,000,000,000 of 4 features"):
        estimator.fit(np.ones((20, 4)) * np.arange(20)[:, None])


def test_memory_that_runs_out_is_blamed_on_the_components(monkeypatch):
    def full(*args):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr("multicause.models.BinaryLinear.init_params", full)
    with pytest.raises(MemoryError, match=r"n_components=5 and the 4 columns of X \(Unable to allocate\)"):
        LinCA(5).fit(np.ones((20, 4)) * np.arange(20)[:, None])
