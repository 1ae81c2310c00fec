"""The generative models p(s), p(y|s): readable definitions in NumPy, which the kernels are tested against."""

from multicause.models.base import DataMoments, FieldParams, GenerativeModel, combine
from multicause.models.binary_linear import BinaryLinear, BinaryLinearStatistics, NonnegativeLinear
from multicause.models.gaussian_mixture import GaussianMixture, GaussianMixtureParams, GaussianMixtureStatistics
from multicause.models.maximal_causes import MaximalCauses, MaximalCausesStatistics
from multicause.models.spike_slab_linear import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics
from multicause.models.spike_slab_max import SpikeSlabMax, SpikeSlabMaxStatistics

__all__ = [
    "BinaryLinear",
    "BinaryLinearStatistics",
    "DataMoments",
    "FieldParams",
    "GaussianMixture",
    "GaussianMixtureParams",
    "GaussianMixtureStatistics",
    "GenerativeModel",
    "MaximalCauses",
    "MaximalCausesStatistics",
    "NonnegativeLinear",
    "SpikeSlabLinear",
    "SpikeSlabMax",
    "SpikeSlabMaxStatistics",
    "SpikeSlabParams",
    "SpikeSlabStatistics",
    "combine",
]
