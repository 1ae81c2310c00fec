"""Ctrl-C at random moments of fits: `python benchmarks/interrupts.py [N [PROCESSES [SEED]]]`.

Each of N fits, in the library or by the command line, is a process that gets one SIGINT, at a moment drawn evenly from
the time that the same fit takes undisturbed. Moments begin with the first import of ours that can answer: a script's
`import multicause`, or the command line's own modules; while Python itself starts nobody can. Counted are tracebacks,
deaths by the signal, fits that kept no model though an iteration was recorded, models of another iteration than the
last that the trace holds, and library processes in which the same fit, done again, has other bits or fails.

With `--kill` first, processes of the command line are killed instead (SIGKILL), up to three times each, and gone on
from by `--resume`; counted are files that cannot be read, and ends with other bits than the undisturbed fit's.
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
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

BEGUN = "begun"
N_ITERATIONS, N_COMPONENTS = 80, 16
ROWS = {"one chunk": 500, "many chunks": 6000}
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
    Case(*case)
    for case in product(
        ("linca", "mca", "gsc", "etnmf"), ("library", "-m multicause", "multicause"), ROWS, (1, 2), ("warm", "empty")
    )
    if case[-1] == "warm" or (case[2] == "one chunk") == (case[3] == 1)  # kernels take long to compile
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
    same = fitted and (fit.n_iter_, fit.free_energy_[-1]) == (last["iteration"], last["free_energy"])
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
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(folder / "warm")}
    if case.cache == "empty":
        environment["NUMBA_CACHE_DIR"] = str(place / "cache")
    if case.way != "library":
        environment["PYTHONPATH"] = os.pathsep.join([str(folder / "site"), os.environ.get("PYTHONPATH", "")])
    read, write = os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", f'exec 3>&{write} {write}>&-; exec "$@"', "bash", *command(case, folder, *more[:-1])],
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
    looked = subprocess.run([sys.executable, "-c", code, here, str(data)], cwd=place, capture_output=True, text=True)
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


def interrupt(folder: Path, n_trials: int, n_processes: int, seed: int) -> None:
    draw = random.Random(seed)
    chosen = [CASES[i % len(CASES)] for i in draw.sample(range(-(-n_trials // len(CASES)) * len(CASES)), n_trials)]
    with ThreadPoolExecutor(n_processes) as pool:
        of_warm = [case._replace(cache="warm") for case in set(chosen)]
        list(pool.map(lambda case: run(case, folder, None), {case.model: case for case in of_warm}.values()))
        kinds = sorted(set(chosen))
        undisturbed = dict(zip(kinds, pool.map(lambda case: run(case, folder, None), kinds), strict=True))
        for case, ended in undisturbed.items():
            if faults(ended, ended, False):
                sys.exit(f"{case}: not even undisturbed: {faults(ended, ended, False)}\n{ended.stderr}{ended.said}")
        print(f"{len(kinds)} kinds of fits, undisturbed {min(e.seconds for e in undisturbed.values()):.1f} to "
              f"{max(e.seconds for e in undisturbed.values()):.1f} s", flush=True)  # fmt: skip

        def trial(case: Case, share: float) -> tuple[Case, float, Ended, list[str]]:
            whole = undisturbed[case]
            moment = share * json.loads(whole.said).get("seconds", whole.seconds)  # a script's end is not interrupted
            ended = run(case, folder, moment)
            return case, moment, ended, faults(ended, undisturbed[case], True)

        count: Counter[str] = Counter()
        moments = [1.05 * draw.random() for _ in chosen]
        for number, (case, moment, ended, found) in enumerate(pool.map(trial, chosen, moments), 1):
            count.update(found or ["clean"])
            said = json.loads(ended.said) if ended.said.startswith("{") else {}
            count["with an iteration recorded"] += bool(said.get("recorded"))
            count["ended before the signal"] += said.get("how") == "whole" or ended.code == 0 and "how" not in said
            if found:
                print(
                    f"{case}, at {moment:.2f} s: {', '.join(found)} ({ended.code})\n{ended.stderr[-4000:]}", flush=True
                )
            if number % 50 == 0 or number == n_trials:
                summary = ", ".join(f"{name} {count[name]}" for name in sorted(count))
                print(f"{number} moments: {summary}", flush=True)


def kill(folder: Path, n_trials: int, n_processes: int, seed: int) -> None:
    draw = random.Random(seed)
    kinds = [case for case in CASES if case.way == "-m multicause" and case.cache == "warm"]
    every = ("--resume", "--checkpoint-every", "1")

    def model(place: str) -> bytes:
        return (folder / place / "model").read_bytes()

    def trial(number: int) -> list[str]:
        case, place = kinds[number % len(kinds)], f"killed{number}"
        for share in shares[number]:
            run(case, folder, share * whole[case].seconds, signal.SIGKILL, *every, place)
        ended = run(case, folder, None, signal.SIGKILL, *every, place)
        if ended.code:
            return [f"failed: {ended.stderr[-300:]}"]
        return [] if model(place) == model(f"whole {case}") else ["other bits"]

    with ThreadPoolExecutor(n_processes) as pool:
        ends = pool.map(lambda case: run(case, folder, None, signal.SIGKILL, *every, f"whole {case}"), kinds)
        whole = dict(zip(kinds, ends, strict=True))
        shares = [[draw.random() for _ in range(draw.randint(1, 3))] for _ in range(n_trials)]
        found = [fault for faults in pool.map(trial, range(n_trials)) for fault in faults]
    print(f"{sum(map(len, shares))} kills in {n_trials} fits: {n_trials - len(found)} with the undisturbed fit's bits")
    print("\n".join(found))


def main() -> None:
    arguments = [word for word in sys.argv[1:] if word != "--kill"]
    n_trials, n_processes, seed = (int(n) for n in [*arguments, *("200", "2", "0")[len(arguments) :]])
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        (kill if "--kill" in sys.argv else interrupt)(Path(folder), n_trials, n_processes, seed)


if __name__ == "__main__":
    child(*sys.argv[2:]) if sys.argv[1:2] == ["--child"] else main()
