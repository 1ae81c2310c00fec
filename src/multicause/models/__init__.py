"""The models p(s), p(y|s), and products of experts: readable definitions in NumPy, which all else is tested against."""

from multicause.models.base import DataMoments, GenerativeModel, combine
from multicause.models.binary_linear import BinaryLinear, BinaryLinearStatistics, NonnegativeLinear
from multicause.models.dictionary_model import DictionaryModel, DictionaryParams, MeanParams
from multicause.models.experts import Expert, HyperbolicSecant, StudentT, StudentTMixture
from multicause.models.factor_mixture import FactorMixture
from multicause.models.gaussian_mixture import GaussianMixture, GaussianMixtureParams, GaussianMixtureStatistics
from multicause.models.maximal_causes import MaximalCauses, MaximalCausesStatistics
from multicause.models.noises import BernoulliNoise, ExponentialNoise, GaussianNoise, PoissonNoise
from multicause.models.poisson_linear import PoissonLinear, PoissonLinearStatistics
from multicause.models.priors import BernoulliPrior, OneOfPrior, SpikeSlabPrior
from multicause.models.spike_slab_linear import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics
from multicause.models.spike_slab_max import SpikeSlabMax, SpikeSlabMaxStatistics
from multicause.models.superpositions import Maximum, Smoothing, Sum

__all__ = [
    "BernoulliNoise",
    "BernoulliPrior",
    "BinaryLinear",
    "BinaryLinearStatistics",
    "DataMoments",
    "DictionaryModel",
    "DictionaryParams",
    "Expert",
    "ExponentialNoise",
    "FactorMixture",
    "GaussianMixture",
    "GaussianMixtureParams",
    "GaussianMixtureStatistics",
    "GaussianNoise",
    "GenerativeModel",
    "HyperbolicSecant",
    "MaximalCauses",
    "MaximalCausesStatistics",
    "Maximum",
    "MeanParams",
    "NonnegativeLinear",
    "OneOfPrior",
    "PoissonLinear",
    "PoissonLinearStatistics",
    "PoissonNoise",
    "Smoothing",
    "SpikeSlabLinear",
    "SpikeSlabMax",
    "SpikeSlabMaxStatistics",
    "SpikeSlabParams",
    "SpikeSlabPrior",
    "SpikeSlabStatistics",
    "StudentT",
    "StudentTMixture",
    "Sum",
    "combine",
]
