"""Numbers that say how well causes were found, and how sure one can be of those numbers."""

from multicause.metrics.amari import amari_index
from multicause.metrics.image_quality import psnr, ssim
from multicause.metrics.intervals import bootstrap_interval, wilson_interval
from multicause.metrics.posterior_quality import posterior_quality
from multicause.metrics.reliability import Recovery, cause_to_unit, found_causes, mean_absolute_error_matched

__all__ = [
    "Recovery",
    "amari_index",
    "bootstrap_interval",
    "cause_to_unit",
    "found_causes",
    "mean_absolute_error_matched",
    "posterior_quality",
    "psnr",
    "ssim",
    "wilson_interval",
]
