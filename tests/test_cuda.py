"""The templates for GPUs, compiled for the host where there is a compiler, and on the device where there is one.

Everything around the kernels is the same for both: what passes here for the host fails on a device by its compiler or
by a race alone.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedGaussianMixture
from multicause.backends import cuda
from multicause.backends.cuda.host import HostRuntime, compiler
from multicause.datasets import make_bars
from multicause.estimators import devices
from multicause.execution import InProcess, OnDevice, on_device, split
from multicause.execution.sources import Blocks
from multicause.files import user_cache_folder
from multicause.learning import Annealing, DataClassification, Stop
from multicause.models import combine
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors import on_device as posterior_on_device
from multicause.posteriors.device_steps import Unsupported, gaussian_mixture
from multicause.selection import GPSelect
from multicause.tasks import denoise_image, device_inpainting, inpaint_image, separate_sources
from multicause.tasks.incomplete_mixture import IncompleteMixture

from cases import LINEAR, MIXTURES, MODELS, SPIKE_SLAB

MAXIMAL = ["maximal_gaussian", "maximal_diagonal"]
SUPPORTED = [
    *LINEAR,
    *MAXIMAL,
    *(name for name in SPIKE_SLAB if "_diagonal" in name.removeprefix("spike_slab_diagonal")),
]
SIZES = [(10, 8), (10, 4), (6, 5), (5, 3), (1, 1), (11, 3)]  # H' and gamma


QUESTIONS = ["free_energies", "means", "codes", "reconstructions"]


@pytest.fixture(scope="session", params=["host", pytest.param("device", marks=pytest.mark.cuda)])
def runtime(request):
    if request.param == "device":
        if cuda.problem() is not None:
            pytest.skip(cuda.problem())
        return cuda.runtime()
    if compiler() is None:
        pytest.skip("no C++ compiler: the templates for GPUs are not tested")
    return HostRuntime(cuda.source(), user_cache_folder() / "templates")


def on(runtime, X, n_components, weights=None):
    executor = OnDevice(runtime)
    return executor, executor.split(X, n_components, 150, weights)


def close(found, wanted, tolerance):
    """Relative to the largest entry of each field."""
    for name, a, b in zip(wanted._fields, found, wanted, strict=True):
        scale = max(float(np.abs(b).max(initial=0.0)), 1e-300)
        assert np.shape(a) == np.shape(b), name
        assert float(np.abs(np.asarray(a) - b).max(initial=0.0)) <= tolerance * scale, name


def problem(case, n_components, seed=0, n_features=9, n_rows=333):
    rng = np.random.default_rng(seed)
    model, params = (MODELS | MIXTURES)[case](n_components, n_features, rng)
    return model, params, model.sample(params, n_rows, rng)[0], rng.uniform(0.2, 3.0, n_rows)


@pytest.mark.parametrize("case", SUPPORTED)
@pytest.mark.parametrize(("n_candidates", "max_active"), SIZES)
@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_device_gives_the_statistics_of_the_processor(runtime, case, n_candidates, max_active, beta):
    model, params, X, weights = problem(case, 14)
    prepared = TruncatedPosterior(n_candidates, max_active).prepare(model, params, beta)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, 14, weights=weights), combine)
    executor, chunks = on(runtime, X, 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert len(chunks) > 1
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)


@pytest.mark.parametrize("case", SUPPORTED)
@pytest.mark.parametrize(("n_candidates", "max_active"), [(5, 5), (5, 3), (1, 1)])
def test_device_gives_what_the_definition_says(runtime, case, n_candidates, max_active):
    """State by state, from `log_joint` and `accumulate`; with five candidates of five latents, all states."""
    model, params, X, weights = problem(case, 5, seed=5, n_rows=40)
    wanted, found = (TruncatedPosterior(n_candidates, max_active, use_kernel=kernel) for kernel in (False, True))
    brute_force = InProcess().map_reduce(
        wanted.prepare(model, params).statistics, split(X, 5, weights=weights), combine
    )
    executor, chunks = on(runtime, X, 5, weights)
    result = executor.map_reduce(found.prepare(model, params).statistics, chunks, combine)
    assert result.free_energy == pytest.approx(brute_force.free_energy, rel=1e-10)
    close(result.statistics, brute_force.statistics, 1e-10)


@pytest.mark.parametrize("case", SUPPORTED)
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("n_candidates", [8, 5])
def test_device_gives_the_answers_of_the_processor(runtime, case, question, n_candidates):
    model, params, X, _ = problem(case, 8, seed=1)
    prepared = TruncatedPosterior(n_candidates, 3).prepare(model, params)
    wanted = np.concatenate(list(InProcess().map(getattr(prepared, question), split(X, 8))))
    executor, chunks = on(runtime, X, 8)
    found = np.concatenate(list(executor.map(getattr(prepared, question), chunks)))
    assert found == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("case", MAXIMAL)
def test_rows_whose_states_have_no_room_at_once_give_the_same(runtime, case, monkeypatch):
    model, params, X, weights = problem(case, 8)
    prepared = TruncatedPosterior(6, 3).prepare(model, params)
    executor, chunks = on(runtime, X, 8, weights)
    wanted = executor.map_reduce(prepared.statistics, chunks, combine)
    answers = [np.concatenate(list(executor.map(getattr(prepared, name), chunks))) for name in QUESTIONS]
    step, sizes = type(prepared.at(chunks[0]).e_step), []
    terms = step.terms
    monkeypatch.setattr(step, "terms", lambda self, Y: sizes.append(len(Y)) or terms(self, Y))
    monkeypatch.setattr(
        posterior_on_device, "_MOST_NUMBERS", 50 * (42 + 6 * 9)
    )  # 50 rows with 42 states of 6 candidates
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert max(sizes) == 50
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-12)
    close(found.statistics, wanted.statistics, 1e-12)
    for name, answer in zip(QUESTIONS, answers, strict=True):
        again = np.concatenate(list(executor.map(getattr(prepared, name), chunks)))
        assert again == pytest.approx(answer, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("case", MIXTURES)
@pytest.mark.parametrize(("n_candidates", "singletons"), [(3, False), (8, False), (2, True)])
@pytest.mark.parametrize("beta", [1.0, 0.6])
def test_mixtures_on_a_device_are_those_of_the_processor(runtime, case, n_candidates, singletons, beta):
    model, params, X, weights = problem(case, 8, seed=3)
    prepared = TruncatedPosterior(n_candidates, 1, singletons).prepare(model, params, beta)
    here, there = split(X, 8, weights=weights), on(runtime, X, 8, weights)
    wanted = InProcess().map_reduce(prepared.statistics, here, combine)
    found = there[0].map_reduce(prepared.statistics, there[1], combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)
    for question in [*QUESTIONS, *(["clean"] if case == "mixture_factor" else [])]:
        a = np.concatenate(list(InProcess().map(getattr(prepared, question), here)))
        b = np.concatenate(list(there[0].map(getattr(prepared, question), there[1])))
        assert b == pytest.approx(a, rel=1e-9, abs=1e-9), question


@pytest.mark.parametrize("case", [*SUPPORTED, *MIXTURES])
def test_single_precision_is_as_good_as_it_can_be(runtime, case):
    model, params, X, weights = problem(case, 14, seed=2)
    prepared = TruncatedPosterior(6, 1 if case in MIXTURES else 3, case not in MIXTURES).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, 14, weights=weights), combine)
    executor, chunks = on(runtime, X.astype(np.float32), 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-4)
    close(found.statistics, wanted.statistics, 1e-4)


@pytest.mark.parametrize("case", MAXIMAL)
@pytest.mark.parametrize("temperature", [1.5, 1.1, 1.05, 1.02])
def test_single_precision_bears_a_smooth_maximum(runtime, case, temperature):
    """Components that are small in most dimensions, to the power of a rho that grows as T falls."""
    model, params, _, weights = problem(case, 14, seed=2)
    rng = np.random.default_rng(3)
    scale = np.where(rng.random(params.components.shape) < 0.3, 1.0, 1e-2)
    params = params._replace(components=scale * params.components)
    X = model.sample(params, len(weights), rng)[0].astype(np.float32)
    prepared = TruncatedPosterior(6, 3).prepare(model, params, 1.0 / temperature)
    wanted = InProcess().map_reduce(prepared.statistics, split(X.astype(float), 14, weights=weights), combine)
    executor, chunks = on(runtime, X, 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-6)
    close(found.statistics, wanted.statistics, 1e-6)


def test_rows_that_registers_do_not_hold_are_cleaned_as_others(runtime, monkeypatch):
    model, params, X, _ = problem("mixture_factor", 5, n_features=40)
    for n_candidates in (5, 2):
        prepared = TruncatedPosterior(n_candidates, 1, False).prepare(model, params)
        wanted = np.concatenate(list(InProcess().map(prepared.clean, split(X, 5))))
        monkeypatch.setattr(gaussian_mixture, "_MOST_FEATURES", 39)
        executor, chunks = on(runtime, X, 5)
        found = np.concatenate(list(executor.map(prepared.clean, chunks)))
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("dtype", "activation", "tolerance"), [("float64", 1e-60, 1e-9), ("float32", 1e-9, 1e-4)])
def test_states_far_below_their_bound_are_as_precise(runtime, dtype, activation, tolerance):
    """Latents that are hardly ever active: no state has near as much as all candidates would without their priors."""
    model, params, _, weights = problem("spike_slab_diagonal_diagonal", 8, seed=6)
    X = model.sample(params, len(weights), np.random.default_rng(7))[0]
    params = params._replace(activation=np.full(8, activation), components=10.0 * params.components)
    X = (10.0 * X).astype(dtype)
    for max_active in (8, 2):
        prepared = TruncatedPosterior(8, max_active).prepare(model, params)
        wanted = InProcess().map_reduce(prepared.statistics, split(X.astype(float), 8, weights=weights), combine)
        executor, chunks = on(runtime, X, 8, weights)
        found = executor.map_reduce(prepared.statistics, chunks, combine)
        assert found.free_energy == pytest.approx(wanted.free_energy, rel=tolerance)
        close(found.statistics, wanted.statistics, tolerance)


@pytest.mark.parametrize(("n_components", "greedy"), [(300, False), (300, True), (70, True), (1100, False)])
def test_many_latents_are_selected_and_summed_as_few(runtime, n_components, greedy):
    """Sums over pairs lie in shared memory of two sizes, or outside of it; so do candidates in registers."""
    model, params, X, weights = problem("spike_slab_isotropic_diagonal", n_components, n_features=30)
    prepared = TruncatedPosterior(5, 3, greedy=greedy).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, n_components, weights=weights), combine)
    executor, chunks = on(runtime, X, n_components, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)


@pytest.fixture
def device(runtime, monkeypatch):
    """The runtime in the place of the one that estimators find."""
    monkeypatch.setattr(cuda, "runtime", lambda: runtime)
    monkeypatch.setattr(cuda, "problem", lambda: None)
    return runtime


def data_for(estimator):
    superposition = "max" if estimator is MCA else "linear"
    bars = make_bars(n_samples=300, size=4, superposition=superposition, random_state=0)
    return np.abs(bars.X)


ESTIMATORS = {
    GSC: {"n_candidates": 5, "max_active": 3},
    LinCA: {"n_candidates": 5, "max_active": 3},
    ETNMF: {"n_candidates": 5, "max_active": 3},
    MCA: {"n_candidates": 5, "max_active": 3},
    TruncatedGaussianMixture: {"n_candidates": 3, "covariance_type": "factor"},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_on_a_device_is_that_of_the_processor(device, estimator):
    X = data_for(estimator)
    settings = {**ESTIMATORS[estimator], "max_iter": 6, "random_state": 0}
    here, there = (estimator(8, device=name, **settings).fit(X) for name in ("cpu", "cuda"))
    assert there.free_energy_ == pytest.approx(here.free_energy_, rel=1e-9)
    for answer in ("transform", "reconstruct", "score_samples", "predict_proba"):
        assert getattr(there, answer)(X) == pytest.approx(getattr(here, answer)(X), rel=1e-6, abs=1e-6), answer


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_means_are_moved_on_a_device_as_on_the_processor(device, covariance_type):
    X = data_for(TruncatedGaussianMixture)
    settings = {"covariance_type": covariance_type, "max_iter": 3, "random_state": 0}
    here, there = (TruncatedGaussianMixture(9, device=name, **settings).fit(X) for name in ("cpu", "cuda"))
    assert there.free_energy_ == pytest.approx(here.free_energy_, rel=1e-9)
    assert there.means_ == pytest.approx(here.means_, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_annealed_fits_are_those_of_the_processor(device):
    X = data_for(MCA)
    settings = {"annealing": Annealing(2.0), "max_iter": 8, "random_state": 0, **ESTIMATORS[MCA]}
    here, there = (MCA(8, device=name, **settings).fit(X) for name in ("cpu", "cuda"))
    assert there.free_energy_ == pytest.approx(here.free_energy_, rel=1e-9)
    assert there.components_ == pytest.approx(here.components_, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", [LinCA, ETNMF, MCA])
def test_data_are_classified_as_by_the_processor(device, estimator):
    """Weights that change from one step to the next must reach the device."""
    annealing = Annealing(1.5, classification=DataClassification())
    settings = {"annealing": annealing, "max_iter": 10, "random_state": 0, **ESTIMATORS[estimator]}
    here, there = (estimator(8, device=name, **settings).fit(data_for(estimator)) for name in ("cpu", "cuda"))
    assert there.free_energy_ == pytest.approx(here.free_energy_, rel=1e-9)
    assert there.components_ == pytest.approx(here.components_, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("n_candidates", [6, 4])
@pytest.mark.parametrize("name", ["spike_slab_diagonal_diagonal", "binary_linear", "nonnegative_linear"])
def test_greedy_selection_is_that_of_the_processor(runtime, name, n_candidates):
    model, params, X, weights = problem(name, 14, seed=4)
    prepared = TruncatedPosterior(n_candidates, 3, greedy=True).prepare(model, params)
    wanted = InProcess().map_reduce(prepared.statistics, split(X, 14, weights=weights), combine)
    executor, chunks = on(runtime, X, 14, weights)
    found = executor.map_reduce(prepared.statistics, chunks, combine)
    assert found.free_energy == pytest.approx(wanted.free_energy, rel=1e-10)
    close(found.statistics, wanted.statistics, 1e-10)


def test_data_that_are_sent_in_chunks_give_the_bits_of_data_that_stay(runtime):
    model, params, X, weights = problem("binary_linear", 14)
    prepared = TruncatedPosterior(5, 3).prepare(model, params)
    results = []
    for share in (1.0, 0.0):
        with OnDevice(runtime, data_share=share) as executor:
            chunks = executor.split(X, 14, 128, weights)
            assert chunks[0].data.stays == (share == 1.0)
            results.append(executor.map_reduce(prepared.statistics, chunks, combine))
    assert results[0].free_energy == results[1].free_energy
    for a, b in zip(results[0].statistics, results[1].statistics, strict=True):
        assert np.array_equal(a, b)


def test_chunks_do_not_depend_on_what_others_have_of_the_device(runtime, monkeypatch):
    X, sizes = np.zeros((200_000, 30)), []
    for free in (2**33, 2**24):
        monkeypatch.setattr(runtime, "free_bytes", lambda free=free: free)
        monkeypatch.setattr(runtime, "total_bytes", lambda: 2**28)
        with OnDevice(runtime) as executor:
            sizes.append([chunk.stop for chunk in executor.split(X, 100)])
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 1


def test_data_that_stay_are_sent_slice_by_slice(runtime, monkeypatch):
    """They may come from a file that is larger than the processor's memory."""
    asked = []

    class Watched(Blocks):
        def _read(self, start, stop):
            asked.append(stop - start)
            return super()._read(start, stop)

    X = np.random.default_rng(0).normal(size=(1000, 7))
    monkeypatch.setattr(on_device, "_SENT_BYTES", 100 * 7 * 8)
    with OnDevice(runtime) as executor:
        (chunk,) = executor.split(Watched([X]), 5)
        assert chunk.data.stays
        assert np.array_equal(runtime.to_host(chunk.rows()), X)
    assert max(asked) == 100


def test_what_has_no_kernel_is_refused(device):
    X = data_for(GSC)
    for settings, what in (
        ({"posterior": "factored"}, "posterior='factored'"),
        ({"slab": "full"}, "slab='full'"),
        ({"monotone": True}, "monotone=True"),
        ({"selection": GPSelect()}, "a selection that is learned"),
    ):
        with pytest.raises(ValueError, match=rf"has no kernel for {what}.*device='cpu'"):
            GSC(8, device="cuda", **settings).fit(X)
    with pytest.raises(ValueError, match="no kernel for noise='poisson'"):
        MCA(8, noise="poisson", device="cuda").fit(X)
    with pytest.raises(ValueError, match="NaN in X, have no kernel for a GPU"):
        LinCA(8, device="cuda", start="random").fit(np.where(X > 8.0, np.nan, X))
    with pytest.raises(ValueError, match=r"sample_weight is on a GPU, but X is not.*sample_weight.get\(\)"):
        GSC(8).fit(X, sample_weight=SimpleNamespace(__cuda_array_interface__={}))
    with pytest.raises(ValueError, match="at most 16 candidates"):
        LinCA(20, n_candidates=18, max_active=2, device="cuda", start="random").fit(X)
    with pytest.raises(ValueError, match=r"model='gsc'\) has no kernel for a GPU.*device='cpu'"):
        inpaint_image(np.eye(20), np.eye(20) > 0, model="gsc", device="cuda")


def test_auto_takes_the_processor_for_little_data_or_without_a_kernel(device, monkeypatch):
    X = data_for(GSC)
    assert GSC(8, device="auto")._device_for(X) == "cpu"
    monkeypatch.setattr(devices, "_WORTH_IT", 1)
    assert GSC(8, device="auto")._device_for(X) == "cuda"
    assert GSC(8, device="auto", slab="full")._device_for(X) == "cpu"


@pytest.mark.parametrize("as_given", [np.asarray, lambda X: [X[:100], X[100:]]], ids=["array", "blocks"])
@pytest.mark.parametrize("estimator", [LinCA, GSC])
def test_missing_values_are_refused_by_every_question(device, estimator, as_given, monkeypatch):
    """Kernels would answer something; with "auto" the processor answers, as it does where there is no GPU."""
    X = data_for(estimator)
    gaps = X.copy()
    gaps[5, 2] = np.nan
    model = estimator(8, device="cuda", max_iter=2, tol=0.0, random_state=0).fit(X)
    monkeypatch.setattr(devices, "_WORTH_IT", 1)
    for question in ("transform", "predict_proba", "reconstruct", "score_samples", "score"):
        with pytest.raises(Unsupported, match="NaN in X, have no kernel for a GPU"):
            getattr(model.set_params(device="cuda"), question)(as_given(gaps))
        found = getattr(model.set_params(device="auto"), question)(as_given(gaps))
        assert np.array_equal(found, getattr(model.set_params(device="cpu"), question)(as_given(gaps))), question
    for learn in ("fit", "partial_fit"):
        with pytest.raises(Unsupported, match="NaN in X, have no kernel for a GPU"):
            getattr(estimator(8, device="cuda"), learn)(as_given(gaps))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_auto_falls_back_to_the_processor_wherever_a_kernel_is_missing(device, monkeypatch):
    monkeypatch.setattr(devices, "_WORTH_IT", 1)
    X = data_for(LinCA)
    short = {"max_iter": 2, "random_state": 0, "start": "random"}
    gaps = np.where(X > 8.0, np.nan, X)
    for make, data in (
        (lambda name: LinCA(8, device=name, **short), gaps),
        (lambda name: LinCA(20, n_candidates=18, max_active=2, device=name, **short), X),
        (lambda name: GSC(18, posterior="exact", max_active=2, device=name, **short), X),
        (lambda name: TruncatedGaussianMixture(40, n_candidates=35, device=name, max_iter=2, random_state=0), X),
    ):
        assert np.array_equal(*(make(name).fit(data).free_energy_ for name in ("auto", "cpu")))


def test_a_device_that_fails_costs_only_the_iteration(device, monkeypatch):
    X, estimator = data_for(LinCA), LinCA(8, device="cuda", start="random", random_state=0, tol=0.0)
    launch, calls = device.launch, []

    def fail_later(name, *arguments):
        calls.append(name)
        if calls.count("binary_expectations") == 4:
            raise cuda.DeviceError("The GPU failed (simulated).")
        launch(name, *arguments)

    monkeypatch.setattr(device, "launch", fail_later)
    with pytest.raises(cuda.DeviceError, match="The GPU failed"):
        estimator.fit(X)
    assert estimator.stop_ is Stop.DEVICE_FAILED
    assert len(estimator.free_energy_) == 3
    calls.clear()
    monkeypatch.setattr(device, "launch", launch)
    whole = LinCA(8, start="random", random_state=0, tol=0.0, max_iter=3)
    whole.fit(X)
    assert estimator.free_energy_ == pytest.approx(whole.free_energy_[:3], rel=1e-9)


@pytest.mark.parametrize("when", ["in its start", "later"])
def test_a_device_that_fails_in_a_restart_leaves_the_better_fit(device, when, monkeypatch):
    X, settings = data_for(LinCA), {"start": "random", "random_state": 0, "tol": 0.0, "max_iter": 4}
    first = LinCA(8, device="cuda", **settings).fit(X)
    launch, calls, n_of_first = device.launch, [], 5  # E-steps, the last one at the end

    def fail_later(name, *arguments):
        calls.append(name)
        if calls.count("binary_expectations") == n_of_first + (1 if when == "in its start" else 4):
            raise cuda.DeviceError("The GPU failed (simulated).")
        launch(name, *arguments)

    monkeypatch.setattr(device, "launch", fail_later)
    estimator = LinCA(8, device="cuda", n_init=2, **settings)
    with pytest.raises(cuda.DeviceError, match="The GPU failed"):
        estimator.fit(X)
    assert estimator.stop_ is Stop.DEVICE_FAILED
    assert estimator.free_energy_[-1] >= first.free_energy_[-1]
    if when == "in its start":
        assert np.array_equal(estimator.components_, first.components_)


def failure(name, package, message="it failed"):
    """As CuPy raises it, which need not be there."""
    kinds = (MemoryError,) if name == "OutOfMemoryError" else (Exception,)
    return type(name, kinds, {"__module__": f"{package}.cuda.libs"})(message)


FAILURES = [
    (failure("OutOfMemoryError", "cupy"), "not enough free memory"),
    (
        failure("CUDARuntimeError", "cupy_backends", "cudaErrorMemoryAllocation: out of memory"),
        "not enough free memory",
    ),
    (failure("CUSOLVERError", "cupy_backends"), "The GPU failed"),
    (failure("CompileException", "cupy"), "could not be compiled"),
    (
        ImportError("libcusolver.so.12: cannot open shared object file"),
        r"cannot be loaded.*pip install 'multicause\[cu",
    ),
]


@pytest.mark.parametrize(("error", "told"), FAILURES, ids=lambda value: type(value).__name__)
def test_failures_of_a_device_say_what_to_do_wherever_they_happen(device, error, told, monkeypatch):
    def fail(*arguments):
        raise error

    with pytest.raises(cuda.DeviceError, match=told):
        cuda.errors_translated()(fail)()
    X, model = data_for(LinCA), LinCA(8, device="cuda", start="random", max_iter=2, tol=0.0, random_state=0)
    model.fit(X)
    with monkeypatch.context() as broken:
        broken.setattr(device, "to_host", fail)  # the answers, where work that was begun shows that it failed
        with pytest.raises(cuda.DeviceError, match=told):
            model.transform(X)
    monkeypatch.setattr(device.xp.linalg, "eigh", fail)
    with pytest.raises(cuda.DeviceError, match=told):
        device.eigh(np.eye(2)[None])


def test_other_errors_stay_what_they_are():
    for error in (ValueError("libcuda.so"), ImportError("no module named x"), KeyError("cupy")):
        with pytest.raises(type(error)), cuda.errors_translated():
            raise error


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_m_step_that_fails_on_a_device_costs_only_the_iteration(device, monkeypatch):
    X, calls = data_for(GSC), []
    mixture = TruncatedGaussianMixture(4, covariance_type="factor", device="cuda", random_state=0, tol=0.0)
    eigh = device.xp.linalg.eigh

    def fail_later(matrices):
        calls.append(len(matrices))
        if len(calls) == 5:
            raise failure("CUSOLVERError", "cupy_backends")
        return eigh(matrices)

    monkeypatch.setattr(device.xp.linalg, "eigh", fail_later)
    with pytest.raises(cuda.DeviceError, match="The GPU failed"):
        mixture.fit(X)
    assert mixture.stop_ is Stop.DEVICE_FAILED
    assert mixture.score_samples(X).shape == (len(X),)


@pytest.mark.parametrize("task", [denoise_image, lambda image, **how: inpaint_image(image, image > 1.0, **how)])
def test_tasks_translate_failures_of_a_device(device, task, monkeypatch):
    def fail(*arguments):
        raise failure("CUDARuntimeError", "cupy_backends")

    monkeypatch.setattr(device, "launch", fail)
    with pytest.raises(cuda.DeviceError, match="The GPU failed"):
        task(np.random.default_rng(0).normal(size=(24, 24)), device="cuda")


def test_a_library_that_is_missing_is_named_with_what_installs_it(monkeypatch):
    class Table:
        def __matmul__(self, other):
            raise ImportError("libcublas.so.13: cannot open shared object file")

    runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=RuntimeError)
    cupy = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime), ones=lambda shape: Table(), asnumpy=np.asarray)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    cuda.problem.cache_clear()
    try:
        assert "libcublas.so.13" in cuda.problem()
        with pytest.raises(ImportError, match=r"CuPy.*libcublas.*pip install 'multicause\[cuda\]'"):
            LinCA(2, device="cuda").fit(np.eye(4))
        assert LinCA(2, device="auto")._device_for(np.broadcast_to(0.0, (10**7, 4))) == "cpu"
    finally:
        cuda.problem.cache_clear()


def test_each_gpu_has_a_runtime_of_its_own(monkeypatch):
    current = [0]

    class Device:
        def __init__(self, number=None):
            self.id = current[0] if number is None else number

        def __enter__(self):
            self.before, current[0] = current[0], self.id

        def __exit__(self, *exception):
            current[0] = self.before

    streams = []
    of_cuda = SimpleNamespace(Device=Device, Stream=lambda non_blocking: streams.append(current[0]))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=of_cuda))
    monkeypatch.setattr(cuda, "problem", lambda: None)
    cuda._runtime_of.cache_clear()
    try:
        first = cuda.runtime()
        with Device(1):
            second = cuda.runtime()
        assert first is cuda.runtime()
        assert first is not second
        assert streams == [0, 1]
    finally:
        cuda._runtime_of.cache_clear()


def test_without_cupy_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.problem.cache_clear()
    try:
        with pytest.raises(ImportError, match=r"needs an NVIDIA GPU and CuPy.*pip install 'multicause\[cuda\]'"):
            LinCA(2, device="cuda").fit(np.eye(4))
        with pytest.raises(ImportError, match="needs an NVIDIA GPU and CuPy"):
            denoise_image(np.random.default_rng(0).normal(size=(20, 20)), device="cuda")
    finally:
        cuda.problem.cache_clear()


@pytest.mark.parametrize(("enough", "taken"), [(10**9, "cpu"), (1, "cuda")])
def test_auto_takes_the_device_for_large_images_alone(device, enough, taken, monkeypatch):
    monkeypatch.setattr(devices, "_WORTH_IT", enough)
    rng = np.random.default_rng(0)
    image, missing = rng.normal(size=(24, 26)).cumsum(axis=0), rng.random((24, 26)) < 0.3
    short = {"n_components": 3, "max_iter": 2, "random_state": 0}
    for task in (
        lambda **given: denoise_image(image, **given, **short),
        lambda **given: denoise_image(image, model="gsc", **given, **short),
        lambda **given: inpaint_image(image, missing, **given, **short),
    ):
        chosen, asked = task(device="auto"), task(device=taken)
        assert np.array_equal(chosen.image, asked.image)
        assert getattr(chosen.estimator, "device", "auto") == "auto"
    lacking = denoise_image(image, device="auto", n_candidates=2, selection="neighbours", **short)
    assert np.array_equal(
        lacking.image, denoise_image(image, device="cpu", n_candidates=2, selection="neighbours", **short).image
    )


def test_an_image_denoised_on_a_device_is_that_of_the_processor(device):
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:40, :44]
    image = 50.0 * np.sin(0.3 * rows) * np.cos(0.2 * columns) + rng.normal(scale=10.0, size=rows.shape)
    settings = {"n_components": 5, "max_iter": 2, "random_state": 0}
    here, there = (denoise_image(image, device=name, **settings) for name in ("cpu", "cuda"))
    assert there.noise_level == pytest.approx(here.noise_level, rel=1e-6)  # which the processor has in single precision
    assert there.image == pytest.approx(here.image, abs=1e-2)
    assert there.uncertainty == pytest.approx(here.uncertainty, rel=1e-3)


@pytest.mark.parametrize("settings", [{}, {"keep_known": False}, {"subtract_mean": True, "noise_level": 2.0}])
@pytest.mark.parametrize("colours", [1, 3])
def test_an_image_inpainted_on_a_device_is_that_of_the_processor(device, settings, colours):
    rng = np.random.default_rng(0)
    rows, columns, axis = np.mgrid[:40, :44, :colours]
    image = 50.0 * np.sin(0.3 * rows) * np.cos((0.2 + 0.1 * axis) * columns) + rng.normal(scale=2.0, size=rows.shape)
    missing = rng.random(rows.shape[:2]) < 0.5
    missing[10:24, 12:30] = True  # wider than a patch: filled from its rim
    given = image[..., 0] if colours == 1 else image
    short = {"n_components": 4, "max_iter": 3, "random_state": 0, **settings}
    here, there = (inpaint_image(given, missing, device=name, **short) for name in ("cpu", "cuda"))
    assert there.noise_level == pytest.approx(here.noise_level, rel=1e-6)
    assert there.image == pytest.approx(here.image, abs=1e-5)
    assert there.uncertainty == pytest.approx(here.uncertainty, rel=1e-5, abs=1e-8)


def test_few_work_arrays_give_the_same_mixture(device, monkeypatch):
    rng = np.random.default_rng(1)
    guess = rng.normal(size=(500, 9)) @ rng.normal(size=(9, 9)) + 4.0 * rng.integers(3, size=(500, 1))
    X = np.where(rng.random(guess.shape) < 0.4, np.nan, guess)
    X[7] = np.nan  # nothing is known of it
    X[8] = guess[8]
    xp, results = device.xp, []
    for most in (2**28, 9**2 * 130):
        monkeypatch.setattr(device_inpainting, "_MOST_NUMBERS", most)
        mixture = device_inpainting.MixtureThere(3, 2, None, None, 0)
        results.append(mixture.fit(xp.asarray(X), xp.asarray(guess), range(3)).params_)
    here = IncompleteMixture(3, 2, None, 1, 0).fit(X, guess, range(3)).params_
    for found in results:
        assert found.covariances == pytest.approx(here.covariances, rel=1e-9, abs=1e-9)
        assert found.noise_variance == pytest.approx(here.noise_variance, rel=1e-9)


class SaidToBeThere(np.ndarray):
    """An array in the computer's memory that says it is on a GPU: checks ask nothing else of it."""

    __cuda_array_interface__: dict = {}
    device = SimpleNamespace(id=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_arrays_on_the_device_are_checked_as_others(device, estimator, monkeypatch):
    if not isinstance(device, HostRuntime):
        pytest.skip("a GPU has arrays of its own")
    monkeypatch.setattr(np, "cuda", SimpleNamespace(Device=lambda: SimpleNamespace(id=0)), raising=False)
    X = data_for(estimator)
    there = X.view(SaidToBeThere)
    fit = estimator(8, device="cuda", max_iter=2, random_state=0, **ESTIMATORS[estimator])
    wanted = fit.fit(X).free_energy_
    assert np.array_equal(fit.fit(there).free_energy_, wanted)
    assert np.array_equal(fit.transform(there), fit.transform(X))
    for empty, wrong in ((there[:0], "0 sample"), (there[:, :0], "0 feature")):
        with pytest.raises(ValueError, match=wrong):
            fit.fit(empty)
    with pytest.raises(ValueError, match="Convert it there"):
        fit.fit(there.astype(np.float16))
    with pytest.raises(ValueError, match="must be finite"):
        fit.transform(np.where(X.mean() < X, np.nan, X).view(SaidToBeThere))


@pytest.mark.cuda
def test_arrays_on_the_device_stay_there(tmp_path):
    if cuda.problem() is not None:
        pytest.skip(cuda.problem())
    import cupy

    X = data_for(GSC)
    gsc = GSC(8, device="cuda", random_state=0, start="random", max_iter=3, tol=0.0)
    gsc.fit(cupy.asarray(X), checkpoint=tmp_path / "fit.checkpoint")
    assert isinstance(gsc.components_, np.ndarray)
    codes = gsc.transform(cupy.asarray(X))
    assert isinstance(codes, cupy.ndarray)
    assert cupy.asnumpy(codes) == pytest.approx(gsc.transform(X), rel=1e-12)
    weights = np.linspace(0.5, 2.0, len(X))
    weighted = [gsc.fit(cupy.asarray(X), sample_weight=w).components_ for w in (weights, cupy.asarray(weights))]
    assert np.array_equal(*weighted)
    with pytest.raises(ValueError, match="sample_weight is on a GPU, but X is not"):
        gsc.fit(X, sample_weight=cupy.asarray(weights))
    for wrong, what in (("float16", "float16"), ("int32", "int32")):
        with pytest.raises(ValueError, match=f"must be a table of float32 or float64.*{what}"):
            gsc.fit(cupy.asarray(X).astype(wrong))
    with pytest.raises(ValueError, match="X is on a GPU, but GSC has device='cpu'"):
        GSC(8).fit(cupy.asarray(X))
    with pytest.raises(ValueError, match="must be finite"):
        gsc.transform(cupy.asarray(np.where(X > 8.0, np.nan, X)))
    torch = pytest.importorskip("torch")
    codes_of_tensor = gsc.transform(torch.as_tensor(X, device="cuda"))
    assert isinstance(codes_of_tensor, torch.Tensor)
    assert codes_of_tensor.cpu().numpy() == pytest.approx(gsc.transform(X), rel=1e-12)


@pytest.mark.cuda
def test_too_little_memory_on_the_device_is_said():
    if cuda.problem() is not None:
        pytest.skip(cuda.problem())
    import cupy

    pool, X = cupy.get_default_memory_pool(), np.zeros((1000, 50)) + np.arange(50.0)
    pool.free_all_blocks()
    before = pool.get_limit()
    pool.set_limit(size=pool.used_bytes() + 2**17)
    try:
        with pytest.raises(cuda.DeviceError, match=r"not enough free memory.*device='cpu'"):
            LinCA(500, device="cuda", start="random").fit(X)
    finally:
        pool.set_limit(size=before)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_tasks_by_gsc_on_a_device_are_those_of_the_processor(device):
    rng = np.random.default_rng(0)
    mixtures, image = rng.laplace(size=(600, 2)) @ rng.normal(size=(2, 2)), rng.normal(size=(24, 24)).cumsum(axis=0)
    short = {"max_iter": 2, "random_state": 0}
    here, there = (separate_sources(mixtures, n_init=1, device=name, **short) for name in ("cpu", "cuda"))
    assert there.mixing == pytest.approx(here.mixing, rel=1e-9)
    here, there = (denoise_image(image, model="gsc", n_components=12, device=name, **short) for name in ("cpu", "cuda"))
    assert there.image == pytest.approx(here.image, rel=1e-9, abs=1e-9)
