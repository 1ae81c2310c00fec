"""Run experiments as one pool of single trials, long ones first, and write their records.

    python benchmarks/batch.py --output results --processes 16 --minutes 8 [NAME...]

`multicause reproduce` runs row after row, and waits for the slowest trial of each. Here all trials of all experiments
share a pool; when time is up, tables are made of the trials that have ended, and what is missing is said. Each process
is bound to one core, so that experiments that measure times are left to `reproduce`.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from itertools import count
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from multicause.experiments import EXPERIMENTS, Options  # noqa: E402  (threads are counted at import)
from multicause.experiments.experiment import REPORTED_SEEDS, Outcome, judged  # noqa: E402

TIMED = {
    "et-scaling",
    "gsc-scaling",
    "gsc-clustering",
    "et-quality",
}  # the last listens to iterations, in its own process
# seconds of a trial, roughly, by experiment and a part of the row's title: the first that fits; elsewhere one
SECONDS = {
    "et-linca-speech": {"H=400": 160, "": 100},
    "et-mca-grass": {"H=100": 60, "": 30},
    "et-mca-bars": {"N=10 000": 12, "best of 3": 4, "N=2000": 3, "": 1.5},
    "et-mca-overlap-16": {"": 6},
    "et-likelihood": {"MCA": 25, "": 3},
    "et-nmf-mnist": {"": 20},
    "gps-mixture": {"best": 3, "": 1},
    "gps-occlusion": {"GP": 160, "": 60},
    "gps-sparse-coding": {"best of 5": 40, "nonlinear": 15, "": 8},
    "gsc-consistency": {"exact, N=8": 20, "exact (ours: the same), N=32": 30, "N=128": 40, "N=32": 10, "": 2},
    "gsc-denoise": {"H=400": 300, "H=800": 150, "factored": 90, "BM3D": 10, "": 150},
    "gsc-directions": {"D=H=100": 40, "D=H=60": 20, "": 5},
    "gsc-separation": {"voices20": 15, "": 7},
    "gsc-tradeoff": {"": 40},
    "mca-acoustic": {"R-MCA_NN, T=70 (ours: other data)": 35, "slow": 10, "": 4},
    "mca-bars": {"best of 5": 3, "": 1},
    "mca-dense": {"R-MCA_NN": 25, "MCA3": 30, "": 3},
    "mca-grass": {"MCA3": 60, "": 40},
    "mca-likelihood": {"MCA_ex": 20, "": 5},
    "mca-overcomplete": {"R-MCA_NN": 10, "": 2},
    "mca-overlap-16": {"R-MCA_NN": 20, "R-MCA2": 1, "NMF": 1, "": 10},
    "mca-overlap-3": {"R-MCA_NN": 15, "": 3},
    "mca-unequal": {"R-MCA_NN": 15, "": 3},
    "mca-violations": {"best of 8": 8, "": 1},
    "mca-widths": {"": 2},
    "upoe-crabs": {"ours": 10, "": 1},
    "upoe-faces": {"": 90},
    "upoe-natural": {"": 280},
    "upoe-recovery": {"50": 25, "20": 4, "": 1},
}
LONG = 50.0
_tables: dict = {}


def guess(name: str, title: str) -> float:
    return next((seconds for part, seconds in SECONDS.get(name, {}).items() if part in title), 1.0)


def table(key: tuple, options: Options) -> list:
    """The rows of an experiment, made once in each process."""
    if key not in _tables:
        _tables[key] = list(EXPERIMENTS[key[0]].table(options))
    return _tables[key]


def bind(cores, options: Options) -> None:
    global _options
    _options = options
    if hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {known[cores.get() % len(known)]})
    warnings.simplefilter("ignore")


def run(task: tuple) -> tuple:
    key, place, seed = task
    row = table(key, Options(components=key[1], full=_options.full, quick=_options.quick))[place]
    start = time.process_time()
    try:
        trial = row.task(seed, **row.setting)
    except Exception:
        return task, None, time.process_time() - start, traceback.format_exc(limit=4)
    return task, trial, time.process_time() - start, ""


def main() -> None:
    arguments = parsed()
    options = Options(full=arguments.full, quick=arguments.quick, trials=arguments.trials, report=lambda line: None)
    keys = [(name, None) for name in arguments.names or EXPERIMENTS if name not in TIMED | set(arguments.skip)]
    if not arguments.names:
        keys.append(("mca-bars", 12))
    tasks = []
    for key in keys:
        for place, row in enumerate(table(key, Options(components=key[1], full=options.full, quick=options.quick))):
            seeds = REPORTED_SEEDS[:1] if row.n_trials is None else options.seeds(row)
            tasks += [(guess(key[0], row.title), (key, place, seed)) for seed in seeds]
    # long ones first, then seed after seed: where time runs out, tables have fewer trials instead of fewer rows
    tasks.sort(key=lambda pair: (-pair[0] if pair[0] >= LONG else 0.0, pair[1][2], -pair[0]))
    print(f"{len(tasks)} trials, about {sum(pair[0] for pair in tasks):.0f} s of one core", flush=True)
    trials, seconds = collect([task for _, task in tasks], options, arguments)
    for key in keys:
        conclude(key, trials, seconds, arguments.output)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--output", type=Path, default=Path("results"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def collect(tasks: list, options: Options, arguments: argparse.Namespace) -> tuple[dict, dict]:
    """The trials that ended in time, and the seconds of each."""
    end = time.monotonic() + 60.0 * arguments.minutes
    context = multiprocessing.get_context("fork")
    cores = context.Queue()
    for number in range(arguments.processes):
        cores.put(number)
    trials, seconds = {}, {}
    pool = context.Pool(arguments.processes, bind, (cores, options))
    answers = pool.imap_unordered(run, tasks)
    try:
        for number in count(1):
            task, trial, spent, error = answers.next(max(end - time.monotonic(), 0.0))
            if error:
                print(f"{task}: {error}", flush=True)
            else:
                trials[task], seconds[task] = trial, spent
            if number % 500 == 0:
                print(f"{number} of {len(tasks)} trials", flush=True)
    except StopIteration:
        pass
    except multiprocessing.TimeoutError:
        print(f"time is up: {len(trials)} of {len(tasks)} trials have ended", flush=True)
    pool.terminate()
    return trials, seconds


def conclude(key: tuple, trials: dict, seconds: dict, output: Path) -> None:
    """Write the record of an experiment; rows without trials are named and left out."""
    outcomes: list[Outcome] = []
    spent = 0.0
    for place, row in enumerate(_tables[key]):
        ended = sorted(task for task in trials if task[:2] == (key, place))
        spent += sum(seconds[task] for task in ended)
        if ended:
            outcomes.append(judged(row, [trials[task] for task in ended]))
        else:
            print(f"{key}: no trial of {row.title!r}", flush=True)
        longest = max((seconds[task] for task in ended), default=0.0)
        if longest > 30.0:
            print(f"  {key[0]}, {row.title}: {len(ended)} trials, {longest:.0f} s at most", flush=True)
    if not outcomes:
        return
    try:
        result = EXPERIMENTS[key[0]].concluded(outcomes, Options(components=key[1]))
    except Exception:
        print(f"{key}: {traceback.format_exc(limit=4)}", flush=True)
        return
    result.seconds = spent
    record = result.to_json()
    record["made_with"]["machine"] += ", a pool of single trials: seconds are of one core"
    output.mkdir(parents=True, exist_ok=True)
    name = key[0] if key[1] is None else f"{key[0]}-components-{key[1]}"
    text = json.dumps(
        record, indent=1, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    )
    (output / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"{name}: {spent:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
