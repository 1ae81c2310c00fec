"""What a machine gains from more cores at best: the same work in separate processes that have nothing to wait for."""

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

import numpy as np

from multicause.execution import InProcess, split
from multicause.experiments.timing import Problem, random_start
from multicause.models import DataMoments, combine
from multicause.posteriors import TruncatedPosterior

LEAST_SECONDS, LEAST_ROUNDS = 0.2, 3


def efficiency_of_processes(problem: Problem, counts: Sequence[int]) -> dict[int, float]:
    """Speed of 1, 2, 4, ... processes at work at once, in units of the same ones' when each is alone on the machine.

    Each does E-steps, on one thread, of a share of the problem's data as large as the most processes would have. Their
    speeds add up; alone, too, since processors of a shared machine are not equally fast.
    """
    share = replace(problem, n_samples=max(problem.n_samples // max(counts), 1))
    with _processes(max(counts)) as connections:
        _ask(connections, share)
        alone = 1.0 / np.array([_ask([connection], True)[0] for connection in connections])
        at_once = {n: 1.0 / np.array(_ask(connections[:n], True)) for n in counts if n > 1}
    return {n: float(at_once[n].sum() / alone[:n].sum()) if n > 1 else 1.0 for n in counts}


def _ask(connections: Sequence[Connection], question: Any) -> list[float]:
    """Answers of processes that work on it at the same time."""
    for connection in connections:
        connection.send(question)
    return [connection.recv() for connection in connections]


@contextmanager
def _processes(n: int):
    context = get_context("spawn")  # forks of a process that has threads may hang
    pairs = [context.Pipe() for _ in range(n)]
    processes = [context.Process(target=_serve, args=(there,), daemon=True) for _, there in pairs]
    for process in processes:
        process.start()
    try:
        yield [here for here, _ in pairs]
    finally:
        for (here, _), process in zip(pairs, processes, strict=True):
            here.send(None)
            process.join()


def _serve(connection: Connection) -> None:
    """In a process of its own: make ready for a problem, then say again and again how long its E-step takes."""
    problem = connection.recv()
    X, _ = random_start(problem, 1)
    model = problem.model(problem.n_components, problem.n_features)
    params = model.init_params(DataMoments(float(len(X)), X.mean(axis=0), X.var(axis=0)), np.random.default_rng(0))
    prepared = TruncatedPosterior(problem.n_candidates, problem.max_active).prepare(model, params)
    chunks = split(X, problem.n_components)
    with InProcess(1) as executor:
        executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)  # kernels are loaded
        connection.send(0.0)
        while connection.recv():
            marks = [perf_counter()]
            while len(marks) <= LEAST_ROUNDS or marks[-1] - marks[0] < LEAST_SECONDS:
                executor.map_reduce(prepared.statistics, chunks, combine, prepared.together)
                marks.append(perf_counter())
            connection.send(float(np.median(np.diff(marks))))
