"""Everything that scikit-learn asks of an estimator, and the checks that `check_estimator` leaves out."""

import os

import numpy as np
import pytest
import sklearn.utils.estimator_checks as checks
from scipy.special import expit
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

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
from multicause.datasets import make_bars
from multicause.estimators.dictionary_estimator import TruncatedDictionaryEstimator

from cases import Bare


class MCAOfShares(MCA):
    """MCA with Bernoulli noise, for checks whose data are not between 0 and 1: they are squashed."""

    def _validate(self, X, reset):
        return expit(TruncatedDictionaryEstimator._validate(self, X, reset))

    def _check_range(self, X, reset, start=0):
        """What is squashed afterwards may lie anywhere."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = False
        return tags


ESTIMATORS = [
    LinCA(),
    ETNMF(),
    MCA(),
    MCA(noise="gaussian-diagonal", start="random"),  # a search is long, and MCA()'s is the same
    MCA(noise="poisson"),
    MCA(noise="exponential"),
    MCAOfShares(noise="bernoulli"),
    ETNMF(noise="poisson", start="random"),
    MCA3(),
    RestrictedMCA(),
    RestrictedMCA(solver="online"),
    GSC(),
    GSC(noise="full", slab="full", start="random"),
    GSC(posterior="factored", noise="diagonal"),
    GSC(selection="model-based", start="random"),
    TruncatedEM(Bare(3), max_iter=20),
    TruncatedGaussianMixture(),
    TruncatedGaussianMixture(3, covariance_type="diag", n_candidates=1),
    TruncatedGaussianMixture(2, covariance_type="factor", n_factors=1),
    NonlinearGSC(),
    UPoE(),
    UPoE(algorithm="parallel"),
    UPoE(algorithm="sequential"),
    UPoE(2, expert="student-t-mixture"),  # of more, in a check's 15 rows, the last digits are those of rounding errors
]
LEFT_OUT = [
    "check_dataframe_column_names_consistency",
    "check_get_feature_names_out_error",
    "check_global_output_transform_pandas",
    "check_global_set_output_transform_polars",
    "check_inplace_ensure_writeable",
    "check_param_validation",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


COLUMNS = {  # of the data that a check draws, where there are not three
    "check_all_zero_sample_weights_error": 20,
    "check_array_api_input": 10,
    "check_dataframe_column_names_consistency": 8,
    "check_dtype_object": 10,
    "check_estimators_dtypes": 5,
    "check_estimators_fit_returns_self": 2,
    "check_estimators_overwrite_params": 2,
    "check_fit2d_1feature": 1,
    "check_fit2d_1sample": 10,
    "check_fit_check_is_fitted": 2,
    "check_fit_idempotent": 2,
    "check_global_output_transform_pandas": 5,
    "check_global_set_output_transform_polars": 5,
    "check_n_features_in": 2,
    "check_n_features_in_after_fitting": 4,
    "check_positive_only_tag_during_fit": 4,
    "check_readonly_memmap_input": 2,
    "check_sample_weight_equivalence_on_dense_data": 30,
    "check_sample_weights_not_an_array": 2,
    "check_sample_weights_not_overwritten": 2,
    "check_sample_weights_pandas_series": 2,
    "check_sample_weights_shape": 2,
    "check_set_output_transform": 5,
    "check_set_output_transform_pandas": 5,
    "check_set_output_transform_polars": 5,
}
FAILS = {
    "check_array_api_input": "inverse_transform takes places, which transform does not give",
    "check_sample_weight_equivalence_on_dense_data": "components start from rows of the data, whatever their weights",
}

TAKEN_FOR_CLASSIFIERS = "scikit-learn's check takes what has predict_proba and learns from sparse data for a classifier"


def known_to_fail(estimator):
    """Checks that fail through no fault of the estimator; tests of our own cover what they are about."""
    if not estimator.__sklearn_tags__().input_tags.sparse:
        return {}
    return {f"check_estimator_sparse_{kind}": TAKEN_FOR_CLASSIFIERS for kind in ("array", "matrix")}


def objects_in_strips(check_name):
    """InvECA for images of a single row, as wide as the data of the check."""
    n_columns = COLUMNS.get(check_name, 3)
    return InvECA(2, (1, min(n_columns, 2)), image_shape=(1, n_columns), max_iter=10)


def checks_of_images():
    for _, check in estimator_checks_generator(objects_in_strips("any")):
        name = check.func.__name__
        settings = ", ".join(f"{key}={value}" for key, value in check.keywords.items())
        marks = [pytest.mark.xfail(strict=True, reason=FAILS[name])] if name in FAILS else []
        yield pytest.param(name, check, id=f"{name}({settings})", marks=marks)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "check"), list(checks_of_images()))
def test_scikit_learn_check_of_images(name, check):
    check(objects_in_strips(name))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LEFT_OUT)
def test_check_of_images_that_check_estimator_leaves_out(name):
    getattr(checks, name)("InvECA", objects_in_strips(name))


def test_flat_images_of_another_size_than_image_shape_are_refused():
    with pytest.raises(ValueError, match=r"X has n_features=3, but images of the 'image_shape' \(2, 2\) have 4"):
        InvECA(2, (1, 1), image_shape=(2, 2)).fit(np.ones((5, 3)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known_to_fail)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", LEFT_OUT)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_check_that_check_estimator_leaves_out(estimator, name):
    getattr(checks, name)(type(estimator).__name__, clone(estimator))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(os.environ.get("SCIPY_ARRAY_API") != "1", reason="one check needs SCIPY_ARRAY_API=1")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_no_check_is_skipped(estimator):
    failing = known_to_fail(estimator)
    results = checks.check_estimator(clone(estimator), on_fail=None, on_skip=None, expected_failed_checks=failing)
    passed = [result for result in results if result["check_name"] not in failing]
    assert {result["status"] for result in passed} == {"passed"}
    assert len(results) >= (53 if estimator.__sklearn_tags__().input_tags.allow_nan else 54)


def test_an_estimator_works_in_a_pipeline_and_a_grid_search():
    X = make_bars(120, 3, random_state=0).X
    pipeline = make_pipeline(PCA(whiten=True), LinCA(random_state=0))
    assert pipeline.fit_transform(X).shape == (120, 9)
    search = GridSearchCV(LinCA(random_state=0), {"n_components": [1, 6]}, cv=2).fit(X)
    assert search.best_params_ == {"n_components": 6}


def test_a_pickled_estimator_answers_alike():
    import pickle

    X = make_bars(120, 3, random_state=0).X
    fit = LinCA(6, random_state=0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit)).transform(X), fit.transform(X))
