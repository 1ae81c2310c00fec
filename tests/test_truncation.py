"""The truncation that follows the data: what it measures, what it chooses, and that the choice is kept."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from multicause import ETNMF, GSC, MCA, LinCA, load_model, save_model
from multicause.execution import InProcess
from multicause.learning.em.widening import MOST_AT_BORDER, Widening
from multicause.learning.resumed import check_kept
from multicause.models.subsets import count_subsets
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.truncated import KeptStates

N_LATENTS, N_FEATURES = 14, 20
FREE = Widening(candidates=True, active=True)


def crowded(n_active, n_samples=400, seed=0):
    """Data points of many latents each: the model, with the parameters that made them."""
    W = np.abs(np.random.default_rng(seed).standard_normal((N_LATENTS, N_FEATURES)))
    truth = LinCA.from_parameters(components=W, activation=n_active / N_LATENTS, noise_variance=0.01)
    return truth, truth.sample(n_samples, random_state=seed)[0]


def free_energies_of(estimator, X):
    model, params = estimator.fitted_model()
    chunks = InProcess().split(X, model.n_components, None)

    def ask(posterior):
        prepared = posterior.prepare(model, params)
        return np.concatenate([prepared.free_energies(chunk) for chunk in chunks])

    return ask


def mass_at_border(estimator, X, posterior):
    """By enumeration of all states in K_n: those with as many latents as are allowed."""
    model, params = estimator.fitted_model()
    here = posterior.prepare(model, params).here
    (chunk,) = InProcess().split(X, model.n_components, None)
    candidates = here._begin(chunk)[1]
    masses = []
    for y, chosen in zip(X, candidates, strict=True):
        codes = np.arange(2 ** len(chosen))
        bits = (codes[:, None] >> np.arange(len(chosen))) & 1
        states = np.zeros((len(codes), model.n_components))
        states[:, chosen] = bits
        states = states[states.sum(axis=1) <= posterior.max_active]
        log_joint, size = model.log_joint(params, y[None], states)[0], states.sum(axis=1)
        joint = np.exp(log_joint - log_joint.max())
        masses.append(joint[size == posterior.max_active].sum() / joint.sum())
    return np.mean(masses)


def test_it_grows_until_little_mass_has_as_many_latents_as_are_allowed():
    truth, X = crowded(3.5, 60)
    first = TruncatedPosterior(8, 3, singletons=False, greedy=True)
    ask, weights = free_energies_of(truth, X), np.ones(len(X))
    chosen = Widening(candidates=False, active=True)(first, N_LATENTS, ask, weights)
    masses = [mass_at_border(truth, X, TruncatedPosterior(8, g, False, greedy=True)) for g in range(3, 9)]
    wanted = 3 + int(np.argmax(np.append(np.array(masses) <= MOST_AT_BORDER, True)))
    assert masses[0] > MOST_AT_BORDER
    assert chosen.kept == KeptStates(8, min(wanted, 8))


def test_candidates_grow_once_all_of_them_may_be_active():
    truth, X = crowded(9.0)
    ask, weights = free_energies_of(truth, X), np.ones(len(X))
    first = TruncatedPosterior(6, 5, greedy=True)
    assert FREE(first, N_LATENTS, ask, weights).kept == KeptStates(10, 10)
    assert Widening(candidates=False, active=True)(first, N_LATENTS, ask, weights).kept == KeptStates(6, 6)
    assert Widening(candidates=True, active=False)(first, N_LATENTS, ask, weights).kept == KeptStates(6, 5)
    assert count_subsets(10, 10) <= 1024 < count_subsets(12, 11)


def test_rows_without_weight_do_not_count():
    truth, X = crowded(9.0)
    quiet = truth.sample(400, random_state=1)[0] * 0.0
    ask = free_energies_of(truth, np.vstack([X, quiet]))
    first = TruncatedPosterior(10, 5, greedy=True)
    assert FREE(first, N_LATENTS, ask, np.repeat([0.0, 1.0], 400)).kept == KeptStates(10, 5)


@pytest.mark.parametrize("estimator", [LinCA, ETNMF, MCA, GSC])
def test_few_active_latents_leave_it_as_it_is_and_many_widen_it(estimator):
    W = 3.0 * np.kron(np.eye(N_LATENTS), np.ones(2))
    slab = {"slab_mean": 0.0, "slab_covariance": 1.0} if estimator is GSC else {}
    own = {"allow_negative": True} if estimator is ETNMF else {}
    for n_active, widens in ((1.0, False), (6.0, True)):
        truth = estimator.from_parameters(
            components=W, activation=n_active / N_LATENTS, noise_variance=0.01, **slab, **own
        )
        assert not hasattr(truth, "truncation_")
        X = truth.sample(500, random_state=0)[0]
        fit = estimator(N_LATENTS, random_state=0, **own).fit(X)
        assert (fit.truncation_.max_active > 5) == widens
        given = estimator(N_LATENTS, n_candidates=7, max_active=4, random_state=0, **own).fit(X)
        assert given.truncation_ == KeptStates(7, 4)


@pytest.fixture(scope="module")
def wide():
    X = crowded(5.0)[1]
    fit = LinCA(N_LATENTS, random_state=0).fit(X)
    assert fit.truncation_.max_active > 5
    return fit, X


def test_the_choice_answers_and_is_kept_in_files(wide, tmp_path):
    fit, X = wide
    assert_allclose(fit.score(X), fit.free_energy_[-1], rtol=1e-12)
    save_model(fit, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.truncation_ == fit.truncation_
    assert_array_equal(loaded.score_samples(X), fit.score_samples(X))


def test_a_second_fit_and_a_clone_choose_again(wide):
    fit, X = wide
    assert not hasattr(clone(fit), "truncation_")
    again = clone(fit).fit(X).fit(X)
    assert again.truncation_ == fit.truncation_
    assert_array_equal(again.components_, fit.components_)
    few = again.fit(crowded(0.5)[1])
    assert few.truncation_ == KeptStates(10, 5)


def test_settings_that_are_given_after_the_fit_win(wide):
    fit, X = wide
    narrow = load_and_set(fit, max_active=2)
    explicit = LinCA.from_parameters(**fit.fitted_model().params._asdict(), n_candidates=10, max_active=2)
    assert_allclose(narrow.score_samples(X), explicit.score_samples(X))
    few = load_and_set(fit, n_candidates=4)
    explicit = explicit.set_params(n_candidates=4, max_active=4)
    assert_allclose(few.score_samples(X), explicit.score_samples(X))


def load_and_set(fit, **settings):
    other = clone(fit).set_params(**settings)
    other.__dict__.update({name: value for name, value in vars(fit).items() if name.endswith("_")})
    return other


def test_batches_and_warm_starts_go_on_with_it(wide):
    fit, X = wide
    batches = clone(fit).partial_fit(X)
    chosen = batches.truncation_
    assert chosen.max_active > 5
    assert batches.partial_fit(X[:100]).truncation_ == chosen
    on = load_and_set(fit, warm_start=True, max_iter=2)
    before = on.free_energy_[-1]
    on.fit(X)
    assert on.truncation_ == fit.truncation_
    assert on.free_energy_[0] == pytest.approx(before, rel=1e-9)


@pytest.mark.parametrize(
    "kept", [KeptStates(15, 5), KeptStates(10, 11), KeptStates(10, 0), KeptStates(10, 2.0), (10, 5)]
)
def test_files_cannot_make_kernels_enumerate_what_is_not_there(wide, kept):
    fit, X = wide
    broken = load_and_set(fit)
    broken.truncation_ = kept
    with pytest.raises(ValueError, match="truncation_ must say"):
        broken.score(X)
    with pytest.raises(ValueError, match="kept states"):
        check_kept(kept, fit._posterior(N_LATENTS), N_LATENTS)


def test_an_interrupted_fit_goes_on_with_it_to_the_bit(wide, tmp_path):
    fit, X = wide
    whole, cut = (clone(fit).set_params(tol=0.0, max_iter=n, n_init=2) for n in (6, 6))
    whole.fit(X)
    stopped = partial(cut.fit, X, checkpoint=tmp_path / "c", checkpoint_every=1, resume=True)
    from multicause.learning.checkpoints import Checkpoint

    write, count = Checkpoint.flush, iter(range(100))

    class Killed(BaseException):
        pass

    def flush(self):
        write(self)
        if next(count) == 9:  # in the second of two fits
            raise Killed

    Checkpoint.flush = flush
    try:
        with pytest.raises(Killed):
            stopped()
    finally:
        Checkpoint.flush = write
    stopped()
    assert cut.truncation_ == whole.truncation_
    assert cut.truncation_.max_active > 5
    assert_array_equal(cut.components_, whole.components_)
    assert_array_equal(cut.free_energy_, whole.free_energy_)
