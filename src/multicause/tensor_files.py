"""Files of arrays and plain values: safetensors, with all else as JSON in the header, and a digest of both.

Such a file holds data only: classes are looked up by name in a table of known ones, and nothing is ever unpickled. The
header's metadata has one entry, ``multicause``, a JSON object with at least ``format``, ``format_version``,
``multicause_version`` and ``digest``. Values that JSON does not know are written as an object whose first key names
the kind: ``$array``, ``$transposed`` (in Fortran's order) and ``$scalar`` (the tensor that holds them), ``$strings``,
``$tuple``, ``$dict``, ``$float`` (nan, inf, -inf), ``$dataclass``, ``$record`` (a NamedTuple), ``$generator`` (of
random numbers) and ``$stop``. A tensor is spoken of once.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import PurePath
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from multicause.files import atomic_write

__all__ = [
    "TensorFileError",
    "decode",
    "decode_all",
    "encode",
    "encode_all",
    "read_tensors",
    "refuse_leftover",
    "write_tensors",
]

Tensors = dict[str, np.ndarray]
Classes = Mapping[str, type]
LARGEST_HEADER = 2**24  # characters; as Python's objects they take up to 25 times as much

_HELD = (
    "None, booleans, numbers, strings, numeric arrays, arrays of strings, lists and tuples of these, dicts with "
    "strings as keys, schedules of multicause.learning, experts of multicause.models, and GPSelect with the name of a "
    "kernel"
)


class TensorFileError(ValueError):
    """A file that cannot be read as what it should be."""


def write_tensors(path: str | os.PathLike[str], header: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a header of JSON values and the tensors it speaks of, replacing an older file in one step."""
    header = {**header, "multicause_version": library_version()}
    header["digest"] = digest_of(header, tensors)
    text = json.dumps(header, allow_nan=False)
    if len(text) > LARGEST_HEADER:
        raise TypeError(
            f"A file holds up to {LARGEST_HEADER:,} characters of settings, these have {len(text):,}. "
            "Give long lists of numbers as NumPy arrays."
        )
    atomic_write(path, save(tensors, metadata={"multicause": text}))


def read_tensors(
    path: str | os.PathLike[str], kind: str, newest: int, without_digest: int = 0
) -> tuple[dict[str, Any], Tensors]:
    """The header and the tensors of a file of this kind, such as "model", in a version up to `newest`.

    Files up to the version `without_digest` may lack a digest; one that is there counts in any version.
    """
    name = os.fspath(path)
    try:
        with safe_open(path, framework="numpy") as handle:
            header = _parse(name, (handle.metadata() or {}).get("multicause"), kind, newest)
            tensors = {key: handle.get_tensor(key) for key in handle.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, AttributeError, TypeError, OverflowError, MemoryError) as error:  # unknown dtypes, too
        raise TensorFileError(f"'{name}' is cut short, damaged, or no {kind} file at all ({error}).") from error
    old = header["format_version"] <= without_digest and "digest" not in header
    if not old and header.get("digest") != digest_of(header, tensors):
        raise TensorFileError(f"The {kind} file '{name}' is damaged: its content does not match its digest.")
    return header, tensors


def library_version() -> str:
    try:
        return version("multicause")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "unknown"


def _parse(name: str, text: str | None, kind: str, newest: int) -> dict[str, Any]:
    text = text or "null"
    if len(text) > LARGEST_HEADER:
        raise TensorFileError(
            f"The header of the {kind} file '{name}' has {len(text):,} characters; at most {LARGEST_HEADER:,} are read."
        )
    try:
        header = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique, parse_float=_finite)
        json.dumps(header)  # nested too deep for what follows
    except (ValueError, RecursionError, MemoryError) as error:
        raise TensorFileError(f"The header of the {kind} file '{name}' is damaged: {error}.") from error
    if not isinstance(header, dict) or header.get("format") != f"multicause-{kind}":
        raise TensorFileError(f"'{name}' is a safetensors file, but not a {kind} of multicause.")
    found = header.get("format_version")
    if type(found) is not int or not 1 <= found <= newest:
        raise TensorFileError(
            f"'{name}' has format version {found!r:.20}, written by multicause "
            f"{header.get('multicause_version')!s:.20}; this multicause reads versions up to {newest}. "
            "Upgrade with `pip install -U multicause`."
        )
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"it holds the number {text:.20}, which is too large")
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two entries of one name, readers might take the one or the other."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("it has two entries of one name")
    return entries


def digest_of(header: Mapping[str, Any], tensors: Tensors) -> str:
    """Of everything that a file says: a flipped bit must not go unnoticed."""
    said = {key: value for key, value in header.items() if key != "digest"}
    digest = sha256(json.dumps(said, sort_keys=True, allow_nan=False).encode())
    for key in sorted(tensors):
        array = tensors[key]
        digest.update(f"{key} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def is_frozen(cls: Any) -> bool:
    settings: Any = getattr(cls, "__dataclass_params__", None)
    return settings is not None and settings.frozen


def is_record(cls: Any) -> bool:
    """Whether a class is a NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def encode_all(group: str, values: Mapping[str, Any], tensors: Tensors, classes: Classes) -> dict[str, Any]:
    return {name: encode(f"{group}.{name}", value, tensors, classes) for name, value in values.items()}


def encode(key: str, value: Any, tensors: Tensors, classes: Classes) -> Any:
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
        return [encode(f"{key}.{i}", item, tensors, classes) for i, item in enumerate(value)]
    if type(value) is tuple:
        return {"$tuple": encode(key, list(value), tensors, classes)}
    if type(value) is dict and all(type(name) is str for name in value):
        return {"$dict": encode_all(key, value, tensors, classes)}
    if isinstance(value, np.random.Generator) and type(value.bit_generator) is np.random.PCG64:
        return {"$generator": encode(key, dict(value.bit_generator.state), tensors, classes)}
    return _encode_known(key, value, tensors, classes)


def _encode_known(key: str, value: Any, tensors: Tensors, classes: Classes) -> dict[str, Any]:
    """An instance of one of the known classes."""
    cls = type(value)
    if classes.get(cls.__name__) is cls:
        if is_record(cls):
            return {"$record": cls.__name__, **encode_all(key, value._asdict(), tensors, classes)}
        if is_dataclass(value) and is_frozen(cls):
            content = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
            return {"$dataclass": cls.__name__, **encode_all(key, content, tensors, classes)}
    raise _no_place(key, f"of type {cls.__name__!r}")


def _encode_array(key: str, value: np.ndarray | np.generic, tensors: Tensors) -> dict[str, Any]:
    array = np.asarray(value)
    if array.ndim == 1 and array.dtype.kind in "OU" and all(isinstance(item, str) for item in array):
        return {"$strings": [str(item) for item in array], "object": array.dtype.kind == "O"}
    if array.dtype.kind not in "biuf" or array.itemsize > 8 or isinstance(value, np.ma.MaskedArray):
        raise _no_place(key, f"of type {type(value).__name__!r} and dtype '{array.dtype}'")
    # safetensors writes the buffer as it lies in memory, whatever the strides say. ascontiguousarray makes 0-d 1-d.
    turned = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
    array = array.T if turned else array
    tensors[key] = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")).reshape(array.shape)
    kind = "$array" if isinstance(value, np.ndarray) else "$scalar"
    return {"$transposed" if turned else kind: key}


def _no_place(key: str, what: str) -> TypeError:
    group, _, name = key.partition(".")
    kind = {"params": "parameter ", "attributes": "attribute "}.get(group, "")
    return TypeError(f"A file cannot hold the {kind}'{name}' {what}. It holds {_HELD}.")


def decode_all(values: Mapping[str, Any], tensors: Tensors, classes: Classes) -> dict[str, Any]:
    return {name: decode(value, tensors, classes) for name, value in values.items()}


def decode(value: Any, tensors: Tensors, classes: Classes) -> Any:
    """The value that `encode` made JSON of; its arrays are taken out of `tensors`, so that none is used twice."""
    if isinstance(value, list):
        return [decode(item, tensors, classes) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"$array": str(key)}:
            return tensors.pop(key).copy()  # aligned as NumPy does
        case {"$transposed": str(key)}:
            return tensors.pop(key).copy().T
        case {"$scalar": str(key)} if tensors[key].ndim == 0:
            return tensors.pop(key)[()]
        case {"$strings": list(items), "object": bool(as_object)}:
            return _strings(items, as_object)
        case {"$tuple": list(items)}:
            return tuple(decode(items, tensors, classes))
        case {"$dict": dict(items)}:
            return decode_all(items, tensors, classes)
        case {"$float": ("nan" | "inf" | "-inf") as text}:
            return float(text)
        case {"$generator": dict(state)}:
            return _generator(decode(state, tensors, classes))
        case {"$stop": str(name)}:
            known: Any = classes["Stop"]
            return known[name]
        case {"$dataclass": str(name), **content} if is_frozen(classes.get(name)):
            return classes[name](**decode_all(content, tensors, classes))
        case {"$record": str(name), **content} if is_record(classes.get(name)):
            return classes[name](**decode_all(content, tensors, classes))
        case {"$dataclass": name} | {"$record": name}:
            raise TensorFileError(
                f"It holds a value of class {name!r:.80}, which is not known here. "
                "Upgrade multicause, or pass registry=[the class] if it is your own."
            )
    raise ValueError(f"a value of an unknown kind, {sorted(value)!r:.80}")


def refuse_leftover(tensors: Tensors) -> None:
    """Once all is decoded, nothing may be left that the header does not speak of."""
    if tensors:
        raise ValueError(f"it holds tensors that nothing speaks of, {sorted(tensors)!r:.80}")


def _strings(items: list[Any], as_object: bool) -> np.ndarray:
    if not all(isinstance(item, str) for item in items):
        raise ValueError("an array of strings holds something else")
    longest = max(map(len, items), default=0)
    if not as_object and longest * len(items) > 2**24:  # each takes the room of the longest
        raise ValueError(f"an array of {len(items)} strings, one of which has {longest} characters")
    return np.array(items, dtype=object if as_object else str)


def _generator(state: Any) -> np.random.Generator:
    """A generator in a given state, of which NumPy itself checks little."""
    inner = state["state"]
    numbers = (inner["state"], inner["inc"], state["has_uint32"], state["uinteger"])
    bits = (128, 128, 1, 32)
    if state["bit_generator"] != "PCG64" or not all(
        type(number) is int and 0 <= number < 2**size for number, size in zip(numbers, bits, strict=True)
    ):
        raise ValueError("the state of a random generator is out of range")
    generator = np.random.Generator(np.random.PCG64())
    generator.bit_generator.state = state
    return generator
