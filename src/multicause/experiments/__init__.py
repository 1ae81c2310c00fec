"""The papers' experiments: settings, published numbers, verdicts."""

from multicause.experiments import (
    et_bars,
    et_likelihood,
    et_parts,
    gps_mixture,
    gps_occlusion,
    gps_sparse_coding,
    grass,
    gsc_clustering,
    gsc_denoise,
    gsc_mixing,
    gsc_posterior,
    gsc_selection,
    gsc_sources,
    mca_bars,
    mca_likelihood,
    mca_overlap,
    pictures,
    pictures_of_counts,
    pictures_with_gaps,
    scaling,
    upoe_data,
    upoe_faces,
    upoe_recovery,
)
from multicause.experiments.experiment import (
    ET,
    GPS,
    GSC14,
    MCA08,
    PSICA,
    Check,
    Experiment,
    Finding,
    Options,
    Published,
    Result,
    Row,
    Verdict,
)

_PAPERS = (ET, MCA08, GSC14, GPS, PSICA, pictures.PAPER)
_MODULES = (
    *(et_bars, et_likelihood, grass, scaling, et_parts, mca_bars, mca_overlap, mca_likelihood),
    *(gsc_selection, gsc_mixing, gsc_posterior, gsc_sources, gsc_denoise, gsc_clustering),
    *(gps_sparse_coding, gps_mixture, gps_occlusion, upoe_faces, upoe_data, upoe_recovery),
    *(pictures, pictures_of_counts, pictures_with_gaps),
)
EXPERIMENTS = {
    each.name: each for paper in _PAPERS for module in _MODULES for each in module.EXPERIMENTS if each.paper == paper
}

__all__ = ["EXPERIMENTS", "Check", "Experiment", "Finding", "Options", "Published", "Result", "Row", "Verdict"]
