"""A fit on two worker processes against one on two threads: `python benchmarks/cluster.py [N [ITERATIONS [ROUNDS]]]`.

Prints the seconds of an iteration here and there, in turns, without what starts a fit, and whether the parameters are
the same to the bit; then, with fewer data, whether a fit whose worker is killed in the middle of its fifth iteration
ends with the same bits. `--times` leaves that out.
"""

import os
import signal
import sys
import threading
import warnings

import numpy as np

from multicause.experiments.callbacks import IterationClock

N_POINTS, N_FEATURES, N_COMPONENTS, N_ITERATIONS = 500_000, 64, 256, 6
N_KILLED = 100_000  # data points of the fit that loses a worker
N_ROUNDS = 2  # of fits here and there
MOST = 0.15  # of an iteration's time


class Clock(IterationClock):
    """The time of each iteration; kills a worker in the middle of one, where it is told which."""

    def __init__(self, kill_at: int | None = None, client=None):
        super().__init__()
        self.kill_at, self.client = kill_at, client

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        if len(self.marks) == self.kill_at:
            process = min(self.client.run(os.getpid).values())
            middle = 0.5 * float(np.median(np.diff(self.marks[1:])))
            threading.Timer(middle, os.kill, (process, signal.SIGKILL)).start()


def data(n_points: int) -> np.ndarray:
    """Sparse sums of random fields, with noise."""
    rng = np.random.default_rng(0)
    components = rng.normal(size=(N_COMPONENTS, N_FEATURES))
    parts = []
    for start in range(0, n_points, 50_000):
        rows = min(50_000, n_points - start)
        parts.append((rng.random((rows, N_COMPONENTS)) < 3.0 / N_COMPONENTS) @ components)
        parts[-1] += 0.3 * rng.standard_normal(parts[-1].shape)
    return np.concatenate(parts)


def fit(X: np.ndarray, clock: Clock, n_iterations: int, executor=None):
    from multicause import LinCA

    sizes = {"n_candidates": 8, "max_active": 4, "max_iter": n_iterations, "tol": 0, "start": "random"}
    estimator = LinCA(N_COMPONENTS, **sizes, random_state=0, n_jobs=2)
    return estimator.set_callbacks(clock).fit(X, executor=executor)


def compare_times(X: np.ndarray, n_iterations: int, n_rounds: int, client) -> None:
    fit(X[:20_000], Clock(), 1), fit(X[:20_000], Clock(), 1, client)  # kernels are loaded
    seconds: dict[str, list[float]] = {"here": [], "there": []}
    for _ in range(n_rounds):
        fits = []
        for name, executor in (("here", None), ("there", client)):
            clock = Clock()
            fits.append(fit(X, clock, n_iterations, executor))
            seconds[name] += np.diff(clock.marks[1:-2]).tolist()
        print(f"same bits: {np.array_equal(fits[0].components_, fits[1].components_)}", flush=True)
    here, there = (float(np.median(times)) for times in seconds.values())
    verdict = "met" if there / here - 1.0 < MOST else "not met"
    print(f"an iteration here {here:.3f} s, there {there:.3f} s: {there / here - 1.0:+.0%}, {verdict}")
    print({name: [round(second, 3) for second in times] for name, times in seconds.items()}, flush=True)


def kill_a_worker(X: np.ndarray, client) -> None:
    here = fit(X, Clock(), 10)
    killed = fit(X, Clock(5, client), 10, client)  # four iterations are done
    client.wait_for_workers(2, timeout=120)  # a cluster that closes while a worker starts may wait for ever
    print(f"same bits with a worker killed: {np.array_equal(here.components_, killed.components_)}")


def main() -> None:
    from distributed import Client, LocalCluster

    warnings.simplefilter("ignore")
    numbers = [int(argument) for argument in sys.argv[1:] if not argument.startswith("--")]
    n_points, *counts = [*numbers, *(N_POINTS, N_ITERATIONS, N_ROUNDS)[len(numbers) :]]
    X = data(n_points)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        compare_times(X, *counts, client)
        if "--times" not in sys.argv:
            kill_a_worker(X[:N_KILLED], client)


if __name__ == "__main__":
    main()
