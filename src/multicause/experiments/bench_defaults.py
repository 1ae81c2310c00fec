"""`multicause bench defaults`: what plain calls find, `LinCA(n_components=20, random_state=0).fit(X)` and its like.

Fits are told the number of components and a seed, nothing else. Beside them the same fits with the papers' defaults,
from random starts, and the free energy of the parameters that generated the data.
"""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from multicause.experiments.plain_data import TASKS, Case, Task

N_SEEDS, N_QUICK = 20, 2
QUICK = ("LinCA, 10 signed bars", "LinCA, random fields, H = 20", "GSC, 20 signed bars", "MCA, 10 bars")
LONGEST, DEEPEST, LEAST_FOUND = 5.0, -0.1, 0.9  # what is wanted of time, free energy, and the share of good fits

NOTHING = float("nan")


class Judged(NamedTuple):
    """One fit."""

    found: float = NOTHING  # share of the causes
    score: float = NOTHING  # free energy: of held-out data, where there are some
    seconds: float = NOTHING
    fall: float = NOTHING  # of the free energy, between two iterations, at the most


class Trial(NamedTuple):
    """A plain call, beside one with the papers' defaults, and EM from the truth."""

    plain: Judged
    before: Judged = Judged()
    from_truth: Judged = Judged()
    truth: float = NOTHING  # its free energy


def run_trial(task: Task, seed: int) -> Trial:
    """Fits of one thread, in seconds of its processor."""
    case = task.case(seed)
    before, from_truth = (Judged() if one is None else judge(one, case) for one in (case.before, case.from_truth))
    plain = judge(case.plain, case)
    return Trial(plain, before, from_truth, NOTHING if case.truth is None else score_of_truth(case))


def score_of_truth(case: Case) -> float:
    """The free energy of the generating parameters, under the posterior that the plain call chose."""
    chosen = getattr(case.plain, "truncation_", None)
    truth = case.truth if chosen is None else case.truth.set_params(**chosen._asdict())
    return float(truth.score(case.X))


def judge(estimator: Any, case: Case) -> Judged:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begun = time.process_time()
        estimator.fit(case.X)
        seconds = time.process_time() - begun
        score = float(estimator.score(case.X if case.held_out is None else case.held_out))
    found = NOTHING if case.share_found is None else case.share_found(estimator)
    history = estimator.free_energy_
    falls = history[:-1] - history[1:] - 1e-9 * np.abs(history[1:])
    return Judged(found, score, seconds, float(max(falls.max(initial=0.0), 0.0)))


def plain_calls(quick: bool = False) -> list[tuple[str, str, str, bool | None]]:
    """All tasks, a line each; trials in parallel processes."""
    seeds = range(N_QUICK if quick else N_SEEDS)
    tasks = [task for task in TASKS if not quick or task.name in QUICK]
    trials = Parallel(n_jobs=-1)(delayed(run_trial)(task, seed) for task in tasks for seed in seeds)
    per_task = [trials[i : i + len(seeds)] for i in range(0, len(trials), len(seeds))]
    return [line_of(task.name, mine) for task, mine in zip(tasks, per_task, strict=True)]


def line_of(name: str, trials: list[Trial]) -> tuple[str, str, str, bool | None]:
    """What is measured of a task, what is wanted, and whether it is met: None where the truth is no maximum of EM."""
    said, wanted, met = [], [], []
    found = np.array([trial.plain.found for trial in trials])
    if not np.isnan(found).all():
        said.append(f"all found {np.sum(found == 1.0)}/{len(trials)} ({found.mean():.3f})")
        wanted.append(f"all found >= {LEAST_FOUND:.0%}")
        met.append(np.mean(found == 1.0) >= LEAST_FOUND)
    for part in (_beside_truth(trials), _beside_before(trials)):
        if part is not None:
            said, wanted, met = [*said, part[0]], [*wanted, part[1]], [*met, part[2]]
    falls = np.array([trial.plain.fall for trial in trials])
    said.append(f"{np.mean([trial.plain.seconds for trial in trials]):.1f} s, F fell in {np.sum(falls > 0.0)}")
    kept = np.array([trial.from_truth.found for trial in trials])
    leaves_truth = np.mean(kept == 1.0) < LEAST_FOUND and not np.isnan(kept).all()
    return name, "; ".join(said), ", ".join(wanted) or "-", None if leaves_truth or not met else bool(all(met))


def _beside_truth(trials: list[Trial]) -> tuple[str, str, bool] | None:
    gaps = np.array([trial.plain.score - trial.truth for trial in trials])
    if np.isnan(gaps).all():
        return None
    kept = np.array([trial.from_truth.found for trial in trials])
    words = "" if np.isnan(kept).all() else f" (EM keeps the truth in {np.sum(kept == 1.0)})"
    return f"F - truth's >= {gaps.min():.2f}{words}", f"F >= {DEEPEST}", bool(gaps.min() >= DEEPEST)


def _beside_before(trials: list[Trial]) -> tuple[str, str, bool] | None:
    before = [trial.before for trial in trials]
    if np.isnan([one.seconds for one in before]).all():
        return None
    ratio = sum(trial.plain.seconds for trial in trials) / sum(one.seconds for one in before)
    gain = float(np.mean([trial.plain.score - trial.before.score for trial in trials]))
    found = np.array([one.found for one in before])
    words = "" if np.isnan(found).all() else f"{np.sum(found == 1.0)}/{len(trials)}, "
    said = f"from random {words}F by {gain:.2f} less, time ratio {ratio:.1f}"
    return said, f"F no less, <= {LONGEST:.0f}x", bool(gain >= DEEPEST and ratio <= LONGEST)
