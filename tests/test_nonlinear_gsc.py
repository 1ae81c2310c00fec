"""Nonlinear spike-and-slab sparse coding: exact conditionals, a sampler that leaves its target alone, the estimator."""

import inspect
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.special import logit, logsumexp

from multicause import Annealing, NonlinearGSC, load_model, save_model
from multicause.backends import numba_cpu
from multicause.datasets import make_bars
from multicause.execution import chunks_of, split
from multicause.learning import Stop
from multicause.models import SpikeSlabMax, SpikeSlabParams, SpikeSlabPrior
from multicause.posteriors import GibbsPosterior
from multicause.posteriors.gibbs import PreparedGibbs
from multicause.selection.base import AllCandidates, Selector
from test_estimators import BAD_DATA, FINITE


def small_case(seed, n_components=3, n_features=4):
    """A model with a parameter of every kind: zeros in fields, negative slab means, small and large noise."""
    rng = np.random.default_rng(seed)
    shape = (n_components, n_features)
    params = SpikeSlabParams(
        components=rng.uniform(0.0, 3.0, size=shape) * (rng.random(shape) < 0.85),
        activation=rng.uniform(0.1, 0.9, size=n_components),
        slab_mean=rng.normal(1.0, 1.0, size=n_components),
        slab_covariance=rng.uniform(0.1, 2.0, size=n_components),
        noise_variance=float(np.exp(rng.uniform(-2.0, 1.0))),
    )
    return SpikeSlabMax(n_components, n_features), params, rng


def bars(n_samples=300, size=4, seed=0, spread=0.2):
    """Bars of varying brightness that combine by their maximum."""
    truth = make_bars(1, size).components
    H = len(truth)
    params = SpikeSlabParams(truth, np.full(H, 2.0 / H), np.ones(H), np.full(H, spread**2), 1.0)
    return SpikeSlabMax(*truth.shape).sample(params, n_samples, np.random.default_rng(seed))[0], truth


def in_kernel_units(params, y, others, h, beta):
    """The arguments of the kernel's `condition`."""
    scale, unit = np.sqrt(beta / params.noise_variance), np.sqrt(params.slab_covariance[h])
    field = scale * unit * params.components[h]
    return scale * y, scale * others, field, params.slab_mean[h] / unit, logit(params.activation[h]), 1.0


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_the_conditional_by_definition_is_the_normalised_log_joint(seed, beta):
    model, params, rng = small_case(seed)
    Y, X = model.sample(params, 1, rng)
    h = int(rng.integers(model.n_components))

    def log_tempered(z):
        x = np.where(np.arange(model.n_components) == h, z, X)
        likelihood = model.log_noise(params, Y, model.superpose(params, x))[0]
        return model.log_joint(params, Y, x)[0, 0] + (beta - 1.0) * likelihood

    off = log_tempered(0.0)
    found = model.conditional(params, Y[0], X[0], h, beta)
    width = 12.0 * np.sqrt(params.slab_covariance[h])
    ends = np.clip(np.append(found.lower, np.inf), params.slab_mean[h] - width, params.slab_mean[h] + width)
    masses = [quad(lambda z: np.exp(log_tempered(z) - off), *piece)[0] for piece in pairwise(ends)]
    total = 1.0 + sum(masses)
    assert_allclose(np.exp(found.log_off), 1.0 / total, rtol=1e-6)
    assert_allclose(np.exp(found.log_mass), np.array(masses) / total, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_the_conditional_of_the_kernel_equals_the_definition(seed):
    model, params, rng = small_case(seed, 4, 6)
    kernel = numba_cpu.load("spike_slab_max")
    Y, X = model.sample(params, 1, rng)
    h, beta = int(rng.integers(4)), float(rng.choice([1.0, 0.2]))
    wanted = model.conditional(params, Y[0], X[0], h, beta)
    others = model.superpose(params, np.where(np.arange(4) == h, 0.0, X[0]))
    pieces, unit = kernel.make_pieces(6), np.sqrt(params.slab_covariance[h])
    n, off, _ = kernel.condition(*in_kernel_units(params, Y[0], others, h, beta), True, pieces)
    assert_allclose(off, np.exp(wanted.log_off), rtol=1e-10)
    masses = dict(zip(np.round(wanted.lower, 9), np.exp(wanted.log_mass), strict=True))
    found = dict(zip(np.round(unit * pieces.lower[:n], 9), pieces.mass[:n], strict=True))
    for lower, mass in masses.items():
        assert_allclose(found.get(lower, 0.0), mass, rtol=1e-9, atol=1e-13)
    for j in range(n):
        truth = stats.truncnorm(
            pieces.root[j] * (pieces.lower[j] - pieces.centre[j]),
            pieces.root[j] * (pieces.upper[j] - pieces.centre[j]),
            pieces.centre[j],
            1.0 / pieces.root[j],
        )
        assert_allclose(pieces.mean[j], truth.mean(), rtol=1e-6, atol=1e-8)
        assert_allclose(pieces.second[j], truth.moment(2), rtol=1e-6, atol=1e-8)


def test_many_thresholds_are_sorted_as_few_are():
    model, params, rng = small_case(3, 3, 120)
    params = params._replace(noise_variance=40.0)
    kernel = numba_cpu.load("spike_slab_max")
    Y, X = model.sample(params._replace(activation=np.full(3, 0.999)), 1, rng)
    others = model.superpose(params, np.where(np.arange(3) == 1, 0.0, X[0]))
    pieces = kernel.make_pieces(120)
    n, off, _ = kernel.condition(*in_kernel_units(params, Y[0], others, 1, 1.0), True, pieces)
    wanted = model.conditional(params, Y[0], X[0], 1)
    assert len(wanted.lower) > 50
    assert_allclose(off, np.exp(wanted.log_off), rtol=1e-9, atol=1e-15)
    assert_allclose(pieces.mass[:n].sum(), np.exp(logsumexp(wanted.log_mass)), rtol=1e-9)


@pytest.mark.parametrize(
    ("a", "b"),
    [(-1.0, 2.0), (-np.inf, 0.5), (0.3, 0.31), (1.0, np.inf), (3.9, 4.5), (4.1, 9.0), (-30.0, -20.0), (40.0, np.inf),
     (1e3, np.inf), (-1e5, -1e4), (7.0, 7.001), (-np.inf, np.inf)],
)  # fmt: skip
def test_draws_from_a_piece_follow_the_truncated_normal_also_in_far_tails(a, b):
    normal, random = numba_cpu.load("truncated_normal"), numba_cpu.load("counter_random")
    draws = np.array([normal.quantile(a, b, random.uniform(np.uint64(5), i)) for i in range(4000)])
    assert ((draws >= a) & (draws <= b)).all()
    low, high = (a, b) if a > 0.0 else (-b, -a)  # the tail in which digits are not lost
    sign = 1.0 if a > 0.0 else -1.0

    def log_above(z):
        return stats.norm.logsf(z)

    def share_above(z):
        whole = -np.expm1(log_above(high) - log_above(low))
        return (np.exp(log_above(sign * z) - log_above(low)) - np.exp(log_above(high) - log_above(low))) / whole

    assert stats.kstest(share_above(draws), "uniform").pvalue > 1e-3
    _, mean, variance = normal.moments(a, b)
    assert_allclose(draws.mean(), mean, atol=4.0 * np.sqrt(variance / 4000) + 1e-9 * abs(mean))
    assert_allclose(draws.var(), variance, rtol=0.25)


def test_random_numbers_are_uniform_independent_and_keyed():
    random = numba_cpu.load("counter_random")
    u = np.array([random.uniform(np.uint64(1), i) for i in range(20000)])
    other = np.array([random.uniform(np.uint64(2), i) for i in range(20000)])
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    pairs = [np.corrcoef(u[1:], u[:-1])[0, 1], np.corrcoef(u[2:], u[:-2])[0, 1], np.corrcoef(u, other)[0, 1]]
    assert np.abs(pairs).max() < 4.0 / np.sqrt(20000)
    row = np.random.default_rng(0).normal(size=5)
    key = random.key_of(row, np.uint64(0))
    for power in range(-6, 7):
        assert key == random.key_of(10.0**power * row, np.uint64(0))
    assert key != random.key_of(row[::-1].copy(), np.uint64(0))
    assert random.key_of(np.zeros(3), np.uint64(0)) == random.key_of(-np.zeros(3), np.uint64(0))


def test_the_sampler_leaves_the_joint_distribution_alone():
    """Geweke (2004): drawing x given y and y given x in turn must visit what drawing (x, y) at once visits."""
    model, params, rng = small_case(11, 3, 3)
    params = params._replace(components=params.components + 0.3, noise_variance=0.5)
    kernel = numba_cpu.load("spike_slab_max")
    scale, unit = 1.0 / np.sqrt(params.noise_variance), np.sqrt(params.slab_covariance)
    causes = kernel.Causes(
        scale * unit[:, None] * params.components, params.slab_mean / unit, logit(params.activation), scale
    )
    chosen, others, pieces = np.arange(3, dtype=np.int32), np.empty(3), kernel.make_pieces(3)

    def moments(x, y):
        return np.concatenate([x != 0.0, x, x**2, y, y**2, x[..., [0]] * x[..., [1]], x[..., [2]] * y[..., [0]]], -1)

    n = 12000
    Y, X = model.sample(params, 4 * n, rng)
    wanted = moments(X, Y)
    x, y = X[0] / unit, scale * Y[0]
    visited = []
    for i in range(n):
        for j in range(3):
            kernel.update(j, x, y, chosen, causes, 1.0, (np.uint64(7), 3 * i + j), others, pieces)
        y = scale * model.superpose(params, x * unit) + rng.standard_normal(3)
        visited.append(moments(x * unit, y / scale))
    found = np.array(visited)
    blocks = found[: n - n % 60].reshape(60, -1, found.shape[1]).mean(axis=1)  # the chain's draws are correlated
    error = np.sqrt(blocks.var(axis=0) / 60 + wanted.var(axis=0) / len(wanted))
    z_scores = (found.mean(axis=0) - wanted.mean(axis=0)) / error
    assert np.abs(z_scores).max() < 4.0


def grid_oracle(model, params, y, beta, n_grid=300):
    """Expectations by quadrature over the strengths of two causes: states, weights q, and F."""
    spread = np.sqrt(params.slab_covariance)
    axes = [np.linspace(m - 7.0 * s, m + 7.0 * s, n_grid) for m, s in zip(params.slab_mean, spread, strict=True)]
    steps = [axis[1] - axis[0] for axis in axes]
    both = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    only = [np.stack([axes[0], np.zeros(n_grid)], axis=-1), np.stack([np.zeros(n_grid), axes[1]], axis=-1)]
    states = np.concatenate([np.zeros((1, 2)), *only, both])
    volumes = np.repeat([1.0, *steps, steps[0] * steps[1]], [1, n_grid, n_grid, n_grid**2])
    log_joint = model.log_joint(params, y[None], states)[0]
    log_noise = model.log_noise(params, y, model.superpose(params, states))
    log_q = log_joint + (beta - 1.0) * log_noise + np.log(volumes)
    log_total = logsumexp(log_q)
    q = np.exp(log_q - log_total)
    return states, q, log_total + (1.0 - beta) * q @ log_noise


class Listener(AllCandidates):
    """A selector that keeps what it is told."""

    def observe(self, chunk, means):
        self.observed = means


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_the_e_step_equals_numerical_integration(seed, beta):
    model, params, rng = small_case(seed, 2, 3)
    Y = model.sample(params, 2, rng)[0]
    weights = np.array([1.0, 2.5])
    chunk = split(Y, 2, weights=weights)[0]
    listener = Listener(2)
    prepared = PreparedGibbs(GibbsPosterior(2, n_sweeps=12000, n_burn_in=50), model, params, beta, listener)
    found, free_energies = prepared.statistics(chunk), prepared.free_energies(chunk)
    oracle = [grid_oracle(model, params, y, beta) for y in Y]
    states = np.array([states for states, _, _ in oracle])
    q = np.array([q for _, q, _ in oracle])
    wanted = model.accumulate(params, Y, states, weights[:, None] * q)
    for name, a, b in zip(wanted._fields, found.statistics, wanted, strict=True):
        assert_allclose(a, b, rtol=0.04, atol=0.04, err_msg=name)
    assert_allclose(free_energies, [F for _, _, F in oracle], atol=0.05)
    assert_allclose(found.free_energy, free_energies @ weights)
    assert_allclose(prepared.means(chunk), np.einsum("nk,nkh->nh", q, states != 0.0), atol=0.02)
    assert_allclose(prepared.codes(chunk), np.einsum("nk,nkh->nh", q, states), atol=0.03)
    rebuilt = np.einsum("nk,nkd->nd", q, model.superpose(params, states))
    assert_allclose(prepared.reconstructions(chunk), rebuilt, atol=0.03)
    assert_allclose(listener.observed, prepared.means(chunk))


def test_candidates_can_be_chosen_from_outside():
    X, truth = bars(100)
    model = SpikeSlabMax(*truth.shape)
    params = SpikeSlabParams(truth, np.full(8, 0.25), np.ones(8), np.full(8, 0.04), 1.0)

    class FirstThree(Selector):
        def candidates(self, chunk, n_candidates, model_based):
            return np.tile(np.arange(n_candidates), (chunk.stop - chunk.start, 1))

    posterior, chunk = GibbsPosterior(3), split(X, 8)[0]
    means = posterior.prepare(model, params, 1.0, FirstThree()).means(chunk)
    assert (means[:, 3:] == 0.0).all()
    assert (means[:, :3].max(axis=0) > 0.9).all()
    chosen = posterior.prepare(model, params).means(chunk) > 0.0
    assert (chosen.sum(axis=1) <= 3).all()


def test_samples_are_the_maximum_of_scaled_fields():
    fields = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 2.0]])
    fit = NonlinearGSC.from_parameters(
        components=fields, activation=[0.3, 0.6], slab_mean=[1.0, -0.5], slab_covariance=0.5, noise_variance=1e-12
    )
    X, codes = fit.sample(50_000, random_state=0)
    assert_allclose(X, np.maximum((codes[:, :, None] * fields).max(axis=1), 0.0), atol=1e-5)
    assert_allclose(fit.inverse_transform(codes), X, atol=1e-5)
    assert_allclose((codes != 0.0).mean(axis=0), [0.3, 0.6], atol=0.01)
    assert_allclose(codes.mean(axis=0), [0.3, -0.3], atol=0.02)
    assert_allclose(fit.log_joint(X[:5], codes[:5]).shape, (5, 5))


def test_an_m_step_from_true_strengths_finds_the_parameters():
    _, truth = bars(1)
    model = SpikeSlabMax(*truth.shape)
    rng = np.random.default_rng(0)
    params = SpikeSlabParams(truth, np.full(8, 0.25), np.full(8, 2.0), np.full(8, 0.3), 0.7)
    Y, x = model.sample(params, 4000, rng)
    statistics = model.accumulate(params, Y, x[:, None], np.ones((4000, 1)))
    start = params._replace(components=truth + 0.5)
    found = model.m_step(start, model.accumulate(start, Y, x[:, None], np.ones((4000, 1))))
    assert_allclose(found.slab_mean, 2.0, atol=0.1)
    assert_allclose(found.slab_covariance, 0.3, atol=0.05)
    found = model.m_step(params, statistics)
    assert_allclose(found.components[truth > 0.0], truth[truth > 0.0], atol=0.05)
    assert_allclose(found.noise_variance, 0.7, rtol=0.02)
    held = SpikeSlabMax(*truth.shape, fixed=frozenset(["components", "slab_mean"]), prior=SpikeSlabPrior(shared=True))
    found = held.m_step(start, statistics)
    assert_array_equal(found.components, start.components)
    assert_array_equal(found.slab_mean, start.slab_mean)
    assert len(set(found.activation)) == 1


SETTINGS = {"n_candidates": 4, "max_iter": 6, "tol": 0.0, "random_state": 0}


def test_the_causes_of_bars_are_found():
    X, truth = bars(600, seed=1001)
    fit = NonlinearGSC(8, n_candidates=5, random_state=0).fit(X)
    match = np.corrcoef(fit.components_, truth)[:8, 8:].max(axis=0)
    assert (match > 0.95).all()
    assert abs(fit.noise_variance_ - 1.0) < 0.25
    assert np.abs(fit.activation_ - 0.25).max() < 0.1
    assert_allclose(np.sqrt(fit.slab_covariance_) / fit.slab_mean_, 0.2, atol=0.08)
    assert fit.stop_ is Stop.SCHEDULE_ENDED


def test_a_fit_from_given_fields_is_not_heated_by_default():
    X, truth = bars(400)
    fit = NonlinearGSC(8, n_candidates=4, tol=0.05, init={"components": truth}).fit(X)
    assert fit.stop_ is Stop.CONVERGED
    assert fit.n_iter_ < 20
    assert_allclose(fit.slab_mean_[:, None] * fit.components_, truth, atol=1.5)


def test_an_annealed_fit_ends_at_the_model_itself():
    X, _ = bars()
    fit = NonlinearGSC(8, **{**SETTINGS, "max_iter": 10}, annealing=Annealing(4.0, parameter_noise=0.05)).fit(X)
    assert fit.stop_ is Stop.SCHEDULE_ENDED
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-12)
    assert (fit.components_ > 0.0).all()


def test_fit_transform_equals_fit_then_transform_to_the_bit():
    X, _ = bars()
    assert_array_equal(NonlinearGSC(8, **SETTINGS).fit_transform(X), NonlinearGSC(8, **SETTINGS).fit(X).transform(X))


def test_a_row_has_the_same_bits_whatever_the_chunks_threads_and_rows_beside_it():
    X, _ = bars(700)
    fit = NonlinearGSC(8, **SETTINGS).fit(X)
    whole = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
    for chunk_size, n_jobs in ((1, 2), (256, 3), (10**6, 1)):
        fit.set_params(n_jobs=n_jobs)
        with chunks_of(chunk_size):
            answers = fit.transform(X), fit.score_samples(X), fit.reconstruct(X)
        for answer, wanted in zip(answers, whole, strict=True):
            assert_array_equal(answer, wanted)
    order = np.random.default_rng(0).permutation(700)
    assert_array_equal(fit.transform(X[order]), whole[0][order])
    assert_array_equal(np.concatenate([fit.score_samples(row[None]) for row in X[:20]]), whole[1][:20])


def test_fit_gives_the_same_bits_for_any_thread_count():
    X, _ = bars(1200)
    with chunks_of(256):
        one, three = (NonlinearGSC(8, **SETTINGS, n_jobs=n).fit(X) for n in (1, 3))
    assert_array_equal(three.components_, one.components_)
    assert_array_equal(three.free_energy_, one.free_energy_)


def test_integer_weights_are_repeated_rows():
    X, _ = bars(60)
    weights = np.random.default_rng(0).integers(0, 4, size=60)
    weighted = NonlinearGSC(8, **SETTINGS).fit(X, sample_weight=weights)
    repeated = NonlinearGSC(8, **SETTINGS).fit(X.repeat(weights, axis=0))
    assert_allclose(weighted.components_, repeated.components_, rtol=1e-6, atol=1e-6)
    assert_allclose(weighted.free_energy_, repeated.free_energy_, rtol=1e-9)


def test_single_precision_is_kept_and_draws_the_same_numbers():
    X = bars(400)[0].astype(np.float32).astype(np.float64)
    double = NonlinearGSC(8, **SETTINGS).fit(X)
    single = NonlinearGSC(8, **SETTINGS).fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    assert_allclose(single.noise_variance_, double.noise_variance_, rtol=1e-3)


def test_the_last_free_energy_is_that_of_the_learned_parameters():
    X, _ = bars()
    fit = NonlinearGSC(8, n_candidates=4, random_state=0).fit(X)
    assert_allclose(fit.free_energy_[-1], fit.score(X), rtol=1e-12)
    assert len(fit.free_energy_) == fit.n_iter_ + 1


def test_a_saved_model_answers_alike(tmp_path):
    X, _ = bars(100)
    fit = NonlinearGSC(8, **SETTINGS, annealing=Annealing(2.0)).fit(X)
    save_model(fit, tmp_path / "m.safetensors")
    loaded = load_model(tmp_path / "m.safetensors")
    assert_array_equal(loaded.transform(X), fit.transform(X))
    rebuilt = NonlinearGSC.from_parameters(
        components=fit.components_,
        activation=fit.activation_,
        slab_mean=fit.slab_mean_,
        slab_covariance=fit.slab_covariance_,
        noise_variance=fit.noise_variance_,
        n_candidates=4,
    )
    assert_array_equal(rebuilt.score_samples(X), fit.score_samples(X))


def test_what_is_fixed_stays_and_a_warm_start_goes_on():
    X, _ = bars(100)
    init = {"slab_mean": 0.5, "slab_covariance": 2.0, "noise_variance": 0.3, "activation": 0.2}
    fixed = ("slab_mean", "slab_covariance", "noise_variance", "activation")
    fit = NonlinearGSC(8, **SETTINGS, fixed=fixed, init=init, warm_start=True).fit(X)
    assert (fit.slab_mean_ == 0.5).all()
    assert (fit.slab_covariance_ == 2.0).all()
    assert fit.noise_variance_ == 0.3
    assert (fit.activation_ == 0.2).all()
    before = fit.free_energy_[-1]
    assert fit.fit(X).free_energy_[0] == pytest.approx(before, rel=1e-12)


@pytest.mark.filterwarnings("ignore:The mean of X")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", [*FINITE, "negative"])
def test_awkward_data_give_finite_results(name):
    X = FINITE.get(name, -1.0 - np.random.default_rng(0).random((30, 4)))
    fit = NonlinearGSC(5, n_candidates=3, max_iter=30, random_state=0).fit(X)
    for value in (fit.components_, fit.activation_, fit.noise_variance_, fit.slab_mean_, fit.free_energy_):
        assert np.isfinite(value).all()
    for answer in (fit.transform(X), fit.score_samples(X), fit.reconstruct(X)):
        assert np.isfinite(answer).all()
    assert ((fit.activation_ > 0.0) & (fit.activation_ < 1.0)).all()
    assert (fit.slab_covariance_ > 0.0).all()
    assert fit.noise_variance_ > 0.0


def test_a_row_far_from_everything_gets_finite_answers():
    fit = NonlinearGSC.from_parameters(components=np.eye(3), activation=0.3, noise_variance=1e-6)
    X = np.array([[1e6, 0.0, 0.0], [-1e6, 1e6, 1e-6], [0.0, 0.0, 0.0]])
    assert np.isfinite(fit.score_samples(X)).all()
    assert_allclose(fit.transform(X)[0, 0], 1e6, rtol=1e-3)
    assert fit.predict_proba(X)[1, 1] == pytest.approx(1.0)


def test_a_field_of_zeros_explains_nothing_and_is_harmless():
    fields = np.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    fit = NonlinearGSC.from_parameters(components=fields, activation=0.3, noise_variance=0.1, n_candidates=2)
    X = fit.sample(50, random_state=0)[0]
    assert np.isfinite(fit.score_samples(X)).all()
    assert np.isfinite(fit.transform(X)).all()
    every = fit.set_params(n_candidates=None).predict_proba(X)
    assert_allclose(every[:, 0], 0.3, atol=1e-9)  # silent, whether on or off


@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_get_a_clear_error(name):
    X, message = BAD_DATA[name]
    with pytest.raises(ValueError, match=message):
        NonlinearGSC(2).fit(X)


BAD_ARGUMENTS = [
    ({"n_candidates": 5}, "'n_candidates' parameter of NonlinearGSC must be at most n_components=4. Got 5"),
    ({"n_sweeps": 0}, "'n_sweeps' parameter of NonlinearGSC must be"),
    ({"n_burn_in": -1}, "'n_burn_in' parameter of NonlinearGSC must be"),
    ({"init": {"slab_mean": [1.0, 2.0, 3.0]}}, r"init\['slab_mean'\].? must be one finite number or one per component"),
    ({"init": {"slab_covariance": -1.0}}, r"init\['slab_covariance'\].? must hold positive, finite variances"),
    (
        {"init": {"slab_covariance": np.eye(4)}},
        r"init\['slab_covariance'\].? must have one of the shapes .* 'diagonal'",
    ),
    (
        {"init": {"components": -np.ones((4, 16))}},
        r"Negative values in data passed to NonlinearGSC: init\['components'\] holds",
    ),
    ({"fixed": ("slab",)}, "'fixed' parameter of NonlinearGSC must hold names among"),
    ({"fixed": ("slab_mean",)}, "give init={'slab_mean': ...} too"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS)
def test_bad_arguments_get_a_clear_error(arguments, message):
    with pytest.raises(ValueError, match=message):
        NonlinearGSC(**{"n_components": 4, **arguments}).fit(bars(30)[0])


def test_missing_entries_get_a_clear_error():
    with pytest.raises(ValueError, match="Input X contains NaN"):
        NonlinearGSC(2).fit(np.array([[1.0, np.nan], [1.0, 2.0]]))


def test_the_docstring_names_the_real_arguments():
    section = inspect.getdoc(NonlinearGSC).split("Parameters\n")[1].split("Attributes\n")[0]
    named = [line.split(" : ")[0] for line in section.splitlines() if " : " in line and not line.startswith(" ")]
    assert named == list(inspect.signature(NonlinearGSC).parameters)
