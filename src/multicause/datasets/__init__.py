"""Data to learn from: generated causes with known truth, and real recordings and images read from a data folder."""

from multicause.datasets.audio import speech_windows, synthetic_voices
from multicause.datasets.bars import (
    Bars,
    bar_components,
    make_bars,
    overlapping_bar_components,
    short_bar_components,
    wide_bar_components,
)
from multicause.datasets.mnist import load_mnist
from multicause.datasets.natural import Crabs, load_crabs, load_frey_faces, natural_patches
from multicause.datasets.patches import image_patches, load_grass
from multicause.datasets.registry import DatasetNotFound, data_folder, locate
from multicause.datasets.scenes import Scenes, coil_objects, make_scenes, shape_objects
from multicause.datasets.sources import load_sources
from multicause.datasets.spectrograms import AcousticMixtures, acoustic_mixtures, log_spectrogram

__all__ = [
    "AcousticMixtures",
    "Bars",
    "Crabs",
    "DatasetNotFound",
    "Scenes",
    "acoustic_mixtures",
    "bar_components",
    "coil_objects",
    "data_folder",
    "image_patches",
    "load_crabs",
    "load_frey_faces",
    "load_grass",
    "load_mnist",
    "load_sources",
    "locate",
    "log_spectrogram",
    "make_bars",
    "make_scenes",
    "natural_patches",
    "overlapping_bar_components",
    "shape_objects",
    "short_bar_components",
    "speech_windows",
    "synthetic_voices",
    "wide_bar_components",
]
