"""A fit on two worker processes against the same fit on two threads: `python benchmarks/cluster.py [N [ITERATIONS]]`.

Prints whether the parameters are the same to the bit, the seconds of an iteration here and there, and whether a fit
whose worker is killed in the middle of its fifth iteration ends with the same bits.
"""

import os
import signal
import sys
import threading
import warnings

import numpy as np

from multicause.experiments.callbacks import IterationClock

N_POINTS, N_FEATURES, N_COMPONENTS, N_ITERATIONS = 500_000, 64, 256, 10
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


def main() -> None:
    from distributed import Client, LocalCluster

    from multicause import LinCA

    warnings.simplefilter("ignore")
    X = data(int(sys.argv[1]) if len(sys.argv) > 1 else N_POINTS)
    n_iterations = int(sys.argv[2]) if len(sys.argv) > 2 else N_ITERATIONS

    def fit(clock: Clock, executor=None):
        sizes = {"n_candidates": 8, "max_active": 4, "max_iter": n_iterations, "tol": 0, "start": "random"}
        estimator = LinCA(N_COMPONENTS, **sizes, random_state=0, n_jobs=2)
        return estimator.set_callbacks(clock).fit(X, executor=executor)

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        clocks = {"here": Clock(), "there": Clock()}
        LinCA(N_COMPONENTS, max_iter=1, tol=0, random_state=0).fit(X[:20_000], executor=client)  # kernels are loaded
        here, there = fit(clocks["here"]), fit(clocks["there"], client)
        seconds = {name: float(np.median(np.diff(clock.marks[1:-2]))) for name, clock in clocks.items()}
        overhead = seconds["there"] / seconds["here"] - 1.0
        print(f"same bits: {np.array_equal(here.components_, there.components_)}")
        verdict = "met" if overhead < MOST else "not met"
        print(f"an iteration here {seconds['here']:.2f} s, there {seconds['there']:.2f} s: {overhead:+.0%}, {verdict}")
        killed = fit(Clock(5, client), client)  # four iterations are done
        client.wait_for_workers(2, timeout=120)  # a cluster that closes while a worker starts may wait for ever
        print(f"same bits with a worker killed: {np.array_equal(here.components_, killed.components_)}")


if __name__ == "__main__":
    main()
