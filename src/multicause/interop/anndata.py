"""AnnData: latents beside the cells, components beside the genes."""

from __future__ import annotations

from typing import Any

import numpy as np


def fit_anndata(estimator: Any, adata: Any, layer: str | None = None, key: str | None = None) -> Any:
    """Fit an estimator to an AnnData object, and keep what it found there.

    `obsm[f"X_{key}"]` gets what `transform` gives, of shape (n_obs, n_components), and `varm[key]` the components,
    (n_vars, n_components): the places in which scanpy looks for them.

    Parameters
    ----------
    estimator : estimator
        Such as ``ETNMF(20, noise="poisson")`` for counts.
    adata : anndata.AnnData
        Observations by variables; a sparse X is read by rows.
    layer : str or None, default=None
        The layer to fit to; None fits to X.
    key : str or None, default=None
        Of what is kept; None takes the estimator's name in small letters.

    Returns
    -------
    estimator : object
        The fitted estimator; it knows the names of the variables.
    """
    from multicause.execution.sources import CsrRows

    values = adata.X if layer is None else adata.layers[layer]
    X = CsrRows(values) if hasattr(values, "tocsr") else np.asarray(values)
    name = key or type(estimator).__name__.lower()
    estimator.fit(X)
    adata.obsm[f"X_{name}"] = estimator.transform(X)
    estimator.feature_names_in_ = np.asarray(adata.var_names, dtype=object)
    rows = getattr(estimator, "means_", None) if hasattr(estimator, "means_") else estimator.components_
    adata.varm[name] = np.asarray(rows).T.copy()
    return estimator
