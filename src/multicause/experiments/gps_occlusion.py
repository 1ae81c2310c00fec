"""`gps-occlusion`: sixteen objects at random places, found by scanning images and by learned selection (GPS §5.3)."""

import time
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from multicause.datasets import DatasetNotFound, Scenes, coil_objects, make_scenes, shape_objects
from multicause.estimators import InvECA
from multicause.execution import split
from multicause.experiments.base import Options, Result, Row
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection import GPSelect
from multicause.selection.places import hats

SIZE, H, N_SAMPLES, N_ITERATIONS = 10, 20, 2000, 60
N_STARTS = 2  # of which the one with the largest free energy is kept
RANK = 200  # pivots; a window has 1200 features
ALIKE = 0.95  # correlation under the mask
CLOSE = 1.5  # pixels: a neighbouring placement is still the right one
LOWEST_RATIO = 80.0  # of the naive scan's time to that of learned selection


class Match(NamedTuple):
    """Which component shows each object, how well, and how far it is shifted."""

    component: np.ndarray  # (C,)
    likeness: np.ndarray  # (C,)
    shift: np.ndarray  # (C, 2) pixels from an object's corner to its component's


def selections() -> dict[str, Any]:
    """The paper's four: by hand, by GP each iteration, every fifth, and with an incomplete Cholesky factorisation."""
    return {
        "scan": "hand-derived",
        "GP": GPSelect(update_every=1, random_fraction=0.0),
        "GP every 5": GPSelect(update_every=5, random_fraction=0.0),
        "GP, incomplete Cholesky": GPSelect(update_every=1, rank=RANK, random_fraction=0.0),
    }


def gps_occlusion(options: Options) -> Result:
    objects, source = _objects()
    n_samples, n_iterations = (100, 3) if options.quick else (N_SAMPLES, N_ITERATIONS)
    drawn = make_scenes(n_samples, objects, random_state=0)
    new = make_scenes(n_samples // 4, objects, random_state=1)
    rows: list[Row] = []
    details: dict[str, Any] = {"objects": source}
    fits: dict[str, InvECA] = {}
    by_scan = (0.0, 0.0)
    for title, selection in selections().items():
        options.report(f"{title}: {n_samples:,} images, {N_STARTS} times {n_iterations} iterations")
        start = time.perf_counter()
        settings: dict[str, Any] = {"max_iter": n_iterations, "tol": 0.0, "n_init": N_STARTS, "random_state": 0}
        fit = InvECA(H, (SIZE, SIZE), selection=selection, **settings).fit(drawn.X)
        seconds = time.perf_counter() - start
        match = match_objects(fit, drawn)
        found = int((match.likeness > ALIKE).sum())
        accuracy, score = location_accuracy(fit, drawn, match), float(fit.free_energy_[-1])
        by_scan = (accuracy, score) if title == "scan" else by_scan
        near = abs(score - by_scan[1]) <= 0.01 * abs(by_scan[1])
        rows += [
            Row(title, f"objects found of {len(objects)}", f"{len(objects)}", found, None, found == len(objects)),
            Row(title, "objects located", "as by scan", accuracy, None, accuracy >= by_scan[0] - 0.01),
            Row(title, "objects located in new images", "-", location_accuracy(fit, new, match)),
            Row(title, "free energy per image", "as by scan", score, None, near),
            Row(title, "minutes", "-", seconds / 60.0),
        ]
        details[title] = {"trials": 1, "likeness": match.likeness.tolist(), "seconds": seconds}
        fits[title] = fit
    rows += _speed_rows(fits["GP, incomplete Cholesky"], drawn.X)
    return Result("gps-occlusion", rows, _figure(fits, drawn), details=details)


def _objects() -> tuple[np.ndarray, str]:
    try:
        return coil_objects(16, SIZE), "COIL-20"
    except DatasetNotFound:
        return shape_objects(16, SIZE), "generated shapes"


def match_objects(fit: InvECA, drawn: Scenes) -> Match:
    """The best assignment of objects to components by their correlation under the mask, at any small shift."""
    reach = range(-(SIZE // 3), SIZE // 3 + 1)
    shifts = np.array(list(product(reach, reach)))
    likeness = np.full((len(drawn.objects), len(fit.components_), len(shifts)), -1.0)
    for k, (object_, mask) in enumerate(zip(drawn.objects, drawn.masks, strict=True)):
        for h, component in enumerate(fit.components_):
            for s, shift in enumerate(shifts):
                moved = np.roll(component, shift, axis=(0, 1))[mask]
                if np.ptp(moved) > 1e-9:
                    likeness[k, h, s] = np.corrcoef(moved, object_[mask])[0, 1]
    objects, components = linear_sum_assignment(-likeness.max(axis=2))
    best = likeness[objects, components]
    return Match(components, best.max(axis=1), shifts[best.argmax(axis=1)])


def location_accuracy(fit: InvECA, drawn: Scenes, match: Match) -> float:
    """Share of the objects in the images that the selection proposes within CLOSE pixels of where they are."""
    return float((distances(fit, drawn, match) < CLOSE).mean())


def distances(fit: InvECA, drawn: Scenes, match: Match) -> np.ndarray:
    """From where each object is to the best place that the selection proposes for its component."""
    table = selection_table(fit, drawn.X)
    model = fit._fitted_model()
    places = np.stack(model.corners(table.argmax(axis=2)), axis=-1)[:, match.component]  # (N, C, 2)
    present = drawn.corners[:, :, 0] >= 0
    return np.linalg.norm(places - match.shift - drawn.corners, axis=2)[present]


def selection_table(fit: InvECA, X: np.ndarray) -> np.ndarray:
    """What the selection function says of each component at each placement, (N, H, P)."""
    flat = X.reshape(len(X), -1)
    if hasattr(fit, "affinity_"):
        return fit.affinity_(flat)
    return scan_table(fit, flat)


def scan_table(fit: InvECA, flat: np.ndarray) -> np.ndarray:
    """The correlations with every placement, by FFT."""
    model = fit._fitted_model()
    prepared = PlacedPosterior(1, 1, 1).prepare(model, fit._params())
    chunks = split(flat, model.n_components, 256)
    return np.concatenate([prepared.scan(c.rows().reshape(c.stop - c.start, -1, model.n_channels)) for c in chunks])


def naive_scan(fit: InvECA, image: np.ndarray) -> np.ndarray:
    """The same scores by a loop over components and placements, (H, P)."""
    model = fit._fitted_model()
    functions = model.selection_functions(fit._params())
    seen = hats(image[..., None], functions.knots)
    table = np.empty((model.n_components, model.n_placements))
    for h, x in product(range(model.n_components), range(model.n_placements)):
        i, j = divmod(x, model.placement_shape[1])
        table[h, x] = (functions.values[h] * seen[i : i + SIZE, j : j + SIZE]).sum()
    return table


def _speed_rows(fit: InvECA, X: np.ndarray) -> list[Row]:
    """Seconds to select for the whole set: learned, by FFT, and by a loop over the placements of a few images."""
    few = X[: min(len(X), 5)]
    start = time.perf_counter()
    for image in few:
        naive_scan(fit, image)
    naive = (time.perf_counter() - start) * len(X) / len(few)
    start = time.perf_counter()
    selection_table(fit, X)
    learned = time.perf_counter() - start
    start = time.perf_counter()
    scan_table(fit, X.reshape(len(X), -1))
    scan = time.perf_counter() - start
    ratio = naive / learned
    return [
        Row("selection of the whole set", "naive scan over GP", "83", ratio, None, ratio >= LOWEST_RATIO),
        Row("selection of the whole set", "FFT scan over GP", "-", scan / learned),
        Row("selection of the whole set", "seconds by GP", "22.1", learned),
    ]


def _figure(fits: dict[str, InvECA], drawn: Scenes):
    """Some images; components and masks by learned selection; how far proposals are from the truth; free energies."""
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components

    figure, axes = plt.subplots(2, 3, figsize=(13.0, 7.5), layout="constrained")
    shown = fits["GP, incomplete Cholesky"]
    plot_components(drawn.X[:15].reshape(15, -1), shape=drawn.X.shape[1:], n_columns=5, ax=axes[0, 0])
    axes[0, 0].set_title("images")
    plot_components(shown.components_.reshape(H, -1), shape=(SIZE, SIZE), n_columns=5, ax=axes[0, 1])
    axes[0, 1].set_title("components")
    share = shown.masks_ / (1.0 + shown.masks_)
    plot_components(share.reshape(H, -1), shape=(SIZE, SIZE), n_columns=5, ax=axes[0, 2])
    axes[0, 2].set_title("masks")
    plot_components((shown.components_ * (share > 0.5)).reshape(H, -1), shape=(SIZE, SIZE), n_columns=5, ax=axes[1, 0])
    axes[1, 0].set_title("components where the mask is above 1/2")
    bins = np.arange(0.0, 31.0, 1.5)
    gaps = [distances(fit, drawn, match_objects(fit, drawn)) for fit in fits.values()]
    axes[1, 1].hist(gaps, bins=bins, density=True, log=True, label=list(fits))
    axes[1, 1].set(xlabel="pixels from the object to its proposed place", ylabel="share")
    for title, fit in fits.items():
        axes[1, 2].plot(fit.free_energy_, label=title)
    axes[1, 2].set(xlabel="iteration", ylabel="free energy per image")
    axes[1, 2].legend()
    return figure
