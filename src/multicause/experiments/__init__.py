"""The papers' experiments: settings, published numbers, verdicts."""

from functools import partial

from multicause.experiments.base import Experiment, Options, Result, Row
from multicause.experiments.et_bars_reliability import measure
from multicause.experiments.et_linca_speech import et_linca_speech
from multicause.experiments.et_mca_grass import et_mca_grass
from multicause.experiments.et_nmf_mnist import et_nmf_mnist
from multicause.experiments.et_quality import et_quality
from multicause.experiments.et_scaling import et_scaling
from multicause.experiments.gps_mixture import gps_mixture
from multicause.experiments.gps_occlusion import gps_occlusion
from multicause.experiments.gps_sparse_coding import gps_sparse_coding
from multicause.experiments.gsc_clustering import gsc_clustering
from multicause.experiments.gsc_consistency import gsc_consistency
from multicause.experiments.gsc_denoise import gsc_denoise
from multicause.experiments.gsc_directions import gsc_directions
from multicause.experiments.gsc_scaling import gsc_scaling
from multicause.experiments.gsc_selection import gsc_selection
from multicause.experiments.gsc_separation import gsc_separation
from multicause.experiments.gsc_table1 import gsc_table1
from multicause.experiments.gsc_tradeoff import gsc_tradeoff
from multicause.experiments.mca_grass import mca_grass
from multicause.experiments.mca_likelihood import mca_likelihood
from multicause.experiments.mca_overlap import mca_overlap_16
from multicause.experiments.mca_recovery import mca_recovery
from multicause.experiments.mca_reliability import measure as measure_mca
from multicause.experiments.mca_reliability import measure_bars
from multicause.experiments.upoe_crabs import upoe_crabs
from multicause.experiments.upoe_faces import upoe_faces
from multicause.experiments.upoe_natural import upoe_natural
from multicause.experiments.upoe_recovery import upoe_recovery

_ET = "Expectation Truncation (Lücke & Eggert, 2010)"
_GSC = "Spike-and-Slab Sparse Coding (Sheikh, Shelton & Lücke, 2014)"
_GPS = "GP-select (Shelton, Gasthaus, Dai, Lücke & Gretton, 2017)"
_MCA = "Maximal Causes (Lücke & Sahani, 2008)"
_UPOE = "Probabilistic Sequential ICA (Welling, Zemel & Hinton, 2004)"

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
        Experiment("mca-bars", "Bars under Poisson noise and without", _MCA, measure_bars, any_components=True),
        Experiment("mca-recovery", "Parameters behind noisy bars", _MCA, mca_recovery),
        Experiment("mca-likelihood", "Likelihood against the generating parameters'", _MCA, mca_likelihood),
        Experiment("mca-overlap-3", "Three bars at a time", _MCA, partial(measure_mca, "mca-overlap-3")),
        Experiment("mca-unequal", "Frequent and rare bars", _MCA, partial(measure_mca, "mca-unequal")),
        Experiment("mca-widths", "Narrow and wide bars", _MCA, partial(measure_mca, "mca-widths")),
        Experiment("mca-overlap-16", "Sixteen overlapping bars, and NMF", _MCA, mca_overlap_16),
        Experiment("mca-overcomplete", "More causes than pixels", _MCA, partial(measure_mca, "mca-overcomplete")),
        Experiment("mca-violations", "Bars never on their own", _MCA, partial(measure_mca, "mca-violations")),
        Experiment("mca-dense", "Four of sixteen bars at a time", _MCA, partial(measure_mca, "mca-dense")),
        Experiment("mca-acoustic", "Spoken words in a mixture", _MCA, partial(measure_mca, "mca-acoustic")),
        Experiment("mca-grass", "Parts of grass", _MCA, mca_grass),
        Experiment("gsc-selection", "Posterior mass on the selected states", _GSC, gsc_selection),
        Experiment("gsc-consistency", "Sparse directions from more and more data", _GSC, gsc_consistency),
        Experiment("gsc-directions", "Sparse directions behind other priors", _GSC, gsc_directions),
        Experiment("gsc-separation", "Sources of mixtures far from orthogonal", _GSC, gsc_separation),
        Experiment("gsc-table1", "Sources from few samples", _GSC, gsc_table1),
        Experiment("gsc-tradeoff", "Separation against the number of candidates", _GSC, gsc_tradeoff),
        Experiment("gsc-denoise", "A noisy image, cleaned", _GSC, gsc_denoise),
        Experiment("gsc-scaling", "Time of an iteration against the number of causes", _GSC, gsc_scaling),
        Experiment("gsc-clustering", "Data points that share candidates", _GSC, gsc_clustering),
        Experiment("gps-sparse-coding", "Bars by learned selection", _GPS, gps_sparse_coding),
        Experiment("gps-mixture", "Clusters by learned selection", _GPS, gps_mixture),
        Experiment("gps-occlusion", "Objects anywhere, occluding one another", _GPS, gps_occlusion),
        Experiment("upoe-faces", "Experts together or one after the other", _UPOE, upoe_faces),
        Experiment("upoe-crabs", "Projections that tell crabs apart", _UPOE, upoe_crabs),
        Experiment("upoe-natural", "Independent components of natural images", _UPOE, upoe_natural),
        Experiment("upoe-recovery", "Mixed sources, beside FastICA and Picard", _UPOE, upoe_recovery),
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Options", "Result", "Row"]
