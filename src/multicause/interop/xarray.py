"""xarray: labelled data in, labelled latents out."""

from __future__ import annotations

from typing import Any

import numpy as np

from multicause.file_checks import need


def transform_xarray(estimator: Any, data: Any, sample_dim: str) -> Any:
    """What a fitted estimator says of a DataArray, as a DataArray with the same coordinates.

    Parameters
    ----------
    estimator : fitted estimator
        Fitted to `as_table(data, sample_dim)`.
    data : xarray.DataArray
        The data; all dimensions but one make up a data point, in their order.
    sample_dim : str
        The dimension along which the data points lie, such as "time".

    Returns
    -------
    codes : xarray.DataArray
        Of dimensions (sample_dim, "component"), with the coordinates of `sample_dim` and the components' names.
    """
    xarray = need("xarray", "A DataArray", "xarray")
    codes = estimator.transform(as_table(data, sample_dim))
    kept = {name: c for name, c in data.coords.items() if c.dims == (sample_dim,)}
    kept["component"] = list(estimator.get_feature_names_out())
    return xarray.DataArray(codes, dims=(sample_dim, "component"), coords=kept, name=type(estimator).__name__.lower())


def as_table(data: Any, sample_dim: str) -> np.ndarray:
    """A DataArray as (n_samples, n_features), for `fit`.

    Parameters
    ----------
    data : xarray.DataArray
        The data.
    sample_dim : str
        The dimension along which the data points lie.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        One row per data point.
    """
    if sample_dim not in data.dims:
        raise ValueError(f"sample_dim must be one of {tuple(data.dims)}. Got {sample_dim!r} instead.")
    others = [name for name in data.dims if name != sample_dim]
    values = data.transpose(sample_dim, *others).values
    return values.reshape(len(values), -1)
