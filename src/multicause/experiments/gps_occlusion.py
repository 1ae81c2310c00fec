"""`gps-occlusion`: sixteen objects at random places, found by scanning images and by learned selection (GPS §5.3)."""

import time
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from multicause.datasets import DatasetNotFound, Scenes, coil_objects, make_scenes, shape_objects
from multicause.estimators import InvECA
from multicause.execution import split
from multicause.experiments.experiment import GPS, Experiment, Finding, Outcome, Published, Row, finding
from multicause.experiments.figures import Panel, panels
from multicause.experiments.timing import seconds_of
from multicause.models.pixel_functions import hats
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection import GPSelect

SIZE, H = 10, 20
N_STARTS = 2  # of which the one with the largest free energy is kept
ALIKE = 0.95  # correlation under the mask
CLOSE = 1.5  # pixels: a neighbouring placement is still the right one
AT_LEAST_80 = Published("83", lambda ratio: ratio.mean >= 80.0)  # of the naive scan's time to that of learned selection
# the paper's four: by hand, by GP each iteration, every fifth, and with pivots in place of a window's 1200 features
SELECTIONS: dict[str, Any] = {
    "scan": "model-based",
    "GP": GPSelect(update_every=1, random_fraction=0.0),
    "GP every 5": GPSelect(update_every=5, random_fraction=0.0),
    "GP, incomplete Cholesky": GPSelect(update_every=1, rank=200, random_fraction=0.0),
}


class Match(NamedTuple):
    """Which component shows each object, how well, and how far it is shifted."""

    component: np.ndarray  # (C,)
    likeness: np.ndarray  # (C,)
    shift: np.ndarray  # (C, 2) pixels from an object's corner to its component's


class Learned(NamedTuple):
    fit: InvECA
    match: Match
    located: float  # share of the objects
    located_in_new: float
    seconds: float
    source: str  # of the objects


def learn_objects(seed: int, selection: Any, drawn: Scenes, new: Scenes, source: str, max_iter: int) -> Learned:
    start = time.perf_counter()
    settings: dict[str, Any] = {"max_iter": max_iter, "tol": 0.0, "n_init": N_STARTS, "random_state": seed}
    fit = InvECA(H, (SIZE, SIZE), selection=selection, **settings).fit(drawn.X)
    seconds = time.perf_counter() - start
    match = match_objects(fit, drawn)
    located, located_in_new = (location_accuracy(fit, scenes, match) for scenes in (drawn, new))
    return Learned(fit, match, located, located_in_new, seconds, source)


def match_objects(fit: InvECA, drawn: Scenes) -> Match:
    """The best assignment of objects to components by their correlation under the mask, at any small shift."""
    reach = range(-(SIZE // 3), SIZE // 3 + 1)
    shifts = np.array(list(product(reach, reach)))
    likeness = np.full((len(drawn.objects), len(fit.components_), len(shifts)), -1.0)
    for k, (object_, mask) in enumerate(zip(drawn.objects, drawn.masks, strict=True)):
        for (h, component), (s, shift) in product(enumerate(fit.components_), enumerate(shifts)):
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
    places = np.stack(fit.fitted_model().model.corners(table.argmax(axis=2)), axis=-1)[:, match.component]  # (N, C, 2)
    present = drawn.corners[:, :, 0] >= 0
    return np.linalg.norm(places - match.shift - drawn.corners, axis=2)[present]


def selection_table(fit: InvECA, X: np.ndarray) -> np.ndarray:
    """What the selection function says of each component at each placement, (N, H, P)."""
    flat = X.reshape(len(X), -1)
    return fit.selection_function_(flat) if hasattr(fit, "selection_function_") else scan_table(fit, flat)


def scan_table(fit: InvECA, flat: np.ndarray) -> np.ndarray:
    """The correlations with every placement, by FFT."""
    model, params = fit.fitted_model()
    prepared = PlacedPosterior(1, 1, 1).prepare(model, params)
    chunks = split(flat, model.n_components, 256)
    return np.concatenate([prepared.scan(c.rows().reshape(c.stop - c.start, -1, model.n_channels)) for c in chunks])


def naive_scan(fit: InvECA, image: np.ndarray) -> np.ndarray:
    """The same scores by a loop over components and placements, (H, P)."""
    model, params = fit.fitted_model()
    functions = model.selection_functions(params)
    seen = hats(image[..., None], functions.knots)
    table = np.empty((model.n_components, model.n_placements))
    for h, x in product(range(model.n_components), range(model.n_placements)):
        i, j = divmod(x, model.placement_shape[1])
        table[h, x] = (functions.values[h] * seen[i : i + SIZE, j : j + SIZE]).sum()
    return table


def _rows(n_samples: int = 2000, max_iter: int = 60) -> Iterator[Row]:
    try:
        objects, source = coil_objects(16, SIZE), "COIL-20"
    except DatasetNotFound:
        objects, source = shape_objects(16, SIZE), "generated shapes"
    drawn, new = (make_scenes(n, objects, random_state=seed) for seed, n in enumerate((n_samples, n_samples // 4)))
    common = {"drawn": drawn, "new": new, "source": source, "max_iter": max_iter}
    for title, selection in SELECTIONS.items():
        yield Row(title, learn_objects, {"selection": selection, **common})


def _compare(outcomes: list[Outcome]) -> list[Finding]:
    """All selections with the scan, and the times that selection takes."""
    scan, last = outcomes[0].trials[0], outcomes[-1]
    found = [each for row, [learned], _ in outcomes for each in _beside_scan(row.title, learned, scan)]
    return found + _speeds(last.trials[0].fit, last.row.setting["drawn"].X)


def _beside_scan(title: str, learned: Learned, scan: Learned) -> list[Finding]:
    n_objects, n_found = len(learned.match.component), int((learned.match.likeness > ALIKE).sum())
    score, by_scan = float(learned.fit.free_energy_[-1]), float(scan.fit.free_energy_[-1])
    all_of_them = Published(f"{n_objects}", lambda found: found.mean == n_objects)
    as_many = Published("as by scan", lambda share: share.mean >= scan.located - 0.01)
    as_good = Published("as by scan", lambda bound: abs(bound.mean - by_scan) <= 0.01 * abs(by_scan))
    return [
        finding(title, f"objects found of {n_objects}", [n_found], all_of_them),
        finding(title, "objects located", [learned.located], as_many),
        finding(title, "objects located in new images", [learned.located_in_new]),
        finding(title, "free energy per image", [score], as_good),
        finding(title, "minutes", [learned.seconds / 60.0]),
    ]


def _speeds(fit: InvECA, X: np.ndarray) -> list[Finding]:
    """Seconds to select for the whole set: learned, by FFT, and by a loop over the placements of a few images."""
    few, title = X[:5], "selection of the whole set"
    naive = seconds_of(lambda: [naive_scan(fit, image) for image in few]) * len(X) / len(few)
    learned = seconds_of(lambda: selection_table(fit, X))
    scan = seconds_of(lambda: scan_table(fit, X.reshape(len(X), -1)))
    return [
        finding(title, "naive scan over GP", [naive / learned], AT_LEAST_80),
        finding(title, "FFT scan over GP", [scan / learned]),
        finding(title, "seconds by GP", [learned], Published("22.1")),
    ]


def _figure(outcomes: list[Outcome]) -> Any:
    """Some images; components and masks by learned selection."""
    row, [learned], _ = outcomes[-1]
    W, share = learned.fit.components_, learned.fit.masks_ / (1.0 + learned.fit.masks_)
    shown = {"images": row.setting["drawn"].X[:15], "components": W, "masks": share}
    shown["components where the mask is above 1/2"] = W * (share > 0.5)
    return panels([[Panel(t, i.reshape(len(i), -1), i.shape[1:], 5) for t, i in shown.items()]], (15.0, 3.8))


TITLE = "Objects anywhere, occluding one another"
_QUICK = {"n_samples": 100, "max_iter": 3}
_KEPT = {
    "objects": lambda trial: trial.source,
    "likeness": lambda trial: trial.match.likeness.tolist(),
    "seconds": lambda trial: trial.seconds,
}
EXPERIMENTS = [Experiment("gps-occlusion", TITLE, GPS, _rows, _figure, _QUICK, _KEPT, _compare)]
