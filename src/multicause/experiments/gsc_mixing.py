"""`gsc-consistency`, `gsc-directions`: sparse directions of drawn data; and what experiments on mixtures share.

GSC Figures 3 and 4. A trial is a dictionary, the Amari index of each method on the same data.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from multicause.estimators import GSC
from multicause.experiments.experiment import (
    GSC14,
    NO_FIGURE,
    PAPERS_EM,
    STANDS_IN,
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


Start = Literal["paper", "own"]
GENERAL: dict[str, Any] = {"noise": "full", "slab": "full", "slab_update": "moments"}  # the model of GSC eq. 1-3, 8-10
HOMOSCEDASTIC: dict[str, Any] = {**GENERAL, "noise": "isotropic"}  # "constrained to have homoscedastic noise"
FIRST_ACTIVATIONS = (0.05, 0.95)  # from which to which, in the paper


def fit_directions(
    X: np.ndarray, seed: int, max_iter: int, tol: float = 0.0, start: Start = "own", **settings: Any
) -> GSC:
    """EM on one thread for as many causes as observed dimensions."""
    drawn = papers_start(X, seed, **settings) if start == "paper" else own_start(X)
    init = {**drawn, **settings.pop("init", {})}
    settings = {**PAPERS_EM, **settings}
    return GSC(X.shape[1], init=init, max_iter=max_iter, tol=tol, random_state=seed, n_jobs=1, **settings).fit(X)


def papers_start(
    X: np.ndarray, seed: int, noise: str = "isotropic", slab: str = "diagonal", **_: Any
) -> dict[str, Any]:
    """As many causes as dimensions, drawn as in the paper; Sigma is the covariance of the data."""
    covariance, size = np.cov(X.T), X.shape[1]
    level = covariance if noise == "full" else float(np.diag(covariance).mean())
    return {**papers_draw(size, size, seed, slab), "noise_variance": level}


def papers_draw(n_causes: int, n_features: int, seed: int, slab: str) -> dict[str, Any]:
    """GSC footnote 2: pi uniform from 0.05 to 0.95, mu and W N(0, 1), Psi diagonal, positive and uniform."""
    rng = np.random.default_rng([seed, 1])
    variances = 1.0 - rng.random(n_causes)
    return {
        "components": rng.standard_normal((n_causes, n_features)),
        "activation": rng.uniform(*FIRST_ACTIVATIONS, size=n_causes),
        "slab_mean": rng.standard_normal(n_causes),
        "slab_covariance": np.diag(variances) if slab == "full" else variances,
    }


def own_start(X: np.ndarray) -> dict[str, Any]:
    """Coefficients around 0, as sounds and draws of symmetric priors have them, and half a cause active on average.

    Many active ones explain data equally badly in many ways, and EM leaves such a plateau late: from the paper's start
    more fits end in a local optimum.
    """
    return {"slab_mean": 0.0, "activation": 0.5 / X.shape[1]}


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
    return [Check(f"{INDEX}, {method}", itemgetter(method)) for method in methods]


def method_points(panel: str, x: float, outcome: Outcome) -> Iterator[Point]:
    """One curve for each method."""
    yield from (Point(panel, method, x, [t[method] for t in outcome.trials]) for method in outcome.trials[0])


# ---- the more data, the more exactly the directions are recovered ----


N_CAUSES, MAX_ITER = 10, 100
SIZES = (1_000, 8_000, 32_000, 128_000)
ALL_SIZES = tuple(1_000 * 2**k for k in range(10))  # the paper's
BOUND, FROM_SIZE = below(6e-3), 128_000
AT_REST = 1e-6  # gain of free energy per data point below which the remaining iterations change nothing
TRUNCATION: dict[str, Any] = {"n_candidates": 5, "max_active": 5}
EXACT: dict[str, Any] = {"posterior": "exact"}
_OWN = "(ours: own start, one noise variance, independent coefficients, bases of length 10)"


@dataclass(frozen=True)
class Curve:
    """One curve of the figure.

    The paper does not say how long its orthogonal bases are. Of length one they all but vanish in a perturbation whose
    length is sqrt(2 * 10) = 4.5; with length ten it is a perturbation.
    """

    title: str
    settings: Mapping[str, Any]
    prior: str = "spike and slab"
    length: float = 1.0
    start: Start = "paper"
    tol: float = 0.0
    judged: bool = True  # the paper's bound is for data of the model
    largest: int = 128_000  # that ends in minutes

    def n_trials(self, n_samples: int) -> int:
        """Of the paper's fifteen."""
        return 15 if n_samples <= 1_000 else 5 if n_samples <= 32_000 else 3


CURVES = (
    Curve("H'=gamma=5", {**TRUNCATION, **GENERAL}),
    Curve("exact", {**EXACT, **GENERAL}, largest=8_000),
    # "the observed noise is assumed to be homoscedastic" may be said of the data, or of what is learned
    Curve("H'=gamma=5, one noise variance", {**TRUNCATION, **HOMOSCEDASTIC}),
    Curve("exact, one noise variance", {**EXACT, **HOMOSCEDASTIC}, largest=8_000),
    Curve("H'=gamma=5, Laplace data", {**TRUNCATION, **GENERAL}, "Laplace", judged=False, largest=32_000),
    Curve(f"H'=gamma=5 {_OWN}", TRUNCATION, length=10.0, start="own", tol=AT_REST),
    Curve("exact (ours: the same)", EXACT, length=10.0, start="own", tol=AT_REST, largest=32_000),
)


def recovery_error(seed: int, curve: Curve, n_samples: int) -> dict[str, float]:
    """Amari index after 100 iterations, or fewer where they change nothing any more."""
    X, bases = sparse_data(curve, n_samples, seed)
    setting = {"start": curve.start, "tol": curve.tol, **curve.settings}
    return {curve.title: unmixing_error(X, bases, seed, MAX_ITER, **setting)}


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
    return Check(INDEX, itemgetter(curve.title), published)(title, trials)


def _consistency_rows(sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    for curve, n_samples in product(CURVES, sizes):
        published = BOUND if curve.judged and n_samples >= FROM_SIZE else NO_FIGURE
        setting, check = {"curve": curve, "n_samples": n_samples}, partial(_index, curve, published)
        title, few = f"{curve.title}, N={n_samples:,}", curve.n_trials(n_samples)
        yield Row(title, recovery_error, setting, [check], few, 15, takes_long=n_samples > curve.largest)


def _consistency_points(outcome: Outcome) -> Iterator[Point]:
    return method_points("", outcome.row.setting["n_samples"], outcome)


# ---- directions behind other priors, truncated against factored ----


GREEDY, FACTORED_FULL = "annealed, greedy selection", "factored, noise covariance"
_GREEDY = "(ours: annealed, greedy selection, own start, against a noise covariance)"
N_SAMPLES = 5000
NORMAL_QUARTILE = 0.6745  # standard deviations from the middle of a normal distribution to its quartiles
FARTHEST = 3.0  # spreads from the middle beyond which a value counts as this far


def direction_errors(
    seed: int, prior: str, size: int, max_iter: int, start: Start, methods: tuple[str, ...]
) -> dict[str, float]:
    """Amari index of the posteriors on the same data, from the same kind of start."""
    X, mixing = direction_data(prior, size, seed)
    errors = {}
    for method in methods:
        settings = method_settings(size)[method]
        robust = prior == "Cauchy" and start == "own"
        init = robust_start(X, seed, settings["noise"]) if robust else {}
        errors[method] = unmixing_error(X, mixing, seed, max_iter, start=start, init=init, **settings)
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
    """GSC has a noise covariance and correlated coefficients (eq. 1-3), H' = gamma = H / 10; its rival has neither.

    All coefficients of a standard prior differ from zero, so that a truncated posterior leaves many out: with a
    covariance they become noise in their directions instead of noise everywhere. That serves the factored posterior,
    too, and is what ours is compared with. Ours selects its candidates greedily and cools over the same 50 iterations.
    """
    few, more = size // 10, max(size // 10, 6)
    cooled = {"selection": "greedy", "annealing": Annealing(3.0, hold=0.5, settle=0.1)}
    return {
        TRUNCATED: {"n_candidates": few, "max_active": few, **GENERAL},
        FACTORED: {"posterior": "factored", "noise": "isotropic"},
        GREEDY: {"n_candidates": more, "max_active": more, "noise": "full", **cooled},
        FACTORED_FULL: {"posterior": "factored", "noise": "full"},
    }


LETTER, OWN = (TRUNCATED, FACTORED), (GREEDY, FACTORED_FULL)


def _direction_rows(sizes: tuple[int, ...] = (20, 60, 100), max_iter: int = 50) -> Iterator[Row]:
    """By the paper's settings at all sizes, and by ours at the smallest."""
    for prior, size in product(("Cauchy", "Laplace"), sizes):
        setting = {"prior": prior, "size": size, "max_iter": max_iter}
        letter, own = (LETTER, f" (ours: {STANDS_IN}", "paper"), (OWN, f" {_GREEDY}", "own")
        for methods, words, start in (letter, own)[: 2 if size == sizes[0] else 1]:
            checks = [advantage(*methods), *indices_of(methods)]
            used = {**setting, "start": start, "methods": methods}
            yield Row(f"{prior}, D=H={size}{words}", direction_errors, used, checks, n_trials=5, published_trials=15)


def _direction_points(outcome: Outcome) -> Iterator[Point]:
    return method_points(outcome.row.setting["prior"], outcome.row.setting["size"], outcome)


# ---- the experiments ----


_CONSISTENCY, _DIRECTIONS = "Sparse directions from more and more data", "Sparse directions behind other priors"
_consistency_figure = curves(_consistency_points, xlabel="data points", ylabel=INDEX, xscale="log", yscale="log")
_direction_figure = curves(_direction_points, xlabel="D = H", ylabel=INDEX)
_QUICK, _ALL = {"sizes": (20,), "max_iter": 5}, {"sizes": (20, 40, 60, 80, 100)}
_FEW_POINTS, _ALL_POINTS = {"sizes": SIZES[:1]}, {"sizes": ALL_SIZES}
EXPERIMENTS = [
    Experiment(
        "gsc-consistency", _CONSISTENCY, GSC14, _consistency_rows, _consistency_figure, _FEW_POINTS, KEPT,
        full=_ALL_POINTS,
    ),
    Experiment("gsc-directions", _DIRECTIONS, GSC14, _direction_rows, _direction_figure, _QUICK, KEPT, full=_ALL),
]  # fmt: skip
