"""Checkpoints: files from which a fit goes on, to the bit, as if it had never stopped."""

import json
import os
import re
import time
import warnings
from collections.abc import Mapping
from hashlib import sha256
from itertools import chain
from numbers import Integral
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from multicause.learning.driver import Iterate, Outcome, Progress, better_iterate
from multicause.learning.records import Record
from multicause.learning.resumed import check_progress
from multicause.tensor_files import (
    TensorFileError,
    decode,
    encode,
    is_frozen,
    is_record,
    library_version,
    read_tensors,
    write_tensors,
)

FORMAT_VERSION = 1
Path = str | os.PathLike[str]


class Every(NamedTuple):
    """How often a checkpoint is written: whichever is given."""

    iterations: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, value: int | str) -> "Every":
        """10 is every ten iterations, "30s" every thirty seconds."""
        if isinstance(value, Integral) and not isinstance(value, bool) and value >= 1:
            return cls(iterations=int(value))
        if isinstance(value, str) and (seconds := re.fullmatch(r"(\d+(?:\.\d+)?) ?s", value)):
            return cls(seconds=float(seconds[1]))
        raise ValueError(
            "'checkpoint_every' must be a number of iterations, at least 1, or of seconds, such as '30s'. "
            f"Got {value!r} instead."
        )


class Checkpoint:
    """Reads a fit's records, and now and then writes what it can go on from.

    Parameters
    ----------
    path : str or path-like
        The file.
    every : Every
        How often it is written.
    identity : mapping of str to str
        What the fit is of, in words and digests of data and settings: a checkpoint of another fit is refused.
    classes : mapping of str to type
        Classes of the parameters of models that are not ours.
    """

    def __init__(self, path: Path, every: Every, identity: Mapping[str, str], classes: Mapping[str, type]):
        self.path, self.every = path, every
        self.identity = {**identity, "the version of multicause": library_version()}
        self._classes = {**known_classes(), **classes}
        self._latest: Progress | None = None  # that is not in the file yet
        self._waited, self._written, self._warned = 0, time.monotonic(), False

    def begin(
        self, seed: int, restart: int, rng: np.random.Generator, best: Outcome | None, progress: Progress | None
    ) -> None:
        """Hear whose records will follow: those of a restart that begins, or goes on."""
        self._seed, self._restart, self._rng, self._best = seed, restart, rng, best
        self._history = [] if progress is None else list(progress.free_energy)
        self._iterate: Iterate | None = None if progress is None else progress.iterate

    def __call__(self, record: Record) -> None:
        self._iterate = better_iterate(self._iterate, record, len(self._history))
        self._history.append(record.free_energy)
        if record.state is None:
            return
        random = dict(self._rng.bit_generator.state)
        history = np.array(self._history)
        self._latest = Progress(self._seed, self._restart, history, random, record.state, self._best, self._iterate)
        self._waited += 1
        if self._is_due():
            self.flush()

    def _is_due(self) -> bool:
        if self.every.iterations is not None:
            return self._waited >= self.every.iterations
        return time.monotonic() - self._written >= (self.every.seconds or 0.0)

    def flush(self) -> None:
        """Write what is not in the file yet. A full disk is a warning: the fit and the last checkpoint stand."""
        if self._latest is None:
            return
        tensors: dict[str, np.ndarray] = {}
        state = self._latest.state
        progress = self._latest._replace(state=state.settled() if hasattr(state, "settled") else state)
        header = {
            "format": "multicause-checkpoint",
            "format_version": FORMAT_VERSION,
            "identity": self.identity,
            "progress": encode("progress", progress, tensors, self._classes),
        }
        try:
            write_tensors(self.path, header, tensors)
        except OSError as error:
            if not self._warned:
                warnings.warn(f"No checkpoint was written: {error}. The fit goes on.", RuntimeWarning, stacklevel=2)
            self._warned = True
        self._latest, self._waited, self._written = None, 0, time.monotonic()

    def load(self) -> Progress | None:
        """The progress in the file; None where there is no file yet."""
        if not os.path.exists(self.path):
            return None
        advice = "Give the path of the right checkpoint, or fit without resume=True."
        try:
            header, tensors = read_tensors(self.path, "checkpoint", FORMAT_VERSION)
            self._check_identity(header["identity"], advice)
            progress = decode(header["progress"], tensors, self._classes)
            if not isinstance(progress, Progress):
                raise ValueError("It holds no progress.")
            check_progress(progress)
        except (TensorFileError, KeyError, TypeError, ValueError, RecursionError) as error:
            if isinstance(error, ForeignCheckpointError):
                raise
            raise TensorFileError(f"Cannot go on from '{os.fspath(self.path)}': {error} {advice}") from error
        return progress

    def _check_identity(self, found: Mapping[str, str], advice: str) -> None:
        names = list(dict.fromkeys(chain(self.identity, found)))
        other = [name for name in names if found.get(name) != self.identity.get(name)]
        if other:
            raise ForeignCheckpointError(
                f"'{os.fspath(self.path)}' is the checkpoint of another fit: it differs in {', '.join(other)}. {advice}"
            )


class ForeignCheckpointError(TensorFileError):
    """A checkpoint of other data, or of other settings."""


def digest_of_array(array: Any) -> str:
    if array is None:
        return "none"
    digest = sha256(f"{array.dtype.str} {array.shape}".encode())
    for start in range(0, len(array), 4096):  # no copy of all of a strided array
        digest.update(np.ascontiguousarray(array[start : start + 4096]).data)
    return digest.hexdigest()


def digest_of_value(value: Any) -> str:
    """Of a setting; of an object that no file holds, the name of its class has to do."""
    tensors: dict[str, np.ndarray] = {}
    try:
        said = encode("value", value, tensors, known_classes())
    except TypeError:
        said = f"{type(value).__module__}.{type(value).__qualname__}"
    arrays = {key: digest_of_array(np.atleast_1d(array)) for key, array in tensors.items()}
    return sha256(json.dumps([said, arrays], sort_keys=True).encode()).hexdigest()


def known_classes() -> dict[str, type]:
    """The classes that states, parameters and settings are made of."""
    from multicause.backends import numba_cpu
    from multicause.learning import driver, records, stopping
    from multicause.learning.em import em, hebbian, schedules
    from multicause.learning.experts import descent, joint, pursuit
    from multicause.models import (
        dictionary_model,
        experts,
        few_maximal_causes,
        gaussian_mixture,
        product_of_experts,
        spike_slab_linear,
        translated_occlusion,
    )
    from multicause.posteriors import factored, truncated
    from multicause.selection import gp_images, gp_places, gp_select

    rooms: tuple[ModuleType, ...] = (
        driver, records, em, hebbian, schedules, descent, joint, pursuit, dictionary_model, experts, few_maximal_causes,
        gaussian_mixture, product_of_experts, spike_slab_linear, translated_occlusion, factored, truncated, gp_images,
        gp_places, gp_select, numba_cpu.load("gp_select"),
    )  # fmt: skip
    found = {name: cls for room in rooms for name, cls in vars(room).items() if is_frozen(cls) or is_record(cls)}
    return {**found, "Stop": stopping.Stop}
