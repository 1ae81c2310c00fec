"""What `multicause bench --device cuda` counts and says, on the templates compiled for the host."""

from dataclasses import replace

import numpy as np
import pytest

from multicause.backends import cuda
from multicause.backends.cuda.host import HostRuntime, compiler
from multicause.experiments import bench_cuda
from multicause.experiments.bench_cuda import Peaks, Work
from multicause.experiments.timing import Problem
from multicause.files import user_cache_folder
from multicause.models import BinaryLinear, MaximalCauses, SpikeSlabLinear
from multicause.models.subsets import count_subsets

PEAKS = Peaks(1e9, {"float64": 1e9, "float32": 2e9}, {"float64": 5e8, "float32": 1e9})
SMALL = Problem(SpikeSlabLinear, 300, 9, 12, 4, 2)


@pytest.fixture
def device(monkeypatch):
    if compiler() is None:
        pytest.skip("no C++ compiler: the templates for GPUs are not tested")
    runtime = HostRuntime(cuda.source(), user_cache_folder() / "templates")
    monkeypatch.setattr(cuda, "runtime", lambda: runtime)
    monkeypatch.setattr(cuda, "problem", lambda: None)
    return runtime


def test_a_bound_is_the_larger_of_two_times():
    by_memory, by_arithmetic = Work(4e9, 1e9, 1e9), Work(1e9, 1e9, 1e9)
    assert by_memory.seconds(PEAKS, "float64") == (4.0, 3.0)
    assert by_memory.share(8.0, PEAKS, "float64") == (0.5, "memory")
    assert by_arithmetic.share(8.0, PEAKS, "float64") == (3.0 / 8.0, "arithmetic")
    assert by_arithmetic.share(3.0, PEAKS, "float32") == (0.5, "arithmetic")
    said = by_memory.beside(8.0, PEAKS, "float64")
    assert said == "50% of the bound by memory (4 GB, 1 GFLOP in products, 1 in others)"


@pytest.mark.parametrize(("n_candidates", "max_active"), [(5, 3), (6, 6), (4, 1)])
def test_every_state_but_the_empty_one_counts_one_walk(n_candidates, max_active):
    problem = Problem(MaximalCauses, 10, 7, 9, n_candidates, max_active)
    of_a_state = 10.0 * problem.n_features + bench_cuda.OF_AN_EXPONENTIAL
    n_states = count_subsets(n_candidates, max_active)
    assert bench_cuda._per_state(problem) == pytest.approx((n_states - 1) * of_a_state)


@pytest.mark.parametrize("model", [BinaryLinear, SpikeSlabLinear, MaximalCauses])
def test_work_grows_with_rows_and_halves_its_bytes_in_single_precision(model):
    problem = replace(SMALL, model=model)
    one, two = (bench_cuda.work_of(replace(problem, n_samples=n), "float64") for n in (100, 200))
    assert tuple(two) == pytest.approx(tuple(2.0 * number for number in one))
    single = bench_cuda.work_of(replace(problem, n_samples=100), "float32")
    assert single.n_bytes == one.n_bytes / 2.0
    assert single[1:] == one[1:]
    of_products = 4.0 * 9 * 12 * (2.0 if model is MaximalCauses else 1.0)
    assert one.products == 100 * of_products


@pytest.mark.parametrize("model", [BinaryLinear, SpikeSlabLinear, MaximalCauses])
def test_e_steps_stand_beside_their_bound_and_the_cores(device, model):
    what, shown, wanted, met = bench_cuda.e_step_line("It", replace(SMALL, model=model), "float64", PEAKS, 1e9)
    assert what.startswith("It E-step, float64 (N=300")
    for part in (" ms, ", "% of the bound by ", " GFLOP in products, ", " cores: "):
        assert part in shown
    assert (wanted, met) == ("<= 1e+09 ms", True)


def test_parts_and_streams_stand_beside_their_bound(device):
    lines = [*bench_cuda.part_lines(SMALL, PEAKS), bench_cuda.streamed_line(SMALL, False, PEAKS, quick=True)]
    assert len(lines) == 5
    assert all("of the bound by" in shown and "GB" in shown for _, shown, _, _ in lines)


def test_a_picture_is_as_good_as_on_the_processor(device):
    what, shown, _, met = bench_cuda.picture_line(48, is_judged=True)
    assert what == "denoise_image, 48 x 48"
    gain = float(shown.split("dB, ")[1].split()[0])
    assert abs(gain) <= 0.02
    assert met in (True, False)  # by its time, which says nothing here
    assert bench_cuda.photograph(512).shape == (512, 512)
    assert np.array_equal(bench_cuda.photograph(512)[:48, :48], bench_cuda.photograph(48))
