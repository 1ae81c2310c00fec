"""Run experiments as one pool of single trials, and write their records.

    python benchmarks/batch.py --output results --processes 16 --minutes 8 [--missing] [--rows TEXT] [NAME...]

`multicause reproduce` runs row after row, and waits for the slowest trial of each. Here all trials of all experiments
share a pool; when time is up, tables are made of the trials that have ended, and what is missing is said. Trials are
kept in OUTPUT/trials.pickle as they end, so that a second call goes on, if need be on another machine: of the same
commit, and in your own folder, since reading a pickle can run code. With --missing only rows are run that have fewer
trials in benchmarks/records than they want. Each process is bound to one core, so that experiments that measure times
are left to `reproduce`.
"""

import argparse
import json
import multiprocessing
import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from multicause.experiments import EXPERIMENTS, Options  # noqa: E402  (threads are counted at import)
from multicause.experiments.experiment import REPORTED_SEEDS, Outcome, Row, judged  # noqa: E402
from multicause.experiments.provenance import made_with  # noqa: E402

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
    "et-mca-bars": {"N=10 000": 25, "N=2000": 3, "": 1.5},
    "et-mca-overlap-16": {"": 6},
    "et-likelihood": {"MCA": 25, "optimal": 10, "": 3},
    "et-nmf-mnist": {"": 20},
    "gps-mixture": {"best": 3, "": 1},
    "gps-occlusion": {"whole": 180, "GP": 130, "": 65},
    "gps-sparse-coding": {"best of 5": 40, "nonlinear": 15, "": 8},
    "gsc-consistency": {"exact, N=8": 20, "exact (ours: the same), N=32": 30, "N=128": 40, "N=32": 10, "": 2},
    "gsc-denoise": {"30 iter": 100, "H=400": 400, "H=256": 250, "BM3D": 10, "": 85},
    "gsc-directions": {"D=H=100": 40, "D=H=60": 20, "": 5},
    "gsc-separation": {"voices20": 15, "": 7},
    "gsc-tradeoff": {"": 40},
    "mca-acoustic": {"R-MCA_NN, T=70 (ours: other data)": 35, "slow": 10, "": 4},
    "mca-bars": {"R-MCA_NN, noisy, H": 10, "R-MCA_NN, noiseless, H": 11, "": 0.4},
    "mca-dense": {"R-MCA_NN": 11, "MCA3": 28, "": 1},
    "mca-grass": {"MCA3": 60, "": 40},
    "mca-likelihood": {"smooth": 27, "": 1},
    "mca-overcomplete": {"R-MCA_NN": 10, "": 4},
    "mca-overlap-16": {"NMF": 0.3, "R-MCA_NN": 9, "R-MCA2": 1.5, "": 12},
    "mca-overlap-3": {"R-MCA_NN": 12, "R-MCA2": 0.3, "": 2.3},
    "mca-unequal": {"R-MCA_NN": 12, "": 1},
    "mca-violations": {"best of 8": 8, "": 1},
    "mca-widths": {"R-MCA_NN": 10, "": 0.4},
    "pictures": {"": 10},
    "pictures-counts": {"": 90},
    "pictures-gaps": {"80 %": 35, "": 20},
    "upoe-crabs": {"ours": 10, "": 1},
    "upoe-faces": {"": 90},
    "upoe-natural": {"": 280},
    "upoe-recovery": {"50": 25, "20": 4, "": 1},
}
RECORDS = Path(__file__).parent / "records"
LONG = 50.0  # seconds of trials that begin first
DEAR = 250.0  # seconds of a row whose trials wait
FEW = 2  # trials that each row gets before that
_tables: dict = {}


class Task(NamedTuple):
    """A trial to be run."""

    key: tuple  # name of the experiment, and its components
    title: str  # of the row
    seed: int


class Ended(NamedTuple):
    """A trial that was run."""

    task: Task
    trial: Any
    seconds: float
    made_with: dict


def guess(name: str, title: str) -> float:
    return next((seconds for part, seconds in SECONDS.get(name, {}).items() if part in title), 1.0)


def table(key: tuple, options: Options) -> dict[str, Row]:
    """The rows of an experiment, made once in each process."""
    if key not in _tables:
        sized = Options(components=key[1], full=options.full, quick=options.quick)
        _tables[key] = {row.title: row for row in EXPERIMENTS[key[0]].table(sized)}
    return _tables[key]


def bind(cores, options: Options) -> None:
    global _options
    _options = options
    if hasattr(os, "sched_setaffinity"):
        known = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {known[cores.get() % len(known)]})
    warnings.simplefilter("ignore")


def run(task: Task) -> tuple:
    row = table(task.key, _options)[task.title]
    start = time.process_time()
    try:
        trial = row.task(task.seed, **row.setting)
    except Exception:
        return task, None, time.process_time() - start, traceback.format_exc(limit=4)
    return task, trial, time.process_time() - start, ""


def main() -> None:
    arguments = parsed()
    options = Options(full=arguments.full, quick=arguments.quick, trials=arguments.trials, report=lambda line: None)
    keys = [(name, None) for name in arguments.names or EXPERIMENTS if name not in TIMED | set(arguments.skip)]
    if not arguments.names or "mca-bars" in arguments.names:
        keys.append(("mca-bars", 12))
    arguments.output.mkdir(parents=True, exist_ok=True)
    kept = arguments.output / "trials.pickle"
    ended = {each.task: each for each in read(kept)}
    complete = {key: complete_rows(key) if arguments.missing else set() for key in keys}
    tasks = [task for task in planned(keys, options) if task not in ended and task.title not in complete[task.key]]
    tasks = [task for task in tasks if arguments.rows in task.title]
    if arguments.papers:
        tasks = [task for task in tasks if not table(task.key, options)[task.title].ours]
    seconds = sum(guess(task.key[0], task.title) for task in tasks)
    print(f"{len(ended)} trials have ended, {len(tasks)} are left: about {seconds:.0f} s of one core", flush=True)
    with kept.open("ab") as file:
        for each in collect(tasks, options, arguments):
            ended[each.task] = each
            pickle.dump(each, file)
            file.flush()
    for key in keys:
        conclude(key, ended, arguments.output)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--skip", nargs="*", default=[])
    parser.add_argument("--output", type=Path, default=Path("results"))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--papers", action="store_true", help="rows with a paper's settings alone")
    parser.add_argument("--rows", default="", metavar="TEXT", help="rows whose titles hold this text alone")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def complete_rows(key: tuple) -> set[str]:
    """Settings whose figures in the records are all of as many trials as are wanted."""
    path = RECORDS / f"{record_name(key)}.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    few = {row["setting"] for row in rows if row["trials"] is not None and row["trials"][0] < row["trials"][1]}
    return {row["setting"] for row in rows} - few


def record_name(key: tuple) -> str:
    return key[0] if key[1] is None else f"{key[0]}-components-{key[1]}"


def read(kept: Path) -> Iterator[Ended]:
    """What earlier calls of the same commit have run."""
    if not kept.exists():
        return
    commit = made_with()["commit"]
    with kept.open("rb") as file:
        while True:
            try:
                each = pickle.load(file)
            except EOFError:  # the end, or a trial that was being written when a call was killed
                return
            if each.made_with["commit"] == commit:
                yield each


def planned(keys: list[tuple], options: Options) -> list[Task]:
    """All trials, in the order in which they are worth having.

    First the papers' rows on the papers' data, whole rows, since fewer trials than the paper's decide nothing: long
    trials, then cheap rows. Then a few trials of all others, so that every row has a figure; the papers' dear rows; the
    papers' rows on other data; and ours.
    """
    ordered = []
    for key in keys:
        for title, row in table(key, options).items():
            wanted = Options(full=True, trials=options.trials, quick=options.quick).seeds(row)
            seeds = REPORTED_SEEDS[:1] if row.n_trials is None else wanted
            seconds = guess(key[0], title)
            for seed in seeds:
                phase = _phase(row, seed, seconds, seconds * len(seeds))
                first = -seconds if phase in (0, 2) else seconds * len(seeds)
                ordered.append(((phase, first), Task(key, title, seed)))
    return [task for _, task in sorted(ordered, key=lambda pair: pair[0])]


def _phase(row: Row, seed: int, seconds: float, of_row: float) -> int:
    if not row.ours and (seconds >= LONG or of_row <= DEAR):
        return 0 if seconds >= LONG else 1
    if seed < FEW:
        return 2
    return 3 if not row.ours else 4 if row.follows_paper else 5


def collect(tasks: list[Task], options: Options, arguments: argparse.Namespace) -> Iterator[Ended]:
    """The trials that end in time."""
    end = time.monotonic() + 60.0 * arguments.minutes
    context = multiprocessing.get_context("fork")
    cores = context.Queue()
    for number in range(arguments.processes):
        cores.put(number)
    made = made_with()
    pool = context.Pool(arguments.processes, bind, (cores, options))
    answers = pool.imap_unordered(run, tasks)
    try:
        for number in count(1):
            task, trial, spent, error = answers.next(max(end - time.monotonic(), 0.0))
            if error:
                print(f"{task}: {error}", flush=True)
            else:
                yield Ended(task, trial, spent, made)
            if number % 500 == 0:
                print(f"{number} of {len(tasks)} trials", flush=True)
    except StopIteration:
        pass
    except multiprocessing.TimeoutError:
        print(f"time is up: {number - 1} of {len(tasks)} trials have ended", flush=True)
    pool.terminate()


def conclude(key: tuple, ended: dict[Task, Ended], output: Path) -> None:
    """Write the record of an experiment; rows without trials are named there, and left out."""
    outcomes: list[Outcome] = []
    used: list[Ended] = []
    for title, row in _tables[key].items():
        trials = [each for task, each in ended.items() if task[:2] == (key, title)]
        trials.sort(key=lambda each: each.task.seed)
        used += trials
        if trials:
            outcomes.append(judged(row, [each.trial for each in trials]))
        spent = [each.seconds for each in trials]
        mean = f"{sum(spent) / len(spent):.1f} s each" if spent else ""
        print(f"{key[0]}: {len(trials)} of {row.wanted_trials} trials of {title!r} {mean}", flush=True)
    if not outcomes:
        return
    try:
        result = EXPERIMENTS[key[0]].concluded(outcomes, Options(components=key[1]))
    except Exception:
        print(f"{key}: {traceback.format_exc(limit=4)}", flush=True)
        return
    result.seconds = sum(each.seconds for each in used)
    record = result.to_json()
    record["made_with"] = together([each.made_with for each in used])
    record["not_run"] = [title for title in _tables[key] if title not in {each.task.title for each in used}]
    text = json.dumps(
        record, indent=1, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    )
    (output / f"{record_name(key)}.json").write_text(text, encoding="utf-8")


def together(made: list[dict]) -> dict:
    """Commit, versions, machines and dates of all trials; what differs stands side by side."""

    def side_by_side(values: list[str]) -> str:
        return " / ".join(sorted(set(values)))

    versions = {name: side_by_side([each["versions"][name] for each in made]) for name in made[0]["versions"]}
    joined = {name: side_by_side([each[name] for each in made]) for name in ("commit", "machine", "date")}
    joined["machine"] += ", a pool of single trials: seconds are of one core"
    return {**joined, "versions": versions}


if __name__ == "__main__":
    sys.exit(main())
