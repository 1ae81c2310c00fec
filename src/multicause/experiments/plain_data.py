"""Data for `multicause bench defaults`: of each model itself, with causes that are known, and real ones without."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits, load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from multicause.datasets import bar_components, make_bars, make_scenes
from multicause.datasets.scenes import shape_objects
from multicause.estimators import ETNMF, GSC, MCA, MCA3, InvECA, LinCA, NonlinearGSC, TruncatedGaussianMixture, UPoE
from multicause.experiments.gps_occlusion import match_objects, n_alike

FOUND = 0.95  # correlation of a cause and the component that is its own
BEFORE = {"start": "random", "selection": "model-based", "monotone": False}  # the defaults of the papers
N_REAL = 50  # components of fits to real data

Components = Callable[[np.random.Generator], np.ndarray]


class Case(NamedTuple):
    """Data, a plain call, and what it is compared with."""

    X: np.ndarray
    plain: Any  # an estimator that is told a number of components and a seed
    before: Any = None  # the same with the papers' defaults, where these are others
    share_found: Callable[[Any], float] | None = None  # of the causes, by a fitted estimator
    truth: Any = None  # an estimator with the parameters that generated the data
    from_truth: Any = None  # one that starts there
    held_out: np.ndarray | None = None


class Task(NamedTuple):
    """A row of the table: data by their seed."""

    name: str
    case: Callable[[int], Case]


def fields(n: int, n_features: int, nonnegative: bool, rng: np.random.Generator) -> np.ndarray:
    """Components without structure."""
    drawn = rng.standard_normal((n, n_features))
    return np.abs(drawn) if nonnegative else drawn


def bars(size: int, signed: bool, rng: np.random.Generator) -> np.ndarray:
    return bar_components(size, 1.0, signed)


def strokes(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Straight strokes of a soft pen, across each other but not upon each other."""
    pixels = np.stack(np.meshgrid(np.arange(size) + 0.5, np.arange(size) + 0.5, indexing="ij"), -1).reshape(-1, 2)
    drawn: list[np.ndarray] = []
    while len(drawn) < n:
        middle, angle, length = rng.random(2) * size, rng.random() * np.pi, rng.uniform(0.4, 0.9) * size
        along = np.linspace(-0.5, 0.5, 60)[:, None] * length * np.array([np.cos(angle), np.sin(angle)])
        distance = np.linalg.norm(pixels[:, None] - (middle + along), axis=2).min(axis=1)
        stroke = np.clip(1.2 - distance, 0.0, 1.0)
        if stroke.sum() > 3.0 and all(_cosine(stroke, other) < 0.8 for other in drawn):
            drawn.append(stroke)
    return np.array(drawn)


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def share_found(components: np.ndarray, causes: np.ndarray) -> float:
    """Causes with a component of their own, up to its sign and length."""
    a, b = (W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300) for W in (components, causes))
    cosines = np.abs(a @ b.T)
    return float((cosines[linear_sum_assignment(-cosines)] > FOUND).mean())


def sparse_case(estimator: Any, components: Components, n_samples: int, noise: float, seed: int) -> Case:
    """Two latents active on average."""
    rng = np.random.default_rng([seed, 22])
    causes = components(rng)
    settings: dict[str, Any] = {"allow_negative": True} if estimator is ETNMF else {}
    truth: dict[str, Any] = {"components": causes, "activation": np.full(len(causes), 2.0 / len(causes))}
    truth["noise_variance"] = noise**2
    if estimator is GSC:
        truth |= {"slab_mean": np.zeros(len(causes)), "slab_covariance": np.ones(len(causes))}
    generating = estimator.from_parameters(**truth, n_jobs=1, **settings)
    X = generating.sample(n_samples, random_state=seed)[0]
    make = partial(estimator, len(causes), random_state=seed, n_jobs=1, **settings)
    found = partial(_found_components, causes)
    return Case(X, make(), make(**BEFORE), found, generating, make(init=truth, max_iter=50))


def _found_components(causes: np.ndarray, fit: Any) -> float:
    return share_found(fit.components_, causes)


def counts_case(size: int, seed: int) -> Case:
    """Bars under a maximum with Poisson noise."""
    data = make_bars(500, size, superposition="max", noise="poisson", random_state=seed)
    plain = MCA3(2 * size, random_state=seed, n_jobs=1)
    return Case(data.X, plain, share_found=partial(_found_components, data.components))


def varying_case(size: int, seed: int) -> Case:
    """Bars of varying brightness under a maximum."""
    causes = bar_components(size, 10.0)
    truth = {"components": causes, "activation": 2.0 / len(causes), "noise_variance": 2.0}
    generating = NonlinearGSC.from_parameters(**truth, slab_mean=1.0, slab_covariance=0.1, n_jobs=1)
    X = generating.sample(1000, random_state=seed)[0]
    plain = NonlinearGSC(len(causes), random_state=seed, n_jobs=1)
    return Case(X, plain, share_found=partial(_found_components, causes), truth=generating)


def clusters_case(n_clusters: int, n_features: int, seed: int) -> Case:
    """Clusters of unequal size, about three standard deviations apart in each of their principal directions."""
    rng = np.random.default_rng([seed, 22])
    means = 3.0 * rng.standard_normal((n_clusters, n_features))
    weights = rng.dirichlet(np.full(n_clusters, 5.0))
    covariances = np.tile(np.eye(n_features), (n_clusters, 1, 1))
    generating = TruncatedGaussianMixture.from_parameters(weights=weights, means=means, covariances=covariances)
    X = generating.sample(100 * n_clusters, random_state=seed)[0]
    plain = TruncatedGaussianMixture(n_clusters, random_state=seed, n_jobs=1)
    from_truth = TruncatedGaussianMixture(n_clusters, means_init=means, random_state=seed, n_jobs=1)
    return Case(X, plain, None, lambda fit: share_found(fit.means_, means), generating, from_truth)


def objects_case(start: str, seed: int) -> Case:
    """Objects that hide each other, at any place of a grey background, with noise."""
    drawn = make_scenes(1000, shape_objects(8, 8, seed), image_shape=(20, 20), random_state=seed)
    noise = 0.1 * np.random.default_rng([seed, 22]).standard_normal(drawn.X.shape)
    grey = np.where(drawn.X == 0.0, 0.5, drawn.X) + noise
    plain = InvECA(8, (8, 8), init=start, random_state=seed, n_jobs=1)
    return Case(grey, plain, share_found=lambda fit: n_alike(match_objects(fit, drawn)) / 8)


def sources_case(n_sources: int, seed: int) -> Case:
    """Mixtures of Laplace sources."""
    rng = np.random.default_rng([seed, 22])
    mixing = rng.standard_normal((n_sources, n_sources))
    X = rng.laplace(size=(5000, n_sources)) @ mixing
    plain = UPoE(n_sources, random_state=seed, n_jobs=1)
    return Case(X, plain, share_found=lambda fit: share_found(np.linalg.pinv(fit.components_).T, mixing))


def digits_case(estimator: Any, seed: int) -> Case:
    X = load_digits().data / 16.0
    return _real_case(estimator, X[np.random.default_rng([seed, 22]).permutation(len(X))], 1300, seed)


def patches_case(estimator: Any, seed: int) -> Case:
    picture = load_sample_image("china.jpg").mean(axis=2) / 255.0
    patches = extract_patches_2d(picture, (8, 8), max_patches=7000, random_state=seed).reshape(-1, 64)
    return _real_case(estimator, patches - patches.mean(axis=1, keepdims=True), 5000, seed)


def _real_case(estimator: Any, X: np.ndarray, n_learned: int, seed: int) -> Case:
    make = partial(estimator, N_REAL, random_state=seed, n_jobs=1)
    return Case(X[:n_learned], make(), make(**BEFORE), held_out=X[n_learned:])


def _sparse(name: str, *settings: Any) -> Task:
    return Task(name, partial(sparse_case, *settings))


TASKS = [
    _sparse("LinCA, 10 signed bars", LinCA, partial(bars, 5, True), 2000, 0.3),
    _sparse("LinCA, 20 bars", LinCA, partial(bars, 10, False), 2000, 0.3),
    _sparse("LinCA, 40 bars", LinCA, partial(bars, 20, False), 3000, 0.3),
    _sparse("LinCA, random fields, H = 20", LinCA, partial(fields, 20, 25, False), 2000, 0.4),
    _sparse("LinCA, random fields, H = 50", LinCA, partial(fields, 50, 50, False), 3000, 0.4),
    _sparse("LinCA, random fields, H = 100", LinCA, partial(fields, 100, 100, False), 5000, 0.4),
    _sparse("LinCA, random fields, H = 2 D = 50", LinCA, partial(fields, 50, 25, False), 3000, 0.25),
    _sparse("LinCA, 25 strokes", LinCA, partial(strokes, 25, 10), 3000, 0.2),
    _sparse("ETNMF, 20 bars", ETNMF, partial(bars, 10, False), 2000, 0.3),
    _sparse("ETNMF, 40 bars", ETNMF, partial(bars, 20, False), 3000, 0.3),
    _sparse("ETNMF, 25 strokes", ETNMF, partial(strokes, 25, 10), 3000, 0.2),
    _sparse("ETNMF, random fields, H = 50", ETNMF, partial(fields, 50, 50, True), 3000, 0.3),
    _sparse("GSC, 20 signed bars", GSC, partial(bars, 10, True), 2000, 0.2),
    _sparse("GSC, random fields, H = 20", GSC, partial(fields, 20, 25, False), 2000, 0.3),
    _sparse("GSC, random fields, H = 50", GSC, partial(fields, 50, 50, False), 3000, 0.3),
    _sparse("GSC, random fields, H = 100", GSC, partial(fields, 100, 100, False), 5000, 0.3),
    _sparse("GSC, random fields, H = 2 D = 50", GSC, partial(fields, 50, 25, False), 3000, 0.2),
    _sparse("GSC, 25 strokes", GSC, partial(strokes, 25, 10), 3000, 0.1),
    _sparse("MCA, 10 bars", MCA, partial(bars, 5, False), 1000, 0.2),
    _sparse("MCA, 20 bars", MCA, partial(bars, 10, False), 2000, 0.2),
    _sparse("MCA, 40 bars", MCA, partial(bars, 20, False), 3000, 0.2),
    _sparse("MCA, random fields, H = 20", MCA, partial(fields, 20, 25, True), 2000, 0.2),
    _sparse("MCA, random fields, H = 50", MCA, partial(fields, 50, 50, True), 3000, 0.2),
    _sparse("MCA, 25 strokes", MCA, partial(strokes, 25, 10), 3000, 0.15),
    Task("LinCA, digits, H = 50", partial(digits_case, LinCA)),
    Task("ETNMF, digits, H = 50", partial(digits_case, ETNMF)),
    Task("MCA, digits, H = 50", partial(digits_case, MCA)),
    Task("LinCA, patches, H = 50", partial(patches_case, LinCA)),
    Task("GSC, patches, H = 50", partial(patches_case, GSC)),
    Task("MCA3, 10 bars", partial(counts_case, 5)),
    Task("NonlinearGSC, 10 bars", partial(varying_case, 5)),
    Task("TruncatedGaussianMixture, 10 clusters", partial(clusters_case, 10, 5)),
    Task("TruncatedGaussianMixture, 30 clusters", partial(clusters_case, 30, 10)),
    Task("InvECA, 8 objects, grey, noisy", partial(objects_case, "recurring")),
    Task("InvECA, 8 objects, grey, noisy, random start", partial(objects_case, "random")),
    Task("UPoE, 10 sources", partial(sources_case, 10)),
]
