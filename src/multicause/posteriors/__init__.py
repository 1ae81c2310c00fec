"""Approximate posteriors q(s|y): which states they keep, and the expectations they take over them."""

from multicause.posteriors.exact import ExactPosterior
from multicause.posteriors.factored import FactoredPosterior
from multicause.posteriors.gibbs import GibbsPosterior
from multicause.posteriors.truncated import TruncatedPosterior

__all__ = ["ExactPosterior", "FactoredPosterior", "GibbsPosterior", "TruncatedPosterior"]
