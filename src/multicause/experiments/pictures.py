"""`pictures`: pictures of many kinds, cleaned with default settings, beside what else one can install.

Noise of three levels is added in floating point, and not clipped. `denoise_image` is told nothing; BM3D (Dabov et al.
2007), non-local means and dictionary learning are told the noise level.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import locate
from multicause.experiments.experiment import Check, Experiment, Finding, Outcome, Row, at_least, below, finding
from multicause.experiments.figures import Panel, pictures
from multicause.media import read_image
from multicause.metrics import psnr
from multicause.tasks import denoise_image

OURS_BLIND, BM3D, MEANS, DICTIONARY = "denoise_image", "BM3D", "non-local means", "dictionary learning"
NOISES = (15.0, 25.0, 50.0)
SIDE = 256
N_TRIALS = 3
_VAN_HATEREN = ("imk00152", "imk00377", "imk00459", "imk00657")
PICTURES = (
    *("house", "peppers", "brick", "grass", "gravel", "china", "flower"),
    *(f"helsinki {number}" for number in range(1, 8)),
    *(f"van Hateren {name[-3:]}" for name in _VAN_HATEREN),
)


class Answer(NamedTuple):
    """What a method makes of a picture."""

    decibels: float
    seconds: float  # of CPU
    image: np.ndarray


class Cleaned(NamedTuple):
    noise: float
    noise_level: float  # as estimated
    within: tuple[float, float]  # shares of pixels within one and two standard deviations
    noisy: np.ndarray
    clean: np.ndarray
    answers: dict[str, Answer]

    def gain(self, rival: str = BM3D) -> float:
        return self.answers[OURS_BLIND].decibels - self.answers[rival].decibels


@cache
def picture(name: str) -> np.ndarray:
    """One of the pictures: 256 × 256 shades of grey from 0 to 255."""
    if name in ("house", "peppers"):
        return read_image(locate(f"standard-images/{name}.png")).astype(float)
    if name in ("china", "flower"):
        from sklearn.datasets import load_sample_image

        grey = np.round(load_sample_image(f"{name}.jpg") @ [0.299, 0.587, 0.114])
        return grey[80 : 80 + SIDE, 150 : 150 + SIDE]
    if name.startswith("helsinki"):
        path = f"natural-images-helsinki/{int(name.split()[1]):02d}.png"
        return read_image(locate(path)).astype(float)[:SIDE, :SIDE]
    if name.startswith("van Hateren"):
        return _van_hateren(next(each for each in _VAN_HATEREN if each.endswith(name.split()[-1])))
    return read_image(locate(f"textures/{name}.png")).astype(float)[:SIDE, :SIDE]


def _van_hateren(name: str) -> np.ndarray:
    """The middle of a calibrated photograph at half its resolution, its darkest and brightest pixels cut off."""
    index = read_image(locate(f"van-hateren/{name}_idx8.png"), as_stored=True)
    luminance = np.load(locate("van-hateren/luts.npz"))[name][index]
    middle = luminance[384 : 384 + 2 * SIDE, 512 : 512 + 2 * SIDE].astype(float)
    small = middle.reshape(SIDE, 2, SIDE, 2).mean(axis=(1, 3))
    low, high = np.percentile(small, [0.1, 99.5])
    return np.round(np.clip((small - low) / (high - low), 0.0, 1.0) * 255.0)


def _bm3d(noisy: np.ndarray, noise: float) -> np.ndarray:
    from bm3d import bm3d

    return bm3d(noisy, noise)


def _non_local_means(noisy: np.ndarray, noise: float) -> np.ndarray:
    from skimage.restoration import denoise_nl_means

    return denoise_nl_means(noisy, patch_size=5, patch_distance=6, h=0.8 * noise, sigma=noise, fast_mode=True)


def _dictionary_learning(noisy: np.ndarray, noise: float) -> np.ndarray:
    """As in scikit-learn's example: patches of 7 × 7, 100 atoms, two coefficients by matching pursuit."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    from multicause.tasks.patches import Merge, Patches

    patches, merge = Patches(noisy[:, :, None], 7), Merge((*noisy.shape, 1), 7)
    rows = slice(0, noisy.shape[0] - 6)
    X = patches.band(rows)
    means = X.mean(axis=1, keepdims=True)
    settings: dict[str, Any] = {"transform_algorithm": "omp", "transform_n_nonzero_coefs": 2, "random_state": 0}
    learned = MiniBatchDictionaryLearning(100, batch_size=200, max_iter=10, **settings)
    learned.fit((X - means)[:: max(len(X) // 10_000, 1)])
    codes = learned.transform(X - means)
    merge.add(rows, codes @ learned.components_ + means, np.ones(len(X)))
    return merge.mean()[:, :, 0]


_RIVALS: dict[str, tuple[str, Callable[[np.ndarray, float], np.ndarray]]] = {
    BM3D: ("bm3d", _bm3d),
    MEANS: ("skimage", _non_local_means),
    DICTIONARY: ("sklearn", _dictionary_learning),
}
RIVALS = {name: method for name, (package, method) in _RIVALS.items() if find_spec(package)}


def clean_picture(seed: int, name: str, noise: float, side: int = SIDE, dictionary: bool = False) -> Cleaned:
    """All methods on one noisy picture, in one run; dictionary learning, which takes a minute, only where asked for."""
    clean = picture(name)[:side, :side]
    noisy = clean + noise * np.random.default_rng(seed).standard_normal(clean.shape)
    denoise_image(noisy[:16, :16], n_jobs=1, random_state=seed)  # compilation is nobody's time
    start = time.process_time()
    found = denoise_image(noisy, n_jobs=1, random_state=seed)
    answers = {OURS_BLIND: Answer(psnr(found.image, clean), time.process_time() - start, found.image)}
    for rival, method in RIVALS.items():
        if rival == DICTIONARY and not dictionary:
            continue
        start = time.process_time()
        image = method(noisy, noise)
        answers[rival] = Answer(psnr(image, clean), time.process_time() - start, image)
    errors = np.abs(found.image - clean) / found.uncertainty
    within = float(np.mean(errors <= 1.0)), float(np.mean(errors <= 2.0))
    return Cleaned(noise, found.noise_level, within, noisy, clean, answers)


def _decibels(method: str) -> Check:
    return Check(
        f"PSNR in dB, {method}", lambda trial: trial.answers[method].decibels if method in trial.answers else None
    )


def _checks(dictionary: bool) -> list[Check]:
    gain = [Check("dB above BM3D", lambda trial: trial.gain(), at_least(-0.3))] if BM3D in RIVALS else []
    return [_decibels(OURS_BLIND), *(_decibels(rival) for rival in RIVALS if dictionary or rival != DICTIONARY), *gain]


def rows(names: Sequence[str] = PICTURES, side: int = SIDE, dictionary: bool = False) -> list[Row]:
    """A row for each picture and noise level."""
    return [
        Row(
            f"{name}, noise {noise:g} (ours)",
            clean_picture,
            {"name": name, "noise": noise, "side": side, "dictionary": dictionary},
            _checks(dictionary),
            n_trials=N_TRIALS,
        )
        for noise in NOISES
        for name in names
    ]


def _over_all(outcomes: list[Outcome]) -> list[Finding]:
    """Means over all pictures of a noise level."""
    found = []
    for noise in NOISES:
        trials = [each for outcome in outcomes for each in outcome.trials if each.noise == noise]
        title = f"all pictures, noise {noise:g} (ours)"
        for method in trials[0].answers if trials else ():
            answers = [each.answers[method] for each in trials if method in each.answers]
            found.append(finding(title, f"PSNR in dB, {method}", [each.decibels for each in answers]))
            seconds = [each.seconds for each in answers]
            found.append(finding(title, f"seconds of CPU, {method}", seconds, spread=False))
        if BM3D in RIVALS:
            found.append(finding(title, "dB above BM3D", [each.gain() for each in trials], at_least(0.0)))
            ratios = [each.answers[OURS_BLIND].seconds / each.answers[BM3D].seconds for each in trials]
            found.append(finding(title, "CPU time over BM3D's", ratios, below(2.0)))
        near = np.array([abs(each.noise_level / noise - 1.0) <= 0.03 for each in trials])
        found.append(finding(title, "noise level within 3 %", near, at_least(0.9, "90%")))
        for k, name in enumerate(("one standard deviation", "two")):
            found.append(finding(title, f"pixels within {name}", [each.within[k] for each in trials], spread=False))
    return found


def _panel(outcome: Outcome) -> Panel:
    """Of the first trial, the middle of the picture: clean, noisy, ours, and BM3D's where there is one."""
    first = outcome.trials[0]
    shown = [
        first.clean,
        first.noisy,
        *(first.answers[name].image for name in (OURS_BLIND, BM3D) if name in first.answers),
    ]
    quarter = max(len(first.clean) // 4, 1)
    middle = np.stack([image[quarter:-quarter, quarter:-quarter] for image in shown]).clip(0.0, 255.0)
    title = f"{outcome.row.title}: {first.answers[OURS_BLIND].decibels:.2f} dB"
    return Panel(title, middle.reshape(len(middle), -1), middle.shape[1:], 2)


TITLE = "Pictures of many kinds, cleaned with the defaults"
PAPER = "no paper: default settings beside other packages"
QUICK = {"names": ("house",), "side": 40, "dictionary": True}
FULL = {"dictionary": True}
_KEPT = {
    "PSNR": lambda trial: {name: answer.decibels for name, answer in trial.answers.items()},
    "seconds": lambda trial: {name: answer.seconds for name, answer in trial.answers.items()},
    "noise level": lambda trial: trial.noise_level,
    "within": lambda trial: trial.within,
}
EXPERIMENTS = [
    Experiment(
        "pictures", TITLE, PAPER, rows, pictures(_panel), QUICK, _KEPT, compare=_over_all, full=FULL, needs_data=True
    )
]
