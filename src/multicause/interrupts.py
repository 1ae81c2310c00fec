"""Ctrl-C in a fit: it is answered where nothing is lost, and waits wherever something would be.

An interrupt is an exception that may rise between any two steps of Python: between a record and its place in the
history, in the middle of an import, or while a pool of threads holds a lock. A fit is therefore *watched*. Until it has
something to lose interrupts rise at once; after that, only in the parts that say so, by `raised`.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


class Interrupted(KeyboardInterrupt):
    """An interrupt that brings what had been found when it rose."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


class Watch:
    """What signals do to a fit: they rise at once, or wait while they are held. One more than that always rises."""

    def __init__(self) -> None:
        self.held = False
        self.waiting: int | None = None  # the signal that came while they were held
        self.received: list[int] = []
        self.before: dict[int, Any] = {}

    def receive(self, number: int, frame: Any) -> None:
        """The handler of the signals that are watched."""
        self.received.append(number)
        if self.held and self.waiting is None:
            self.waiting = number
        else:
            self._rise(number, frame)

    def release(self) -> None:
        """Let them rise, beginning with the one that waits."""
        self.held = False
        number = self.take()
        if number is not None:
            self._rise(number, None)

    def take(self) -> int | None:
        """The one that waits, which is now answered."""
        number, self.waiting = self.waiting, None
        return number

    def _rise(self, number: int, frame: Any) -> None:
        self.held = True  # a second one must not disturb the answer to the first
        before = self.before[number]
        if not callable(before):
            raise KeyboardInterrupt
        before(number, frame)


_watch: Watch | None = None  # of the main thread, which alone receives signals


def _watching() -> Watch | None:
    return _watch if current_thread() is main_thread() else None


@contextmanager
def watched(*more: int) -> Iterator[Watch]:
    """A context in which the calls below decide when Ctrl-C rises, and `more` signals, which are taken for it.

    Within another one, it belongs to that. What waits at the end rises then, when all is kept.
    """
    global _watch
    outer = _watching()
    if outer is not None or current_thread() is not main_thread():
        yield outer or Watch()
        return
    watch = Watch()
    now = {number: signal.getsignal(number) for number in (signal.SIGINT, *more)}
    watch.before = {n: handler for n, handler in now.items() if callable(handler) or n in more}
    _watch = watch
    try:
        for number in watch.before:
            signal.signal(number, watch.receive)
        yield watch
    finally:
        watch.held = True  # one more must not rise before those who came first are back
        _watch = None
        exec("")  # Python would remember, until its own end, an interrupt that rose in an import and was answered
        for number, handler in watch.before.items():
            signal.signal(number, handler)
        if watch.waiting is not None:
            watch.release()


class raised:
    """A context in which an interrupt rises at once, one that waits at its beginning; from its end on they wait."""

    def __enter__(self) -> None:
        self._watch = _watching()
        if self._watch is not None:
            self._watch.release()

    def __exit__(self, *exception: object) -> None:
        if self._watch is not None:
            self._watch.held = True


class held:
    """A context in which interrupts wait; one that came rises at its end, unless they waited before."""

    def __enter__(self) -> None:
        self._watch = _watching()
        if self._watch is not None:
            self._before, self._watch.held = self._watch.held, True

    def __exit__(self, kind: Any, *exception: object) -> None:
        if self._watch is None or self._before:
            return
        if kind is None:
            self._watch.release()
        else:
            self._watch.held = False  # what waits rises at the end of the watch, after the error of this context
