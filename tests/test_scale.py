"""The unit of the data does not matter: X and 1000 X have the same causes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.preprocessing import RobustScaler

from multicause import (
    ETNMF,
    GSC,
    MCA,
    InvECA,
    LinCA,
    NonlinearGSC,
    TruncatedEM,
    TruncatedGaussianMixture,
    UPoE,
)
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.learning import Annealing, ConditionalCooling
from multicause.models import BinaryLinear

SIGNED = make_bars(300, 4, signed=True, random_state=1000).X
MAXIMA = make_bars(300, 4, superposition="max", noise=1.0, random_state=1000).X
BARS = make_bars(300, 4, random_state=1000).X.clip(0.0)
SOURCES = np.random.default_rng(0).laplace(size=(600, 5)) @ np.random.default_rng(1).normal(size=(5, 5))
SCENES = make_scenes(60, shape_objects(2, 4), image_shape=(8, 8), probability=0.5, random_state=0).X
NOISY = Annealing(5.0, parameter_noise=0.1)

FITS = {
    "LinCA": (LinCA(8, n_candidates=4, max_active=3), SIGNED),
    "LinCA, annealed": (LinCA(8, annealing=NOISY, max_iter=30), SIGNED),
    "ETNMF": (ETNMF(8, n_candidates=4), BARS),
    "MCA": (MCA(8), MAXIMA),
    "MCA, annealed": (MCA(8, annealing=NOISY, max_iter=30), MAXIMA),
    "MCA, exponential noise": (MCA(8, noise="exponential", max_iter=30, tol=0.0), BARS + 0.5),
    "GSC": (GSC(8, max_iter=30, tol=0.0), SIGNED),
    "GSC, full": (GSC(8, noise="full", slab="full", max_iter=20, tol=0.0), SIGNED),
    "NonlinearGSC": (NonlinearGSC(8, max_iter=10), BARS[:100]),
    "mixture": (TruncatedGaussianMixture(6), SIGNED),
    "TruncatedEM": (TruncatedEM(BinaryLinear(8, 16), n_candidates=4), SIGNED),
    "InvECA": (InvECA(2, (4, 4), max_iter=6, tol=0.0), SCENES),
    "UPoE": (UPoE(), SOURCES),
    "UPoE, pursuit": (UPoE(algorithm="pursuit"), SOURCES),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FITS)
def test_the_unit_of_the_data_does_not_matter(name):
    estimator, X = FITS[name]
    estimator.set_params(random_state=0, n_jobs=1)

    def latents(X):
        fit = clone(estimator).fit(X)
        return fit.predict_proba(X) if hasattr(fit, "predict_proba") else fit.transform(X)

    expected = latents(X)
    for power in (-6, -3, 1, 6):
        assert_allclose(latents(X * 10.0**power), expected, rtol=0.0, atol=1e-6)


def test_parameter_noise_can_be_given_in_the_datas_unit():
    relative = LinCA(8, annealing=NOISY, max_iter=10, random_state=0).fit(SIGNED)
    spread = float(np.sqrt(SIGNED.var(axis=0).mean()))
    own = Annealing(5.0, parameter_noise=0.1 * spread, noise_scale=1.0)
    assert_allclose(LinCA(8, annealing=own, max_iter=10, random_state=0).fit(SIGNED).components_, relative.components_)


@pytest.mark.parametrize("schedule", [Annealing, ConditionalCooling])
def test_a_noise_scale_is_positive(schedule):
    with pytest.raises(ValueError, match=f"'noise_scale' of {schedule.__name__} must be above 0, or None. Got 0"):
        schedule(5.0, noise_scale=0.0)


@pytest.mark.parametrize("estimator", [LinCA(8, max_iter=2, tol=0.0), GSC(8, max_iter=2, tol=0.0)])
def test_data_far_from_zero_are_warned_of(estimator, recwarn):
    estimator.fit(SIGNED)
    assert not [warning for warning in recwarn if "background" in str(warning.message)]
    with pytest.warns(UserWarning, match="subtract the background first, for instance with RobustScaler"):
        estimator.set_params(fit_intercept=False).fit(SIGNED + 40.0)


def test_the_median_takes_an_offset_away():
    """The likelihoods of raw data and of data without their background are of the same density."""
    shifted = SIGNED + 20.0
    centred = RobustScaler(with_scaling=False).fit_transform(shifted)
    with pytest.warns(UserWarning, match="background"):
        raw = LinCA(8, fit_intercept=False, n_init=3, random_state=0).fit(shifted).score(shifted)
    assert LinCA(8, n_init=3, random_state=0).fit(centred).score(centred) > raw + 1.0
