"""Independent components for MNE: a fitted `UPoE` as an `mne.preprocessing.ICA`, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from multicause.estimators import UPoE
from multicause.estimators.base import seed_of
from multicause.file_checks import need

REST = "gaussian"  # label of the directions without an expert


def to_mne(upoe: UPoE, info: Any) -> Any:
    """A fitted `UPoE` as an ICA of MNE: its plots, its detection of eye movements and `apply` then work.

    What each source adds to the channels is `mixing_`, to the last digit. Where there are fewer experts than dimensions
    the ICA has one component for each direction that is left, which are Gaussian: ``ica.labels_["gaussian"]`` lists
    them, and they come last.

    Parameters
    ----------
    upoe : UPoE
        Fitted to data of shape (n_times, n_channels), such as ``raw.get_data(picks="eeg").T``.
    info : mne.Info
        Of the channels that it was fitted to, in that order: ``raw.copy().pick("eeg").info``.

    Returns
    -------
    ica : mne.preprocessing.ICA
        Fitted.
    """
    mne = need("mne", "An ICA of MNE", "mne")
    upoe._check_fitted()
    if len(info["ch_names"]) != upoe.n_features_in_:
        raise ValueError(
            f"info must be of the {upoe.n_features_in_} channels that UPoE was fitted to, got one of "
            f"{len(info['ch_names'])}. Pick them first: raw.copy().pick('eeg').info."
        )
    W, n_experts = upoe.directions_, len(upoe.directions_)
    rest = np.linalg.svd(W)[2][n_experts:]  # orthonormal, and orthogonal to all experts' directions
    basis, lengths, turned = np.linalg.svd(upoe.dewhitening_, full_matrices=False)
    ica = mne.preprocessing.ICA(n_components=len(lengths), method="imported_eeglab")
    ica.info, ica.ch_names, ica.current_fit = info.copy(), list(info["ch_names"]), "raw"
    ica.n_components_, ica.n_pca_components, ica.n_iter_ = len(lengths), None, upoe.n_iter_
    ica.n_samples_, ica.reject_ = int(upoe.n_samples_seen_), None
    ica.pre_whitener_, ica.pca_mean_ = np.ones((len(ica.ch_names), 1)), np.array(upoe.mean_)
    ica.pca_components_, ica.pca_explained_variance_ = basis.T.copy(), lengths**2
    ica.unmixing_matrix_ = np.vstack([W, rest]) @ (turned.T / lengths)
    ica.mixing_matrix_ = np.linalg.inv(ica.unmixing_matrix_)
    ica._ica_names = [f"ICA{number:03d}" for number in range(len(lengths))]
    ica.labels_ = {REST: list(range(n_experts, len(lengths)))} if len(rest) else {}
    return ica


def from_mne(ica: Any, data: Any, expert: Any = "student-t", random_state: Any = None) -> UPoE:
    """An ICA of MNE, of whatever method, as a `UPoE`: the same sources, with densities, a likelihood and samples.

    Parameters
    ----------
    ica : mne.preprocessing.ICA
        Fitted. Components that `to_mne` labelled "gaussian" are left out.
    data : mne.io.Raw, mne.Epochs or array-like of shape (n_times, n_channels)
        What it was fitted to: the densities of the sources are fitted to them.
    expert : {"student-t", "student-t-mixture"} or Expert, default="student-t"
        The kind of density.
    random_state : int, RandomState instance or None, default=None
        Kept as the estimator's own, for later fits.

    Returns
    -------
    upoe : UPoE
        Fitted.
    """
    if ica.noise_cov is not None:
        raise ValueError("ica was fitted with a noise covariance, which UPoE does not support. Fit it without.")
    left_out = set(ica.labels_.get(REST, []))
    kept = [number for number in range(ica.n_components_) if number not in left_out]
    unmixing = ica.unmixing_matrix_[kept] @ ica.pca_components_[: ica.n_components_] / ica.pre_whitener_.T
    if random_state is not None:
        seed_of(random_state)  # refuse what is no seed
    upoe = UPoE(len(kept), expert=expert, random_state=random_state)
    return upoe.fit_experts(unmixing, _samples(data, ica.ch_names))


def _samples(data: Any, channels: list[str]) -> np.ndarray:
    """(n_times, n_channels) of a Raw, of Epochs, or of an array."""
    if not hasattr(data, "get_data"):
        return np.asarray(data)
    values = data.get_data(picks=channels)
    return np.moveaxis(values, -2, -1).reshape(-1, len(channels))
