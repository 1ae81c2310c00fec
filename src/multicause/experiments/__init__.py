"""The papers' experiments: settings, published numbers, verdicts."""

from functools import partial

from multicause.experiments.base import Experiment, Options, Result, Row
from multicause.experiments.et_bars_reliability import measure
from multicause.experiments.et_linca_speech import et_linca_speech
from multicause.experiments.et_mca_grass import et_mca_grass
from multicause.experiments.et_nmf_mnist import et_nmf_mnist
from multicause.experiments.et_quality import et_quality
from multicause.experiments.et_scaling import et_scaling

_ET = "Expectation Truncation (Lücke & Eggert, 2010)"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("et-nmf-bars", "Linear bars with non-negative fields", _ET, partial(measure, "et-nmf-bars")),
        Experiment("et-linca-bars", "Linear bars of both signs", _ET, partial(measure, "et-linca-bars")),
        Experiment("et-mca-bars", "Bars of which the largest wins", _ET, partial(measure, "et-mca-bars")),
        Experiment("et-mca-overlap-16", "Sixteen overlapping bars", _ET, partial(measure, "et-mca-overlap-16")),
        Experiment("et-mca-grass", "Parts of grass", _ET, et_mca_grass),
        Experiment("et-quality", "Quality of the truncated posterior while learning", _ET, et_quality),
        Experiment("et-scaling", "Time of an iteration against the number of causes", _ET, et_scaling),
        Experiment("et-nmf-mnist", "Parts of handwritten digits", _ET, et_nmf_mnist),
        Experiment("et-linca-speech", "Components of speech", _ET, et_linca_speech),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Result", "Row"]
