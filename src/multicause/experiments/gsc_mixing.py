"""`gsc-consistency`, `gsc-directions`: sparse directions of drawn data; and what experiments on mixtures share.

GSC Figures 3 and 4. A trial is a dictionary, the Amari index of each method on the same data.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np

from multicause.estimators import GSC
from multicause.experiments.experiment import (
    GSC14,
    NO_FIGURE,
    Check,
    Experiment,
    Finding,
    Outcome,
    Published,
    Row,
    below,
)
from multicause.experiments.figures import Point, curves
from multicause.learning import Annealing
from multicause.metrics import amari_index

TRUNCATED, FACTORED = "truncated", "factored"
INDEX = "Amari index"
KEPT = {INDEX: dict}


def orthogonal_bases(n: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of length one at right angles to each other, uniformly distributed, (n, n)."""
    Q, R = np.linalg.qr(rng.standard_normal((n, n)))
    return Q * np.sign(np.diag(R))


def perturbed_bases(n: int, variance: float, rng: np.random.Generator, length: float = 1.0) -> np.ndarray:
    """Orthogonal bases of a length, plus N(0, variance) on every entry: one row per source."""
    return length * orthogonal_bases(n, rng) + np.sqrt(variance) * rng.standard_normal((n, n))


def fit_directions(X: np.ndarray, seed: int, max_iter: int, tol: float = 0.0, **settings: Any) -> GSC:
    """EM on one thread for as many causes as observed dimensions.

    Coefficients start around 0, as sounds and draws of symmetric priors have them, and half a cause is active on
    average: many active ones explain data equally badly in many ways, and EM leaves such a plateau late. From the
    paper's start (footnote 2: pi from 0.05 to 0.95, means and components N(0, 1)) more fits end in a local optimum.
    """
    n_causes = X.shape[1]
    start = {"slab_mean": 0.0, "activation": 0.5 / n_causes, **settings.pop("init", {})}
    return GSC(n_causes, init=start, max_iter=max_iter, tol=tol, random_state=seed, n_jobs=1, **settings).fit(X)


def unmixing_error(X: np.ndarray, mixing: np.ndarray, seed: int, max_iter: int, **settings: Any) -> float:
    """Amari index of the directions learned from mixtures."""
    return amari_index(fit_directions(X, seed, max_iter, **settings).components_, mixing)


def advantage(method: str = TRUNCATED, rival: str = FACTORED, equal: bool = False) -> Check:
    """By how much a factored posterior's index is larger than that of a truncated one, met if surely so.

    Where the paper found both equal, it is met if the truncated one is not worse. All posteriors see the same data in a
    trial, so that the interval is of the differences.
    """
    equally = Published("0", lambda gain: gain.mean >= 0.0, 0.0)
    surely = equally if equal else Published("> 0", lambda gain: gain.low > 0.0)
    return Check(f"{rival} less {method}", lambda trial: trial[rival] - trial[method], surely)


def indices_of(methods: Iterable[str]) -> list[Check]:
    """The indices themselves, which the paper shows in a figure."""
    return [Check(INDEX, itemgetter(method), label=f"{{}}, {method}") for method in methods]


def method_points(panel: str, x: float, outcome: Outcome) -> Iterator[Point]:
    """One curve for each method."""
    yield from (Point(panel, method, x, [t[method] for t in outcome.trials]) for method in outcome.trials[0])


# ---- the more data, the more exactly the directions are recovered ----


N_CAUSES, MAX_ITER = 10, 100
SIZES = (1_000, 4_000, 16_000, 128_000)
LARGEST = 512_000
BOUND, FROM_SIZE = below(6e-3), 128_000
AT_REST = 1e-6  # gain of free energy per data point below which the remaining iterations change nothing
TRUNCATION: dict[str, Any] = {"n_candidates": 5, "max_active": 5}


@dataclass(frozen=True)
class Curve:
    """One curve of the figure.

    The paper does not say how long its orthogonal bases are. Of length one they would all but vanish in a perturbation
    whose length is sqrt(2 * 10) = 4.5; with length ten it is a perturbation. Both readings are measured.
    """

    title: str
    settings: Mapping[str, Any]
    prior: str = "spike and slab"
    length: float = 10.0
    sizes: tuple[int, ...] = SIZES
    judged: bool = True  # the paper's bound is for data of the model


CURVES = (
    Curve("H'=gamma=5", TRUNCATION, sizes=(*SIZES, LARGEST)),
    Curve("exact", {"posterior": "exact"}),
    Curve("H'=gamma=5, bases of length 1", TRUNCATION, length=1.0),
    Curve("H'=gamma=5, Laplace data", TRUNCATION, prior="Laplace", judged=False),
)


def recovery_error(seed: int, curve: Curve, n_samples: int) -> dict[str, float]:
    """Amari index after at most 100 iterations."""
    X, bases = sparse_data(curve, n_samples, seed)
    return {curve.title: unmixing_error(X, bases, seed, MAX_ITER, tol=AT_REST, **curve.settings)}


def sparse_data(curve: Curve, n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Data with noise of variance 1, and the bases: orthogonal ones plus N(0, 2)."""
    rng = np.random.default_rng(seed)
    bases = perturbed_bases(N_CAUSES, 2.0, rng, curve.length)
    shape = (n_samples, N_CAUSES)
    if curve.prior == "Laplace":
        coefficients = rng.laplace(size=shape)
    else:
        coefficients = (rng.random(shape) < 1.0 / N_CAUSES) * rng.standard_normal(shape)
    return coefficients @ bases + rng.standard_normal(shape), bases


def _index(curve: Curve, published: Published, title: str, trials: list[dict[str, float]]) -> Finding:
    return Check(INDEX, itemgetter(curve.title), published, f"{{}}, {len(trials)} trials")(title, trials)


def _consistency_rows(n_sizes: int | None = None) -> Iterator[Row]:
    for curve in CURVES:
        for n_samples in curve.sizes[:n_sizes]:
            published = BOUND if curve.judged and n_samples >= FROM_SIZE else NO_FIGURE
            setting = {"curve": curve, "n_samples": n_samples}
            check, n_trials = partial(_index, curve, published), 3 if n_samples == LARGEST else 15
            yield Row(f"{curve.title}, N={n_samples:,}", recovery_error, setting, [check], n_trials)


def _consistency_points(outcome: Outcome) -> Iterator[Point]:
    return method_points("", outcome.row.setting["n_samples"], outcome)


# ---- directions behind other priors, truncated against factored ----


GREEDY, FACTORED_FULL = "annealed, greedy selection (ours)", "factored, noise covariance"
N_SAMPLES = 5000
NORMAL_QUARTILE = 0.6745  # standard deviations from the middle of a normal distribution to its quartiles
FARTHEST = 3.0  # spreads from the middle beyond which a value counts as this far


def direction_errors(seed: int, prior: str, size: int, max_iter: int) -> dict[str, float]:
    """Amari index of the posteriors on the same data, from the same start."""
    X, mixing = direction_data(prior, size, seed)
    errors = {}
    for method, settings in method_settings(size).items():
        start = robust_start(X, seed, settings["noise"]) if prior == "Cauchy" else {}
        errors[method] = unmixing_error(X, mixing, seed, max_iter, init=start, **settings)
    return errors


def direction_data(prior: str, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy mixtures and the mixing matrix, N(0, 1) in every entry."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((size, size))
    draw = rng.standard_cauchy if prior == "Cauchy" else rng.laplace
    return draw(size=(N_SAMPLES, size)) @ mixing + rng.standard_normal((N_SAMPLES, size)), mixing


def robust_start(X: np.ndarray, seed: int, noise: str) -> dict[str, Any]:
    """Half of the variance for the noise and half for components drawn at random, as wide as the middle of the data.

    Some Cauchy coefficients are a million times the others. From noise of the data's own variance, which drowns all
    else, fits of 50 iterations end with several causes in one direction.
    """
    middle = np.median(X, axis=0)
    spread = np.median(np.abs(X - middle), axis=0) / NORMAL_QUARTILE
    covariance = np.outer(spread, spread) * np.cov(((X - middle) / spread).clip(-FARTHEST, FARTHEST).T)
    variance = float(np.diag(covariance).mean())
    W = np.sqrt(variance / 2.0) * np.random.default_rng([seed, 1]).standard_normal(2 * X.shape[1:])
    return {"components": W, "noise_variance": (covariance if noise == "full" else variance) / 2.0}


def method_settings(size: int) -> dict[str, dict[str, Any]]:
    """GSC has a noise covariance (GSC eq. 3) and H' = gamma = H / 10; its rival has one noise variance.

    All coefficients of a standard prior differ from zero, so that a truncated posterior leaves many out: with a
    covariance they become noise in their directions instead of noise everywhere. That serves the factored posterior,
    too, and is what ours is compared with. Ours selects its candidates greedily and cools over the same 50 iterations.
    """
    few, more = size // 10, max(size // 10, 6)
    cooled = {"selection": "greedy", "annealing": Annealing(3.0, hold=0.5, settle=0.1)}
    return {
        TRUNCATED: {"n_candidates": few, "max_active": few, "noise": "full"},
        GREEDY: {"n_candidates": more, "max_active": more, "noise": "full", **cooled},
        FACTORED: {"posterior": "factored", "noise": "isotropic"},
        FACTORED_FULL: {"posterior": "factored", "noise": "full"},
    }


def _direction_rows(sizes: tuple[int, ...] = (20, 40, 60, 80, 100), max_iter: int = 50) -> Iterator[Row]:
    checks = (advantage(GREEDY, FACTORED_FULL), advantage(), *indices_of(method_settings(20)))
    for prior, size in product(("Cauchy", "Laplace"), sizes):
        setting = {"prior": prior, "size": size, "max_iter": max_iter}
        yield Row(f"{prior}, D=H={size}", direction_errors, setting, checks, n_trials=20)


def _direction_points(outcome: Outcome) -> Iterator[Point]:
    return method_points(outcome.row.setting["prior"], outcome.row.setting["size"], outcome)


# ---- the experiments ----


_CONSISTENCY, _DIRECTIONS = "Sparse directions from more and more data", "Sparse directions behind other priors"
_consistency_figure = curves(_consistency_points, xlabel="data points", ylabel=INDEX, xscale="log", yscale="log")
_direction_figure = curves(_direction_points, xlabel="D = H", ylabel=INDEX)
_QUICK = {"sizes": (20,), "max_iter": 5}
EXPERIMENTS = [
    Experiment("gsc-consistency", _CONSISTENCY, GSC14, _consistency_rows, _consistency_figure, {"n_sizes": 1}, KEPT),
    Experiment("gsc-directions", _DIRECTIONS, GSC14, _direction_rows, _direction_figure, _QUICK, KEPT),
]
