"""One EM iteration on data larger than memory allows: `python benchmarks/out_of_core.py [N]` (12 GB by default).

Writes a memory-mapped file of N x 64 numbers in double precision to the folder for temporary files, fits LinCA and GSC
to it, each in a process of its own, prints their time and peak resident memory, and deletes the file.
"""

import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

N_POINTS, N_FEATURES, N_COMPONENTS = 24_000_000, 64, 64
MOST = 2.0  # GB of resident memory


def write(path: str, n_points: int) -> None:
    """Sparse sums of random fields, with noise."""
    rng = np.random.default_rng(0)
    components = rng.normal(size=(N_COMPONENTS, N_FEATURES)).astype(np.float32)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n_points, N_FEATURES))
    for start in range(0, n_points, 100_000):
        part = X[start : start + 100_000]
        active = (rng.random((len(part), N_COMPONENTS), dtype=np.float32) < 2.0 / N_COMPONENTS).astype(np.float32)
        part[:] = active @ components + 0.3 * rng.standard_normal(part.shape, dtype=np.float32)
    X.flush()


def fit(name: str, path: str) -> None:
    """In a process of its own: one iteration, and what it took."""
    from multicause import GSC, LinCA

    warnings.simplefilter("ignore")
    X = np.load(path, mmap_mode="r")
    estimator = {"LinCA": LinCA, "GSC": GSC}[name](
        N_COMPONENTS, n_candidates=6, max_active=3, max_iter=1, tol=0, random_state=0
    )
    start = time.perf_counter()
    estimator.fit(X)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    verdict = "met" if peak < MOST else "not met"
    gigabytes = X.nbytes / 1e9
    print(f"{name}: {gigabytes:.1f} GB, one iteration in {seconds:.0f} s, peak {peak:.2f} GB, < {MOST:g} GB: {verdict}")


def main() -> None:
    n_points = int(sys.argv[1]) if len(sys.argv) > 1 else N_POINTS
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "X.npy")
        # also the writing in a process of its own: a child's peak begins at that of its parent
        for arguments in (["--write", path, str(n_points)], ["--fit", "LinCA", path], ["--fit", "GSC", path]):
            subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(*sys.argv[2:4])
    elif sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], int(sys.argv[3]))
    else:
        main()
