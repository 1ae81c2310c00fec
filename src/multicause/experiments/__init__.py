"""The papers' experiments: settings, published numbers, verdicts."""

from multicause.experiments.base import Experiment, Options, Result, Row
from multicause.experiments.et_linca_speech import et_linca_speech
from multicause.experiments.et_nmf_mnist import et_nmf_mnist
from multicause.experiments.et_quality import et_quality
from multicause.experiments.et_scaling import et_scaling
from multicause.experiments.linear_bars_reliability import et_linca_bars, et_nmf_bars

_ET = "Expectation Truncation (Lücke & Eggert, 2010)"

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("et-nmf-bars", "Linear bars with non-negative fields", _ET, et_nmf_bars),
        Experiment("et-linca-bars", "Linear bars of both signs", _ET, et_linca_bars),
        Experiment("et-quality", "Quality of the truncated posterior while learning", _ET, et_quality),
        Experiment("et-scaling", "Time of an iteration against the number of causes", _ET, et_scaling),
        Experiment("et-nmf-mnist", "Parts of handwritten digits", _ET, et_nmf_mnist),
        Experiment("et-linca-speech", "Components of speech", _ET, et_linca_speech),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Result", "Row"]
