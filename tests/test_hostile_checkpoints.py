"""Checkpoints with values that cannot be, under a digest that is right: refused before anything is done with them."""

import copy
import json
import warnings
from contextlib import suppress

import numpy as np
import pytest
from safetensors.numpy import load, save
from sklearn.base import clone

from multicause.execution import chunks_of
from multicause.learning.not_finite import NotFinite
from multicause.tensor_files import digest_of, read_tensors
from mutations import NASTY
from test_checkpoints import FITS, Killed, killed_after  # noqa: F401  (a fixture)

NAMES = ("LinCA, restarts", "LinCA, monotone", "RestrictedMCA, online", "UPoE", "UPoE, parallel", "UPoE, sequential")


def places(value, way=()):
    """All places of a JSON value, but for the kinds it names."""
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if not (isinstance(key, str) and key.startswith("$") and isinstance(item, str)):
            yield from places(item, (*way, key))


def put(value, way, item):
    for key in way[:-1]:
        value = value[key]
    value[way[-1]] = item


def hostile(tensors, rng):
    """One array of another shape or type, or with one value that is extreme."""
    key = sorted(tensors)[rng.integers(len(tensors))]
    array = tensors[key]
    kind = rng.integers(6)
    if kind == 0:
        array = np.concatenate([array.reshape(-1), np.zeros(3, array.dtype)])
    elif kind == 1:
        array = array.reshape(-1)[: max(array.size - 1, 0)]
    elif kind == 2:
        array = array[..., None]
    elif kind == 3:
        array = array.astype(np.float32 if array.dtype == np.float64 else np.float64)
    elif array.size:
        array = array.copy()
        extremes = [-(2**31) + 1, 2**31 - 1] if array.dtype.kind in "iu" else [np.nan, np.inf, -1e300, -1.0]
        array.reshape(-1)[rng.integers(array.size)] = extremes[rng.integers(len(extremes))]
    tensors[key] = np.ascontiguousarray(array)


def mutated(path, rng):
    """The file with one or two such values, and the digest of what it says now."""
    header, _ = read_tensors(path, "checkpoint", 1)
    tensors = load(path.read_bytes())
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.5 and tensors:
            hostile(tensors, rng)
        else:
            ways = [way for way in places(header["progress"]) if way]
            put(header["progress"], ways[rng.integers(len(ways))], copy.deepcopy(NASTY[rng.integers(len(NASTY))]))
    header["digest"] = digest_of(header, tensors)
    return save(tensors, metadata={"multicause": json.dumps(header)})


@pytest.mark.parametrize("n_written", [1, 4])
@pytest.mark.parametrize("name", NAMES)
def test_values_that_cannot_be_are_refused_by_name(name, n_written, killed_after, tmp_path):  # noqa: F811
    estimator, X = FITS[name]
    estimator, path = clone(estimator).set_params(random_state=0), tmp_path / "c"
    if "max_iter" in estimator.get_params() and not name.startswith("UPoE"):
        estimator.set_params(max_iter=6)
    with chunks_of(256):
        stop_killing = killed_after(n_written)
        with suppress(Killed):
            clone(estimator).fit(X, checkpoint=path, checkpoint_every=1)
        stop_killing()
        rng, content, refused = np.random.default_rng(n_written), path.read_bytes(), 0
        for _ in range(25):
            path.write_bytes(content)
            path.write_bytes(mutated(path, rng))
            fit = clone(estimator)
            try:
                with warnings.catch_warnings(action="ignore"):
                    fit.fit(X, checkpoint=path, resume=True)
            except (ValueError, NotFinite):
                refused += 1
            else:  # other values that may be: the fit goes on from them
                assert np.isfinite(fit.transform(X[:20])).all()
                fit.score_samples(X[:20])
    assert refused >= 15
