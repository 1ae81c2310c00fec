"""`gps-occlusion`: sixteen objects at random places, found by scanning images and by learned selection (GPS §5.3)."""

import time
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from multicause.backends import numba_cpu
from multicause.datasets import DatasetNotFound, Scenes, coil_objects, make_scenes, shape_objects
from multicause.estimators import InvECA
from multicause.execution import split
from multicause.experiments.experiment import GPS, Experiment, Finding, Outcome, Published, Row, finding
from multicause.experiments.figures import Panel, panels
from multicause.experiments.timing import seconds_of
from multicause.models.pixel_functions import between, window_pixels
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection import GPSelect
from multicause.selection.gp_images import ImageSelectionFunction

SIZE, H = 10, 20
ALIKE = 0.95  # correlation under the mask
CLOSE = 1.5  # pixels: a neighbouring placement is still the right one
WEAK = 0.5  # largest share of a pixel that a spare component shows
AT_LEAST_80 = Published("83", lambda ratio: ratio.mean >= 80.0)  # of the loop's time to that of learned selection
NO_DRAW: dict[str, Any] = {"random_fraction": 0.0}  # no candidates at random, which the paper has
# the paper's four: by hand, by GP each iteration, every fifth, and with pivots in place of a window's 1200 features
SELECTIONS: dict[str, Any] = {
    "scan": "model-based",
    "GP": GPSelect(update_every=1, **NO_DRAW),
    "GP every 5": GPSelect(update_every=5, **NO_DRAW),
    "GP, incomplete Cholesky": GPSelect(update_every=1, rank=200, **NO_DRAW),
}
WORDS = "(ours: other data, windows instead of whole images, a start at patches, no draws)"
WHOLE = "GP of whole images (ours: other data, a start at patches)"
RANDOM = "(ours: the same, a start at random)"
NOISY = "(ours: the same, images with noise of 0.1)"
TIMED = f"GP, incomplete Cholesky {WORDS}"  # the row whose selection is timed, and shown in the figure
FULL = {"n_samples": 2000, "max_iter": 60, "n_starts": 2}


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
    n_at_start: int  # objects that the start shows already
    weakest: float  # largest share of a pixel that any spare component shows


class Images(NamedTuple):
    """To learn from, and new ones."""

    drawn: Scenes
    new: Scenes
    source: str  # of the objects


@lru_cache(maxsize=2)
def images_of(n_samples: int, noise: float) -> Images:
    """The same in all trials."""
    try:
        objects, source = coil_objects(16, SIZE), "COIL-20"
    except DatasetNotFound:
        objects, source = shape_objects(16, SIZE), "generated shapes"
    drawn, new = (make_scenes(n, objects, random_state=seed) for seed, n in enumerate((n_samples, n_samples // 4)))
    return Images(with_noise(drawn, noise, 2), with_noise(new, noise, 3), source)


def learn_objects(seed: int, selection: Any, n_samples: int, noise: float, **settings: Any) -> Learned:
    drawn, new, source = images_of(n_samples, noise)
    start = time.perf_counter()
    common: dict[str, Any] = {"tol": 0.0, "random_state": seed, "selection": selection, "search": False}
    fit = InvECA(H, (SIZE, SIZE), **common, **settings).fit(drawn.X)
    seconds = time.perf_counter() - start
    match = match_objects(fit, drawn)
    located, located_in_new = (location_accuracy(fit, scenes, match) for scenes in (drawn, new))
    first = InvECA(H, (SIZE, SIZE), **common, **{**settings, "max_iter": 1, "n_init": 1}).fit(drawn.X)
    spare = np.delete(fit.masks_ / (1.0 + fit.masks_), match.component[match.likeness > ALIKE], axis=0)
    weakest = float(np.median(spare.reshape(len(spare), -1).max(axis=1))) if len(spare) else 0.0
    if isinstance(getattr(fit, "selection_function_", None), ImageSelectionFunction):
        del fit.selection_function_  # 70 MB that nobody asks again
    return Learned(fit, match, located, located_in_new, seconds, source, n_alike(match_objects(first, drawn)), weakest)


def n_alike(match: Match) -> int:
    return int((match.likeness > ALIKE).sum())


def with_noise(drawn: Scenes, level: float, seed: int) -> Scenes:
    if level == 0.0:
        return drawn
    return drawn._replace(X=drawn.X + level * np.random.default_rng(seed).standard_normal(drawn.X.shape))


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


def loop_table(fit: InvECA, flat: np.ndarray) -> np.ndarray:
    """The same scores by a compiled loop over components, placements and pixels, (N, H, P)."""
    model, params = fit.fitted_model()
    knots, values = model.selection_functions(params)
    lower, fraction = between(flat.reshape(len(flat), -1, model.n_channels), knots)
    functions = np.ascontiguousarray(values.reshape(len(values), -1, *values.shape[3:]))
    pixels = window_pixels(model.image_shape, model.component_shape)
    return numba_cpu.load("places").scan(functions, lower, fraction, *pixels)


def _rows(n_samples: int = 1000, max_iter: int = 40, n_starts: int = 1) -> Iterator[Row]:
    common = {"n_samples": n_samples, "noise": 0.0, "max_iter": max_iter, "n_init": n_starts}
    for title, selection in SELECTIONS.items():
        yield Row(f"{title} {WORDS}", learn_objects, {"selection": selection, **common})
    # the paper's: the table of places regressed on the whole image, all images being pivots
    whole = GPSelect(update_every=1, rank=n_samples, whole_images=True)
    yield Row(WHOLE, learn_objects, {"selection": whole, **common})
    for title in ("scan", "GP"):
        yield Row(f"{title} {RANDOM}", learn_objects, {"selection": SELECTIONS[title], **common, "init": "random"})
        yield Row(f"{title} {NOISY}", learn_objects, {"selection": SELECTIONS[title], **common, "noise": 0.1})


def _compare(outcomes: list[Outcome]) -> list[Finding]:
    """All selections with the scan on the same images from the same start, and the times that selection takes."""
    found: list[Finding] = []
    scans: dict[Any, Learned] = {}
    for row, [learned], _ in outcomes:
        start_and_images = row.setting.get("init"), row.setting["noise"]
        scan = scans.setdefault(start_and_images, learned)  # it comes first
        found += _beside_scan(row.title, learned, scan)
    timed = _timed(outcomes)
    return found if timed is None else found + _speeds(timed.trials[0].fit, _learned_from(timed))


def _timed(outcomes: list[Outcome]) -> Outcome | None:
    return next((outcome for outcome in outcomes if outcome.row.title == TIMED), None)


def _learned_from(outcome: Outcome) -> np.ndarray:
    return images_of(outcome.row.setting["n_samples"], outcome.row.setting["noise"]).drawn.X


def _beside_scan(title: str, learned: Learned, scan: Learned) -> list[Finding]:
    n_objects = len(learned.match.component)
    score, by_scan = float(learned.fit.free_energy_[-1]), float(scan.fit.free_energy_[-1])
    all_of_them = Published(f"{n_objects}", lambda found: found.mean == n_objects)
    as_many = Published("as by scan", lambda share: share.mean >= scan.located - 0.01)
    as_good = Published("as by scan", lambda bound: bound.mean >= by_scan - 0.01 * abs(by_scan))
    weak = Published("very low", lambda share: share.mean < WEAK)
    return [
        finding(title, f"objects found of {n_objects}", [n_alike(learned.match)], all_of_them),
        finding(title, "objects that the start shows", [learned.n_at_start]),
        finding(title, "objects located", [learned.located], as_many),
        finding(title, "objects located in new images", [learned.located_in_new]),
        finding(title, "free energy per image", [score], as_good),
        finding(title, "masks of spare components, largest share", [learned.weakest], weak),
        finding(title, "minutes", [learned.seconds / 60.0]),
    ]


def _speeds(fit: InvECA, X: np.ndarray) -> list[Finding]:
    """Seconds to select for the whole set: learned, by FFT, and by a compiled loop over the placements."""
    flat, title = X.reshape(len(X), -1), "selection of the whole set (ours)"
    loop_table(fit, flat[:2])  # compiled
    loop = seconds_of(lambda: loop_table(fit, flat))
    learned = seconds_of(lambda: selection_table(fit, X))
    scan = seconds_of(lambda: scan_table(fit, flat))
    return [
        finding(title, "compiled loop over GP", [loop / learned], AT_LEAST_80),
        finding(title, "FFT scan over GP", [scan / learned]),
        finding(title, "seconds by GP", [learned], Published("22.1")),
    ]


def _figure(outcomes: list[Outcome]) -> Any:
    """Some images; components and masks by learned selection."""
    outcome = _timed(outcomes) or outcomes[0]
    [learned] = outcome.trials
    W, share = learned.fit.components_, learned.fit.masks_ / (1.0 + learned.fit.masks_)
    shown = {"images": _learned_from(outcome)[:15], "components": W, "masks": share}
    shown["components where the mask is above 1/2"] = W * (share > 0.5)
    return panels([[Panel(t, i.reshape(len(i), -1), i.shape[1:], 5) for t, i in shown.items()]], (15.0, 3.8))


TITLE = "Objects anywhere, occluding one another"
_QUICK = {"n_samples": 60, "max_iter": 3}
_KEPT = {
    "objects": lambda trial: trial.source,
    "likeness": lambda trial: trial.match.likeness.tolist(),
    "seconds": lambda trial: trial.seconds,
}
EXPERIMENTS = [Experiment("gps-occlusion", TITLE, GPS, _rows, _figure, _QUICK, _KEPT, _compare, full=FULL)]
