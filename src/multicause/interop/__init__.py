"""Hand what was learned to other tools, and take what they found: MNE, AnnData, xarray. Each is imported when used."""

__all__ = ["anndata", "mne", "xarray"]
