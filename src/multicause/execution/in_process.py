"""Chunks on the threads of this process. The kernels and the matrix products release the interpreter lock."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from multicause import interrupts
from multicause.execution.chunks import Chunk, split
from multicause.execution.crew import Crew, Work
from multicause.execution.work_arrays import forget_work_arrays

Item = TypeVar("Item")
Result = TypeVar("Result")
Found = TypeVar("Found", covariant=True)


class Shared(Work, Protocol[Found]):
    """All chunks at once."""

    def result(self) -> Found | None: ...  # None: it cannot be done in this way, after all


def effective_threads(n_jobs: int | None) -> int:
    """None: every core this process may use, or what OMP_NUM_THREADS says; -1: every core; else the number itself."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return min(cores, int(limit)) if limit.isdigit() and int(limit) > 0 else cores
    return max(cores + 1 + n_jobs, 1) if n_jobs < 0 else n_jobs


class _SingleThreadedBlas:
    """BLAS at one thread while anyone is inside; fits in several threads share one limit, lifted by the last."""

    def __init__(self) -> None:
        self._controller: ThreadpoolController | None = None
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def _begin_in_child(self) -> None:
        """Threads that were inside, or held the lock, are not there after a fork, and will never leave."""
        if self._limit is not None:
            self._limit.restore_original_limits()
        self._begin()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *exception) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()
                self._limit = None


single_threaded_blas = _SingleThreadedBlas()


class InProcess:
    """Runs tasks on `n_threads` threads; a context in which BLAS keeps to one thread each.

    Results never depend on the number of threads: chunks are given, and their results meet in a fixed binary tree.
    """

    is_here = True  # whether small tasks are as quick as anywhere

    def __init__(self, n_threads: int = 1):
        self.n_threads = n_threads
        self._crew: Crew | None = None
        self._stack = ExitStack()

    def __enter__(self) -> "InProcess":
        with interrupts.held():
            self._stack.enter_context(single_threaded_blas)
            # also for one thread: a compiled kernel on the main thread would turn Ctrl-C into a SystemError, or worse
            self._crew = Crew(self.n_threads)
            self._stack.callback(forget_work_arrays)
            self._stack.callback(self._crew.close)
        return self

    def __exit__(self, *exception) -> None:
        with interrupts.held():
            self._stack.close()
            self._crew = None

    def split(
        self, X: Any, n_components: int, chunk_size: int | None = None, weights: np.ndarray | None = None
    ) -> list[Chunk]:
        """X cut into chunks that suit what they are worked on with."""
        return split(X, n_components, chunk_size, weights)

    def map(self, task: Callable[[Item], Result], chunks: Sequence[Item]) -> Iterator[Result]:
        """Results in the order of the chunks; only a few chunks are under way at any time."""
        if self._crew is None:
            yield from map(task, chunks)  # outside its context there are no threads
            return
        under_way: deque[Future[Result]] = deque()
        for chunk in chunks:
            under_way.append(self._start(task, chunk))
            if len(under_way) > 2 * self.n_threads:
                yield _result(under_way.popleft())
        while under_way:
            yield _result(under_way.popleft())

    def answers(self, task: Callable[[Item], Any], chunks: Sequence[Item]) -> list[Any]:
        """Arrays for all chunks, where their data are."""
        return list(self.map(task, chunks))

    def joined(self, task: Callable[[Item], Any], chunks: Sequence[Item]) -> Any:
        """One array of all chunks, where they are worked on."""
        return np.concatenate(list(self.map(task, chunks)))

    def map_reduce(
        self,
        task: Callable[[Item], Result],
        chunks: Sequence[Item],
        combine: Callable[[Result, Result], Result],
        together: Callable[[Sequence[Item], int], Shared[Result] | None] = lambda chunks, n_threads: None,
    ) -> Result:
        """Combine the results of all chunks in a binary tree whose shape depends on the number of chunks alone.

        `together` may know of a way to the same result in which threads do not meet in Python for each chunk.
        """
        if not chunks:
            raise ValueError("There are no chunks, and so nothing to combine: data need at least one row.")
        if self._crew is None:
            tree = _Reduction(task, chunks, combine)
            tree.work()  # outside its context there are no threads
            return tree.total
        shared = together(chunks, self.n_threads)
        if shared is not None:
            self._share(shared)
            result = shared.result()
            if result is not None:
                return result
        tree = _Reduction(task, chunks, combine)
        self._share(tree)
        return tree.total

    def _share(self, work: Work) -> None:
        """Work on all threads, until it is done; an interrupted caller waits for nothing that has not begun."""
        assert self._crew is not None
        try:
            self._crew.share(work)
        except BaseException:
            work.stop()
            forget_work_arrays()  # what has begun still writes to them
            raise

    def _start(self, task: Callable[..., Result], *arguments: Any) -> "Future[Result]":
        assert self._crew is not None
        future: Future[Result] = Future()
        self._crew.call(partial(_fulfil, future, task, *arguments))
        return future

    def forget(self, chunks: Sequence[Chunk]) -> None:
        """Let chunks remember nothing."""
        for chunk in chunks:
            chunk.forget()

    def remembered(self, chunks: Sequence[Chunk]) -> Callable[[], tuple[tuple[Any, ...], ...]]:
        """What chunks remember now, once it is asked for."""
        now = tuple(chunk.remembered() for chunk in chunks)
        return lambda: now

    def restore(self, chunks: Sequence[Chunk], values: Sequence[Sequence[Any]]) -> None:
        """Let chunks remember what they did then."""
        for chunk, kept in zip(chunks, values, strict=True):
            for value in kept:
                chunk.remember(value)


def executor_here(executor: Any) -> AbstractContextManager[InProcess]:
    """The executor itself, where its threads are of this process; else such threads, for a while."""
    return nullcontext(executor) if executor.is_here else InProcess(effective_threads(None))


def _fulfil(future: "Future[Result]", task: Callable[..., Result], *arguments: Any) -> None:
    try:
        future.set_result(task(*arguments))
    except BaseException as error:
        future.set_exception(error)


def _result(future: "Future[Result]") -> Result:
    """An interrupt rises while this waits, and only then: in the midst of the future's own code it would leave a lock
    that nobody opens."""
    ended = Lock()
    ended.acquire()
    with interrupts.held():
        future.add_done_callback(lambda _: ended.release())
    ended.acquire()
    with interrupts.held():
        return future.result()


class _Reduction(Generic[Item, Result]):
    """Workers take the chunks in their order; whoever ends the second of two neighbours combines them and goes on up.

    Few partial results are alive at any time, and there is no Python between chunks but their own.
    """

    def __init__(
        self, task: Callable[[Item], Result], chunks: Sequence[Item], combine: Callable[[Result, Result], Result]
    ):
        self._task, self._chunks, self._combine = task, chunks, combine
        self._lock = Lock()
        self._begun = 0
        self._waiting: dict[tuple[int, int], Result] = {}  # by height and position
        self._stopped = False
        self.n_pieces = len(chunks)
        self.total: Result

    def stop(self) -> None:
        self._stopped = True

    def work(self) -> bool:
        """Chunks until there are none left, or a worker failed; whether the sum over all is there by this."""
        is_whole = False
        while True:
            with self._lock:
                position = self._begun
                if self._stopped or position == len(self._chunks):
                    return is_whole
                self._begun += 1
            try:
                is_whole = self._climb(position, self._task(self._chunks[position]))
            except BaseException:
                self.stop()
                raise

    def _climb(self, position: int, result: Result) -> bool:
        """Combine with the neighbour as long as it is there; without a right neighbour a result rises by itself."""
        height, n_nodes = 0, len(self._chunks)
        while n_nodes > 1:
            if position ^ 1 < n_nodes:
                with self._lock:
                    if (height, position ^ 1) not in self._waiting:
                        self._waiting[height, position] = result
                        return False
                    neighbour = self._waiting.pop((height, position ^ 1))
                left, right = (neighbour, result) if position & 1 else (result, neighbour)
                result = self._combine(left, right)
            height, position, n_nodes = height + 1, position // 2, (n_nodes + 1) // 2
        self.total = result
        return True
