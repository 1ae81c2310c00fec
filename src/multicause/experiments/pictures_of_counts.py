"""`pictures-counts`: pictures of few photons, cleaned without being told the camera, beside other packages.

The others see counts whose variance was stabilised (Anscombe 1948), are told that it is one, and are led back by the
exact unbiased inverse (Mäkitalo and Foi 2011), as our own function does it.
"""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from multicause.experiments.experiment import Check, Experiment, Row, at_least
from multicause.experiments.figures import intervals
from multicause.experiments.pictures import BM3D, MEANS, OURS_BLIND, PAPER, RIVALS, SIDE, Answer, picture
from multicause.metrics import psnr
from multicause.tasks import denoise_image
from multicause.tasks.variance_stabilisation import CameraNoise, VarianceStabiliser

PEAKS = (15.0, 25.0, 50.0)
SCALE = 20.0  # of stabilised counts, which the others see as shades of grey
NAMES = ("house", "peppers", "brick", "china", "flower", "helsinki 2", "helsinki 5", "van Hateren 152")


class Counted(NamedTuple):
    """Mean decibels over all pictures, and seconds of CPU, of each method."""

    decibels: dict[str, float]
    seconds: dict[str, float]

    def gain(self, rival: str) -> float | None:
        return self.decibels[OURS_BLIND] - self.decibels[rival] if rival in self.decibels else None


def _answers(seed: int, name: str, peak: float, side: int) -> dict[str, Answer]:
    """All methods on the counts of one picture, whose brightest pixel has a mean of `peak` photons."""
    light = picture(name)[:side, :side]
    light = light * (peak / light.max())
    counts = np.random.default_rng(seed).poisson(light).astype(float)
    start = time.process_time()
    image = denoise_image(counts, noise="poisson", n_jobs=1, random_state=seed).image
    answers = {OURS_BLIND: _answer(image, light, peak, start)}
    stabiliser = VarianceStabiliser(CameraNoise(1.0))
    for rival in (BM3D, MEANS):
        if rival in RIVALS:
            start = time.process_time()
            image = stabiliser.inverse(RIVALS[rival](stabiliser.transform(counts) * SCALE, SCALE) / SCALE)
            answers[rival] = _answer(image, light, peak, start)
    return answers


def _answer(image: np.ndarray, light: np.ndarray, peak: float, start: float) -> Answer:
    return Answer(psnr(image, light, peak=peak), time.process_time() - start, image)


def count_photons(seed: int, names: Sequence[str], peak: float, side: int = SIDE) -> Counted:
    """All methods on the counts of all pictures."""
    answers = [_answers(seed, name, peak, side) for name in names]
    methods = answers[0]
    return Counted(
        {method: float(np.mean([each[method].decibels for each in answers])) for method in methods},
        {method: float(np.mean([each[method].seconds for each in answers])) for method in methods},
    )


def _checks() -> list[Check]:
    methods = [OURS_BLIND, *(rival for rival in (BM3D, MEANS) if rival in RIVALS)]
    told = [
        Check(f"{what}, {method}", lambda trial, kind=kind, method=method: getattr(trial, kind)[method])
        for method in methods
        for what, kind in (("PSNR in dB", "decibels"), ("seconds of CPU", "seconds"))
    ]
    wanted = {MEANS: at_least(1.0), BM3D: at_least(0.0)}
    gains = [
        Check(f"dB above {rival}", lambda trial, rival=rival: trial.gain(rival), wanted[rival]) for rival in wanted
    ]
    return told + [gain for gain, rival in zip(gains, wanted, strict=True) if rival in RIVALS]


def rows(names: Sequence[str] = NAMES, side: int = SIDE) -> list[Row]:
    """A row for each brightness."""
    return [
        Row(
            f"peak of {peak:g} photons (ours)",
            count_photons,
            {"names": names, "peak": peak, "side": side},
            _checks(),
            n_trials=3,
        )
        for peak in PEAKS
    ]


EXPERIMENTS = [
    Experiment(
        "pictures-counts",
        "Pictures of few photons, cleaned with the defaults",
        PAPER,
        rows,
        intervals,
        {"names": ("house",), "side": 40},
        {"PSNR": lambda trial: trial.decibels, "seconds": lambda trial: trial.seconds},
        needs_data=True,
    )
]
