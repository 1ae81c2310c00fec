"""Everything that scikit-learn asks of an estimator, and the checks that `check_estimator` leaves out."""

import os

import numpy as np
import pytest
import sklearn.utils.estimator_checks as checks
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from multicause import (
    ETNMF,
    GSC,
    MCA,
    MCA3,
    LinCA,
    NonlinearGSC,
    RestrictedMCA,
    TruncatedEM,
    TruncatedGaussianMixture,
    UPoE,
)
from multicause.datasets import make_bars

from cases import Bare

ESTIMATORS = [
    LinCA(),
    ETNMF(),
    MCA(),
    MCA(noise="poisson"),
    MCA3(),
    RestrictedMCA(),
    RestrictedMCA(solver="online"),
    GSC(),
    GSC(noise="full", slab="full"),
    GSC(posterior="factored", noise="diagonal"),
    GSC(selection="pursuit"),
    TruncatedEM(Bare(3), max_iter=20),
    TruncatedGaussianMixture(),
    TruncatedGaussianMixture(3, covariance_type="diag", n_candidates=1),
    NonlinearGSC(),
    UPoE(),
    UPoE(algorithm="parallel"),
    UPoE(algorithm="sequential"),
    UPoE(expert="student-t-mixture"),
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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS)
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
    results = checks.check_estimator(clone(estimator), on_fail=None, on_skip=None)
    assert {result["status"] for result in results} == {"passed"}
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
