"""`upoe-crabs`: projections with two modes that tell groups of crabs apart (UPoE §5.2, Figures 4 and 5)."""

from functools import partial

import numpy as np

from multicause.datasets import load_crabs
from multicause.estimators import UPoE
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.metrics import bootstrap_interval
from multicause.models.experts import StudentTMixture

N_TRIALS, N_STARTS = 20, 20
EXPERT = StudentTMixture(fixed=("means", "inverse_temperatures"))  # mu = -1 and 1, beta = 20


def upoe_crabs(options: Options) -> Result:
    n_starts = 3 if options.quick else N_STARTS
    seeds = options.seeds(N_TRIALS)
    shares = np.array(run_trials(partial(split_crabs, n_starts), seeds, options, "crabs"))
    rows = [
        Row(f"best of {n_starts} starts", measure, "split", float(values.mean()), bootstrap_interval(values), bool(met))
        for measure, values, met in (
            ("share on the side of its colour form", shares[:, 0], shares[:, 0].mean() >= 0.9),
            ("share on the side of its sex", shares[:, 1], shares[:, 1].mean() >= 0.9),
            ("share in the quadrant of its group", shares[:, 2], shares[:, 2].mean() >= 0.85),
        )
    ]
    rows.append(Row(f"best of {n_starts} starts", "experts until none helps", "-", float(shares[:, 3].mean())))
    return Result("upoe-crabs", rows, _figure(n_starts, seeds[0]), details={"crabs": {"trials": len(shares)}})


def split_crabs(n_starts: int, seed: int) -> tuple[float, float, float, float]:
    """How well the signs of the first two projections tell colour form and sex, each and both; and the experts."""
    crabs = load_crabs()
    fit = UPoE(expert=EXPERT, n_init=n_starts, random_state=seed).fit(crabs.X)
    signs = fit.transform(crabs.X)[:, :2] > 0.0
    told = [agreement(sign, label) for label in (crabs.groups // 2, crabs.groups % 2) for sign in signs.T]
    colour, sex = max(told[:2]), max(told[2:])
    if len(signs.T) < 2:
        return colour, sex, 0.0, 1.0
    quadrants = max(
        np.mean((signs[:, a] == (crabs.groups // 2) ^ p) & (signs[:, 1 - a] == (crabs.groups % 2) ^ q))
        for a in (0, 1)
        for p in (0, 1)
        for q in (0, 1)
    )
    return colour, sex, float(quadrants), float(len(fit.components_))


def agreement(sign: np.ndarray, label: np.ndarray) -> float:
    share = float(np.mean(sign == label))
    return max(share, 1.0 - share)


def _figure(n_starts: int, seed: int):
    import matplotlib.pyplot as plt

    crabs = load_crabs()
    fit = UPoE(2, expert=EXPERT, n_init=n_starts, random_state=seed).fit(crabs.X)
    Z = fit.transform(crabs.X)
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.6), layout="constrained")
    grid = np.linspace(-3.0, 3.0, 301)
    for number, (ax, z, expert) in enumerate(zip(axes, Z.T, fit.experts_, strict=False), start=1):
        ax.hist(z, bins=25, density=True, color="0.8")
        ax.plot(grid, np.exp(expert.log_density(grid)), "C3")
        ax.set_xlabel(f"projection {number}")
    for group, (name, marker) in enumerate(zip(crabs.names, "osD+", strict=True)):
        chosen = crabs.groups == group
        axes[2].plot(Z[chosen, 0], Z[chosen, 1], marker, markersize=4, label=name)
    axes[2].set_xlabel("projection 1")
    axes[2].set_ylabel("projection 2")
    axes[2].legend(fontsize="small", ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
