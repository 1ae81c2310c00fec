"""`upoe-crabs`, `upoe-natural`: projections of crabs (UPoE §5.2, Figures 4, 5) and natural images (§5.3, Figure 6)."""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from multicause.datasets import load_crabs, natural_patches
from multicause.estimators import UPoE
from multicause.experiments.experiment import (
    PSICA,
    Check,
    Experiment,
    Finding,
    Outcome,
    Published,
    Row,
    finding,
    fit_quietly,
)
from multicause.experiments.figures import Panel, panels, subplots
from multicause.models.experts import StudentTMixture

# ---- projections with two modes that tell groups of crabs apart ----


EXPERT = StudentTMixture(fixed=("means", "inverse_temperatures"))  # mu = -1 and 1, beta = 20


class Shares(NamedTuple):
    """How well the signs of the first two projections tell colour form and sex, each and both; and the experts."""

    colour: float
    sex: float
    both: float
    n_experts: float


def split_crabs(seed: int, n_starts: int) -> Shares:
    crabs = load_crabs()
    fit = UPoE(algorithm="pursuit", expert=EXPERT, n_init=n_starts, random_state=seed).fit(crabs.X)
    signs = fit.transform(crabs.X)[:, :2] > 0.0
    form, sex = crabs.groups // 2, crabs.groups % 2
    by_form, by_sex = (max(agreement(sign, label) for sign in signs.T) for label in (form, sex))
    if len(signs.T) < 2:
        return Shares(by_form, by_sex, 0.0, 1.0)
    quadrants = max(
        np.mean((signs[:, a] == form ^ p) & (signs[:, 1 - a] == sex ^ q)) for a, p, q in product((0, 1), repeat=3)
    )
    return Shares(by_form, by_sex, float(quadrants), float(len(fit.components_)))


def agreement(sign: np.ndarray, label: np.ndarray) -> float:
    share = float(np.mean(sign == label))
    return max(share, 1.0 - share)


def _split(bound: float) -> Published:
    return Published("split", lambda share: share.mean >= bound)


def _crab_rows(n_starts: int = 20) -> Iterator[Row]:
    """The paper shows one fit, and speaks of many local minima."""
    checks = [
        Check("share on the side of its colour form", lambda trial: trial.colour, _split(0.9)),
        Check("share on the side of its sex", lambda trial: trial.sex, _split(0.9)),
        Check("share in the quadrant of its group", lambda trial: trial.both, _split(0.85)),
        Check("experts until none helps", lambda trial: trial.n_experts, spread=False),
    ]
    yield Row("crabs", split_crabs, {"n_starts": 1}, checks, n_trials=20)
    title = f"crabs (ours: best of {n_starts} starts)"
    yield Row(title, split_crabs, {"n_starts": n_starts}, checks, n_trials=5)


def _crab_figure(outcomes: list[Outcome]) -> Any:
    """The first two projections, as the paper's Figure 5."""
    crabs = load_crabs()
    n_starts = outcomes[-1].row.setting["n_starts"]
    pursuit = UPoE(2, algorithm="pursuit", expert=EXPERT, random_state=0, n_init=n_starts)
    Z = pursuit.fit_transform(crabs.X)
    figure, axes = subplots(1, 1, (5.0, 4.4))
    for group, (name, marker) in enumerate(zip(crabs.names, "osD+", strict=True)):
        axes[0, 0].plot(*Z[crabs.groups == group].T, marker, markersize=4, label=name)
    axes[0, 0].set(xlabel="projection 1", ylabel="projection 2")
    axes[0, 0].legend(fontsize="small", ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure


# ---- independent components of natural images: the paper shows 25 experts and says Gabor-like ----


SIZE = 30
GOOD_FIT = 0.5  # share of a field's variance that a Gabor function explains
GABOR_LIKE = Published("Gabor-like", lambda share: share.mean >= 0.8)
FAST = Published("a few hours", lambda seconds: seconds.mean <= 600.0)


class Learned(NamedTuple):
    fit: UPoE
    seconds: float
    cpu_seconds: float
    explained: np.ndarray  # by a Gabor function


def learn_patches(seed: int, n_patches: int, **settings: Any) -> Learned:
    X = natural_patches(SIZE, n_patches, random_state=seed)
    start, cpu_start = time.perf_counter(), time.process_time()
    fit = fit_quietly(UPoE(**{"algorithm": "pursuit", "tol": 1e-5, "random_state": seed, **settings}), X)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    explained = np.array([gabor_share(field.reshape(SIZE, SIZE)) for field in fit.mixing_.T])
    return Learned(fit, seconds, cpu_seconds, explained)


def gabor_share(field: np.ndarray) -> float:
    """The largest share of a field's variance that a Gabor function of free place, size, angle and frequency explains.

    The search starts at the field's centre of energy with the frequency at the peak of its spectrum.
    """
    field = (field - field.mean()) / field.std()
    y, x = np.mgrid[: field.shape[0], : field.shape[1]].astype(float)
    energy = field**4
    place = [float((c * energy).sum() / energy.sum()) for c in (x, y)]
    spectrum = np.abs(np.fft.fftshift(np.fft.fft2(field, s=(128, 128))))
    row, column = np.unravel_index(int(np.argmax(spectrum)), spectrum.shape)
    wave = [2.0 * np.pi * (int(column) - 64) / 128, 2.0 * np.pi * (int(row) - 64) / 128]

    def residual(values: np.ndarray) -> np.ndarray:
        x0, y0, kx, ky, along, across = values
        angle = np.arctan2(ky, kx)
        u = (x - x0) * np.cos(angle) + (y - y0) * np.sin(angle)
        v = -(x - x0) * np.sin(angle) + (y - y0) * np.cos(angle)
        window = np.exp(-0.5 * (u**2 * np.exp(-2.0 * along) + v**2 * np.exp(-2.0 * across)))
        phase = np.hypot(kx, ky) * u
        basis = np.stack([(window * np.cos(phase)).ravel(), (window * np.sin(phase)).ravel()], axis=1)
        amplitudes = np.linalg.lstsq(basis, field.ravel(), rcond=None)[0]
        return field.ravel() - basis @ amplitudes

    starts = ([*place, *wave, np.log(width), np.log(1.5 * width)] for width in (1.0, 2.0, 4.0))
    best = min(least_squares(residual, start, max_nfev=100).cost for start in starts)
    return float(1.0 - 2.0 * best / field.size)


def _like_gabor(title: str, trials: list[Learned]) -> Finding:
    return finding(title, "fields like a Gabor function", trials[0].explained > GOOD_FIT, GABOR_LIKE)


NATURAL_CHECKS = (
    _like_gabor,
    Check("seconds of the fit", lambda trial: trial.seconds, FAST),
    Check("seconds of the fit, of one core's time", lambda trial: trial.cpu_seconds),
    Check("experts of negative index", lambda trial: float(np.sum(trial.fit.projection_index_ < 0.0))),
)


def _natural_rows(
    jobs: int | None, n_patches: int = 100_000, n_dimensions: int = 400, n_experts: int = 100
) -> Iterator[Row]:
    title = f"N={n_patches:,}, {n_dimensions} dimensions, {n_experts} experts (ours: other data, whole batches)"
    setting = {"n_patches": n_patches, "n_dimensions": n_dimensions, "n_components": n_experts, "n_jobs": jobs}
    yield Row(title, learn_patches, setting, NATURAL_CHECKS)


def _natural_figure(outcomes: list[Outcome]) -> Any:
    fit = outcomes[0].trials[0].fit
    shown = (("projections", fit.components_), ("fields", fit.mixing_.T))
    return panels([[Panel(title, images, (SIZE, SIZE)) for title, images in shown]], (12.0, 6.3))


# ---- the experiments ----


_CRABS, _NATURAL = "Projections that tell crabs apart", "Independent components of natural images"
_QUICK: dict[str, Any] = {"n_patches": 4_000, "n_dimensions": 60, "n_experts": 4}
_KEPT = {
    "stop": lambda trial: str(trial.fit.stop_),
    "iterations": lambda trial: trial.fit.n_iter_,
    "log-likelihood": lambda trial: trial.fit.free_energy_[[0, -1]].tolist(),
    "explained by a Gabor function": lambda trial: np.sort(trial.explained).tolist(),
}
_NEEDS: dict[str, Any] = {"takes": ["jobs"], "needs_data": True}
EXPERIMENTS = [
    Experiment("upoe-crabs", _CRABS, PSICA, _crab_rows, _crab_figure, {"n_starts": 3}, needs_data=True),
    Experiment("upoe-natural", _NATURAL, PSICA, _natural_rows, _natural_figure, _QUICK, _KEPT, **_NEEDS),
]
