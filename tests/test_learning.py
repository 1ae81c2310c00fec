"""The EM driver: what never falls, what adds up, what each schedule does, and why a fit ends."""

import json
from threading import Barrier, Event, current_thread, main_thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from multicause.datasets import make_bars
from multicause.estimators import ETNMF, LinCA
from multicause.execution import InProcess, split
from multicause.execution.crew import Crew
from multicause.execution.in_process import effective_threads, executor_here
from multicause.experiments.callbacks import Listener
from multicause.learning import EM, Annealing, ConditionalCooling, DataClassification, Plan, Stop, run
from multicause.learning.em.em import keep_best
from multicause.learning.initialisation.moments import data_moments
from multicause.models import DataMoments, combine
from multicause.models.priors import count_distribution, probability_of_at_most, truncated_activation_means
from multicause.posteriors import ExactPosterior, TruncatedPosterior
from multicause.testing import all_states

from cases import LINEAR, MAXIMAL, MODELS, POISSON, SPIKE_SLAB

MONOTONE = LINEAR | POISSON | SPIKE_SLAB  # models with an exact M-step


def fit_history(name, posterior_of, seed, n_components=6, n_features=5, n_steps=15, n_rows=120):
    rng = np.random.default_rng(seed)
    model, truth = MODELS[name](n_components, n_features, rng)
    X = model.sample(truth, n_rows, rng)[0]
    weights = rng.uniform(0.0, 2.0, size=n_rows)
    with InProcess(1) as executor:
        chunks = split(X, n_components, weights=weights)
        moments = data_moments(executor, chunks)
        em = EM(model, posterior_of(n_components), Plan(n_steps), executor, chunks, moments)
        return run(em, model.init_params(moments, rng), rng).free_energy[: n_steps + 1]  # not the best one once more


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_free_energy_never_falls_with_the_exact_posterior(name, seed):
    history = fit_history(name, ExactPosterior, seed)
    assert (np.diff(history) >= -1e-9 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("name", MONOTONE)
@pytest.mark.parametrize("singletons", [True, False])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_free_energy_never_falls_in_monotone_mode(name, singletons, seed):
    def posterior(n_components):
        return TruncatedPosterior(3, 2, singletons=singletons, monotone=True)

    history = fit_history(name, posterior, seed)
    assert (np.diff(history) >= -1e-9 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("noise", ["gaussian", "poisson"])
def test_the_likelihood_of_maximal_causes_rises_in_almost_every_iteration(noise):
    """Its M-step is a fixed-point step without guarantee (MCA §6.3): what is asserted is what the paper observed."""
    histories = [fit_history(f"maximal_{noise}", ExactPosterior, seed, n_steps=30) for seed in range(20)]
    gains = np.diff(histories, axis=1)
    assert np.mean(gains >= -1e-9) > 0.95
    assert all(history[-1] > history[0] for history in histories)
    falls = [np.max(np.maximum.accumulate(h) - h) / (h[-1] - h[0]) for h in map(np.asarray, histories)]
    assert np.median(falls) < 0.01


def test_without_monotone_mode_the_free_energy_can_fall():
    """Otherwise the test above would show nothing."""

    def posterior(n_components):
        return TruncatedPosterior(2, 2, singletons=False, monotone=False)

    falls = [np.diff(fit_history("binary_linear", posterior, seed)).min() for seed in range(10)]
    assert min(falls) < -1e-6


@pytest.mark.parametrize("name", MODELS)
def test_two_chunks_give_the_statistics_of_one(name):
    rng = np.random.default_rng(0)
    model, params = MODELS[name](7, 6, rng)
    X = model.sample(params, 500, rng)[0]
    prepared = TruncatedPosterior(4, 2).prepare(model, params)
    one = prepared.statistics(split(X, 7, chunk_size=512)[0])
    two = combine(*[prepared.statistics(chunk) for chunk in split(X, 7, chunk_size=256)])
    assert_allclose(one.free_energy, two.free_energy, rtol=1e-12)
    for a, b in zip(one.statistics, two.statistics, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_moments_are_those_of_the_weighted_data():
    rng = np.random.default_rng(0)
    X, weights = 1e6 + rng.normal(size=(600, 3)), rng.integers(0, 4, size=600).astype(float)
    with InProcess(2) as executor:
        moments = data_moments(executor, split(X, 2, chunk_size=256, weights=weights))
    repeated = X.repeat(weights.astype(int), axis=0)
    assert moments.weight == weights.sum()
    assert_allclose(moments.mean, repeated.mean(axis=0), rtol=1e-12)
    assert_allclose(moments.variance, repeated.var(axis=0), rtol=1e-6)


@given(st.integers(1, 40), st.integers(1, 5))
def test_the_reduction_tree_has_one_shape_and_keeps_the_order_of_its_leaves(n, n_threads):
    def tree(leaves):  # the larger half on the left, a power of two
        if len(leaves) == 1:
            return leaves[0]
        half = 1 << (len(leaves) - 1).bit_length() - 1
        return tree(leaves[:half]), tree(leaves[half:])

    with InProcess(n_threads) as executor:
        assert executor.map_reduce(lambda i: i, range(n), lambda a, b: (a, b)) == tree(range(n))


def test_an_error_in_a_chunk_is_passed_on_and_ends_the_reduction():
    done = []

    def fail_early(i):
        done.append(i)
        return 1 // (i - 2)

    with InProcess(2) as executor, pytest.raises(ZeroDivisionError):
        executor.map_reduce(fail_early, range(1000), lambda a, b: a + b)
    assert len(done) < 100


def test_without_chunks_there_is_nothing_to_wait_for():
    with InProcess(2) as executor, pytest.raises(ValueError, match="no chunks"):
        executor.map_reduce(lambda i: i, [], lambda a, b: a + b)


def test_a_search_beside_a_cluster_has_threads_of_its_own():
    class Elsewhere(InProcess):
        is_here = False

    with executor_here(Elsewhere()) as executor:
        assert list(executor.map(lambda _: current_thread() is main_thread(), range(3))) == [False] * 3
    with InProcess() as here, executor_here(here) as executor:
        assert executor is here


def test_threads_run_chunks_in_order_and_pass_errors_on():
    with InProcess(3) as executor:
        assert list(executor.map(lambda i: i * i, list(range(50)))) == [i * i for i in range(50)]
        with pytest.raises(ZeroDivisionError):
            list(executor.map(lambda i: 1 // i, list(range(3))))


def test_chunks_are_under_way_at_the_same_time():
    meeting = Barrier(3, timeout=30)
    with InProcess(3) as executor:
        assert sorted(executor.map(lambda _: meeting.wait(), range(3))) == [0, 1, 2]


def test_who_shares_work_waits_for_its_end_and_for_no_thread_that_has_nothing_to_do():
    late, crew = Event(), Crew(2)

    class Work:
        n_pieces = 2
        begun = iter([True, False])  # the first thread to come does it all

        def work(self):
            if next(self.begun):
                return True
            late.wait(30)
            return False

        def stop(self):
            raise AssertionError("nobody failed")

    crew.share(Work())
    assert not late.is_set()
    late.set()
    crew.close()


def test_the_number_of_threads_follows_the_argument_and_the_environment(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [effective_threads(n) for n in (None, 3, -1, -2)] == [8, 3, 8, 7]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert effective_threads(None) == 2


def test_conditional_cooling_shakes_fields_until_the_last_temperature():
    cooling = ConditionalCooling(3.0, 1.0, n_cooling_steps=2, n_hold_steps=1, patience=2, parameter_noise=0.3)
    schedule = cooling.steps()
    changes = [lambda: 0.0, lambda: 1.0, lambda: 0.0, lambda: 0.0]
    steps = [next(schedule)] + [schedule.send(change) for change in changes]
    assert [step.temperature for step in steps] == [3.0, 2.0, 2.0, 1.0, 1.0]
    assert [step.parameter_noise for step in steps] == [0.3, 0.3, 0.3, 0.0, 0.0]
    with pytest.raises(ValueError, match="'parameter_noise' of ConditionalCooling"):
        ConditionalCooling(3.0, parameter_noise=-1.0)


def test_the_annealing_schedule_holds_cools_and_settles():
    annealing = Annealing(13.0, parameter_noise=0.05, classification=DataClassification())
    steps = list(Plan(100, annealing).steps())
    temperatures = np.array([step.temperature for step in steps])
    assert (temperatures[:10] == 13.0).all()
    assert (temperatures[-20:] == 1.0).all()
    assert (np.diff(temperatures) <= 0.0).all()
    assert_allclose(np.diff(temperatures[11:79]), np.diff(temperatures[11:79])[0])
    assert [step.parameter_noise for step in steps] == [0.05] * 80 + [0.0] * 20
    for share, n_noisy in ((1.0, 100), (0.5, 50), (0.0, 0)):
        noisy = Plan(100, Annealing(13.0, parameter_noise=0.05, noise_share=share)).steps()
        assert [step.parameter_noise for step in noisy] == [0.05] * n_noisy + [0.0] * (100 - n_noisy)
    assert all(step.classification == 0.0 for step in steps[:66])
    assert_allclose(steps[-1].classification, 1.0)
    assert steps[0].beta == 1.0 / 13.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Annealing(0.5), r"initial >= final >= 1. Got initial=0.5 and final=1.0"),
        (lambda: Annealing(3.0, hold=0.6, settle=0.6), r"sum to at most 1. Got hold=0.6 and settle=0.6"),
        (lambda: Annealing(float("inf")), r"initial >= final >= 1. Got initial=inf and final=1.0"),
        (lambda: Annealing(hold=float("nan")), r"sum to at most 1. Got hold=nan"),
        (lambda: Annealing(noise_share=1.5), r"'noise_share' of Annealing must be between 0 and 1. Got 1.5"),
        (lambda: Annealing(parameter_noise=-1.0), r"'parameter_noise' of Annealing must be at least 0. Got -1.0"),
        (lambda: DataClassification(start=1.0), r"0 <= start < 1 and 0 < margin <= 1. Got start=1.0"),
    ],
)
def test_impossible_schedules_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
    with pytest.raises(TypeError):
        Annealing(inital=3.0)


def test_keep_best_takes_the_largest_values_and_splits_the_weight_on_the_border():
    kept = keep_best(np.array([1.0, 5.0, 3.0, 4.0]), np.array([1.0, 2.0, 2.0, 1.0]), 4.5)
    assert_array_equal(kept, [0.0, 2.0, 1.5, 1.0])


@settings(max_examples=30)
@given(
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8).flatmap(
        lambda p: st.tuples(st.just(p), st.integers(1, len(p)))
    )
)
def test_the_truncated_prior_equals_enumeration(case):
    activation, max_active = np.array(case[0]), case[1]
    states = all_states(len(activation))
    probability = np.prod(np.where(states == 1.0, activation, 1.0 - activation), axis=1)
    count = states.sum(axis=1)
    wanted = [probability[count == g].sum() for g in range(max_active + 1)]
    assert_allclose(count_distribution(activation, max_active), wanted, atol=1e-12)
    inside = count <= max_active
    assert_allclose(probability_of_at_most(activation, max_active), probability[inside].sum())
    means = probability[inside] @ states[inside] / probability[inside].sum()
    assert_allclose(truncated_activation_means(activation, max_active), means)


def test_data_classification_learns_the_activation_of_the_whole_prior():
    """Points of many causes do not teach, yet pi is that of all points and not of the simple ones."""
    bars = make_bars(4000, 5, signed=True, random_state=1000)
    start = {"components": bars.components, "activation": 0.2, "noise_variance": 4.0}
    common = {"n_candidates": 6, "max_active": 3, "init": start, "fixed": ("components", "noise_variance")}
    common |= {"max_iter": 60, "tol": 0.0}
    classified = LinCA(10, annealing=Annealing(1.0, classification=DataClassification()), **common).fit(bars.X)
    everything = LinCA(10, monotone=False, **common).fit(bars.X)
    truth = bars.states.mean()
    assert abs(classified.activation_.mean() - truth) < 0.01
    assert abs(classified.activation_.mean() - truth) < abs(everything.activation_.mean() - truth)


def test_annealing_finds_bars_that_a_plain_fit_misses():
    bars = make_bars(500, 5, signed=True, random_state=1003)
    common = {"n_components": 10, "n_candidates": 5, "max_active": 3, "selection": "model-based", "random_state": 3}
    plain = LinCA(start="random", **common).fit(bars.X)
    annealed = LinCA(annealing=Annealing(13.0, parameter_noise=0.08), max_iter=100, **common).fit(bars.X)
    assert annealed.score(bars.X) > plain.score(bars.X) + 0.5
    assert annealed.stop_ is Stop.SCHEDULE_ENDED


def test_restarts_keep_the_best_free_energy(tmp_path):
    bars = make_bars(300, 4, signed=True, random_state=1000)
    fit = LinCA(8, n_init=4, start="random", random_state=1).fit(bars.X, trace=tmp_path / "trace.jsonl")
    last = {}
    for line in map(json.loads, (tmp_path / "trace.jsonl").read_text().splitlines()):
        last[line["restart"]] = line["free_energy"]
    assert len(last) == 4
    assert max(last.values()) > min(last.values()) + 1.0
    assert fit.free_energy_[-1] == max(last.values())


class StopAfter(Listener):
    """A callback that asks to stop, or is interrupted, after some iterations."""

    def __init__(self, n, interrupt=False):
        self.n, self.interrupt, self.seen = n, interrupt, 0

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == self.n and self.interrupt:
            raise KeyboardInterrupt
        return self.seen >= self.n


@pytest.mark.usefixtures("callbacks")
def test_a_callback_can_stop_the_fit():
    X = make_bars(200, 4, random_state=0).X
    fit = LinCA(8, start="random", random_state=0).set_callbacks(StopAfter(3)).fit(X)
    assert fit.stop_ is Stop.CALLBACK
    assert (fit.n_iter_, len(fit.free_energy_)) == (2, 3)


@pytest.mark.usefixtures("callbacks")
def test_an_interrupted_fit_keeps_its_last_iteration():
    X = make_bars(200, 4, random_state=0).X
    estimator = LinCA(8, start="random", random_state=0).set_callbacks(StopAfter(4, interrupt=True))
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X)
    assert estimator.stop_ is Stop.INTERRUPTED
    assert estimator.n_iter_ == 3
    assert np.isfinite(estimator.score(X))


@pytest.mark.usefixtures("callbacks")
def test_scikit_learns_progress_bar_works():
    from sklearn.callback import ProgressBar

    X = make_bars(100, 3, random_state=0).X
    fit = LinCA(6, max_iter=3, tol=0.0, random_state=0).set_callbacks(ProgressBar()).fit(X)
    assert fit.n_iter_ == 3


def test_the_trace_has_a_line_per_e_step(tmp_path):
    X = make_bars(200, 4, random_state=0).X
    fit = LinCA(8, n_init=2, max_iter=4, tol=0.0, random_state=0).fit(X, trace=tmp_path / "trace.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1, 2, 3, 4] * 2
    assert [line["final"] for line in lines] == [False, False, False, False, True] * 2
    bounds = [[line["free_energy"] for line in lines if line["restart"] == r] for r in (0, 1)]
    assert fit.free_energy_.tolist() in bounds


def test_verbose_is_silent_where_there_is_no_terminal(capsys):
    LinCA(4, max_iter=2, tol=0.0, verbose=1).fit(make_bars(50, 3, random_state=0).X)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_a_fit_that_runs_out_of_iterations_says_so():
    from sklearn.exceptions import ConvergenceWarning

    with pytest.warns(ConvergenceWarning, match="raise max_iter or tol"):
        fit = LinCA(8, max_iter=2, start="random", random_state=0).fit(make_bars(200, 4, random_state=0).X)
    assert fit.stop_ is Stop.ITERATIONS_RAN_OUT


def test_warm_start_goes_on_where_the_last_fit_ended():
    X = make_bars(200, 4, random_state=0).X
    estimator = LinCA(8, max_iter=5, start="random", tol=0.0, warm_start=True, random_state=0).fit(X)
    end = estimator.free_energy_[-1]
    estimator.fit(X)
    assert estimator.free_energy_[0] == pytest.approx(end, rel=1e-9)
    assert estimator.free_energy_[-1] > end


@pytest.mark.parametrize("estimator", [LinCA, ETNMF])
def test_parameters_held_fixed_do_not_move(estimator):
    bars = make_bars(200, 4, noise=0.0, random_state=0)
    given_values = {"components": bars.components + 1.0, "activation": np.full(8, 0.3), "noise_variance": 2.0}
    for name, value in given_values.items():
        fit = estimator(8, fixed=(name,), init={name: value}, max_iter=3, tol=0.0, random_state=0).fit(bars.X)
        assert_array_equal(getattr(fit, f"{name}_"), value)
        for other in given_values.keys() - {name}:
            assert not np.array_equal(getattr(fit, f"{other}_"), given_values[other])


def test_a_shared_activation_is_the_mean_of_the_causes():
    fit = LinCA(8, activation_type="shared", random_state=0).fit(make_bars(300, 4, random_state=0).X)
    assert np.ptp(fit.activation_) == 0.0
    assert 0.05 < fit.activation_[0] < 0.5


HEAVY_TAILED = ("maximal_bernoulli", "maximal_exponential")  # nothing is impossible, only rare


@pytest.mark.parametrize("name", LINEAR | POISSON | MAXIMAL)
def test_a_cause_that_no_data_point_uses_is_drawn_anew(name):
    rng = np.random.default_rng(0)
    model, params = MODELS[name](4, 6, rng)
    X = model.sample(params, 200, rng)[0]
    far = params._replace(components=params.components.copy())
    far.components[2] = 1e4 if name != "maximal_bernoulli" else model.noise.largest_mean  # explains nothing
    if hasattr(params, "noise_variance"):
        far = far._replace(noise_variance=np.full_like(params.noise_variance, 1e-2)[()])
    if name in HEAVY_TAILED:
        far.activation[2] = 1e-100
    prepared = ExactPosterior(4).prepare(model, far)
    statistics = prepared.statistics(split(X, 4)[0]).statistics
    assert statistics.s[2] == 0.0 or (name in HEAVY_TAILED and statistics.s[2] < 1e-50)
    after = model.m_step(far, statistics)
    assert np.isfinite(after.components).all()
    moments = DataMoments(200.0, X.mean(axis=0), X.var(axis=0))
    redrawn = model.redraw_unused(after, statistics, moments, rng)
    assert np.abs(redrawn.components[2]).max() < 100.0
    assert (redrawn.components[2] != far.components[2]).any()
    assert_array_equal(redrawn.components[[0, 1, 3]], after.components[[0, 1, 3]])


@pytest.mark.parametrize("name", SPIKE_SLAB)
def test_a_spike_and_slab_cause_that_no_data_point_uses_is_drawn_anew(name):
    rng = np.random.default_rng(0)
    model, params = MODELS[name](4, 6, rng)
    X = model.sample(params, 200, rng)[0]
    params.components[2], params.activation[2] = 1e4, 1e-100
    statistics = ExactPosterior(4).prepare(model, params).statistics(split(X, 4)[0]).statistics
    after = model.m_step(params, statistics)
    moments = DataMoments(200.0, X.mean(axis=0), X.var(axis=0))
    redrawn = model.redraw_unused(after, statistics, moments, rng)
    assert all(np.isfinite(value).all() for value in redrawn)
    assert np.abs(redrawn.components[2]).max() < 100.0
    assert_array_equal(redrawn.components[[0, 1, 3]], after.components[[0, 1, 3]])


def test_an_unused_cause_comes_to_use_during_a_fit():
    bars = make_bars(400, 4, signed=True, noise=1.0, random_state=1000)
    start = bars.components.copy()
    start[3] = 1e4
    fit = LinCA(8, random_state=0, init={"components": start, "noise_variance": 1.0}).fit(bars.X)
    assert np.abs(fit.components_[3]).max() < 100.0
    assert fit.activation_[3] > 0.05
