"""What runs on a worker of a Dask cluster: tasks on the chunks of some groups, whose memory lives there."""

import io
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from distributed import get_worker

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import InProcess, single_threaded_blas
from multicause.execution.work_arrays import forget_work_arrays

_KERNELS = "multicause.backends.numba_cpu"

Nodes = dict[tuple[int, int], Any]  # sums over 2^level groups from index * 2^level on, by (level, index)


class Order(NamedTuple):
    """What a group of chunks is to do."""

    group: int
    run: str  # whose memory is meant
    version: int  # of the memory: how many tasks have changed it
    spans: tuple[tuple[int, int], ...]  # first and last row of each chunk
    n_parts: tuple[int, ...]  # of each chunk


class Answer(NamedTuple):
    """What came out of some groups, and whether a chunk remembers something new."""

    nodes: Nodes
    changed: bool
    where: str  # the worker's address


class Missing(NamedTuple):
    """Groups whose memory is not where it was."""

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


def run_bundle(
    task: bytes, orders: list[Order], rows: list, weights: list, combine: Any, pasts: dict[int, list[Past]]
) -> Answer | Missing:
    """On a worker: the task on each chunk of some groups; values combined, or listed where there is no `combine`."""
    run, nodes, changed = unpickled(task), Nodes(), False
    missing = tuple(order.group for order in orders if order.group not in pasts and not _remembers(order))
    if missing:
        return Missing(missing)
    try:
        with single_threaded_blas:
            for order, values, shares in zip(orders, rows, weights, strict=True):
                before = _memory_of(order, values, pasts.get(order.group, []))
                chunks = _chunks(order, values, shares, [dict(memory) for memory in before])
                found = list(map(run, chunks)) if combine is None else InProcess().map_reduce(run, chunks, combine)
                nodes[0, order.group] = found
                changed |= _keep(order, [chunk.memory for chunk in chunks], before)
    finally:
        forget_work_arrays()  # a worker's threads do not end with the fit
    return Answer(nodes if combine is None else merged(nodes, combine), changed, get_worker().address)


def _remembers(order: Order) -> bool:
    return order.version == 0 or (order.group, order.version) in _memories.get(order.run, {})


def _memory_of(order: Order, rows: Any, past: list[Past]) -> list[dict]:
    """What the chunks of a group remember; where that is lost, it is made again by the tasks of the past."""
    if order.version > 0 and _remembers(order):
        return _memories[order.run][order.group, order.version]
    memory: list[dict] = [{} for _ in order.spans]
    for task, weights in past:
        chunks = _chunks(order, rows, weights, memory)
        for chunk in chunks:
            unpickled(task)(chunk)
        memory = [chunk.memory for chunk in chunks]
    return memory


def _keep(order: Order, after: list[dict], before: list[dict]) -> bool:
    """Keep the group's memory as that of the next version, and of the last two; gives whether it has changed."""
    changed = any(_differ(a, b) for a, b in zip(after, before, strict=True))
    if changed or order.version > 0:
        kept, following = _memories.setdefault(order.run, {}), (order.group, order.version + 1)
        kept[following] = after if changed else kept.get(following, after)  # other groups' may have changed
        kept.pop((order.group, order.version - 2), None)
    return changed


def _differ(after: dict, before: dict) -> bool:
    return after.keys() != before.keys() or any(after[kind] is not before[kind] for kind in after)


def _chunks(order: Order, rows: Any, weights: Any, memory: list[dict]) -> list[Chunk]:
    first = order.spans[0][0]
    source, shares = _From(np.asarray(rows), first), None if weights is None else _From(weights, first)
    made: Any = Chunk
    known = zip(order.spans, memory, order.n_parts, strict=True)
    return [made(source, *span, shares, values, n_parts) for span, values, n_parts in known]


def merged(nodes: Nodes, combine: Any) -> Nodes:
    """Neighbours added up, as far as they are there, in the tree of `InProcess.map_reduce`."""
    nodes, level = dict(nodes), 0
    while any(height >= level for height, _ in nodes):
        for index in sorted(index for height, index in nodes if height == level and index % 2 == 0):
            if (level, index + 1) in nodes:
                pair = nodes.pop((level, index)), nodes.pop((level, index + 1))
                nodes[level + 1, index // 2] = combine(*pair)
        level += 1
    return nodes


def total(nodes: Nodes, combine: Any) -> Any:
    """The sum of all groups: what has no neighbour is added from the right, as `InProcess.map_reduce` does."""
    nodes = merged(nodes, combine)
    *others, value = (nodes[key] for key in sorted(nodes, key=lambda key: key[1] << key[0]))
    for other in reversed(others):
        value = combine(other, value)
    return value


async def drop(run: str) -> None:  # where nobody waits for it
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


def pickled(task: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(task)
    return file.getvalue()


def unpickled(task: bytes) -> Callable[[Chunk], Any]:
    return cloudpickle.loads(task)
