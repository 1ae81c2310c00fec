"""Model files: what goes in comes out, and a bad file is refused with a sentence that helps."""

import json
import os
import stat
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from multicause.estimators import ETNMF, GSC, LinCA
from multicause.files import atomic_write
from multicause.learning import Annealing, DataClassification
from multicause.persistence import ModelFileError, _known_estimators, _known_values, load_model, save_model
from multicause.selection import GPSelect


@dataclass(frozen=True)
class Ramp:
    """A stand-in for a schedule."""

    initial: float = 13.0
    final: float = 1.0
    knots: tuple = (0.1, 0.9)


@dataclass
class Loose:
    """A dataclass that is not frozen."""

    initial: float = 1.0


class Stop(Enum):
    """A stand-in for the outcomes of learning."""

    CONVERGED = "the gain fell below tol"
    SCHEDULE_ENDED = "the schedule ended first"


class Causes(BaseEstimator):
    """A stand-in for a fitted estimator."""

    def __init__(self, n_components=3, tol=1e-4, annealing=None, components_init=None, random_state=None, learn=()):
        self.n_components = n_components
        self.tol = tol
        self.annealing = annealing
        self.components_init = components_init
        self.random_state = random_state
        self.learn = learn

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        self.components_ = X[: self.n_components].copy()
        self.activation_ = np.full(self.n_components, 0.2, dtype=X.dtype)
        self.noise_variance_ = 0.1 + 0.2
        self.free_energy_ = np.array([-3.0, -2.0, -1.5])
        self.n_iter_ = 2
        self.stop_ = Stop.SCHEDULE_ENDED
        return self


REGISTRY = (Causes, Ramp, Stop)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(6, 4))


def round_trip(estimator, path):
    save_model(estimator, path, registry=REGISTRY)
    return load_model(path, registry=REGISTRY)


def write_header(path, **changes):
    """Write a small valid model file, with some entries of its header replaced."""
    header = {
        "format": "multicause-model",
        "format_version": 1,
        "multicause_version": "9.9",
        "class": "Causes",
        "params": {},
        "attributes": {},
    }
    path.write_bytes(save({}, metadata={"multicause": json.dumps(header | changes)}))


def test_a_loaded_model_has_the_parameters_and_attributes_of_the_saved_one(path, X):
    saved = Causes(n_components=2, tol=0.1, annealing=Ramp(final=0.5), random_state=7, learn=("W", "pi")).fit(X)
    loaded = round_trip(saved, path)
    assert type(loaded) is Causes
    assert loaded.get_params() == saved.get_params()
    assert vars(loaded).keys() == vars(saved).keys()
    for name in ("components_", "activation_", "free_energy_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name), strict=True)
    for name in ("noise_variance_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(saved, name)
        assert type(getattr(loaded, name)) is type(getattr(saved, name))
    assert loaded.stop_ is Stop.SCHEDULE_ENDED


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        0.1,
        float("inf"),
        "étude $array",
        ["W", ["pi"]],
        ("W", ("pi", None)),
        (),
        {"W": [1.0, (2.0, None)], "$tuple": {}},
        Ramp(1.0, 2.0, ()),
        np.str_("W"),
    ],
    ids=repr,
)
def test_a_parameter_comes_back_equal_and_of_the_same_kind(path, X, value):
    loaded = round_trip(Causes(learn=value).fit(X), path)
    assert loaded.learn == value
    assert type(loaded.learn) is (str if isinstance(value, str) else type(value))


def test_nan_comes_back_as_nan(path, X):
    assert np.isnan(round_trip(Causes(tol=float("nan")).fit(X), path).tol)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"])
def test_an_array_keeps_its_dtype(path, X, dtype):
    estimator = Causes().fit(X)
    estimator.components_ = (10 * X).astype(dtype)
    loaded = round_trip(estimator, path)
    np.testing.assert_array_equal(loaded.components_, estimator.components_, strict=True)


@pytest.mark.parametrize(
    "view",
    [
        np.asfortranarray,
        lambda a: a.T,
        lambda a: a[::2, ::-1],
        lambda a: a[:, 1],
        lambda a: a.reshape(2, 3, 4).transpose(2, 0, 1),
        lambda a: a[:0],
        lambda a: np.array(3.5),
        lambda a: np.broadcast_to(a[0], (3, 4)),
        lambda a: a.astype(">f8"),
    ],
    ids=["fortran", "transposed", "strided", "column", "permuted", "empty", "0-d", "broadcast", "big-endian"],
)
def test_an_array_survives_however_it_lies_in_memory(path, X, view):
    array = view(X)
    estimator = Causes(components_init=array).fit(X)
    estimator.components_ = array
    loaded = round_trip(estimator, path)
    for found in (loaded.components_, loaded.components_init):
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)


def test_a_numpy_scalar_stays_one(path, X):
    estimator = Causes().fit(X)
    estimator.noise_variance_ = np.float32(0.1)
    loaded = round_trip(estimator, path)
    assert type(loaded.noise_variance_) is np.float32
    assert loaded.noise_variance_ == np.float32(0.1)


def test_loaded_arrays_can_be_written_to(path, X):
    loaded = round_trip(Causes().fit(X), path)
    loaded.components_[0, 0] = 5.0
    assert loaded.components_[0, 0] == 5.0


def test_feature_names_come_back_as_an_object_array(path, X):
    estimator = Causes().fit(X)
    estimator.feature_names_in_ = np.array(["größe", "b", "c", ""], dtype=object)
    loaded = round_trip(estimator, path)
    assert loaded.feature_names_in_.dtype == object
    assert loaded.feature_names_in_.tolist() == ["größe", "b", "c", ""]


@pytest.mark.parametrize("generator", [np.random.RandomState(0), np.random.default_rng(0)], ids=["legacy", "new"])
def test_a_generator_as_random_state_is_saved_as_none(path, X, generator):
    assert round_trip(Causes(random_state=generator).fit(X), path).random_state is None


def test_a_path_comes_back_as_a_string(path, X):
    assert round_trip(Causes(learn=Path("runs", "trace.jsonl")).fit(X), path).learn == os.path.join(
        "runs", "trace.jsonl"
    )


def test_private_attributes_stay_out_of_the_file_except_the_number_of_outputs(path, X):
    estimator = Causes().fit(X)
    estimator._scratch_ = object()
    estimator._n_features_out = 3
    loaded = round_trip(estimator, path)
    assert not hasattr(loaded, "_scratch_")
    assert loaded._n_features_out == 3


def test_the_header_is_json_that_names_format_version_and_class(path, X):
    save_model(Causes().fit(X), path, registry=REGISTRY)
    with safe_open(path, framework="numpy") as handle:
        header = json.loads(handle.metadata()["multicause"])
        assert set(handle.keys()) == {f"attributes.{name}_" for name in ("components", "activation", "free_energy")}
    assert header.keys() == {
        "format",
        "format_version",
        "multicause_version",
        "class",
        "params",
        "attributes",
        "digest",
    }
    assert (header["format"], header["format_version"], header["class"]) == ("multicause-model", 3, "Causes")
    assert header["attributes"]["stop_"] == {"$stop": "SCHEDULE_ENDED"}


def test_an_estimator_that_was_not_fitted_is_refused(path):
    with pytest.raises(NotFittedError, match="Causes instance is not fitted yet"):
        save_model(Causes(), path, registry=REGISTRY)
    assert not path.exists()


def test_an_estimator_that_is_not_fitted_as_a_whole_is_refused_when_asked_and_saved(path, X):
    estimator = LinCA(3)
    estimator.components_ = X[:3]
    for call in (lambda: estimator.transform(X), lambda: save_model(estimator, path)):
        with pytest.raises(NotFittedError, match=r"LinCA is not fitted as a whole: .*n_features_in_.*Call fit"):
            call()
    assert not path.exists()


def test_a_class_that_load_model_would_not_know_is_refused_when_saving(path, X):
    with pytest.raises(TypeError, match=r"needs an estimator of multicause, got an instance of 'Causes'.*registry="):
        save_model(Causes().fit(X), path)
    with pytest.raises(TypeError, match="got an instance of 'Ramp'"):
        save_model(Ramp(), path, registry=REGISTRY)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (print, "parameter 'learn' of type 'builtin_function_or_method'"),
        ({1: "a"}, "parameter 'learn' of type 'dict'"),
        ({"W": object()}, "parameter 'learn.W' of type 'object'"),
        (Loose(), "parameter 'learn' of type 'Loose'"),
        (Stop, "parameter 'learn' of type 'EnumType'"),
        ((1, [object()]), "parameter 'learn.1.0' of type 'object'"),
        (np.array([1j]), "dtype 'complex128'"),
        (np.array([None, 1]), "dtype 'object'"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "type 'MaskedArray'"),
        (Ramp(initial=print), "parameter 'learn.initial' of type 'builtin_function_or_method'"),
    ],
)
def test_a_value_without_a_place_in_the_file_is_refused_by_name(path, X, value, message):
    path.write_bytes(b"old")
    with pytest.raises(TypeError, match=message):
        save_model(Causes(learn=value).fit(X), path, registry=REGISTRY)
    assert path.read_bytes() == b"old"


def test_a_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"no model file '.*model\.safetensors'. Write one with save_model"):
        load_model(path)


def test_a_missing_folder_is_named(tmp_path, X):
    with pytest.raises(FileNotFoundError, match=r"the folder '.*nowhere' does not exist. Create it first"):
        save_model(Causes().fit(X), tmp_path / "nowhere" / "model.safetensors", registry=REGISTRY)


def test_a_file_cut_short_anywhere_is_refused(path, X):
    save_model(Causes().fit(X), path, registry=REGISTRY)
    whole = path.read_bytes()
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="cut short, damaged, or no model file at all"):
            load_model(path, registry=REGISTRY)


def test_a_pickle_is_refused_and_not_executed(path, tmp_path):
    path.write_bytes(f"cos\nmkdir\n(S'{tmp_path / 'made'}'\ntR.".encode())
    with pytest.raises(ModelFileError, match="no model file at all"):
        load_model(path)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("metadata", [None, {"other": "x"}, {"multicause": "[]"}, {"multicause": '{"format": "x"}'}])
def test_a_safetensors_file_of_someone_else_is_refused(path, metadata):
    path.write_bytes(save({"weight": np.zeros(3)}, metadata=metadata))
    with pytest.raises(ModelFileError, match="a safetensors file, but not a model of multicause"):
        load_model(path)


@pytest.mark.parametrize("text", ['{"format": ', "[" * 100_000], ids=["cut", "deep"])
def test_a_header_that_is_not_json_is_refused(path, text):
    path.write_bytes(save({}, metadata={"multicause": text}))
    with pytest.raises(ModelFileError, match=r"The header of the model file .* is damaged"):
        load_model(path)


def test_a_newer_format_asks_for_an_upgrade(path):
    write_header(path, format_version=4)
    with pytest.raises(
        ModelFileError, match=r"format version 4, written by multicause 9\.9; .*pip install -U multicause"
    ):
        load_model(path, registry=REGISTRY)


@pytest.mark.parametrize("name", ["Unheard", "Ramp", "os.system"])
def test_a_class_that_is_not_a_known_estimator_is_refused(path, name):
    write_header(path, **{"class": name})
    with pytest.raises(ModelFileError, match=rf"class '{name}', which is not known here; known are \[.*'Causes'"):
        load_model(path, registry=REGISTRY)


def test_a_parameter_the_class_does_not_have_is_named(path):
    write_header(path, params={"n_causes": 3})
    with pytest.raises(ModelFileError, match=r"sets the parameters \['n_causes'\], which Causes does not have here"):
        load_model(path, registry=REGISTRY)


def test_a_parameter_missing_from_an_older_file_takes_its_default(path):
    write_header(path, params={"n_components": 5})
    assert load_model(path, registry=REGISTRY).get_params() == Causes(n_components=5).get_params()


@pytest.mark.parametrize("name", ["Unheard", "Loose", "Causes"])
def test_a_value_of_an_unknown_class_is_refused(path, name):
    write_header(path, params={"annealing": {"$dataclass": name, "initial": 1.0}})
    with pytest.raises(ModelFileError, match=f"a value of class '{name}', which is not known here"):
        load_model(path, registry=(*REGISTRY, Loose))


@pytest.mark.parametrize(
    "changes",
    [
        {"class": ["Causes"]},
        {"params": None},
        {"params": {"tol": {"$array": "gone"}}},
        {"params": {"tol": {"$array": 3}}},
        {"params": {"tol": {"$float": "1e5"}}},
        {"params": {"tol": {"$eval": "1"}}},
        {"params": {"annealing": {"$dataclass": "Ramp", "slope": 1}}},
        {"attributes": {"stop_": {"$stop": "NEVER"}}},
        {"attributes": {"fit": 3}},
        {"attributes": {"__class__": 3}},
        {"attributes": {"__dict__": {"$tuple": []}}},
    ],
    ids=repr,
)
def test_a_header_that_makes_no_sense_is_refused(path, changes):
    write_header(path, **changes)
    with pytest.raises(ModelFileError, match=r"The model file .* is damaged: .* Save the model again"):
        load_model(path, registry=REGISTRY)


def test_an_attribute_without_a_place_in_the_file_is_refused_by_name(path, X):
    estimator = Causes().fit(X)
    estimator.history_ = {1: "a"}
    with pytest.raises(TypeError, match="the attribute 'history_' of type 'dict'"):
        save_model(estimator, path, registry=REGISTRY)


def test_the_library_knows_its_own_estimators_schedules_and_outcomes():
    assert {"LinCA", "ETNMF"} <= _known_estimators().keys()
    assert {"Annealing", "Stop"} <= _known_values().keys()
    assert all(issubclass(cls, BaseEstimator) for cls in _known_estimators().values())


@pytest.mark.parametrize("cls", [LinCA, ETNMF, GSC])
def test_a_real_model_gives_the_same_codes_after_a_round_trip(path, X, cls):
    data = np.abs(X).astype(np.float32)
    saved = cls(n_components=3, annealing=Annealing(initial=2.0), max_iter=4, random_state=0).fit(data)
    save_model(saved, path)
    loaded = load_model(path)
    assert loaded.get_params() == saved.get_params()
    assert loaded.stop_ is saved.stop_
    np.testing.assert_array_equal(loaded.transform(data), saved.transform(data), strict=True)
    assert loaded.get_feature_names_out().tolist() == saved.get_feature_names_out().tolist()


def test_initial_values_and_nested_schedules_come_back(path, X):
    init = {"components": X[:3], "activation": 0.3, "noise_variance": np.float64(2.0)}
    annealing = Annealing(initial=2.0, classification=DataClassification(margin=0.8))
    saved = LinCA(3, init=init, fixed=("noise_variance",), annealing=annealing, max_iter=4, random_state=0).fit(X)
    save_model(saved, path)
    loaded = load_model(path)
    assert loaded.init.keys() == init.keys()
    np.testing.assert_array_equal(loaded.init["components"], init["components"], strict=True)
    assert (loaded.init["activation"], loaded.init["noise_variance"]) == (0.3, 2.0)
    assert loaded.annealing == annealing
    np.testing.assert_array_equal(loaded.fit(X).components_, saved.components_, strict=True)


def test_an_atomic_write_replaces_the_content_and_keeps_the_permissions(tmp_path):
    path = tmp_path / "file"
    atomic_write(path, b"one")
    path.chmod(0o640)
    atomic_write(path, lambda handle: handle.write(b"two"))
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_has_the_permissions_of_any_other_new_file(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    atomic_write(tmp_path / "atomic", b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("fault", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
def test_an_atomic_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, fault):
    def fail(handle):
        handle.write(b"half")
        raise fault

    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(type(fault)):
        atomic_write(tmp_path / "file", fail)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_an_atomic_write_follows_a_symbolic_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_an_atomic_write_to_a_folder_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match=r"it is a folder. Give the path of a file"):
        atomic_write(tmp_path, b"")


def test_a_file_whose_shapes_do_not_go_together_is_refused(tmp_path, save_unchecked):
    path, X = tmp_path / "m", np.random.default_rng(0).normal(size=(60, 5))
    fit = LinCA(4, n_candidates=2, selection=GPSelect(), max_iter=3, tol=0, random_state=0).fit(X)
    changes = {
        "activation_": (np.full(9, 0.2), r"'activation_' must be one number or one per component \(4\)"),
        "components_": (np.ones((4, 2)), "the learned parameters are of 2 features"),
        "noise_variance_": (np.nan, "noise_variance_ must be finite"),
    }
    for name, (value, message) in changes.items():
        before = getattr(fit, name)
        setattr(fit, name, value)
        save_unchecked(fit, path)
        setattr(fit, name, before)
        with pytest.raises(ModelFileError, match=f"damaged.*{message}"):
            load_model(path)
    fit.selection_function_ = replace(fit.selection_function_, weights=np.ones((3, 9)))
    save_unchecked(fit, path)
    with pytest.raises(ModelFileError, match=r"damaged.*The selection function's mean, pivots and weights"):
        load_model(path)


def test_a_file_with_settings_out_of_range_is_refused(tmp_path, save_unchecked):
    fit = LinCA(4, max_iter=3, tol=0, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 5)))
    fit.set_params(max_active=-5)
    with pytest.raises(ValueError, match="'max_active' parameter of LinCA"):
        save_model(fit, tmp_path / "m")
    save_unchecked(fit, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"damaged.*'max_active' parameter of LinCA"):
        load_model(tmp_path / "m")
    with pytest.raises(ValueError, match="'max_active' parameter of LinCA"):
        fit.transform(np.zeros((3, 5)))


def test_no_flipped_bit_of_the_arrays_goes_unnoticed(tmp_path):
    path = tmp_path / "m"
    fit = LinCA(3, max_iter=3, tol=0, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 4)))
    save_model(fit, path)
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    for bit in np.random.default_rng(1000).integers(8 * start, 8 * len(content), size=60):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(flipped)
        with pytest.raises(ModelFileError, match="damaged"):
            load_model(path)
