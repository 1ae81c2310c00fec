"""Short representations of results: the shapes of their arrays instead of all the numbers."""

from typing import Any

import numpy as np


def short_repr(self: Any) -> str:
    """`Bars(X=float64 (500, 25), …)`: the `__repr__` of NamedTuples that hold arrays."""
    fields = ", ".join(f"{name}={_short(value)}" for name, value in self._asdict().items())
    return f"{type(self).__name__}({fields})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return f"{value.dtype} {value.shape}"
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.item():.6g}" if value.dtype.kind == "f" else str(value.item())
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return f"{value:.6g}" if isinstance(value, float) else " ".join(repr(value).split())  # estimators break lines
