"""Counts that add up: ETNMF with Poisson noise, on data of its own model."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from multicause import ETNMF, MCA
from multicause.execution import chunks_of
from multicause.models import MeanParams, PoissonLinear


def sparse_parts(n_parts=6, n_features=30, n_samples=400, background=0.2, seed=1000):
    """Counts caused by parts of a few features each, two at a time on average."""
    rng = np.random.default_rng(seed)
    parts = np.zeros((n_parts, n_features))
    for part in parts:
        part[rng.choice(n_features, 6, replace=False)] = rng.uniform(5.0, 15.0, size=6)
    truth = MeanParams(parts, np.full(n_parts, 2.0 / n_parts), background)
    return PoissonLinear(n_parts, n_features).sample(truth, n_samples, rng)[0], truth


def likeness(found, wanted):
    """Correlations of components with parts, matched one to one."""
    table = np.corrcoef(found, wanted)[: len(found), len(found) :]
    return table[linear_sum_assignment(-table)]


def test_parts_rates_and_background_of_counts_are_found():
    X, truth = sparse_parts()
    fit = ETNMF(6, noise="poisson", n_init=3, random_state=0).fit(X)
    assert (likeness(fit.components_, truth.components) > 0.98).all()
    assert fit.background_ == pytest.approx(0.2, abs=0.05)
    assert fit.activation_.sum() == pytest.approx(2.0, abs=0.3)
    known = {"components": truth.components, "activation": truth.activation, "background": truth.background}
    assert fit.score(X) > ETNMF.from_parameters(noise="poisson", **known).score(X) - 0.05
    assert not hasattr(fit, "noise_variance_")


def test_the_mean_of_reconstructed_counts_is_that_of_the_data():
    """The M-step shares out all counts, so that none gets lost."""
    X, _ = sparse_parts()
    fit = ETNMF(6, noise="poisson", n_candidates=None, tol=1e-7, max_iter=500, random_state=0).fit(X)
    np.testing.assert_allclose(fit.reconstruct(X).mean(axis=0).sum(), X.mean(axis=0).sum(), rtol=1e-3)


def test_samples_are_counts_about_the_superposition():
    _, truth = sparse_parts(n_parts=3)
    known = {"components": truth.components, "activation": truth.activation, "background": truth.background}
    fit = ETNMF.from_parameters(noise="poisson", **known)
    X, S = fit.sample(20_000, random_state=0)
    assert (np.rint(X) == X).all()
    np.testing.assert_allclose(X.mean(axis=0), fit.inverse_transform(S).mean(axis=0), atol=0.1)


def test_held_parts_and_background_stay():
    X, truth = sparse_parts()
    init = {"components": truth.components, "background": 0.2}
    fit = ETNMF(6, noise="poisson", fixed=("components", "background"), init=init, random_state=0).fit(X)
    np.testing.assert_array_equal(fit.components_, truth.components)
    assert fit.background_ == 0.2


def test_a_weight_of_two_is_a_count_given_twice():
    X, _ = sparse_parts(n_samples=60)
    weights = np.random.default_rng(0).integers(0, 3, size=len(X))
    weighted = ETNMF(6, noise="poisson", max_iter=20, tol=0, random_state=0).fit(X, sample_weight=weights)
    repeated = ETNMF(6, noise="poisson", max_iter=20, tol=0, random_state=0).fit(np.repeat(X, weights, axis=0))
    np.testing.assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-8)


def test_negative_counts_are_refused_also_by_a_fitted_model():
    X, _ = sparse_parts(n_samples=50)
    fit = ETNMF(3, noise="poisson", max_iter=5, tol=0, random_state=0).fit(X)
    for ask in (fit.fit, fit.transform):
        with pytest.raises(ValueError, match=r"Negative values in data passed to ETNMF\(noise='poisson'\)"):
            ask(-X)


@pytest.mark.parametrize(
    "estimator",
    [ETNMF(6, noise="poisson"), *(MCA(6, noise=noise) for noise in ("gaussian-diagonal", "exponential"))],
    ids=["etnmf-poisson", "mca-diagonal", "mca-exponential"],
)
def test_results_have_the_same_bits_for_any_number_of_threads(estimator):
    X, _ = sparse_parts(n_samples=1500)
    fits = []
    with chunks_of(256):
        for n_jobs in (1, 2, 16):
            fits.append(clone(estimator).set_params(n_jobs=n_jobs, max_iter=5, tol=0, random_state=0).fit(X + 0.1))
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.components_, fits[0].components_)
        np.testing.assert_array_equal(fit.free_energy_, fits[0].free_energy_)
