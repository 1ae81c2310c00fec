"""The models p(s), p(y|s), and products of experts: readable definitions in NumPy, which all else is tested against."""

from multicause.models.base import DataMoments, FieldParams, GenerativeModel, combine
from multicause.models.binary_linear import BinaryLinear, BinaryLinearStatistics, NonnegativeLinear
from multicause.models.experts import Expert, HyperbolicSecant, StudentT, StudentTMixture
from multicause.models.gaussian_mixture import GaussianMixture, GaussianMixtureParams, GaussianMixtureStatistics
from multicause.models.maximal_causes import MaximalCauses, MaximalCausesStatistics
from multicause.models.spike_slab_linear import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics
from multicause.models.spike_slab_max import SpikeSlabMax, SpikeSlabMaxStatistics

__all__ = [
    "BinaryLinear",
    "BinaryLinearStatistics",
    "DataMoments",
    "Expert",
    "FieldParams",
    "GaussianMixture",
    "GaussianMixtureParams",
    "GaussianMixtureStatistics",
    "GenerativeModel",
    "HyperbolicSecant",
    "MaximalCauses",
    "MaximalCausesStatistics",
    "NonnegativeLinear",
    "SpikeSlabLinear",
    "SpikeSlabMax",
    "SpikeSlabMaxStatistics",
    "SpikeSlabParams",
    "SpikeSlabStatistics",
    "StudentT",
    "StudentTMixture",
    "combine",
]
