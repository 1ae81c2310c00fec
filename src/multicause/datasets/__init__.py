"""Data to learn from: generated causes with known truth, and real recordings and images read from a data folder."""

from multicause.datasets.audio import speech_windows, synthetic_voices
from multicause.datasets.bars import Bars, bar_components, make_bars
from multicause.datasets.mnist import load_mnist
from multicause.datasets.registry import DatasetNotFound, data_folder, locate

__all__ = [
    "Bars",
    "DatasetNotFound",
    "bar_components",
    "data_folder",
    "load_mnist",
    "locate",
    "make_bars",
    "speech_windows",
    "synthetic_voices",
]
