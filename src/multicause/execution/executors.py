"""Where the chunks of a fit are worked on: on threads of this process, or on a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from multicause.execution.in_process import InProcess, effective_threads
from multicause.execution.sources import RowSource


class Cluster(NamedTuple):
    """A cluster that was chosen, and how long to wait for workers."""

    client: Any
    timeout: float


_chosen: ContextVar[Cluster | None] = ContextVar("cluster", default=None)


@contextmanager
def on(client: Any, *, timeout: float = 60.0) -> Iterator[Any]:
    """A context in which fits, and all questions to fitted models, run on a cluster of `dask.distributed`.

    Estimators in pipelines and searches are reached, too, without an argument of their own. Results have the bits of
    one process. A dask array as data needs no such context: it is worked on where it is.

    Parameters
    ----------
    client : distributed.Client or str
        The cluster; or the address of its scheduler, such as "tcp://10.0.0.1:8786".
    timeout : float, default=60
        Seconds without any worker after which a fit gives up with a TimeoutError.

    Yields
    ------
    client : distributed.Client
        The client.
    """
    distributed = _distributed()
    opened = distributed.Client(client, timeout=timeout) if isinstance(client, str) else None
    if opened is None and not isinstance(client, distributed.Client):
        raise TypeError(
            "A cluster is given as a distributed.Client, or as the address of its scheduler. "
            f"Got {type(client).__name__} instead."
        )
    token = _chosen.set(Cluster(client if opened is None else opened, float(timeout)))
    try:
        yield client if opened is None else opened
    finally:
        _chosen.reset(token)
        if opened is not None:
            opened.close()


def executor_for(X: Any, n_jobs: int | None) -> InProcess:
    """A cluster where one was chosen, or where the data are on one; else threads."""
    return _executor(_chosen.get() or _cluster_of(X), n_jobs)


def reader_for(X: Any, n_jobs: int | None) -> InProcess:
    """For a single look at the data: only what is on a cluster is looked at there."""
    return _executor(_cluster_of(X), n_jobs)


def _cluster_of(X: Any) -> Cluster | None:
    """The cluster where the data are."""
    if not (isinstance(X, RowSource) and hasattr(X, "array")):  # a dask array
        return None
    from multicause.execution.dask_cluster import current_client

    client = current_client()
    return _chosen.get() or (None if client is None else Cluster(client, 60.0))


def _executor(cluster: Cluster | None, n_jobs: int | None) -> InProcess:
    if cluster is None:
        return InProcess(effective_threads(n_jobs))
    from multicause.execution.dask_cluster import DaskCluster

    return DaskCluster(*cluster)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError("A cluster needs dask and distributed: pip install 'multicause[dask]'.") from error
    return distributed
