"""Approximate posteriors q(s|y): which states they keep, and the expectations they take over them."""

from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior
from multicause.posteriors.enumerated import EnumeratedPosterior
from multicause.posteriors.exact import ExactPosterior
from multicause.posteriors.factored import FactoredPosterior
from multicause.posteriors.gibbs import GibbsPosterior
from multicause.posteriors.placed import PlacedPosterior
from multicause.posteriors.truncated import TruncatedPosterior

__all__ = [
    "EStepResult",
    "EnumeratedPosterior",
    "ExactPosterior",
    "FactoredPosterior",
    "GibbsPosterior",
    "PlacedPosterior",
    "Posterior",
    "PreparedPosterior",
    "TruncatedPosterior",
]
