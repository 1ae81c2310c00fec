"""The first example of `multicause demo`: a photograph, its noise, and what is left without it."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multicause.cli.pictures import new_figure
from multicause.metrics import psnr
from multicause.report import Section
from multicause.tasks import DenoisedImage, denoise_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEED = 1000
NOISE = 25.0
WINDOW = slice(60, 180), slice(190, 350)  # rows and columns of the photograph: a part of it, for speed
TITLE = "A photograph without its noise"
TEXT = (
    "A part of a photograph that comes with scikit-learn (china.jpg), with Gaussian noise of standard deviation 25. "
    "denoise_image is given the noisy picture only, and learns what its patches have in common."
)
SAID_OF_UNCERTAINTY = (
    "Each pixel comes with a standard deviation: large at edges and in texture, small in smooth regions. The true "
    "error is shown on the right."
)


class Photograph(NamedTuple):
    """A photograph with noise and without."""

    clean: np.ndarray
    noisy: np.ndarray
    result: DenoisedImage
    seconds: float

    def verdict(self) -> str:
        before, after = psnr(self.noisy, self.clean), psnr(self.result.image, self.clean)
        return f"{before:.1f} dB before, {after:.1f} dB after"


def denoise_photograph() -> Photograph:
    from sklearn.datasets import load_sample_image

    clean = load_sample_image("china.jpg")[WINDOW].astype(np.float64)
    noisy = clean + NOISE * np.random.default_rng(SEED).normal(size=clean.shape)
    begin = perf_counter()
    result: Any = denoise_image(noisy, value_range=(0.0, 255.0), random_state=SEED)
    return Photograph(clean, noisy, result, perf_counter() - begin)


def pictures_of(photograph: Photograph) -> dict[str, Figure]:
    """All figures, by name."""
    return {"denoised": _side_by_side(photograph), "uncertainty": _uncertainty(photograph)}


def sections_of(photograph: Photograph, figures: dict[str, Figure]) -> list[Section]:
    outcome = [
        ("noise level", f"{photograph.result.noise_level:.1f} estimated, {NOISE:.1f} in truth"),
        ("PSNR, the larger the better", photograph.verdict()),
        ("seconds", round(photograph.seconds, 2)),
        ("in Python", "denoise_image(noisy)"),
        ("on the command line", "multicause denoise noisy.png -o clean.png"),
    ]
    return [
        Section(TITLE, TEXT, figures["denoised"], outcome),
        Section("Uncertainty", SAID_OF_UNCERTAINTY, figures["uncertainty"]),
    ]


def _side_by_side(photograph: Photograph) -> Figure:
    figure = new_figure(9.0, 2.7)
    shown = {"noisy": photograph.noisy, "denoised": photograph.result.image, "original": photograph.clean}
    for ax, (title, image) in zip(figure.subplots(1, 3), shown.items(), strict=True):
        ax.imshow(np.clip(image, 0.0, 255.0).astype(np.uint8))
        ax.set_title(title)
        ax.set_axis_off()
    return figure


def _uncertainty(photograph: Photograph) -> Figure:
    figure = new_figure(9.0, 3.2)
    said = photograph.result.uncertainty
    assert said is not None  # of the mixture, always
    axes = figure.subplots(1, 2)
    error = np.abs(photograph.result.image - photograph.clean)
    for ax, values, title in zip(axes, (said, error), ("uncertainty", "true error"), strict=True):
        drawn = ax.imshow(values.mean(axis=2), cmap="magma", vmin=0.0, vmax=15.0)
        ax.set_title(title)
        ax.set_axis_off()
    figure.colorbar(drawn, ax=axes, label="grey values")
    return figure
