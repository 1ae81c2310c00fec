"""Chunks on the workers of a `dask.distributed` cluster, with the bits of a fit in one process.

Chunks are bundled into groups, a function of the data and not of the workers. The rows of a group stay on a worker, its
home; each call sends the task once to every worker, and one small sum comes back, combined in the tree that
`InProcess` uses. What chunks remember lives on their home. Whatever a worker takes with it when it dies is made again:
rows are sent or computed again, memory is rebuilt by doing again the tasks that made it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any
from uuid import uuid4

import numpy as np
from dask.array import Array
from distributed import CancelledError, Client, Future, wait

from multicause.execution.chunks import Chunk
from multicause.execution.dask_worker import Answer, Missing, Nodes, Order, Past, drop, pickled, run_bundle, total
from multicause.execution.in_process import InProcess
from multicause.execution.sources import RowSource

FEWEST_GROUPS = 32  # where there are as many chunks: enough for workers that differ
MOST_BYTES = 128 * 2**20  # of a group's rows
_BUNDLES = 4  # tasks per thread and call: each costs some milliseconds, but workers are not equally fast
_ATTEMPTS = 10  # of a call whose data were lost with a worker


class DaskRows(RowSource):
    """A dask array. Its blocks stay on the workers, or are computed as they are read where there is no cluster."""

    def __init__(self, array: Array):
        if array.ndim != 2 or np.isnan(array.shape[0]):
            raise ValueError(
                f"X is a dask array of shape {array.shape}, but must have rows and columns, and know how many: call "
                "X.compute_chunk_sizes() first."
            )
        super().__init__(array.shape, array.dtype)
        self.array = array

    def _read(self, start: int, stop: int) -> np.ndarray:
        return self.array[start:stop].compute()


def current_client() -> Client | None:
    """The client of this process, if there is one."""
    try:
        return Client.current()
    except ValueError:
        return None


class NoWorkersError(TimeoutError):
    """A cluster that has had no worker for too long."""


class DaskCluster(InProcess):
    """Runs tasks on a cluster; what is not a chunk of the data runs here.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    timeout : float
        Seconds without any worker after which a call gives up.
    """

    is_here = False

    def __init__(self, client: Client, timeout: float = 60.0):
        super().__init__(1)
        self.client, self.timeout = client, timeout
        self._run, self._version, self._past = uuid4().hex, 0, list[Past]()
        self._homes: dict[int, str] = {}  # of groups
        self._rows: dict[tuple[int, int], tuple[Any, Future]] = {}  # by the identity of the data, and a group
        self._weights: dict[tuple[int, int], tuple[Any, Future]] = {}

    def __exit__(self, *exception) -> None:
        self._rows.clear()
        self._weights.clear()
        if self._version and self.client.status == "running":
            self.client.run(drop, self._run, wait=False, on_error="ignore")
        super().__exit__(*exception)

    def map(self, task: Callable[[Any], Any], chunks: Sequence[Any]) -> Iterator[Any]:
        """Results in the order of the chunks."""
        if not _are_chunks(chunks):
            yield from super().map(task, chunks)
            return
        nodes = self._call(task, chunks, None)
        for key in sorted(nodes):
            yield from nodes[key]

    def map_reduce(
        self,
        task: Callable[[Any], Any],
        chunks: Sequence[Any],
        combine: Callable[[Any, Any], Any],
        together: Callable[[Sequence[Any], int], Any] = lambda chunks, n_threads: None,
    ) -> Any:
        """The sum over all chunks, in the tree that one process would use; workers do chunk after chunk."""
        if not _are_chunks(chunks):
            return super().map_reduce(task, chunks, combine)
        return total(deepcopy(self._call(task, chunks, combine)), combine)

    def forget(self, chunks: Sequence[Chunk]) -> None:
        if self._version:
            self.client.run(drop, self._run, wait=False, on_error="ignore")
        self._run, self._version, self._past = uuid4().hex, 0, []

    def remembered(self, chunks: Sequence[Chunk]) -> Callable[[], tuple[tuple[Any, ...], ...]]:
        """What chunks remember now: it stays on the workers until somebody asks."""
        if self._version == 0:
            return lambda: tuple(() for _ in chunks)
        at = self._run, self._version, tuple(self._past)

        def gather() -> tuple[tuple[Any, ...], ...]:
            now = self._run, self._version, self._past
            self._run, self._version, self._past = at[0], at[1], list(at[2])
            try:
                return tuple(self.map(Chunk.remembered, chunks))
            finally:
                self._run, self._version, self._past = now

        return gather

    def restore(self, chunks: Sequence[Chunk], values: Sequence[Sequence[Any]]) -> None:
        given = {chunk.start: tuple(kept) for chunk, kept in zip(chunks, values, strict=True)}

        def remind(chunk: Chunk) -> None:
            for value in given[chunk.start]:
                chunk.remember(value)

        self.forget(chunks)
        for _ in self.map(remind, chunks):
            pass

    def _call(self, task: Callable, chunks: Sequence[Chunk], combine: Any) -> Nodes:
        """The sums of groups, as far as they were added up; or the values of each where there is no `combine`."""
        blob, groups = pickled(task), _groups(chunks)
        for attempt in range(_ATTEMPTS):
            self._await_workers()
            try:
                answers = self._answers(blob, groups, combine)
                break
            except NoWorkersError:
                raise
            except (CancelledError, OSError):  # what was sent to a worker died with it, or on its way
                if attempt == _ATTEMPTS - 1 or self.client.status != "running":
                    raise
                self._forget_lost()
        if any(answer.changed for answer in answers):
            self._version += 1
            self._past.append(Past(blob, chunks[0].weights))
        return {key: value for answer in answers for key, value in answer.nodes.items()}

    def _answers(self, blob: bytes, groups: list[list[Chunk]], combine: Any) -> list[Answer]:
        threads = self._threads()
        self._settle(groups, threads)
        self._place(groups)
        task = self.client.scatter(blob, broadcast=True, hash=False)
        bundles = self._bundles(len(groups), threads)
        futures = [self._submit(task, bundle, groups, combine, {}) for bundle in bundles]
        while True:
            self._wait(futures)
            answers = self.client.gather(futures)
            lacking = [(i, answer.groups) for i, answer in enumerate(answers) if isinstance(answer, Missing)]
            if not lacking:
                self._note_moves(bundles, answers)
                return answers
            for i, lost in lacking:
                pasts = {
                    index: [Past(past.task, _part(past.weights, groups[index])) for past in self._past]
                    for index in lost
                }
                sent = self.client.scatter([pasts], hash=False)[0]
                futures[i] = self._submit(task, bundles[i], groups, combine, sent)

    def _bundles(self, n_groups: int, threads: dict[str, int]) -> list[list[int]]:
        """Groups that one task works on: neighbours on the same worker."""
        bundles: list[list[int]] = []
        for home, n_threads in threads.items():
            here = [index for index in range(n_groups) if self._homes[index] == home]
            n_parts = min(_BUNDLES * n_threads, len(here))
            bundles += [part.tolist() for part in np.array_split(here, n_parts)] if here else []
        return bundles

    def _submit(self, task: Future, bundle: list[int], groups: list[list[Chunk]], combine: Any, pasts: Any) -> Future:
        first = groups[bundle[0]][0]
        orders = [self._order(index, groups[index]) for index in bundle]
        rows = [self._rows[id(first.X), groups[index][0].start][1] for index in bundle]
        weights: list[Any] = [None] * len(bundle)
        if first.weights is not None:
            weights = [self._weights[id(first.weights), groups[index][0].start][1] for index in bundle]
        return self.client.submit(
            run_bundle, task, orders, rows, weights, combine, pasts,
            key=f"multicause-{uuid4().hex}", workers=[self._homes[bundle[0]]], allow_other_workers=True,
        )  # fmt: skip

    def _order(self, index: int, group: list[Chunk]) -> Order:
        spans = tuple((chunk.start, chunk.stop) for chunk in group)
        return Order(index, self._run, self._version, spans, tuple(chunk.n_parts for chunk in group))

    def _note_moves(self, bundles: list[list[int]], answers: list[Answer]) -> None:
        """A task may have run elsewhere than on its home: what chunks remember is there now."""
        for bundle, answer in zip(bundles, answers, strict=True):
            if answer.changed:
                self._homes |= dict.fromkeys(bundle, answer.where)

    def _wait(self, futures: list[Future]) -> None:
        """Until they are done, or an error where the cluster has lost all its workers for too long."""
        while True:
            try:
                wait(futures, timeout=1.0)
                return
            except TimeoutError:
                self._await_workers()

    def _await_workers(self) -> None:
        began = time.monotonic()
        while not self._threads():
            if time.monotonic() - began > self.timeout:
                raise NoWorkersError(
                    f"The cluster of {self.client} has had no worker for {self.timeout:g} s. Start "
                    "workers, or wait longer for them: multicause.execution.on(client, timeout=...)."
                )
            time.sleep(0.1)

    def _threads(self) -> dict[str, int]:
        return dict(self.client.nthreads())

    def _settle(self, groups: list[list[Chunk]], threads: dict[str, int]) -> None:
        """Give each group a home: it keeps the one it has, unless a worker has left, or idle ones have joined."""
        if len(self._homes) != len(groups):  # neighbours together, so that their sums meet early
            seats = np.repeat(sorted(threads), [threads[worker] for worker in sorted(threads)])
            self._homes = {i: str(seats[i * len(seats) // len(groups)]) for i in range(len(groups))}
            return
        homeless = [index for index, home in self._homes.items() if home not in threads]
        load = dict.fromkeys(sorted(threads), 0)
        for home in self._homes.values():
            if home in threads:
                load[home] += 1

        def least() -> str:
            return min(load, key=lambda worker: (load[worker] + 1) / threads[worker])

        for index in homeless:
            self._homes[index] = least()
            load[self._homes[index]] += 1
        for index, home in self._homes.items() if self._version == 0 else ():  # memory would have to be made again
            other = least()
            if (load[other] + 1) / threads[other] < load[home] / threads[home]:
                self._homes[index] = other
                load[home], load[other] = load[home] - 1, load[other] + 1

    def _place(self, groups: list[list[Chunk]]) -> None:
        """Rows and weights of the groups on their homes, where they are not there yet."""
        X, weights = groups[0][0].X, groups[0][0].weights
        starts = [group[0].start for group in groups]
        if isinstance(X, DaskRows) and (id(X), starts[0]) not in self._rows:
            heights = tuple(group[-1].stop - group[0].start for group in groups)
            blocks = X.array.rechunk((heights, (X.shape[1],))).to_delayed().ravel()
            computed = self.client.compute(list(blocks), retries=2)
            self._rows |= {(id(X), start): (X, future) for start, future in zip(starts, computed, strict=True)}
            self._gather_homes(computed)
        for index, (group, start) in enumerate(zip(groups, starts, strict=True)):
            home = [self._homes[index]]
            if (id(X), start) not in self._rows:
                rows = np.ascontiguousarray(X[start : group[-1].stop])
                self._rows[id(X), start] = X, self.client.scatter(rows, workers=home, hash=False)
            if weights is not None and (id(weights), start) not in self._weights:
                part = _part(weights, group)
                self._weights[id(weights), start] = weights, self.client.scatter(part, workers=home, hash=False)
        latest = [*dict.fromkeys(key for key, _ in self._weights)][-2:]  # weights of classified data change for ever
        self._weights = {key: value for key, value in self._weights.items() if key[0] in latest}

    def _gather_homes(self, computed: list[Future]) -> None:
        """The homes of blocks that the cluster itself computed."""
        self._wait(computed)
        where = self.client.who_has(computed)
        for index, future in enumerate(computed):
            if where.get(future.key):
                self._homes[index] = sorted(where[future.key])[0]

    def _forget_lost(self) -> None:
        for placed in (self._rows, self._weights):
            for key in [key for key, (_, future) in placed.items() if future.status not in ("finished", "pending")]:
                del placed[key]


def _are_chunks(items: Sequence[Any]) -> bool:
    return len(items) > 0 and all(isinstance(item, Chunk) for item in items)


def _part(weights: np.ndarray | None, group: list[Chunk]) -> np.ndarray | None:
    return None if weights is None else weights[group[0].start : group[-1].stop]


def _groups(chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """Chunks in groups of a power of two: so many that there are enough groups, and none is too large."""
    X, size = chunks[0].X, 1
    row_bytes = 8 * X.shape[1]
    rows = chunks[0].stop - chunks[0].start
    while len(chunks) >= 2 * size * FEWEST_GROUPS and 2 * size * rows * row_bytes <= MOST_BYTES:
        size *= 2
    return [list(chunks[i : i + size]) for i in range(0, len(chunks), size)]
