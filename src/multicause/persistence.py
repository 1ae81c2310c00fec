"""Model files: the arrays of a fitted estimator as safetensors, everything else as JSON in the same file's header.

A model file holds data only. Loading looks classes up by name in a table of known ones and never unpickles, so that a
file from elsewhere cannot execute code. The header's metadata has one entry, ``multicause``, a JSON object::

    {"format": "multicause-model", "format_version": 2, "multicause_version": "0.1.0",
     "class": "LinCA", "params": {...}, "attributes": {...}, "digest": "..."}

Values that JSON does not know are written as an object whose first key names the kind: ``$array`` and ``$scalar`` (the
tensor that holds them), ``$strings``, ``$tuple``, ``$dict``, ``$float`` (nan, inf, -inf), ``$dataclass`` and ``$stop``.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from multicause.files import atomic_write

__all__ = ["ModelFileError", "load_model", "save_model"]

FORMAT = "multicause-model"
FORMAT_VERSION = 2

Tensors = dict[str, np.ndarray]
Classes = Mapping[str, type]


class ModelFileError(ValueError):
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
    tensors: Tensors = {}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "multicause_version": _library_version(),
        "class": name,
        "params": _encode_all("params", _params_to_keep(estimator), tensors, classes),
        "attributes": _encode_all("attributes", _learned_attributes(estimator), tensors, classes),
    }
    header["digest"] = _digest(header, tensors)
    atomic_write(path, save(tensors, metadata={"multicause": json.dumps(header, allow_nan=False)}))


def load_model(path: str | os.PathLike[str], *, registry: Iterable[type] = ()) -> BaseEstimator:
    """Read a fitted estimator from a model file.

    Parameters
    ----------
    path : str or path-like
        A file written by `save_model`.
    registry : iterable of classes, default=()
        Estimators and frozen dataclasses of your own that the file may name, besides those of multicause.

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
    header, tensors = _read(Path(path))
    classes = _known_classes(registry)
    try:
        _check_digest(header, tensors, path)
        estimator = _rebuild(header, tensors, classes, path)
        _check_consistency(estimator)
        return estimator
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelFileError(
            f"The model file '{os.fspath(path)}' is damaged: {error!r}. Save the model again."
        ) from error


def _digest(header: Mapping[str, Any], tensors: Tensors) -> str:
    """Of everything that a file says: a flipped bit must not go unnoticed."""
    said = {key: value for key, value in header.items() if key != "digest"}
    digest = sha256(json.dumps(said, sort_keys=True, allow_nan=False).encode())
    for key in sorted(tensors):
        array = tensors[key]
        digest.update(f"{key} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _check_digest(header: Mapping[str, Any], tensors: Tensors, path: str | os.PathLike[str]) -> None:
    if header["format_version"] >= 2 and header.get("digest") != _digest(header, tensors):
        raise ModelFileError(
            f"The model file '{os.fspath(path)}' is damaged: its content does not match its digest. "
            "Save the model again."
        )


def _library_version() -> str:
    try:
        return version("multicause")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


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
    from multicause.selection import gp_places, gp_select

    rooms = (schedules, superpositions, experts, gp_select, gp_places)
    found = {name: cls for room in rooms for name, cls in vars(room).items() if isinstance(cls, type)}
    return {**{name: cls for name, cls in found.items() if _is_frozen(cls)}, "Stop": stopping.Stop}


def _is_frozen(cls: Any) -> bool:
    settings: Any = getattr(cls, "__dataclass_params__", None)
    return settings is not None and settings.frozen


def _is_learned(name: str) -> bool:
    """Whether an attribute belongs to the fitted state; `_n_features_out` is where scikit-learn's mixin looks."""
    return (name.endswith("_") and not name.startswith("_")) or name == "_n_features_out"


def _learned_attributes(estimator: BaseEstimator) -> dict[str, Any]:
    return {name: value for name, value in vars(estimator).items() if _is_learned(name)}


def _params_to_keep(estimator: BaseEstimator) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    if isinstance(params.get("random_state"), np.random.RandomState | np.random.Generator):
        params["random_state"] = None
    return params


def _encode_all(group: str, values: Mapping[str, Any], tensors: Tensors, classes: Classes) -> dict[str, Any]:
    return {name: _encode(f"{group}.{name}", value, tensors, classes) for name, value in values.items()}


def _encode(key: str, value: Any, tensors: Tensors, classes: Classes) -> Any:
    """Turn a value into JSON; arrays go to `tensors`, under a key made of the way to the value."""
    if isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.str_):
        return _encode_array(key, value, tensors)
    if isinstance(value, Enum) and type(value) is classes.get("Stop"):
        return {"$stop": value.name}
    if value is None or type(value) in (bool, int, str, np.str_):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if type(value) is list:
        return [_encode(f"{key}.{i}", item, tensors, classes) for i, item in enumerate(value)]
    if type(value) is tuple:
        return {"$tuple": _encode(key, list(value), tensors, classes)}
    if type(value) is dict and all(type(name) is str for name in value):
        return {"$dict": _encode_all(key, value, tensors, classes)}
    if is_dataclass(value) and _is_frozen(type(value)) and classes.get(type(value).__name__) is type(value):
        content = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        return {"$dataclass": type(value).__name__, **_encode_all(key, content, tensors, classes)}
    raise _no_place(key, f"of type {type(value).__name__!r}")


def _encode_array(key: str, value: np.ndarray | np.generic, tensors: Tensors) -> dict[str, Any]:
    array = np.asarray(value)
    if array.ndim == 1 and array.dtype.kind in "OU" and all(isinstance(item, str) for item in array):
        return {"$strings": [str(item) for item in array], "object": array.dtype.kind == "O"}
    if array.dtype.kind not in "biuf" or array.itemsize > 8 or isinstance(value, np.ma.MaskedArray):
        raise _no_place(key, f"of type {type(value).__name__!r} and dtype '{array.dtype}'")
    # safetensors writes the buffer as it lies in memory, whatever the strides say. ascontiguousarray makes 0-d 1-d.
    tensors[key] = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    return {"$array" if isinstance(value, np.ndarray) else "$scalar": key}


def _no_place(key: str, what: str) -> TypeError:
    group, _, name = key.partition(".")
    kind = {"params": "parameter", "attributes": "attribute"}[group]
    return TypeError(
        f"A model file cannot hold the {kind} '{name}' {what}. It holds None, booleans, numbers, "
        "strings, numeric arrays, arrays of strings, lists and tuples of these, dicts with strings as keys, schedules "
        "of multicause.learning, experts of multicause.models, and GPSelect with the name of a kernel."
    )


def _read(path: Path) -> tuple[dict[str, Any], Tensors]:
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file '{path}'. Write one with save_model(estimator, path).")
    try:
        with safe_open(path, framework="numpy") as handle:
            header = _parse(path, (handle.metadata() or {}).get("multicause"))
            return header, {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 (not a mapping)
    except SafetensorError as error:
        raise ModelFileError(
            f"'{path}' is cut short, damaged, or no model file at all ({error}). Save the model again with save_model."
        ) from error


def _parse(path: Path, text: str | None) -> dict[str, Any]:
    try:
        header = json.loads(text or "null")
    except (ValueError, RecursionError) as error:
        raise ModelFileError(
            f"The header of the model file '{path}' is damaged: {error}. Save the model again."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(
            f"'{path}' is a safetensors file, but not a model of multicause. Write one with save_model."
        )
    found = header.get("format_version")
    if not isinstance(found, int) or found > FORMAT_VERSION:
        raise ModelFileError(
            f"'{path}' has format version {found}, written by multicause {header.get('multicause_version')}; this "
            f"multicause reads versions up to {FORMAT_VERSION}. Upgrade with `pip install -U multicause`."
        )
    return header


def _rebuild(header: dict[str, Any], tensors: Tensors, classes: Classes, path: str | os.PathLike[str]) -> BaseEstimator:
    name = header["class"]
    cls = classes.get(name)
    if cls is None or not issubclass(cls, BaseEstimator):
        known = sorted(known for known, cls in classes.items() if issubclass(cls, BaseEstimator))
        raise ModelFileError(
            f"'{os.fspath(path)}' holds a model of class {name!r}, which is not known here; known are {known}. "
            "Upgrade multicause, or pass registry=[the class] if it is your own."
        )
    params = {key: _decode(value, tensors, classes) for key, value in header["params"].items()}
    unknown = sorted(set(params) - set(signature(cls).parameters))
    if unknown:
        raise ModelFileError(
            f"'{os.fspath(path)}' sets the parameters {unknown}, which {name} does not have here. It was written by "
            f"multicause {header.get('multicause_version')}: install that version to read it."
        )
    estimator = cls(**params)
    for key, value in header["attributes"].items():
        if not _is_learned(key):
            raise ValueError(f"{key!r} is not the name of a learned attribute")
        setattr(estimator, key, _decode(value, tensors, classes))
    return estimator


def _check_consistency(estimator: BaseEstimator) -> None:
    """Settings in their ranges, and learned parameters of shapes that go together: kernels index unchecked."""
    if hasattr(type(estimator), "_parameter_constraints"):
        estimator._validate_params()
    if hasattr(type(estimator), "_check_learned"):
        estimator._check_learned()


def _decode(value: Any, tensors: Tensors, classes: Classes) -> Any:
    if isinstance(value, list):
        return [_decode(item, tensors, classes) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$array": str(key)}:
            return tensors[key]
        case {"$scalar": str(key)}:
            return tensors[key][()]
        case {"$strings": list(items), "object": bool(as_object)}:
            return np.array(items, dtype=object if as_object else str)
        case {"$tuple": list(items)}:
            return tuple(_decode(items, tensors, classes))
        case {"$dict": dict(items)}:
            return {name: _decode(item, tensors, classes) for name, item in items.items()}
        case {"$float": ("nan" | "inf" | "-inf") as text}:
            return float(text)
        case {"$stop": str(name)}:
            known: Any = classes["Stop"]
            return known[name]
        case {"$dataclass": str(name), **content}:
            return _decode_dataclass(name, content, tensors, classes)
    raise ValueError(f"a value of an unknown kind, {sorted(value)}")


def _decode_dataclass(name: str, content: dict[str, Any], tensors: Tensors, classes: Classes) -> Any:
    cls = classes.get(name)
    if cls is None or not _is_frozen(cls):
        raise ModelFileError(
            f"The model file holds a value of class {name!r}, which is not known here. "
            "Upgrade multicause, or pass registry=[the class] if it is your own."
        )
    return cls(**{key: _decode(item, tensors, classes) for key, item in content.items()})
