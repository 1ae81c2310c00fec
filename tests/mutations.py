"""Files with faults: every kind of estimator, saved; its file mutated; and what becomes of it.

As a script it works through a range of seeds in a process of its own, whose memory is limited:
    python tests/mutations.py FIRST LAST FOLDER
"""

import copy
import json
import resource
import struct
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load, save

from multicause import (
    ETNMF,
    GSC,
    MCA,
    MCA3,
    InvECA,
    LinCA,
    NonlinearGSC,
    RestrictedMCA,
    TruncatedEM,
    TruncatedGaussianMixture,
    UPoE,
    load_model,
    save_model,
)
from multicause.models import HyperbolicSecant
from multicause.selection import GPSelect
from multicause.tensor_files import digest_of

ROWS, H, D = 24, 4, 6
QUESTIONS = ("transform", "score_samples", "reconstruct", "predict_proba")
NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 10**9, 10**18, -(10**18), 10**400, 1e308, -1e-308, 0.5, "", "full", "nonsense", [], [1],
    {}, {"$float": "nan"}, {"$float": "inf"}, {"$tuple": []}, {"$dict": {}}, {"$array": "attributes.components_"},
    {"$scalar": "attributes.components_"}, {"$stop": "CONVERGED"}, {"$dataclass": "Annealing"},
    {"$dataclass": "StudentT", "mean": {"$array": "attributes.activation_"}}, {"$strings": ["a"], "object": True},
    {"$generator": {"state": 1}}, {"$record": "Params"}, {"$dataclass": "GPSelect", "rank": 10**9},
)  # fmt: skip


class Params(NamedTuple):
    weights: np.ndarray


@dataclass(frozen=True)
class Coins:
    """A model of one's own, y ~ N(W^T s, 1), whose parameters a file can hold."""

    n_components: int = 3
    n_features: int = D

    def init_params(self, moments, rng):
        return Params(rng.standard_normal((self.n_components, self.n_features)))

    def log_joint(self, params, Y, states):
        return -0.5 * np.square(Y[:, None] - states @ params.weights).sum(axis=-1)

    def accumulate(self, params, Y, states, weights):
        return Params(np.zeros_like(params.weights))

    def m_step(self, params, statistics):
        return params


REGISTRY = (Coins, Params)


def estimators() -> dict[str, tuple[Any, np.ndarray]]:
    """One of every kind and of every setting that changes what is learned, with data to ask it of."""
    return copy.deepcopy(_estimators())


@cache
def _estimators() -> dict[str, tuple[Any, np.ndarray]]:
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(1.0, 0.5, size=(ROWS, D)))
    images = rng.normal(size=(ROWS, 5, 5))
    W, spread = np.abs(rng.normal(1.0, 0.5, size=(H, D))), np.eye(D) + 0.1
    given = {"components": W, "activation": 0.3}
    one = {**given, "noise_variance": 0.5, "n_candidates": 3, "max_active": 2}
    short = {"max_iter": 3, "tol": 0, "random_state": 0}
    shares = {"components": np.clip(0.5 * W, 0.1, 0.9), "activation": 0.3, "n_candidates": 3}
    found = {
        "LinCA": LinCA.from_parameters(**one),
        "LinCA-gp": LinCA(H, n_candidates=2, selection=GPSelect(), **short).fit(X),
        "ETNMF": ETNMF.from_parameters(**one),
        "ETNMF-poisson": ETNMF.from_parameters(**given, background=0.1, noise="poisson"),
        "MCA": MCA.from_parameters(**one),
        "MCA-diagonal": MCA.from_parameters(**{**one, "noise_variance": np.full(D, 0.5)}, noise="gaussian-diagonal"),
        "MCA-poisson": MCA.from_parameters(**given, noise="poisson"),
        "MCA-bernoulli": MCA.from_parameters(**shares, noise="bernoulli"),
        "MCA-exponential": MCA.from_parameters(**given, background=0.1, noise="exponential"),
        "MCA3": MCA3.from_parameters(**given),
        "RestrictedMCA": RestrictedMCA(H, random_state=0).partial_fit(X),
        "GSC": GSC.from_parameters(**one),
        "GSC-full": GSC.from_parameters(
            **{**one, "noise_variance": spread}, noise="full", slab="full", slab_covariance=np.eye(H) + 0.1
        ),
        "GSC-greedy": GSC.from_parameters(**one, selection="greedy"),
        "GSC-exact": GSC.from_parameters(
            **{**one, "noise_variance": np.full(D, 0.5)}, noise="diagonal", posterior="exact"
        ),
        "GSC-factored": GSC.from_parameters(**one, posterior="factored"),
        "NonlinearGSC": NonlinearGSC.from_parameters(
            **{key: value for key, value in one.items() if key != "max_active"}, n_sweeps=2, n_burn_in=2
        ),
        "InvECA": InvECA(2, (2, 2), **short).fit(images),
        "InvECA-gp": InvECA(2, (2, 2), n_candidates=1, selection=GPSelect(), **short).fit(images),
        "TruncatedEM": TruncatedEM(Coins(), n_candidates=2, **short).fit(X),
        "UPoE": UPoE(2, random_state=0).fit(X),
        "UPoE-batches": UPoE(2, expert="student-t-mixture", n_dimensions=4, random_state=0).partial_fit(X),
        "UPoE-secant": UPoE(1, expert=HyperbolicSecant(), algorithm="parallel", random_state=0).fit(X),
    }  # fmt: skip
    found["UPoE-batches"].partial_fit(X)
    for kind in ("full", "diag", "spherical", "factor"):
        found[f"mixture-{kind}"] = TruncatedGaussianMixture(3, covariance_type=kind, **short).fit(X)
    found["mixture-gp"] = TruncatedGaussianMixture(3, n_candidates=2, selection=GPSelect(), **short).fit(X)
    counts = np.round(X).clip(0.0, 1.0)
    data = {"InvECA": images, "InvECA-gp": images, "MCA-bernoulli": counts}
    return {name: (estimator, data.get(name, X)) for name, estimator in found.items()}


class File(NamedTuple):
    """A file in parts that can be changed one by one."""

    header: dict[str, Any]
    tensors: dict[str, np.ndarray]

    @classmethod
    def of(cls, content: bytes) -> "File":
        length = struct.unpack("<Q", content[:8])[0]
        text = json.loads(content[8 : 8 + length])["__metadata__"]["multicause"]
        return cls(json.loads(text), dict(sorted(load(content).items())))  # safetensors has them in any order

    def written(self, redigest: bool) -> bytes:
        header = dict(self.header)
        if redigest:
            header["digest"] = digest_of(header, self.tensors)
        tensors = {key: np.ascontiguousarray(array).reshape(array.shape) for key, array in self.tensors.items()}
        return save(tensors, metadata={"multicause": json.dumps(header)})


def flip_bit(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    for bit in rng.integers(8 * len(content), size=rng.integers(1, 4)):
        changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def flip_bit_of_tensors(content: bytes, rng: np.random.Generator) -> bytes:
    start = 8 + struct.unpack("<Q", content[:8])[0]
    return content[:start] + flip_bit(content[start:], rng)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(len(content))]


def lengthen(content: bytes, rng: np.random.Generator) -> bytes:
    return content + rng.bytes(int(rng.integers(1, 100)))


def lie_of_length(content: bytes, rng: np.random.Generator) -> bytes:
    lengths = (0, 1, len(content), 2**31, 2**40, 2**63, 2**64 - 1, struct.unpack("<Q", content[:8])[0] + 8)
    return struct.pack("<Q", lengths[rng.integers(len(lengths))]) + content[8:]


def lie_of_shape(content: bytes, rng: np.random.Generator) -> bytes:
    """In safetensors' own header: shapes, offsets and dtypes that the data do not have."""
    length = struct.unpack("<Q", content[:8])[0]
    table = json.loads(content[8 : 8 + length])
    entry = table[_any(rng, [key for key in table if key != "__metadata__"])]
    match rng.integers(4):
        case 0:
            entry["shape"] = _any(rng, [[10**9], [2**62, 2], [0, 2**40], [], [-1], [1.5], ["a"], entry["shape"][::-1]])
        case 1:
            entry["data_offsets"] = _any(rng, [[0, 0], [0, 2**40], [2**40, 0], [8, 8], [-8, 0], [0]])
        case 2:
            entry["dtype"] = _any(rng, ["F32", "I64", "U64", "BF16", "F8_E4M3", "BOOL", "C64", "X"])
        case _:
            table["again"] = entry
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def nest_deeply(content: bytes, rng: np.random.Generator) -> bytes:
    file = File.of(content)
    depth = int(rng.choice([50, 900, 5000, 200_000]))
    opening, closing = _any(rng, [("[", "]"), ('{"$tuple": [', "]}"), ('{"$dict": {"a": ', "}}")])
    text = json.dumps(file.header)[:-1] + f', "deep": {opening * depth}1{closing * depth}}}'
    return save(file.tensors, metadata={"multicause": text})


def name_twice(content: bytes, rng: np.random.Generator) -> bytes:
    file = File.of(content)
    key = _any(rng, list(file.header))
    text = f'{{"{key}": {json.dumps(_any(rng, NASTY))}, ' + json.dumps(file.header)[1:]
    return save(file.tensors, metadata={"multicause": text})


WHOLE: tuple[Callable[[bytes, np.random.Generator], bytes], ...] = (
    flip_bit, flip_bit_of_tensors, cut, lengthen, lie_of_length, lie_of_shape, nest_deeply, name_twice,
)  # fmt: skip


def change_shape(file: File, rng: np.random.Generator) -> None:
    key = _any(rng, list(file.tensors))
    array = file.tensors[key]
    wanted: list[Callable[[], np.ndarray]] = [
        lambda: array.ravel(), lambda: array.T.copy(), lambda: array[:0], lambda: array[None], lambda: array[..., None],
        lambda: np.concatenate([array, array]), lambda: np.concatenate([array, array], axis=-1),
        lambda: array[:-1], lambda: array[..., :-1], lambda: np.zeros((0, 10**6)), lambda: np.zeros(()),
        lambda: np.resize(array, (20_000, *array.shape[1:])), lambda: np.resize(array, (20_000, 1)),
    ]  # fmt: skip
    file.tensors[key] = _any(rng, wanted)() if array.ndim else np.zeros(3)


def change_values(file: File, rng: np.random.Generator) -> None:
    key = _any(rng, list(file.tensors))
    array = file.tensors[key].copy()
    values = (np.nan, np.inf, -np.inf, 0.0, -1.0, 2.0, 1e9, 1e120, 1e308, 1e-310, 0.3)
    if array.size:
        with np.errstate(all="ignore"):
            places = rng.integers(array.size, size=_any(rng, [1, array.size]))
            array.flat[places] = np.asarray(_any(rng, values)).astype(array.dtype)
    file.tensors[key] = array


def change_dtype(file: File, rng: np.random.Generator) -> None:
    key = _any(rng, list(file.tensors))
    with np.errstate(all="ignore"):
        file.tensors[key] = file.tensors[key].astype(_any(rng, ["f2", "f4", "i8", "i1", "u8", "?"]))


def change_number_of_latents(file: File, rng: np.random.Generator) -> None:
    """All arrays follow, as a hostile hand would see to."""
    n = int(rng.choice([1, 2, 20, 60, 20_000]))
    for key, array in file.tensors.items():
        if key.startswith("attributes.") and array.ndim and array.shape[0] in (2, 3, H):
            file.tensors[key] = np.resize(array, (n, *array.shape[1:]))


def change_setting(file: File, rng: np.random.Generator) -> None:
    holder = file.header["params"]
    holder[_any(rng, list(holder))] = _any(rng, NASTY)


def change_attribute(file: File, rng: np.random.Generator) -> None:
    holder = file.header["attributes"]
    holder[_any(rng, list(holder))] = _any(rng, NASTY)


def change_anything(file: File, rng: np.random.Generator) -> None:
    """A value somewhere down the header."""
    holder: Any = file.header
    while True:
        keys = list(range(len(holder))) if isinstance(holder, list) else list(holder)
        key = _any(rng, keys)
        inner = holder[key]
        if not isinstance(inner, list | dict) or not inner or rng.random() < 0.3:
            holder[key] = _any(rng, NASTY)
            return
        holder = inner


def remove(file: File, rng: np.random.Generator) -> None:
    holder = _any(rng, [file.header, file.header["params"], file.header["attributes"], file.tensors])
    holder.pop(_any(rng, list(holder)))


def add(file: File, rng: np.random.Generator) -> None:
    if rng.random() < 0.3:
        file.tensors["more"] = np.zeros(3)
        return
    names = [
        "transform",
        "fit_",
        "__class__",
        "_ask",
        "selection_function_",
        "more_",
        "trace",
        "image_shape_",
        "_latest",
    ]
    _any(rng, [file.header, file.header["params"], file.header["attributes"]])[_any(rng, names)] = _any(rng, NASTY)


def change_class(file: File, rng: np.random.Generator) -> None:
    file.header["class"] = _any(rng, ["LinCA", "GSC", "UPoE", "InvECA", "MCA3", "NonlinearGSC", "ETNMF", "os.system"])


PARTS: tuple[Callable[[File, np.random.Generator], None], ...] = (
    change_shape, change_values, change_dtype, change_number_of_latents, change_setting, change_attribute,
    change_anything, remove, add, change_class,
)  # fmt: skip


def mutate(content: bytes, rng: np.random.Generator) -> tuple[bytes, str, bool]:
    """The mutated file, what was done to it, and whether its digest was made to match."""
    mutator: Any = _any(rng, [*WHOLE, *PARTS, *PARTS])
    if mutator in WHOLE:
        return mutator(content, rng), mutator.__name__, False
    file, redigest = File.of(content), bool(rng.random() < 0.7)
    file = File(copy.deepcopy(file.header), dict(file.tensors))
    mutator(file, rng)
    try:
        return file.written(redigest), mutator.__name__, redigest
    except (TypeError, ValueError, AttributeError):  # such a file cannot be written
        return content[:-1], "cut", False


def _any(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


class Saved(NamedTuple):
    name: str
    content: bytes
    X: np.ndarray
    said: str  # digest of parameters and attributes


def said_by(estimator: Any, folder: Path) -> str:
    path = folder / "again"
    save_model(estimator, path, registry=REGISTRY)
    return File.of(path.read_bytes()).header["digest"]


def saved_estimators(folder: Path) -> list[Saved]:
    models = []
    for name, (estimator, X) in estimators().items():
        save_model(estimator, folder / "model", registry=REGISTRY)
        models.append(Saved(name, (folder / "model").read_bytes(), X, said_by(estimator, folder)))
    return models


def outcome_of(content: bytes, model: Saved, folder: Path) -> str:
    """Load a file and ask all questions: "refused", "unchanged", "changed", or an exception that must not be."""
    path = folder / "mutated"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = load_model(path, registry=REGISTRY)
        except (ValueError, OSError):
            return "refused"
        X = model.X if np.size(model.X[0]) == loaded.n_features_in_ else np.ones((3, loaded.n_features_in_))
        try:
            for question in (q for q in QUESTIONS if hasattr(loaded, q)):
                answer = getattr(loaded, question)(X)
                if not np.isfinite(answer).all():
                    return f"not finite: {question}"
            if hasattr(loaded, "sample"):
                loaded.sample(2, random_state=0)
        except (ValueError, OSError):
            return "refused when asked"
    return "unchanged" if said_by(loaded, folder) == model.said else "changed"


def work_through(first: int, last: int, folder: Path) -> dict[str, Any]:
    """Mutations by their seeds, with the slowest and the outcomes of each kind."""
    models = saved_estimators(folder)
    for model in models:
        assert outcome_of(model.content, model, folder) == "unchanged", model.name
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30, size + 2**30))
    tally: Counter[str] = Counter()
    slowest: tuple[float, str] = (0.0, "")
    for seed in range(first, last):
        model, rng = models[seed % len(models)], np.random.default_rng(seed)
        content, what, redigested = mutate(model.content, rng)
        (folder / "now").write_text(f"{seed} {model.name} {what}")
        began = time.perf_counter()
        found = outcome_of(content, model, folder)
        slowest = max(slowest, (time.perf_counter() - began, f"{seed} {model.name} {what}"))
        tally[f"{'digest matches' if redigested else 'digest of before'}: {found}"] += 1
        if found.startswith("not finite") or (found == "changed" and not redigested):
            tally[f"see seed {seed} {model.name} {what}: {found}"] += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"tally": dict(tally), "slowest": slowest, "peak_gib": peak}


if __name__ == "__main__":
    print(json.dumps(work_through(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))))
