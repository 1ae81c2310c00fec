"""One pass of `partial_fit` over a million points against a fit: `python benchmarks/stream.py [N [M]]`.

Prints the free energy per data point of both, on data held out, from the same good start and by default, and the
memory that the stream added. Batches are drawn as they are needed; the fit gets the first M points, 200 000 by default.
"""

import resource
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.base import clone

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedGaussianMixture

N_POINTS, N_FITTED, N_FEATURES, N_COMPONENTS, BATCH = 1_000_000, 200_000, 25, 10, 1000
MOST = 0.01  # of the free energy
SETTINGS = {"n_candidates": 6, "max_active": 4, "random_state": 0}


def batches(n_points: int, kind: str, seed: int = 1) -> Iterator[np.ndarray]:
    """Bars of 5 x 5 pixels that add up, or hide each other, with noise; or clusters."""
    bars = np.zeros((N_COMPONENTS, 5, 5))
    for i in range(5):
        bars[i, i], bars[5 + i, :, i] = 10.0, 10.0
    bars = bars.reshape(N_COMPONENTS, -1)
    rng = np.random.default_rng(seed)
    for _ in range(n_points // BATCH):
        active = rng.random((BATCH, N_COMPONENTS)) < 0.2
        if kind == "clusters":
            active = np.eye(N_COMPONENTS)[rng.integers(N_COMPONENTS, size=BATCH)]
        mean = (active[:, :, None] * bars).max(axis=1) if kind == "max" else active @ bars
        yield np.maximum(mean + 2.0 * rng.standard_normal(mean.shape), 0.0)


def start(kind: str) -> np.ndarray:
    """Near the truth: the bars, with some noise."""
    rng = np.random.default_rng(2)
    truth = np.kron(np.eye(5), np.ones((1, 5))), np.kron(np.ones((1, 5)), np.eye(5))
    return np.abs(10.0 * np.concatenate(truth) + rng.normal(size=(N_COMPONENTS, N_FEATURES)))


def peak() -> float:
    """Megabytes of resident memory, at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main() -> None:
    n_points = int(sys.argv[1]) if len(sys.argv) > 1 else N_POINTS
    n_fitted = min(int(sys.argv[2]) if len(sys.argv) > 2 else N_FITTED, n_points)
    warnings.simplefilter("ignore")
    estimators = {
        "LinCA": (LinCA(N_COMPONENTS, **SETTINGS), "sum", "init"),
        "ETNMF": (ETNMF(N_COMPONENTS, **SETTINGS), "sum", "init"),
        "MCA": (MCA(N_COMPONENTS, **SETTINGS), "max", "init"),
        "GSC": (GSC(N_COMPONENTS, **SETTINGS), "sum", "init"),
        "mixture": (TruncatedGaussianMixture(N_COMPONENTS, random_state=0), "clusters", "means_init"),
    }
    held_out = {kind: np.concatenate(list(batches(20_000, kind, seed=9))) for kind in ("sum", "max", "clusters")}
    for name, (estimator, kind, argument) in estimators.items():
        for given in (True, False):
            begun = clone(estimator)
            if given:
                value = start(kind)
                begun.set_params(**{argument: value if argument == "means_init" else {"components": value}})
            stream, clock, before = clone(begun), time.perf_counter(), peak()
            for batch in batches(n_points, kind):
                stream.partial_fit(batch)
            seconds, added = time.perf_counter() - clock, peak() - before
            whole = clone(begun).set_params(tol=1e-4, max_iter=100)
            whole.fit(np.concatenate(list(batches(n_fitted, kind))))
            there, here = whole.score(held_out[kind]), stream.score(held_out[kind])
            short = (there - here) / abs(there)
            verdict = "met" if short < MOST else "not met"
            started = "good start" if given else "default start"
            print(
                f"{name}, {started}: stream {here:.3f}, fit {there:.3f} nats ({short:+.2%} short, {verdict}); "
                f"{seconds:.0f} s, {added:.0f} MB", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
