"""`multicause bench threads`: what more threads gain, in the first iterations of a fit and in late ones.

Beside it stands what the machine allows: how fast each of so many separate processes is that do the same work at once.
They share no memory, no interpreter and no serial part, but the clock rate and the width of the way to memory; threads
can be no better, except by keeping data in caches.
"""

from dataclasses import replace
from itertools import takewhile

import numpy as np

from multicause.execution.in_process import effective_threads
from multicause.experiments.separate_processes import efficiency_of_processes
from multicause.experiments.timing import Problem, Start, disturbed_start, intervals, random_start
from multicause.models import MaximalCauses, SpikeSlabLinear

LINCA = Problem()
MCA = Problem(MaximalCauses, 10_000, 100, 100, 5, 3)
GSC = Problem(SpikeSlabLinear, 62_001, 64, 256, 10, 8)
PROBLEMS = {"LinCA": LINCA, "LinCA, large": replace(LINCA, n_samples=400_000), "GSC": GSC, "MCA": MCA}
STARTS: dict[str, Start] = {"first": random_start, "late": disturbed_start}
WANTED = {2: 0.90, 16: 0.75}  # of the speed that so many threads could have
MOST_OF_LINCA = 0.55  # an iteration of MCA, in units of one of LinCA

Measured = tuple[str, str, str, bool | None]  # what, its value, what is wanted, whether it is met


def compare_threads(quick: bool) -> list[Measured]:
    """Milliseconds and efficiency of 1, 2, 4, ... threads, and MCA beside LinCA on two."""
    lines, first, counts = [], {}, thread_counts()
    for name, problem in PROBLEMS.items():
        problem = replace(problem, n_samples=1_000) if quick else problem
        allowed = efficiency_of_processes(problem, counts)
        for phase, start in STARTS.items():
            seconds = seconds_by_threads(problem, start, counts)
            lines.append(line(f"{name}, {phase} iterations ({problem})", seconds, allowed, quick))
            if phase == "first":
                first[name] = seconds[min(2, max(seconds))]
    ratio = first["MCA"] / first["LinCA"]
    met = None if quick else ratio <= MOST_OF_LINCA
    return [*lines, ("MCA / LinCA, first iterations", f"{ratio:.2f}", f"<= {MOST_OF_LINCA}", met)]


def thread_counts() -> list[int]:
    """1, 2, 4, ... up to the cores at hand."""
    cores = effective_threads(None)
    return list(takewhile(lambda n: n <= cores, (2**k for k in range(cores.bit_length()))))


def seconds_by_threads(problem: Problem, start: Start, counts: list[int]) -> dict[int, float]:
    """Median seconds of an iteration for each number of threads, on the same data."""
    X, estimator = start(problem, 6)
    estimator.fit(X[:300])  # compiled kernels are not the fit's time
    return {n: float(np.median(intervals(estimator.set_params(n_jobs=n), X))) for n in counts}


def line(what: str, seconds: dict[int, float], allowed: dict[int, float], quick: bool) -> Measured:
    efficiency = {n: seconds[1] / (n * elapsed) for n, elapsed in seconds.items()}
    shown = [
        f"{n}: {1e3 * elapsed:.1f} ms ({efficiency[n]:.0%}, separate processes {allowed[n]:.0%})"
        for n, elapsed in seconds.items()
    ]
    wanted = {n: least for n, least in WANTED.items() if n in efficiency}
    met = None if quick or not wanted else all(efficiency[n] >= least for n, least in wanted.items())
    return what, ", ".join(shown), ", ".join(f">= {least:.0%} at {n}" for n, least in wanted.items()) or "-", met
