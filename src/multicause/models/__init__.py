"""The models p(s), p(y|s), and products of experts: readable definitions in NumPy, which all else is tested against."""

from multicause.models.base import DataMoments, FieldParams, GenerativeModel, combine
from multicause.models.binary_linear import BinaryLinear, BinaryLinearStatistics, NonnegativeLinear
from multicause.models.experts import Expert, HyperbolicSecant, StudentT, StudentTMixture
from multicause.models.maximal_causes import MaximalCauses, MaximalCausesStatistics
from multicause.models.spike_slab_linear import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics

__all__ = [
    "BinaryLinear",
    "BinaryLinearStatistics",
    "DataMoments",
    "Expert",
    "FieldParams",
    "GenerativeModel",
    "HyperbolicSecant",
    "MaximalCauses",
    "MaximalCausesStatistics",
    "NonnegativeLinear",
    "SpikeSlabLinear",
    "SpikeSlabParams",
    "SpikeSlabStatistics",
    "StudentT",
    "StudentTMixture",
    "combine",
]
