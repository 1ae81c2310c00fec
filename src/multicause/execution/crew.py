"""Threads that wait for calls: nothing but one queue, which is no Python code, lies between a call and them.

Threads take Python in turns, and a pool's futures with their locks take a tenth of a small E-step to reach sixteen.
"""

from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Protocol

from multicause import interrupts


class Work(Protocol):
    """What any number of threads do together."""

    @property
    def n_pieces(self) -> int: ...  # more threads than these have nothing to do

    def work(self) -> bool: ...  # until nothing is left to begin; whether this thread has ended the last piece

    def stop(self) -> None: ...  # nothing more is begun


class Crew:
    """At most `n_threads` threads, which begin when they are first needed."""

    def __init__(self, n_threads: int):
        self.n_threads = n_threads
        self._calls: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._n_called = 0
        self._n_done: list[int] = []  # by each thread

    def call(self, task: Callable[[], Any], times: int = 1) -> None:
        """Let threads call a task, which must not raise, so many times."""
        with interrupts.held():
            self._n_called += times
            n_wanted = min(self._n_called - sum(self._n_done), self.n_threads)
            for number in range(len(self._threads), n_wanted):
                self._n_done.append(0)
                name = f"multicause_{number}"
                self._threads.append(Thread(target=self._obey, args=(number,), name=name, daemon=True))
                self._threads[-1].start()
            for _ in range(times):
                self._calls.put(task)

    def share(self, work: Work) -> None:
        """Return when the last piece is done, whether or not all threads know it; what a thread raised rises here."""
        turns = _Turns(work, min(self.n_threads, work.n_pieces))
        self.call(turns.take, turns.n_left)
        turns.await_end()

    def close(self) -> None:
        """Wait for what has begun, and for nothing else."""
        with suppress(Empty):
            while True:
                self._calls.get_nowait()
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()

    def _obey(self, number: int) -> None:
        while (task := self._calls.get()) is not None:
            task()
            del task  # what it holds is not needed while the thread waits
            self._n_done[number] += 1


class _Turns:
    """One for each thread; whoever ends the work, or fails, tells the caller."""

    def __init__(self, work: Work, n_turns: int):
        self._work, self.n_left = work, n_turns
        self._lock, self._ended = Lock(), Lock()
        self._is_told = False
        self._error: BaseException | None = None
        self._ended.acquire()

    def take(self) -> None:
        error = None
        try:
            is_end = self._work.work()
        except BaseException as raised:
            self._work.stop()
            is_end, error = True, raised
        with self._lock:
            self.n_left -= 1
            tells = (is_end or self.n_left == 0) and not self._is_told
            if tells:
                self._is_told, self._error = True, error
        if tells:
            self._ended.release()

    def await_end(self) -> None:
        """An interrupt rises while this waits."""
        self._ended.acquire()
        if self._error is not None:
            raise self._error
