"""Approximate posteriors q(s|y): which states they keep, and the expectations they take over them."""

from multicause.posteriors.exact import ExactPosterior
from multicause.posteriors.truncated import TruncatedPosterior

__all__ = ["ExactPosterior", "TruncatedPosterior"]
