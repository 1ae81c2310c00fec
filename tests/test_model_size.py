"""How many components: held-out likelihood, and information criteria."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedGaussianMixture
from multicause.datasets import make_bars
from multicause.tasks import choose_n_components
from multicause.tasks.model_size import smallest_within_one_error


def test_the_smallest_size_within_one_standard_error_is_chosen():
    sizes = np.array([1, 2, 4, 8])
    scores = np.array([[-9.0, -9.0, -9.0], [-5.2, -5.1, -5.0], [-5.0, -5.2, -4.8], [-6.0, -6.0, -6.0]])
    assert smallest_within_one_error(sizes, scores) == 2  # 0.1 below the best, whose standard error is 0.115
    assert smallest_within_one_error(sizes, scores - [[0.0], [0.02], [0.0], [0.0]]) == 4


def test_the_number_of_bars_is_found():
    X = make_bars(300, 2, signed=True, random_state=1000).X
    choice = choose_n_components(LinCA(random_state=0), X, cv=3)
    assert choice.n_components == choice.estimator.n_components == 4
    assert_array_equal(choice.sizes, [1, 2, 3, 4, 8])
    assert choice.scores.shape == (len(choice.sizes), 3)
    assert choice.estimator.n_init == 10
    assert str(choice).splitlines()[list(choice.sizes).index(4) + 1].endswith("<")


def test_given_sizes_are_tried_in_any_order():
    X = make_bars(200, 3, signed=True, random_state=1000).X
    choice = choose_n_components(LinCA(random_state=0), X, [6, 3], cv=3, n_init=1)
    assert_array_equal(choice.sizes, [3, 6])
    assert choice.n_components == 6
    assert choice.mean_scores[1] > choice.mean_scores[0] + choice.standard_errors[1]


@pytest.mark.parametrize("candidates", [[], [0, 2], [2.5], [True]])
def test_sizes_are_whole_numbers(candidates):
    with pytest.raises(ValueError, match="'candidates' must be numbers of components, at least 1"):
        choose_n_components(LinCA(), np.zeros((9, 2)), candidates)


BARS = make_bars(100, 3, noise=0.5, random_state=0).X.clip(0.0)  # D = 9
COUNTS = {
    LinCA(4): 4 * 9 + 4 + 1 + 9,
    LinCA(4, fit_intercept=False): 4 * 9 + 4 + 1,
    LinCA(4, activation_type="shared"): 4 * 9 + 1 + 1 + 9,
    LinCA(4, fixed=("noise_variance",), init={"noise_variance": 1.0}): 4 * 9 + 4,
    ETNMF(4, noise="poisson"): 4 * 9 + 4 + 1,
    MCA(4, noise="gaussian-diagonal"): 4 * 9 + 4 + 9,
    GSC(4): 4 * 9 + 4 + (4 + 4) - 4 + 1 + 9,
    GSC(4, noise="full", slab="full"): 4 * 9 + 4 + (4 + 10) - 4 + 45 + 9,
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", COUNTS, ids=str)
def test_information_criteria_count_what_is_learned(estimator):
    fit = estimator.set_params(max_iter=2, random_state=0).fit(BARS)
    likelihood = -2.0 * 100 * fit.score(BARS)
    assert_allclose(fit.aic(BARS) - likelihood, 2 * COUNTS[estimator])
    assert_allclose(fit.bic(BARS) - likelihood, COUNTS[estimator] * np.log(100))


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_information_criteria_of_a_mixture_are_those_of_scikit_learn(covariance_type):
    wanted = GaussianMixture(3, covariance_type=covariance_type, random_state=0).fit(BARS)
    start = {"weights_init": wanted.weights_, "means_init": wanted.means_, "precisions_init": wanted.precisions_}
    found = TruncatedGaussianMixture(
        3, covariance_type=covariance_type, n_candidates=None, max_iter=300, reg_covar=1e-6, **start
    ).fit(BARS)
    k = (wanted.bic(BARS) + 200 * wanted.score(BARS)) / np.log(100)
    assert_allclose(found.bic(BARS) + 200 * found.score(BARS), k * np.log(100), rtol=1e-9)
    assert_allclose(found.aic(BARS) + 200 * found.score(BARS), 2 * k, rtol=1e-9)
