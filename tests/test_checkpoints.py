"""Checkpoints: a fit that goes on from one ends with the bits of a fit that never stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from errno import ENOSPC

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

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
    load_model,
)
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.execution import chunks_of
from multicause.learning import Annealing, DataClassification
from multicause.learning.checkpoints import Checkpoint
from multicause.models import BinaryLinear
from multicause.selection import GPSelect
from multicause.tensor_files import TensorFileError

BARS = make_bars(n_samples=600, size=4, random_state=0).X
COUNTS = make_bars(n_samples=300, size=4, superposition="max", noise="poisson", random_state=0).X
SOURCES = np.random.default_rng(0).laplace(size=(600, 5)) @ np.random.default_rng(1).normal(size=(5, 5))
SCENES = make_scenes(60, shape_objects(2, 4), image_shape=(8, 8), probability=0.5, random_state=0).X
COOLED = Annealing(5.0, parameter_noise=0.1, classification=DataClassification())

FITS = {
    "LinCA, restarts": (LinCA(8, max_iter=8, n_init=2), BARS),
    "LinCA, intercept": (LinCA(8, max_iter=8, fit_intercept=True, tol=0.0), BARS + 5.0),
    "LinCA, annealed": (LinCA(8, max_iter=12, annealing=COOLED), BARS),
    "LinCA, monotone": (LinCA(8, n_candidates=4, max_iter=10, monotone=True, tol=0.0), BARS),
    "LinCA, GPSelect": (LinCA(8, n_candidates=4, max_iter=9, tol=0.0, selection=GPSelect(update_every=3)), BARS),
    "ETNMF, monotone": (ETNMF(8, max_iter=8, monotone=True, tol=0.0), BARS.clip(0.0)),
    "MCA": (MCA(8, max_iter=8, start="random"), BARS),
    "MCA3": (MCA3(8, max_iter=20), COUNTS),
    "RestrictedMCA": (RestrictedMCA(8, max_iter=20), COUNTS),
    "RestrictedMCA, online": (RestrictedMCA(8, solver="online", n_presentations=2000), COUNTS),
    "GSC": (GSC(8, max_iter=8), BARS),
    "GSC, factored": (GSC(8, posterior="factored", max_iter=8, tol=0.0), BARS),
    "NonlinearGSC": (NonlinearGSC(8, max_iter=6), BARS[:200].clip(0.0)),
    "TruncatedEM": (TruncatedEM(BinaryLinear(8, 16), n_candidates=4, max_iter=6, tol=0.0), BARS),
    "mixture": (TruncatedGaussianMixture(4, n_init=2), BARS),
    "InvECA": (InvECA(2, (4, 4), max_iter=6, tol=0.0), SCENES),
    "InvECA, GPSelect": (InvECA(2, (4, 4), max_iter=6, tol=0.0, selection=GPSelect(update_every=2)), SCENES),
    "UPoE": (UPoE(), SOURCES),
    "UPoE, parallel": (UPoE(3, algorithm="parallel"), SOURCES),
    "UPoE, sequential": (UPoE(4, algorithm="sequential"), SOURCES),
    "UPoE, back-fitting": (UPoE(4, algorithm="backfitting"), SOURCES),
}  # fmt: skip


class Killed(BaseException):
    """Stands for a signal that no fit can catch."""


@pytest.fixture
def killed_after(monkeypatch):
    """Kill a fit as soon as so many checkpoints are written."""

    def arrange(n_written):
        write, count = Checkpoint.flush, iter(range(1, 10**6))

        def flush(self):
            write(self)
            if next(count) == n_written:
                raise Killed

        monkeypatch.setattr(Checkpoint, "flush", flush)
        return lambda: monkeypatch.setattr(Checkpoint, "flush", write)

    return arrange


def learned(estimator):
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and name[0] != "_"}


def assert_same_bits(a, b, where=""):
    if isinstance(a, np.ndarray):
        assert_array_equal(a, b, err_msg=where)
    elif hasattr(a, "_asdict"):
        for name, value in a._asdict().items():
            assert_same_bits(value, getattr(b, name), f"{where}.{name}")
    elif hasattr(a, "theta"):
        assert_same_bits(vars(a), vars(b), where)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name, value in a.items():
            assert_same_bits(value, b[name], f"{where}.{name}")
    else:
        assert a == b, where


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("n_written", [1, 5])
@pytest.mark.parametrize("name", FITS)
def test_a_fit_that_was_killed_goes_on_to_the_bit(name, n_written, killed_after, tmp_path):
    estimator, X = FITS[name]
    estimator.set_params(random_state=0)
    path = tmp_path / "run.checkpoint"
    with chunks_of(256):
        whole = clone(estimator).fit(X)
        stop_killing = killed_after(n_written)
        with suppress(Killed):
            clone(estimator).fit(X, checkpoint=path, checkpoint_every=1)
        stop_killing()
        assert path.exists()
        resumed = clone(estimator).fit(X, checkpoint=path, checkpoint_every=1, resume=True)
    assert_same_bits(learned(whole), learned(resumed))


def test_a_fit_that_had_converged_ends_in_the_same_place_when_it_is_resumed(tmp_path):
    keeping = {"checkpoint": tmp_path / "run.checkpoint", "checkpoint_every": 1}
    whole = LinCA(8, start="random", random_state=0).fit(BARS, **keeping)
    assert "fell below tol" in str(whole.stop_)
    again = LinCA(8, start="random", random_state=0).fit(BARS, **keeping, resume=True)
    assert again.stop_ is whole.stop_
    assert_array_equal(again.components_, whole.components_)
    assert_array_equal(again.free_energy_, whole.free_energy_)


def test_the_seed_of_a_fit_without_one_is_in_its_checkpoint(killed_after, tmp_path):
    estimator, path = LinCA(8, max_iter=6, tol=0.0), tmp_path / "c"
    stop_killing = killed_after(3)
    with pytest.raises(Killed):
        estimator.fit(BARS, checkpoint=path, checkpoint_every=1)
    stop_killing()
    kept = path.read_bytes()
    first = clone(estimator).fit(BARS, checkpoint=path, resume=True)
    path.write_bytes(kept)
    second = clone(estimator).fit(BARS, checkpoint=path, resume=True)
    assert_same_bits(learned(first), learned(second))


@pytest.mark.usefixtures("callbacks")
def test_an_interrupted_fit_leaves_a_usable_estimator_and_a_checkpoint(tmp_path):
    path, whole = tmp_path / "c", LinCA(8, max_iter=9, tol=0.0, random_state=0).fit(BARS)
    interrupted = LinCA(8, max_iter=9, tol=0.0, random_state=0).set_callbacks(InterruptAt(4))
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(BARS, checkpoint=path)  # every thirty seconds: but for the interrupt none would be written
    assert interrupted.transform(BARS).shape == (600, 8)
    resumed = LinCA(8, max_iter=9, tol=0.0, random_state=0).fit(BARS, checkpoint=path, resume=True)
    assert_same_bits(learned(whole), learned(resumed))


class InterruptAt:
    """A callback that is a person with Ctrl-C."""

    def __init__(self, iteration):
        self.left = iteration

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, *args, **kwargs):
        pass

    def on_fit_task_end(self, *args, **kwargs):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def checkpointed(tmp_path):
    path = tmp_path / "c"
    LinCA(6, max_iter=3, tol=0.0, random_state=0).fit(BARS, checkpoint=path, checkpoint_every=1)
    return path


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: (LinCA(6, max_iter=4, tol=0.0, random_state=0), BARS, None), "'max_iter'"),
        (lambda: (LinCA(7, max_iter=3, tol=0.0, random_state=1), BARS, None), "'n_components', 'random_state'"),
        (lambda: (LinCA(6, max_iter=3, tol=0.0, random_state=0), BARS + 1e-12, None), "the data"),
        (lambda: (LinCA(6, max_iter=3, tol=0.0, random_state=0), BARS, np.ones(600)), "the weights"),
        (lambda: (ETNMF(6, max_iter=3, tol=0.0, random_state=0), BARS.clip(0), None), "the estimator"),
    ],
)
def test_a_checkpoint_of_another_fit_is_refused(change, named, checkpointed):
    estimator, X, weights = change()
    before = checkpointed.read_bytes()
    with pytest.raises(TensorFileError, match=f"another fit: it differs in .*{named}"):
        estimator.fit(X, sample_weight=weights, checkpoint=checkpointed, resume=True)
    assert checkpointed.read_bytes() == before


def test_threads_are_no_part_of_a_fit(checkpointed):
    LinCA(6, max_iter=3, tol=0.0, random_state=0, n_jobs=1, verbose=1).fit(BARS, checkpoint=checkpointed, resume=True)


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5, 0.99])
def test_a_torn_checkpoint_is_refused(keep, checkpointed):
    content = checkpointed.read_bytes()
    checkpointed.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
    with pytest.raises(TensorFileError, match=r"Cannot go on from .*cut short, damaged"):
        LinCA(6, max_iter=3, tol=0.0, random_state=0).fit(BARS, checkpoint=checkpointed, resume=True)


def test_no_flipped_bit_goes_unnoticed(checkpointed):
    content = checkpointed.read_bytes()
    for place in np.random.default_rng(0).integers(len(content), size=60):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(place % 8)
        checkpointed.write_bytes(damaged)
        with pytest.raises(ValueError, match="c'"):
            LinCA(6, max_iter=3, tol=0.0, random_state=0).fit(BARS, checkpoint=checkpointed, resume=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resume": True}, "resume=True goes on from a checkpoint"),
        ({"checkpoint": 3}, "must be the path of a file"),
        ({"checkpoint": "c", "checkpoint_every": 0}, "must be a number of iterations"),
        ({"checkpoint": "c", "checkpoint_every": "soon"}, "such as '30s'"),
        ({"checkpoint": "c", "trace": "c"}, "the same file"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        LinCA(6).fit(BARS, **arguments)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", os.mkdir)])
@pytest.mark.parametrize("resume", [False, True])
def test_a_checkpoint_that_can_be_no_file_is_refused_at_once(make, resume, tmp_path):
    make(tmp_path / "c")
    with pytest.raises(ValueError, match=r"must be the path of a file\. Got .*c', which is a folder, a pipe"):
        LinCA(6).fit(BARS, checkpoint=tmp_path / "c", resume=resume)


def test_a_full_disk_is_a_warning_and_the_fit_goes_on(checkpointed, monkeypatch):
    before = checkpointed.read_bytes()

    def full(*args):
        raise OSError(ENOSPC, "No space left on device", "c")

    monkeypatch.setattr("multicause.learning.checkpoints.write_tensors", full)
    with pytest.warns(RuntimeWarning, match="No checkpoint was written.*No space left") as caught:
        fit = LinCA(6, max_iter=3, tol=0.0, random_state=0).fit(BARS, checkpoint=checkpointed, checkpoint_every=1)
    assert len([w for w in caught if "No space" in str(w.message)]) == 1
    assert fit.n_iter_ == 3
    assert checkpointed.read_bytes() == before


def test_a_trace_goes_on_where_the_checkpoint_does(killed_after, tmp_path):
    estimator = LinCA(8, max_iter=5, tol=0.0, n_init=2, random_state=0)
    trace, path = tmp_path / "t.jsonl", tmp_path / "c"
    stop_killing = killed_after(4)
    with pytest.raises(Killed):
        estimator.fit(BARS, trace=trace, checkpoint=path, checkpoint_every=2)
    stop_killing()
    trace.write_text(trace.read_text() + '{"restart": 1, "iterat')
    estimator.fit(BARS, trace=trace, checkpoint=path, resume=True)
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(line["restart"], line["iteration"]) for line in lines] == [(r, i) for r in (0, 1) for i in range(6)]


def start_fit(folder, *more):
    command = [sys.executable, "-m", "multicause", "fit", "x.npy", "-n", "12", "--seed", "0", "--tol", "0"]
    return subprocess.Popen([*command, "--checkpoint-every", "1", *more], cwd=folder, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_command_line_goes_on_after_a_signal(number, tmp_path):
    np.save(tmp_path / "x.npy", np.tile(BARS, (10, 1)))
    settings = ("-o", "m", "--resume", "--iterations", "40")
    first = start_fit(tmp_path, *settings)
    while not (tmp_path / "m.checkpoint").exists() and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(number)
    first.communicate(timeout=60)
    assert first.returncode == (-9 if number == signal.SIGKILL else 143)
    assert (tmp_path / "m").exists() == (number == signal.SIGTERM)  # the last iteration is kept
    second = start_fit(tmp_path, *settings)
    assert "Going on from m.checkpoint" in second.communicate(timeout=60)[0]
    whole = start_fit(tmp_path, "-o", "whole", "--iterations", "40")
    whole.communicate(timeout=60)
    resumed, whole = load_model(tmp_path / "m"), load_model(tmp_path / "whole")
    assert_same_bits(learned(whole), learned(resumed))
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] or number == signal.SIGKILL
