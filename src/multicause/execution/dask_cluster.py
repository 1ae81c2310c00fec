"""Chunks on the workers of a `dask.distributed` cluster, with the bits of a fit in one process.

Chunks are bundled into groups, a function of the data and not of the workers. The rows of a group stay on a worker, its
home; each call sends the task once to every worker, and one small sum comes back, combined in the tree that
`InProcess` uses. What chunks remember lives on their home. Whatever a worker takes with it when it dies is made again:
rows are sent or computed again, memory is rebuilt by doing again the tasks that made it.
"""

import io
import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from types import ModuleType
from typing import Any, NamedTuple
from uuid import uuid4

import cloudpickle
import numpy as np
from dask.array import Array
from distributed import CancelledError, Client, Future, wait

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess, single_threaded_blas, tree_reduce
from multicause.execution.sources import RowSource

FEWEST_GROUPS = 32  # where there are as many chunks: enough for workers that differ, few enough to cost nothing
MOST_BYTES = 128 * 2**20  # of a group's rows
_FAN_IN = 8  # sums that one task adds up; a power of two, so that the tree is that of one process
_ATTEMPTS = 10  # of a call whose data were lost with a worker
_KERNELS = "multicause.backends.numba_cpu"


class Order(NamedTuple):
    """What a group of chunks is to do."""

    run: str  # whose memory is meant
    version: int  # of the memory: how many tasks have changed it
    spans: tuple[tuple[int, int], ...]  # first and last row of each chunk


class Answer(NamedTuple):
    """What came out, and whether a chunk remembers something new."""

    value: Any
    changed: bool


class Missing(NamedTuple):
    """Groups, by their first row, whose memory is not where it was."""

    groups: tuple[int, ...]


class Past(NamedTuple):
    """A task that changed what chunks remember."""

    task: bytes
    weights: np.ndarray | None


class _From:
    """Rows `first` and on of a longer array: all that a worker has of it."""

    def __init__(self, rows: np.ndarray, first: int):
        self._rows, self._first = rows, first

    def __getitem__(self, part: slice) -> np.ndarray:
        return self._rows[part.start - self._first : part.stop - self._first]


_memories: dict[str, dict[tuple[int, int], list[dict]]] = {}  # of a worker: by run, then by group and version


def _run_group(task: bytes, rows: Any, weights: Any, order: Order, combine: Any, past: Sequence[Past]) -> Any:
    """On a worker: the task on each chunk of a group; the values combined, or listed where there is no `combine`."""
    first = order.spans[0][0]
    memory = _memory_of(order, rows, past)
    if memory is None:
        return Missing((first,))
    before = [dict(values) for values in memory]
    chunks = _chunks(order, rows, weights, [dict(values) for values in memory])
    with single_threaded_blas:
        values = map(_unpickled(task), chunks)
        value = list(values) if combine is None else tree_reduce(values, combine)
    after = [chunk.memory for chunk in chunks]
    kept = _memories.setdefault(order.run, {})
    kept[first, order.version + 1] = after
    kept.pop((first, order.version - 2), None)
    changed = any(a.keys() != b.keys() or any(a[k] is not b[k] for k in a) for a, b in zip(after, before, strict=True))
    return Answer(value, changed)


def _memory_of(order: Order, rows: Any, past: Sequence[Past]) -> list[dict] | None:
    """What the chunks of a group remember; where that is lost, it is made again by the tasks of the past, if given."""
    first = order.spans[0][0]
    if order.version == 0:
        return [{} for _ in order.spans]
    found = _memories.get(order.run, {}).get((first, order.version))
    if found is not None or len(past) != order.version:
        return found
    memory: list[dict] = [{} for _ in order.spans]
    for task, weights in past:
        chunks = _chunks(order, rows, weights, memory)
        with single_threaded_blas:
            for chunk in chunks:
                _unpickled(task)(chunk)
        memory = [chunk.memory for chunk in chunks]
    return memory


def _chunks(order: Order, rows: Any, weights: Any, memory: list[dict]) -> list[Chunk]:
    first = order.spans[0][0]
    source, shares = _From(np.asarray(rows), first), None if weights is None else _From(weights, first)
    made: Any = Chunk
    return [made(source, *span, shares, values) for span, values in zip(order.spans, memory, strict=True)]


def _combined(combine: Any, *answers: Any) -> Any:
    """On a worker: the sum of some answers, none of which is changed."""
    missing = tuple(group for answer in answers if isinstance(answer, Missing) for group in answer.groups)
    if missing:
        return Missing(missing)
    value = tree_reduce((deepcopy(answer.value) for answer in answers), combine)
    return Answer(value, any(answer.changed for answer in answers))


async def _drop(run: str) -> None:  # where nobody waits for it
    _memories.pop(run, None)


class _Pickler(cloudpickle.Pickler):
    """Kernels come from the disk cache on the workers, too."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType) and obj.__name__.startswith(f"{_KERNELS}."):
            return _kernel, (obj.__name__.removeprefix(f"{_KERNELS}."),)
        return super().reducer_override(obj)


def _kernel(name: str) -> Any:
    from importlib import import_module

    return import_module(_KERNELS).load(name)


def _pickled(task: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(task)
    return file.getvalue()


def _unpickled(task: bytes) -> Callable[[Chunk], Any]:
    return cloudpickle.loads(task)


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


class DaskCluster(InProcess):
    """Runs tasks on a cluster; what is not a chunk of the data runs here.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    timeout : float
        Seconds without any worker after which a call gives up.
    """

    def __init__(self, client: Client, timeout: float = 60.0):
        super().__init__(1)
        self.client, self.timeout = client, timeout
        self._run, self._version, self._past = uuid4().hex, 0, list[Past]()
        self._homes: dict[int, str] = {}  # of groups, by their first row
        self._rows: dict[tuple[int, int], tuple[Any, Future]] = {}  # by the identity of the data, and a group
        self._weights: dict[tuple[int, int], tuple[Any, Future]] = {}

    def __exit__(self, *exception) -> None:
        self._rows.clear()
        self._weights.clear()
        if self._version and self.client.status == "running":
            self.client.run(_drop, self._run, wait=False, on_error="ignore")
        super().__exit__(*exception)

    def map(self, task: Callable[[Any], Any], chunks: Sequence[Any]) -> Iterator[Any]:
        """Results in the order of the chunks."""
        if not _are_chunks(chunks):
            yield from super().map(task, chunks)
            return
        for value in self._call(task, chunks, None):
            yield from value

    def map_reduce(self, task: Callable[[Any], Any], chunks: Sequence[Any], combine: Callable[[Any, Any], Any]) -> Any:
        """The sum over all chunks, in the tree that one process would use."""
        if not _are_chunks(chunks):
            return super().map_reduce(task, chunks, combine)
        return self._call(task, chunks, combine)[0]

    def forget(self, chunks: Sequence[Chunk]) -> None:
        if self._version:
            self.client.run(_drop, self._run, wait=False, on_error="ignore")
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

    def _call(self, task: Callable, chunks: Sequence[Chunk], combine: Any) -> list[Any]:
        """The sum alone, or the values of each group where there is no `combine`."""
        blob, groups = _pickled(task), _groups(chunks)
        for attempt in range(_ATTEMPTS):
            self._await_workers()
            try:
                answers = self._answers(blob, groups, combine)
                break
            except CancelledError:  # what was sent to a worker died with it
                if attempt == _ATTEMPTS - 1 or self.client.status != "running":
                    raise
                self._forget_lost()
        if any(answer.changed for answer in answers):
            self._version += 1
            self._past.append(Past(blob, chunks[0].weights))
        return [answer.value for answer in answers]

    def _answers(self, blob: bytes, groups: list[list[Chunk]], combine: Any) -> list[Answer]:
        self._settle(groups)
        self._place(groups)
        task = self.client.scatter(blob, broadcast=True, hash=False)
        futures = {group[0].start: self._submit(task, group, combine, ()) for group in groups}
        by_start = {group[0].start: group for group in groups}
        while True:
            ends = list(futures.values()) if combine is None else [self._sum(list(futures.values()), combine)]
            answers = self._gather(ends)
            missing = [start for answer in answers if isinstance(answer, Missing) for start in answer.groups]
            if not missing:
                return answers
            for start in missing:
                group = by_start[start]
                past = [Past(p.task, _part(p.weights, group)) for p in self._past[: self._version]]
                futures[start] = self._submit(task, group, combine, self.client.scatter([past], hash=False)[0])

    def _submit(self, task: Future, group: list[Chunk], combine: Any, past: Any) -> Future:
        start = group[0].start
        order = Order(self._run, self._version, tuple((chunk.start, chunk.stop) for chunk in group))
        weights = None if group[0].weights is None else self._weights[id(group[0].weights), start][1]
        return self.client.submit(
            _run_group, task, self._rows[id(group[0].X), start][1], weights, order, combine, past,
            key=f"multicause-group-{start}-{uuid4().hex}", workers=[self._homes[start]], allow_other_workers=True,
        )  # fmt: skip

    def _sum(self, futures: list[Future], combine: Any) -> Future:
        while len(futures) > 1:
            parts = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
            futures = [self.client.submit(_combined, combine, *part, pure=False) for part in parts]
        return futures[0]

    def _gather(self, futures: list[Future]) -> list[Any]:
        """The results, or an error where the cluster has lost all its workers for too long."""
        while True:
            try:
                wait(futures, timeout=1.0)
                break
            except TimeoutError:
                self._await_workers()
        return self.client.gather(futures)

    def _await_workers(self) -> None:
        began = time.monotonic()
        while not self._threads():
            if time.monotonic() - began > self.timeout:
                raise TimeoutError(
                    f"The cluster of {self.client} has had no worker for {self.timeout:g} s. Start "
                    "workers, or wait longer for them: multicause.execution.on(client, timeout=...)."
                )
            time.sleep(0.1)

    def _threads(self) -> dict[str, int]:
        return dict(self.client.nthreads())

    def _settle(self, groups: list[list[Chunk]]) -> None:
        """Give each group a home: it keeps the one it has, unless a worker has left, or idle ones have joined."""
        threads = self._threads()
        starts = [group[0].start for group in groups]
        self._homes = {start: home for start, home in self._homes.items() if home in threads}
        load = dict.fromkeys(sorted(threads), 0)
        for start in starts:
            if start in self._homes:
                load[self._homes[start]] += 1

        def least() -> str:
            return min(load, key=lambda worker: (load[worker] + 1) / threads[worker])

        for start in starts:
            if start not in self._homes:
                self._homes[start] = least()
                load[self._homes[start]] += 1
            elif self._version == 0:  # what is remembered would have to be made again
                home, other = self._homes[start], least()
                if (load[other] + 1) / threads[other] < load[home] / threads[home]:
                    self._homes[start] = other
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
            self._gather_homes(starts, computed)
        for group, start in zip(groups, starts, strict=True):
            home = [self._homes[start]]
            if (id(X), start) not in self._rows:
                rows = np.ascontiguousarray(X[start : group[-1].stop])
                self._rows[id(X), start] = X, self.client.scatter(rows, workers=home, hash=False)
            if weights is not None and (id(weights), start) not in self._weights:
                part = _part(weights, group)
                self._weights[id(weights), start] = weights, self.client.scatter(part, workers=home, hash=False)

    def _gather_homes(self, starts: list[int], computed: list[Future]) -> None:
        """The homes of blocks that the cluster itself computed."""
        while True:
            try:
                wait(computed, timeout=1.0)
                break
            except TimeoutError:
                self._await_workers()
        where = self.client.who_has(computed)
        for start, future in zip(starts, computed, strict=True):
            if where.get(future.key):
                self._homes[start] = sorted(where[future.key])[0]

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
