"""The generative models p(s), p(y|s): readable definitions in NumPy, which the kernels are tested against."""

from multicause.models.base import DataMoments, GenerativeModel, combine
from multicause.models.binary_linear import BinaryLinear, BinaryLinearParams, BinaryLinearStatistics, NonnegativeLinear

__all__ = [
    "BinaryLinear",
    "BinaryLinearParams",
    "BinaryLinearStatistics",
    "DataMoments",
    "GenerativeModel",
    "NonnegativeLinear",
    "combine",
]
