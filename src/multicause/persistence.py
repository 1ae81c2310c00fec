"""Model files: the arrays of a fitted estimator as safetensors, everything else as JSON in the same file's header.

A model file holds data only. Loading looks classes up by name in a table of known ones and never unpickles, so that a
file from elsewhere cannot execute code. The header's metadata has one entry, ``multicause``, a JSON object::

    {"format": "multicause-model", "format_version": 3, "multicause_version": "0.1.0",
     "class": "LinCA", "params": {...}, "attributes": {...}, "digest": "..."}

How arrays and other values are written is told in `multicause.tensor_files`. Whatever a file says, its settings are
validated and its learned parameters checked before an estimator comes out of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from multicause.tensor_files import (
    TensorFileError,
    decode_all,
    encode_all,
    is_frozen,
    read_tensors,
    refuse_leftover,
    write_tensors,
)

__all__ = ["ModelFileError", "load_model", "save_model"]

FORMAT_VERSION = 3
WITHOUT_DIGEST = 1  # the last version whose files have none
LARGEST_TABLES = 2**28  # bytes that any file may make the estimator allocate
_AMPLIFICATION = 64  # larger files: so many times their size

Classes = Mapping[str, type]


class ModelFileError(TensorFileError):
    """A file that `load_model` cannot read as a model."""


def save_model(estimator: BaseEstimator, path: str | os.PathLike[str], *, registry: Iterable[type] = ()) -> None:
    """Write a fitted estimator to a model file.

    The file keeps the constructor's parameters and the learned attributes (those whose name ends in an underscore),
    and replaces an older file in one step. A `random_state` that is a generator object is written as None: its position
    in the stream is the state of a process, not a setting of the model. Give an integer seed to keep it.
    A path comes back as a string.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of multicause, or of a class named in `registry`.
    path : str or path-like
        The file to write; its folder must exist.
    registry : iterable of classes, default=()
        Estimators and frozen dataclasses of your own that the file may name. Give `load_model` the same.

    Raises
    ------
    NotFittedError
        When `estimator` has not been fitted.
    ValueError
        When settings or learned attributes were changed since, and no longer go together.
    TypeError
        When the class of `estimator`, or one of its values, has no place in a model file.

    See Also
    --------
    load_model : The way back.
    """
    classes = _known_classes(registry)
    name = type(estimator).__name__
    if classes.get(name) is not type(estimator) or not isinstance(estimator, BaseEstimator):
        raise TypeError(
            f"save_model needs an estimator of multicause, got an instance of {name!r}. "
            "For an estimator of your own, pass registry=[its class] here and to load_model."
        )
    check_is_fitted(estimator)
    check: Callable[[], None] | None = getattr(estimator, "_check_fitted", None)
    if check is not None:
        check()  # what could not be loaded must not pass for saved
    tensors: dict[str, np.ndarray] = {}
    header = {
        "format": "multicause-model",
        "format_version": FORMAT_VERSION,
        "class": name,
        "params": encode_all("params", _params_to_keep(estimator), tensors, classes),
        "attributes": encode_all("attributes", _learned_attributes(estimator), tensors, classes),
    }
    write_tensors(path, header, tensors)


def load_model(
    path: str | os.PathLike[str], *, registry: Iterable[type] = (), memory_limit: int | None = None
) -> BaseEstimator:
    """Read a fitted estimator from a model file.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.
    registry : iterable of classes, default=()
        Estimators and frozen dataclasses of your own that the file may name, besides those of multicause.
    memory_limit : int or None, default=None
        Bytes that the model's tables may take; one that needs more is refused. None allows 256 MiB, or 64 times the
        size of the file if that is more.

    Returns
    -------
    estimator
        Equal in parameters and learned attributes to the one that was saved.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ModelFileError
        When the file is damaged, is not a model file, or needs a newer multicause or a class that is not known here.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file '{path}'. Write one with save_model(estimator, path).")
    try:
        header, tensors = read_tensors(path, "model", FORMAT_VERSION, WITHOUT_DIGEST)
    except TensorFileError as error:
        raise ModelFileError(f"{error} Write it with save_model.") from error
    try:
        estimator = _rebuild(header, tensors, _known_classes(registry), path)
        refuse_leftover(tensors)
        with np.errstate(all="ignore"):  # what overflows in a check does not pass it
            _check_consistency(estimator, memory_limit or max(LARGEST_TABLES, _AMPLIFICATION * path.stat().st_size))
        return estimator
    except ModelFileError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
    ) as error:  # fmt: skip
        reason = str(error).rstrip(".") if isinstance(error, ValueError) else repr(error)
        raise ModelFileError(f"The model file '{path}' is damaged: {reason:.500}. Save the model again.") from error


def _known_classes(registry: Iterable[type]) -> dict[str, type]:
    return {**_known_estimators(), **_known_values(), **{cls.__name__: cls for cls in registry}}


def _known_estimators() -> dict[str, type]:
    """The estimators a file may name: the public classes of `multicause.estimators`."""
    from multicause import estimators as room  # here, so that estimators may import this module

    names = getattr(room, "__all__", [name for name in vars(room) if not name.startswith("_")])
    found = {name: getattr(room, name) for name in names}
    return {name: cls for name, cls in found.items() if isinstance(cls, type) and issubclass(cls, BaseEstimator)}


def _known_values() -> dict[str, type]:
    """The values a file may name: frozen dataclasses of schedules, experts and learned selections, and `Stop`."""
    from multicause.learning import stopping
    from multicause.learning.em import schedules
    from multicause.models import experts, superpositions
    from multicause.posteriors.truncated import KeptStates
    from multicause.selection import gp_images, gp_places, gp_select

    rooms = (schedules, superpositions, experts, gp_select, gp_places, gp_images)
    found = {name: cls for room in rooms for name, cls in vars(room).items() if isinstance(cls, type)}
    frozen = {name: cls for name, cls in found.items() if is_frozen(cls)}
    return {**frozen, "Stop": stopping.Stop, "KeptStates": KeptStates}


def _is_learned(name: str) -> bool:
    """Whether an attribute belongs to the fitted state; `_n_features_out` is where scikit-learn's mixin looks."""
    return (name.endswith("_") and not name.startswith("_")) or name == "_n_features_out"


def _private_state(cls: type) -> tuple[str, ...]:
    """Private attributes that learning goes on from."""
    return getattr(cls, "_private_state", ())


def _learned_attributes(estimator: BaseEstimator) -> dict[str, Any]:
    private = _private_state(type(estimator))
    return {name: value for name, value in vars(estimator).items() if _is_learned(name) or name in private}


def _params_to_keep(estimator: BaseEstimator) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    if isinstance(params.get("random_state"), np.random.RandomState | np.random.Generator):
        params["random_state"] = None
    return params


def _rebuild(header: dict[str, Any], tensors: dict[str, np.ndarray], classes: Classes, path: Path) -> BaseEstimator:
    name = header["class"]
    cls = classes.get(name)
    if cls is None or not issubclass(cls, BaseEstimator):
        known = sorted(known for known, cls in classes.items() if issubclass(cls, BaseEstimator))
        raise ModelFileError(
            f"'{path}' holds a model of class {name!r:.80}, which is not known here; known are {known}. "
            "Upgrade multicause, or pass registry=[the class] if it is your own."
        )
    params = decode_all(header["params"], tensors, classes)
    unknown = sorted(set(params) - set(signature(cls).parameters))
    if unknown:
        raise ModelFileError(
            f"'{path}' sets the parameters {unknown!r:.80}, which {name} does not have here. It was written by "
            f"multicause {header.get('multicause_version')!s:.20}: install that version to read it."
        )
    estimator = cls(**params)
    private = _private_state(cls)
    for key, value in decode_all(header["attributes"], tensors, classes).items():
        if not (_is_learned(key) or key in private) or callable(getattr(cls, key, None)):
            raise ValueError(f"{key!r:.80} is not the name of a learned attribute")
        setattr(estimator, key, value)
    return estimator


def _check_consistency(estimator: BaseEstimator, allowed: int) -> None:
    """Settings in their ranges, and learned parameters that go together: kernels index unchecked."""
    if hasattr(type(estimator), "_check_fitted"):
        needed = estimator._table_bytes()
        if needed > allowed:
            raise ValueError(
                f"a model of its shape takes tables of {needed:,} bytes, and {allowed:,} are allowed. If you trust the "
                f"file, give memory_limit={needed}"
            )
        estimator._check_fitted()
