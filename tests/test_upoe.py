"""Products of experts: the definition against quadrature and finite differences, the optimisers, the estimator."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from multicause.models.experts import Expert, HyperbolicSecant, StudentT, StudentTMixture
from multicause.models.product_of_experts import (
    ProductParams,
    Whitening,
    expected_data,
    likelihood,
    log_density,
    projection_indices,
    sample,
    white_log_density,
)
from multicause.testing import check_expert

EXPERTS = {
    "heavy": StudentT(0.3, 2.0, 1.2),
    "light": StudentT(-0.5, 0.4, 12.0),
    "nearly Gaussian": StudentT(0.0, 0.01, 9_000.0),
    "bimodal": StudentTMixture(),
    "lopsided": StudentTMixture((0.2, 0.5, 0.3), (-2.0, 0.1, 1.0), (1.0, 3.0, 0.7), (1.4, 3.0, 30.0)),
    "secant": HyperbolicSecant(),
    "wide secant": HyperbolicSecant(0.3),
}
ALL_EXPERTS = pytest.mark.parametrize("expert", EXPERTS.values(), ids=EXPERTS)
SOME = (StudentT(0.2, 1.5, 1.8), StudentTMixture((0.4, 0.6)), HyperbolicSecant(1.2))


def uniform(n):
    return np.full(n, 1.0 / n)


def a_whitening(n_features, n_kept, rng):
    forward = rng.normal(size=(n_kept, n_features))
    return Whitening(rng.normal(size=n_features), forward, np.linalg.pinv(forward))


@ALL_EXPERTS
def test_an_expert_passes_its_check(expert):
    check_expert(expert)


def test_a_student_t_is_scipys():
    expert, z = StudentT(0.7, 1.6, 2.3), np.linspace(-4.0, 4.0, 41)
    freedom = 2.0 * 2.3 - 1.0
    scale = np.sqrt(2.0 / freedom) / 1.6
    assert_allclose(expert.log_density(z), stats.t.logpdf(z, freedom, 0.7, scale), rtol=1e-12)


class Laplace(Expert):
    """A user's expert, with faults on request."""

    def __init__(self, fault=""):
        self.fault = fault

    def energy(self, z):
        return np.sqrt(1.0 + z**2)

    def derivative(self, z):
        return z / np.sqrt(1.0 + z**2) * (1.01 if self.fault == "derivative" else 1.0)

    def second_derivative(self, z):
        return (1.0 + z**2) ** (-1.0 if self.fault == "second" else -1.5)

    def log_normaliser(self):
        return float(np.log(2.0 * 0.6019072301972346)) + (0.01 if self.fault == "normaliser" else 0.0)  # 2 K_1(1)

    def sample(self, n_samples, rng):
        grid = np.linspace(-40.0, 40.0, 200_001)
        mass = np.cumsum(np.exp(-self.energy(grid)))
        return np.interp(rng.random(n_samples), mass / mass[-1], grid) * (1.1 if self.fault == "sample" else 1.0)

    def fit(self, z, weights, n_steps=50):
        return StudentT(3.0) if self.fault == "fit" else self

    def rescaled(self, factor):
        return self if self.fault == "rescaled" else None


def test_a_user_may_bring_an_expert():
    check_expert(Laplace())


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("derivative", "^derivative must be the derivative of energy"),
        ("second", "^second_derivative must be the derivative of derivative"),
        ("normaliser", "must integrate to one: it does to 0.99"),
        ("sample", "sample must draw from the density"),
        ("fit", "fit must not make data less likely"),
        ("rescaled", r"rescaled\(2.5\) must be the density of 2.5 z"),
    ],
)
def test_check_expert_says_what_is_wrong(fault, message):
    with pytest.raises(AssertionError, match=message):
        check_expert(Laplace(fault))


def test_check_expert_wants_an_expert():
    with pytest.raises(TypeError, match="Got the class StudentT: call it first"):
        check_expert(StudentT)
    with pytest.raises(TypeError, match="float is not an Expert: derive it from"):
        check_expert(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StudentT(inverse_scale=0.0), "'inverse_scale' of StudentT must be positive. Got 0.0"),
        (lambda: StudentT(inverse_temperature=0.5), "'inverse_temperature' of StudentT must be above 1/2"),
        (lambda: StudentT(mean=np.nan), "'mean' of StudentT must be a finite number"),
        (lambda: StudentT(fixed=("beta",)), r"'fixed' of StudentT must hold names among .* Got 'beta'"),
        (lambda: StudentTMixture(weights=(0.5, 0.6)), "'weights' of StudentTMixture must sum to one"),
        (lambda: StudentTMixture(means=(1.0,)), "need one value each of every kind"),
        (lambda: HyperbolicSecant(-1.0), "'inverse_scale' of HyperbolicSecant must be positive"),
    ],
)
def test_an_expert_of_impossible_parameters_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("truth", [StudentT(0.4, 2.0, 1.3), StudentT(-1.0, 0.5, 4.0)], ids=str)
def test_a_fitted_student_t_maximises_the_likelihood(truth):
    from scipy.optimize import minimize

    z = truth.sample(5_000, np.random.default_rng(0))
    fitted = StudentT().fit(z, uniform(len(z)), 100)

    def loss(v):
        return -StudentT(v[0], np.exp(v[1]), 0.5 + np.exp(v[2])).log_density(z).mean()

    best = minimize(
        loss, [0.0, 0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13, "maxiter": 4000}
    )
    assert -fitted.log_density(z).mean() <= best.fun + 1e-10
    assert_allclose(fitted.parameters, truth.parameters, rtol=0.15)


def test_what_is_fixed_stays_and_the_rest_is_fitted():
    z = StudentT(0.0, 3.0, 2.0).sample(2_000, np.random.default_rng(0))
    fitted = StudentT(0.5, 1.0, 20.0, fixed=("mean", "inverse_temperature")).fit(z, uniform(len(z)))
    assert (fitted.mean, fitted.inverse_temperature) == (0.5, 20.0)
    theta = fitted.inverse_scale  # the derivative in theta, eq. 34, vanishes
    d = z - 0.5
    assert_allclose(np.mean(20.0 * theta**2 * d**2 / (1.0 + 0.5 * theta**2 * d**2)), 1.0, rtol=1e-6)


def test_each_step_of_a_mixtures_em_raises_the_likelihood():
    truth = StudentTMixture((0.3, 0.7), (-1.5, 0.8), (3.0, 1.5), (2.0, 8.0))
    z, weights = truth.sample(4_000, np.random.default_rng(1)), uniform(4_000)
    expert, values = StudentTMixture(), []
    for _ in range(60):
        values.append(weights @ expert.log_density(z))
        expert = expert.fit(z, weights, 1)
    assert (np.diff(values) > -1e-12).all()
    assert values[-1] > weights @ truth.log_density(z)


def test_a_fit_to_few_distinct_values_stays_finite():
    z = np.repeat([0.0, 1.0, -1.0], [90, 5, 5])
    for expert in (StudentT(), StudentTMixture(), HyperbolicSecant()):
        fitted = expert.fit(z, uniform(100))
        assert np.isfinite(fitted.log_density(z)).all()
        assert expert.fit(np.zeros(5), uniform(5)) is not None
    sharp = StudentT().fit(z, uniform(100))
    assert_allclose(np.sqrt(sharp.inverse_temperature) * sharp.inverse_scale * z.std(), 100.0)  # no sharper than that
    for part in StudentTMixture().fit(z, uniform(100)).parts:
        assert np.sqrt(part.inverse_temperature) * part.inverse_scale * z.std() < 101.0


def test_the_density_of_one_dimension_integrates_to_one():
    params = ProductParams(
        Whitening(np.array([0.5]), np.array([[2.0]]), np.array([[0.5]])), np.array([[1.5]]), SOME[:1]
    )
    total, _ = integrate.quad(lambda y: np.exp(log_density(params, np.array([[y]])))[0], -np.inf, np.inf, epsabs=1e-10)
    assert_allclose(total, 1.0, atol=1e-7)


@pytest.mark.parametrize("n_experts", [0, 1, 2])
def test_the_density_of_two_dimensions_integrates_to_one(n_experts):
    rng = np.random.default_rng(n_experts)
    light = (StudentT(0.1, 0.5, 8.0), StudentTMixture((0.4, 0.6)))  # whose tails end within the square
    params = ProductParams(a_whitening(2, 2, rng), rng.normal(size=(n_experts, 2)), light[:n_experts])
    rest = np.linalg.svd(params.directions)[2][n_experts:] if n_experts else np.eye(2)
    corners = params.whitening.backward @ np.linalg.inv(np.vstack([params.directions, rest]))  # along the projections
    grid = np.linspace(-60.0, 60.0, 1501)
    a, b = np.meshgrid(grid, grid)
    points = params.whitening.mean + np.stack([a.ravel(), b.ravel()], axis=1) @ corners.T
    cell = (grid[1] - grid[0]) ** 2 * abs(np.linalg.det(corners))
    assert_allclose(np.exp(log_density(params, points)).sum() * cell, 1.0, atol=1e-8)


def test_without_experts_the_density_is_gaussian():
    rng = np.random.default_rng(0)
    whitening = a_whitening(3, 3, rng)
    Y = rng.normal(size=(20, 3))
    expected = stats.multivariate_normal(whitening.mean, whitening.backward @ whitening.backward.T).logpdf(Y)
    assert_allclose(log_density(ProductParams(whitening, np.empty((0, 3)), ()), Y), expected, rtol=1e-10)


def test_as_many_experts_as_dimensions_are_square_ica():
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(3, 3)), rng.normal(size=(50, 3))
    expected = np.linalg.slogdet(W)[1] + sum(e.log_density(z) for e, z in zip(SOME, W @ X.T, strict=True))
    assert_allclose(white_log_density(W, SOME, X), expected, rtol=1e-10)


@pytest.mark.parametrize("n_experts", [1, 2, 3])
@pytest.mark.parametrize("white", [True, False])
def test_the_gradient_equals_finite_differences(n_experts, white):
    rng = np.random.default_rng(n_experts)
    X = rng.laplace(size=(300, 3)) @ rng.normal(size=(3, 3)) + 0.3
    if white:
        X -= X.mean(axis=0)
        X = np.linalg.solve(np.linalg.cholesky(X.T @ X / len(X)), X.T).T
    W = rng.normal(size=(n_experts, 3))
    found, step = np.empty_like(W), 1e-5
    for place in np.ndindex(*W.shape):
        change = np.zeros_like(W)
        change[place] = step
        up, down = (likelihood(W + sign * change, SOME[:n_experts], X).value for sign in (1, -1))
        found[place] = (up - down) / (2 * step)
    claimed = likelihood(W, SOME[:n_experts], X).gradient
    assert_allclose(claimed, found, rtol=1e-6, atol=1e-8)
    if white:  # then the rule is the paper's
        slopes = np.array([e.derivative(z) for e, z in zip(SOME, W @ X.T, strict=False)])
        assert_allclose(claimed, np.linalg.pinv(W).T - slopes @ X / len(X), rtol=1e-9, atol=1e-12)


def test_the_likelihood_falls_by_the_projection_index_with_every_expert():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(100, 4)), rng.normal(size=(3, 4))
    values = [white_log_density(W[:j], SOME[:j], X).mean() for j in range(4)]
    assert_allclose(np.diff(values), -projection_indices(W, SOME, X).mean(axis=0), rtol=1e-10)


def test_samples_have_the_statistics_of_the_model():
    rng = np.random.default_rng(0)
    experts = (StudentT(0.4, 0.8, 6.0), StudentTMixture((0.3, 0.7), (-2.0, 1.0), (1.0, 1.0), (9.0, 9.0)))
    params = ProductParams(a_whitening(4, 4, rng), rng.normal(size=(2, 4)), experts)
    Y, Z = sample(params, 400_000, rng)
    X = (Y - params.whitening.mean) @ params.whitening.forward.T
    assert_allclose(X @ params.directions.T, Z, atol=1e-9)
    assert_allclose(Z.mean(axis=0), [0.4, 0.1], atol=0.01)
    assert_allclose(Z[:, 0].var(), 1.0 / (0.8**2 * (6.0 - 1.5)), rtol=0.03)  # eq. 37
    rest = np.linalg.svd(params.directions)[2][2:]  # directions without an expert
    assert_allclose(np.cov((X @ rest.T).T), np.eye(2), atol=0.01)
    assert abs(np.corrcoef(Z.T)[0, 1]) < 0.01
    assert_allclose(expected_data(params, Z[:5]), params.whitening.mean + Z[:5] @ np.linalg.pinv(params.directions).T
                    @ params.whitening.backward.T, atol=1e-10)  # fmt: skip
    entropy = -sum(e.log_density(z).mean() for e, z in zip(experts, Z.T, strict=True)) + np.log(2 * np.pi * np.e)
    jacobian = params.whitening.log_determinant + 0.5 * np.linalg.slogdet(params.directions @ params.directions.T)[1]
    assert_allclose(log_density(params, Y).mean(), jacobian - entropy, atol=0.02)
