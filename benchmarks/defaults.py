"""Run `multicause bench defaults` as one pool of single trials, and leave a line for each as it ends.

    python benchmarks/defaults.py --output trials.jsonl --processes 16 --minutes 5 --seeds 0 20 [PART OF A NAME...]
    python benchmarks/defaults.py --table trials.jsonl

The first seeds of all rows come first: where time runs out, all rows have lost alike.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from multicause.experiments.bench_defaults import Judged, Trial, line_of, run_trial  # noqa: E402
from multicause.experiments.plain_data import TASKS  # noqa: E402


def one(name: str, seed: int, end: float) -> Trial | None:
    return run_trial(next(task for task in TASKS if task.name == name), seed) if time.time() < end else None


def run(names: list[str], seeds: range, n_processes: int, end: float, output: Path) -> None:
    with ProcessPoolExecutor(n_processes) as pool, output.open("a") as file:
        waiting = {pool.submit(one, name, seed, end): (name, seed) for seed in seeds for name in names}
        for done in as_completed(waiting):
            name, seed = waiting[done]
            if (trial := done.result()) is not None:
                file.write(json.dumps({"task": name, "seed": seed, "trial": trial}) + "\n")
                file.flush()


def table(path: Path) -> None:
    trials: dict[str, list[Trial]] = {}
    for line in path.read_text().splitlines():
        read = json.loads(line)
        plain, before, from_truth, truth = read["trial"]
        trial = Trial(Judged(*plain), Judged(*before), Judged(*from_truth), truth)
        trials.setdefault(read["task"], []).append(trial)
    for task in TASKS:
        if task.name in trials:
            name, said, wanted, met = line_of(task.name, trials[task.name])
            print(f"{name} | {said} | {wanted} | {met}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--output", type=Path, default=Path("trials.jsonl"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 20))
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args()
    if asked.table is None:
        names = [task.name for task in TASKS if not asked.parts or any(part in task.name for part in asked.parts)]
        run(names, range(*asked.seeds), asked.processes, time.time() + 60.0 * asked.minutes, asked.output)
    table(asked.table or asked.output)


if __name__ == "__main__":
    main()
