"""Where threads' time goes in the first iterations of a fit: `python benchmarks/threads.py [ROW ...] [--processes]`.

For 1, 2, 4, ... threads: milliseconds of an iteration and efficiency; then its M-step, its E-step, the CPU time of the
E-step's threads together, and what the E-step takes beyond a thread's share of that: what is serial in it, threads that
begin late, and threads that wait for the last one. With `--processes` also the efficiency of as many separate
processes, which have nothing in common but the machine.
"""

import sys
from statistics import median
from time import perf_counter, process_time, thread_time
from typing import NamedTuple

from multicause.experiments.bench_threads import PROBLEMS, thread_counts
from multicause.experiments.separate_processes import efficiency_of_processes
from multicause.experiments.timing import Problem, intervals, random_start
from multicause.learning.em.em import EM

ROUNDS = 3


class Times(NamedTuple):
    """Seconds of one iteration."""

    whole: float
    m_step: float
    e_step: float
    threads: float  # CPU time of all but the caller's, in the E-step


class Listener:
    """Notes how long the parts of an iteration take."""

    def __enter__(self) -> "Listener":
        self.e_steps: list[tuple[float, float]] = []
        self.m_steps: list[float] = []
        self._before = e_step, m_step = EM._e_step, EM._m_step

        def noted_e_step(em, *arguments):
            begin, cpu, own = perf_counter(), process_time(), thread_time()
            result = e_step(em, *arguments)
            threads = process_time() - cpu - (thread_time() - own)
            self.e_steps.append((perf_counter() - begin, threads))
            return result

        def noted_m_step(em, *arguments):
            begin = perf_counter()
            result = m_step(em, *arguments)
            self.m_steps.append(perf_counter() - begin)
            return result

        EM._e_step, EM._m_step = noted_e_step, noted_m_step
        return self

    def __exit__(self, *exception) -> None:
        EM._e_step, EM._m_step = self._before


def measure(estimator, X, n_threads: int) -> Times:
    """Medians over the iterations of a fit."""
    with Listener() as listener:
        whole = median(intervals(estimator.set_params(n_jobs=n_threads), X))
    e_steps, threads = zip(*listener.e_steps[1:], strict=True)
    return Times(whole, median(listener.m_steps[1:]), median(e_steps), median(threads))


def show(name: str, problem: Problem, with_processes: bool) -> None:
    counts = thread_counts()
    X, estimator = random_start(problem, 8)
    estimator.fit(X[:1300])  # compiled kernels are not the fit's time
    rounds = [{n: measure(estimator, X, n) for n in counts} for _ in range(ROUNDS)]
    found = {n: Times(*map(median, zip(*(times[n] for times in rounds), strict=True))) for n in counts}
    print(f"{name} ({problem})")
    for n, times in found.items():
        milliseconds = Times(*(1e3 * second for second in times))
        print(
            f"  {n:2d} threads {milliseconds.whole:8.1f} ms, {found[1].whole / (n * times.whole):4.0%}: M-step "
            f"{milliseconds.m_step:.1f}, E-step {milliseconds.e_step:.1f}, its threads {milliseconds.threads:.1f}, "
            f"beyond their share {milliseconds.e_step - milliseconds.threads / n:.1f}",
            flush=True,
        )
    if with_processes:
        allowed = efficiency_of_processes(problem, counts)
        print("  separate processes: " + " / ".join(f"{share:.0%}" for share in allowed.values()), flush=True)


def main() -> None:
    wanted = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    for name in wanted or list(PROBLEMS):
        show(name, PROBLEMS[name], "--processes" in sys.argv)


if __name__ == "__main__":
    main()
