"""What is kept of a fit while it runs, and in the end: trace, checkpoint, progress, callbacks, learned attributes."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause._compat import IterationCallbacks
from multicause.execution import Chunk
from multicause.execution.on_device import is_on_device
from multicause.learning import Outcome, Stop
from multicause.learning.checkpoints import Checkpoint, Every, digest_of_array, digest_of_value
from multicause.learning.driver import Progress
from multicause.learning.records import LOGGER, Consumer, LogLines, ProgressBar, Record, Trace

Path = str | os.PathLike[str] | None


class Keeping(NamedTuple):
    """What is kept on disk of a fit, while it runs."""

    trace: Path = None
    checkpoint: Path = None
    every: Every = Every(seconds=30.0)
    resume: bool = False

    @classmethod
    def checked(cls, trace: Any, checkpoint: Any, every: Any, resume: Any) -> "Keeping":
        for name, path in (("trace", trace), ("checkpoint", checkpoint)):
            if path is not None and not isinstance(path, (str, os.PathLike)):  # open() would take a number for a file
                raise TypeError(f"The '{name}' of a fit must be the path of a file or None. Got {path!r} instead.")
        if resume and checkpoint is None:
            raise ValueError("resume=True goes on from a checkpoint: give its path, checkpoint='run.checkpoint'.")
        if checkpoint is not None and os.path.exists(checkpoint) and not os.path.isfile(checkpoint):
            raise ValueError(  # to open a pipe would wait for its other end, for ever
                f"The 'checkpoint' of a fit must be the path of a file. Got '{os.fspath(checkpoint)}', which is a "
                "folder, a pipe or a device."
            )
        if trace is not None and checkpoint is not None and os.path.realpath(trace) == os.path.realpath(checkpoint):
            raise ValueError("'trace' and 'checkpoint' are the same file. Give each a path of its own.")
        return cls(trace, checkpoint, Every.of(every), bool(resume))


class Readers(NamedTuple):
    """Those who read a fit's records."""

    consumers: list[Consumer]
    wants_stop: Callable[[Record], bool]


class KeptFits:
    """The part of an estimator that keeps its fits."""

    random_state: Any
    verbose: Any
    get_params: Callable[..., dict[str, Any]]
    _attributes: Callable[..., dict[str, Any]]  # of learned parameters, by the names of attributes

    def _checkpoint(
        self, keeping: Keeping, chunks: Sequence[Chunk], params: Any, more: Mapping[str, str] | None = None
    ) -> Checkpoint | None:
        """What writes the checkpoint of a fit whose parameters are of the class of `params`; `more` identifies it."""
        if keeping.checkpoint is None:
            return None
        settings, data = self.get_params(deep=False), chunks[0].X
        of_the_run = {"n_jobs", "verbose"}
        if isinstance(self.random_state, np.random.RandomState):
            of_the_run.add("random_state")  # the seed that was drawn is in the file
        identity = {
            "the estimator": type(self).__name__,
            "the data": digest_of_array(chunks[0].fetch(data) if is_on_device(data) else data),
            "the weights": digest_of_array(chunks[0].weights),
            "the size of chunks": str(chunks[0].stop),
            **{f"'{name}'": digest_of_value(value) for name, value in settings.items() if name not in of_the_run},
            **(more or {}),
        }
        return Checkpoint(keeping.checkpoint, keeping.every, identity, {type(params).__name__: type(params)})

    @contextmanager
    def _readers(
        self,
        X: np.ndarray,
        n_steps: int,
        n_init: int,
        trace: Path,
        checkpoint: Checkpoint | None,
        progress: Progress | None,
    ) -> Iterator[Readers]:
        """Trace, progress bar, checkpoint and callbacks, closed in the end."""
        with ExitStack() as stack:
            consumers: list[Any] = []
            if trace is not None:
                done = None if progress is None else (progress.restart, len(progress.free_energy))
                consumers.append(stack.enter_context(closing(Trace(trace, done))))
            if self.verbose:
                bar = ProgressBar(n_steps, n_init, type(self).__name__)
                consumers.append(stack.enter_context(closing(bar)))
            if LOGGER.isEnabledFor(logging.DEBUG):
                consumers.append(LogLines(type(self).__name__))
            if checkpoint is not None:
                stack.callback(checkpoint.flush)
                consumers.append(checkpoint)
            callbacks = IterationCallbacks(self, X, n_init * (n_steps + 1), partial(self._so_far, X.dtype))
            stack.enter_context(closing(callbacks))
            yield Readers(consumers, callbacks)

    def _so_far(self, dtype, record: Record) -> dict[str, Any]:
        """What a callback's estimator has learned after an iteration: it can be asked, as after an interrupted fit."""
        history = np.array([record.free_energy])
        run = {"free_energy_": history, "n_iter_": record.number, "stop_": Stop.INTERRUPTED}
        return {**self._attributes(record.params, dtype), **run}

    def _keep(self, outcome: Outcome, dtype) -> None:
        for name, value in self._attributes(outcome.params, dtype).items():
            setattr(self, name, np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value)
        self.free_energy_, self.n_iter_, self.stop_ = outcome.free_energy, outcome.n_iter, outcome.stop
