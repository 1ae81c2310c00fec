"""Ctrl-C at random moments of fits: `python benchmarks/interrupts.py [N [PROCESSES [SEED]]]`.

Each of N fits, in the library or by the command line, is a process that gets one SIGINT, at a moment drawn evenly from
the time that the same fit takes undisturbed; one in twenty finds no compiled kernels, the others those of
NUMBA_CACHE_DIR, or of a cache that the first fits fill. Moments begin with the first import of ours that can answer: a
script's `import multicause`, or the command line's own modules; while Python itself starts nobody can. Counted are
tracebacks, deaths by the signal, fits that kept no model though an iteration was recorded, models of another iteration
than the last that the trace holds, and library processes in which the same fit, done again, has other bits or fails.

With `--kill`, or `--only-kill`, a quarter as many fits of the command line are killed (SIGKILL), up to three times
each, and gone on from by `--resume`; those are counted that end with the bits of a fit left alone.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import NamedTuple

BEGUN = "begun"
N_ITERATIONS, N_COMPONENTS = 30, 16
ROWS = {"one chunk": 500, "many chunks": 3000}
MODELS = ("linca", "mca", "gsc", "etnmf")
SITE = f"""
import os, sys
class Herald:
    def find_spec(self, name, *more):
        if name == "multicause.cli":
            sys.meta_path.remove(self)
            os.write(3, b"{BEGUN}")
sys.meta_path.insert(0, Herald())
"""  # of the command line's processes: says when its own modules are imported
SCRIPT = (
    "import sys\nfrom multicause.__main__ import run\nif __name__ == '__main__':\n    sys.exit(run())\n"  # as pip's
)


PATHS = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
WARM = os.environ.get("NUMBA_CACHE_DIR", "")


class Case(NamedTuple):
    """One kind of fit."""

    model: str
    way: str  # how it is called
    rows: str
    n_jobs: int
    cache: str  # of compiled kernels

    def __str__(self) -> str:
        return f"{self.model}, {self.way}, {self.rows}, n_jobs={self.n_jobs}, {self.cache} cache"


CASES = [
    Case(*case) for case in product(MODELS, ("library", "-m multicause", "multicause"), ROWS, (1, 2), ("warm", "empty"))
]


class Ended(NamedTuple):
    """What became of a process."""

    seconds: float  # since it had begun
    code: int
    stderr: str
    said: str


def child(model: str, data: str, n_jobs: str) -> None:
    """A person's script: a fit that may be interrupted, a look at what is left of it, and the same fit again."""
    import numpy as np
    import sklearn.base  # what others have written is there

    X, reply = np.load(data), {"recorded": 0}
    os.write(3, BEGUN.encode())
    begun = time.perf_counter()
    try:
        import multicause

        estimator = getattr(multicause, {"linca": "LinCA", "etnmf": "ETNMF"}.get(model, model.upper()))(
            N_COMPONENTS, max_iter=N_ITERATIONS, tol=0.0, random_state=0, n_jobs=int(n_jobs)
        )
        fit = sklearn.base.clone(estimator)
        fit.fit(X, trace="trace.jsonl")
        reply["how"] = "whole"
    except KeyboardInterrupt:
        reply["how"] = "interrupted"
        exec("")  # an interrupted import ends Python by the signal, answered or not, unless something else is executed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reply["seconds"] = time.perf_counter() - begun
    if "fit" in locals():
        reply |= kept(fit, X)
        again = sklearn.base.clone(estimator).fit(X)
        reply["again"] = again.components_.tobytes().hex()[:64] + str(again.free_energy_[-1])
    print(json.dumps(reply))


def kept(fit, X) -> dict:
    """The last iteration that was recorded, and whether the estimator is of it, and answers."""
    recorded = [json.loads(line) for line in Path("trace.jsonl").read_text().splitlines()] if started() else []
    if not recorded:
        return {"recorded": 0}
    last = recorded[-1]
    fitted = hasattr(fit, "components_") and fit.transform(X[:50]).shape[0] == 50
    wanted = last["free_energy"]
    if fitted and fit.stop_.name in ("FELL", "OSCILLATES"):  # such a fit, which came to its end, goes back to its best
        wanted = max(each["free_energy"] for each in recorded)
    same = fitted and (fit.n_iter_, fit.free_energy_[-1]) == (last["iteration"], wanted)
    return {"recorded": len(recorded), "fitted": fitted, "last": same}


def started() -> bool:
    return os.path.exists("trace.jsonl")


def command(case: Case, folder: Path, *more: str) -> list[str]:
    if case.way == "library":
        return [
            sys.executable,
            os.path.abspath(__file__),
            "--child",
            case.model,
            f"../{case.rows}.npy",
            str(case.n_jobs),
        ]
    start = ["-m", "multicause"] if case.way == "-m multicause" else [str(folder / "multicause")]
    settings = ["-n", str(N_COMPONENTS), "--iterations", str(N_ITERATIONS), "--tol", "0", "--seed", "0"]
    data = [f"../{case.rows}.npy", "--model", case.model, "--threads", str(case.n_jobs), "-o", "model"]
    return [sys.executable, *start, "fit", *data, *settings, "--trace", "trace.jsonl", *more]


def run(case: Case, folder: Path, moment: float | None, sent: int = signal.SIGINT, *more: str) -> Ended:
    """The process of a fit, which gets a signal some seconds after it has begun, unless it has ended by then."""
    place = Path(tempfile.mkdtemp(dir=folder)) if not more else folder / more[-1]
    place.mkdir(exist_ok=True)
    paths = PATHS if case.way == "library" else [str(folder / "site"), *PATHS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "NUMBA_CACHE_DIR": WARM or str(folder / "warm")}
    if case.cache == "empty":
        environment["NUMBA_CACHE_DIR"] = str(place / "cache")
    read, write = os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", 'exec 3>&"$0"; exec "$@"', str(write), *command(case, folder, *more[:-1])],
        cwd=place, env=environment, pass_fds=[write], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(write)
    os.read(read, len(BEGUN))
    os.close(read)
    begun = time.perf_counter()
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        process.send_signal(sent)
    try:
        said, stderr = process.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        said, stderr = process.communicate()
        stderr += "it hangs"
    ended = Ended(time.perf_counter() - begun, process.returncode, stderr, said)
    if case.way != "library" and sent == signal.SIGINT:
        ended = ended._replace(said=look(place, folder / f"{case.rows}.npy"))
    return ended


def look(place: Path, data: Path) -> str:
    """What a command line left in its folder, as `child` says it."""
    code = (
        "import sys, json, os, numpy as np; sys.path.insert(0, sys.argv[1]); import interrupts, multicause\n"
        "class Nothing: pass\n"
        "fit = multicause.load_model('model') if os.path.exists('model') else Nothing()\n"
        "print(json.dumps(interrupts.kept(fit, np.load(sys.argv[2]))))"
    )
    here = str(Path(__file__).resolve().parent)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)}
    command = [sys.executable, "-c", code, here, str(data)]
    looked = subprocess.run(command, cwd=place, env=paths, capture_output=True, text=True)
    return looked.stdout or f"unreadable: {looked.stderr[-300:]}"


def faults(ended: Ended, undisturbed: Ended, interrupted: bool) -> list[str]:
    """All that is unclean about an end."""
    found = []
    if "Traceback" in ended.stderr or "rror:" in ended.stderr or "Exception" in ended.stderr:
        found.append("traceback")
    if ended.code < 0:
        found.append("death by signal" if "it hangs" not in ended.stderr else "hangs")
    try:
        said = json.loads(ended.said)
    except ValueError:
        return found or ["no answer"]
    if said["recorded"] and not said["fitted"]:
        found.append("no model")
    elif said["recorded"] and not said["last"]:
        found.append("last iteration lost")
    if "again" in said and said["again"] != json.loads(undisturbed.said)["again"]:
        found.append("other bits afterwards")
    if not interrupted and ended.code:
        found.append("failed")
    return found


def prepare(folder: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    parts = np.abs(rng.normal(size=(N_COMPONENTS, 36))) * (rng.random((N_COMPONENTS, 36)) < 0.2) * 5.0
    for name, n_rows in ROWS.items():
        active = rng.random((n_rows, N_COMPONENTS)) < 0.15
        np.save(folder / f"{name}.npy", np.abs(active @ parts + rng.normal(size=(n_rows, 36))))
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    (folder / "multicause").write_text(SCRIPT)


def calibrate(folder: Path, pool: ThreadPoolExecutor) -> dict[tuple[str, ...], Ended]:
    """Fits left alone, of each model, way and state of the cache; the first ones fill the cache that others find."""
    found = {}
    for cache, ways in (("empty", ["library"]), ("warm", list(dict.fromkeys(case.way for case in CASES)))):
        cases = [Case(model, way, rows, 1, cache) for model, way, rows in product(MODELS, ways, ROWS)]
        cases = [case for case in cases if cache == "warm" or case.rows == "one chunk"]
        started = [pool.submit(run, case._replace(cache="warm"), folder, None) for case in cases]
        for case, future in zip(cases, started, strict=True):
            found[case] = future.result()
            wrong = faults(found[case], found[case], False)
            if wrong:
                sys.exit(f"{case}: not even undisturbed: {wrong}\n{found[case].stderr}{found[case].said}")
    seconds = [ended.seconds for ended in found.values()]
    print(f"{len(found)} kinds of fits left alone: {min(seconds):.1f} to {max(seconds):.1f} s", flush=True)
    return {(case.model, case.way, case.rows, case.cache): ended for case, ended in found.items()}


def interrupt(folder: Path, n_trials: int, n_processes: int, seed: int) -> None:
    """All kinds of fits in turn; those with an empty cache first, since they take long."""
    draw, count = random.Random(seed), Counter[str]()
    empty = [case for case in CASES if case.cache == "empty"]
    warm = [case for case in CASES if case.cache == "warm"]
    n_empty = n_trials // 20
    chosen = [draw.choice(empty) for _ in range(n_empty)] + [warm[i % len(warm)] for i in range(n_trials - n_empty)]
    with ThreadPoolExecutor(n_processes) as pool:
        alone = calibrate(folder, pool)

        def trial(case: Case, share: float) -> tuple[Case, float, Ended, list[str]]:
            whole = alone.get((case.model, case.way, case.rows, case.cache))
            whole = whole or alone[case.model, "library", "one chunk", "empty"]
            moment = share * json.loads(whole.said).get("seconds", whole.seconds)  # a script's end is not interrupted
            ended = run(case, folder, moment)
            return case, moment, ended, faults(ended, alone[case.model, "library", case.rows, "warm"], True)

        started = [pool.submit(trial, case, 1.05 * draw.random()) for case in chosen]
        for number, future in enumerate(as_completed(started), 1):
            case, moment, ended, found = future.result()
            said = json.loads(ended.said) if ended.said.startswith("{") else {}
            count.update(found or ["clean"])
            count["with an iteration recorded"] += bool(said.get("recorded"))
            count["ended before the signal"] += said.get("how") == "whole" or (ended.code == 0 and "how" not in said)
            count["with an empty cache"] += case.cache == "empty"
            if found:
                print(
                    f"{case}, at {moment:.2f} s: {', '.join(found)} ({ended.code})\n{ended.stderr[-4000:]}", flush=True
                )
            if number % 25 == 0 or number == n_trials:
                summary = ", ".join(f"{name} {count[name]}" for name in sorted(count))
                print(f"{number} moments: {summary}", flush=True)


def kill(folder: Path, n_trials: int, n_processes: int, seed: int) -> None:
    draw = random.Random(seed)
    kinds = [case for case in CASES if case.way == "-m multicause" and case.cache == "warm" and case.n_jobs == 2]
    every = ("--resume", "--checkpoint-every", "1")

    def model(place: str) -> bytes:
        return (folder / place / "model").read_bytes()

    def trial(number: int, shares: list[float]) -> str:
        case, place = kinds[number % len(kinds)], f"killed{number}"
        for share in shares:
            run(case, folder, share * whole[case].seconds, signal.SIGKILL, *every, place)
        ended = run(case, folder, None, signal.SIGKILL, *every, place)
        if ended.code:
            return f"{case}: failed, {ended.stderr[-300:]}"
        return "" if model(place) == model(f"whole {case}") else f"{case}: other bits"

    with ThreadPoolExecutor(n_processes) as pool:
        ends = pool.map(lambda case: run(case, folder, None, signal.SIGKILL, *every, f"whole {case}"), kinds)
        whole = dict(zip(kinds, ends, strict=True))
        shares = [[draw.random() for _ in range(draw.randint(1, 3))] for _ in range(n_trials)]
        started = {pool.submit(trial, i, each): each for i, each in enumerate(shares)}
        n_kills = n_same = 0
        for number, future in enumerate(as_completed(started), 1):
            n_kills, n_same = n_kills + len(started[future]), n_same + (future.result() == "")
            if future.result() or number % 10 == 0 or number == n_trials:
                same = f"{n_same} with the bits of a fit left alone"
                print(f"{n_kills} kills in {number} fits: {same}. {future.result()}", flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    n_trials, n_processes, seed = (int(n) for n in [*arguments, *("200", "2", "0")[len(arguments) :]])
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        if "--only-kill" not in sys.argv:
            interrupt(Path(folder), n_trials, n_processes, seed)
        if "--kill" in sys.argv or "--only-kill" in sys.argv:
            kill(Path(folder), -(-n_trials // 4), n_processes, seed)


if __name__ == "__main__":
    child(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main()
