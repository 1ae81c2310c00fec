"""Files that cannot hurt: whatever they say, there is an answer or a sentence, and never a crash."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save

from multicause import GSC, InvECA, LinCA, NonlinearGSC, RestrictedMCA, UPoE, file_checks, load_model, save_model
from multicause.media import read_audio, read_image, write_audio, write_image
from multicause.persistence import ModelFileError
from multicause.tables import TableError, read_table, write_table
from multicause.tensor_files import TensorFileError, digest_of
from mutations import REGISTRY, File, cut, estimators, flip_bit, lengthen, mutate, outcome_of, saved_estimators


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return saved_estimators(tmp_path_factory.mktemp("models"))


def rewritten(path, change):
    """Change a model file as a hostile hand would: with a digest that matches."""
    file = File.of(path.read_bytes())
    change(file)
    path.write_bytes(file.written(redigest=True))


def test_a_large_model_is_read_where_that_is_allowed(tmp_path):
    linca = LinCA.from_parameters(components=np.ones((6000, 1)), activation=0.1, noise_variance=1.0, n_candidates=2)
    save_model(linca, tmp_path / "m")
    with pytest.raises(ModelFileError, match="give memory_limit=288048000"):
        load_model(tmp_path / "m")
    assert load_model(tmp_path / "m", memory_limit=288_048_000).components_.shape == (6000, 1)


def test_files_of_every_estimator_come_back_as_they_were(models, tmp_path):
    for model in models:
        assert outcome_of(model.content, model, tmp_path) == "unchanged", model.name


@pytest.mark.parametrize("first", range(0, 240, 40))
def test_mutated_files_of_every_estimator_are_refused_or_right(models, tmp_path, first):
    for seed in range(first, first + 40):
        model = models[seed % len(models)]
        content, what, redigested = mutate(model.content, np.random.default_rng(seed))
        found = outcome_of(content, model, tmp_path)
        allowed = {"refused", "refused when asked", "unchanged"} | ({"changed"} if redigested else set())
        assert found in allowed, (seed, model.name, what)


def worked_through(first, last, folder, **environment):
    folder.mkdir()
    script = Path(__file__).parent / "mutations.py"
    done = subprocess.run(
        [sys.executable, script, str(first), str(last), folder],
        env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, ((folder / "now").read_text(), done.stderr[-2000:])
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.timeout(12_000)
def test_ten_thousand_mutated_files_crash_nothing_and_stay_below_a_gigabyte(tmp_path):
    for first in range(1000, 11_000, 2500):
        report = worked_through(first, first + 2500, tmp_path / str(first))
        print(report)
        assert not [line for line in report["tally"] if line.startswith("see seed")]
        assert report["peak_gib"] < 1.0
        assert report["slowest"][0] < 60.0


@pytest.mark.slow
@pytest.mark.timeout(6000)
def test_kernels_stay_within_their_arrays(tmp_path):
    checked = {"NUMBA_BOUNDSCHECK": "1", "MULTICAUSE_CACHE": str(tmp_path / "cache")}
    report = worked_through(20_000, 20_500, tmp_path / "files", **checked)
    assert not [line for line in report["tally"] if line.startswith("see seed")]


@pytest.mark.parametrize("kind", ["LinCA", "InvECA", "MCA3", "UPoE"])
def test_a_small_file_cannot_ask_for_gigabytes(tmp_path, kind):
    path = tmp_path / "m"
    save_model(estimators()[kind][0], path)

    def grow(file):
        file.header["attributes"]["n_features_in_"] = 10**9
        for key, array in file.tensors.items():
            if key.endswith(("components_", "activation_", "directions_")):
                file.tensors[key] = np.resize(array, (20_000, *array.shape[1:]))

    rewritten(path, grow)
    with pytest.raises(ModelFileError, match=r"takes tables of [\d,]+ bytes, and [\d,]+ are allowed"):
        load_model(path)


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        ("LinCA", "activation_", np.array([0.3, 0.3, 1.5, 0.3]), "strictly between 0 and 1"),
        ("LinCA", "noise_variance_", -1.0, "positive, finite variances"),
        ("LinCA", "components_", np.ones((4, 6), dtype=np.int64), "single or double precision"),
        ("LinCA", "n_features_in_", "6", "n_features_in_ must be a whole number"),
        ("ETNMF", "components_", -np.ones((4, 6)), "Negative values"),
        ("MCA-bernoulli", "components_", np.full((4, 6), 1.5), "means between 0 and 1"),
        ("GSC-full", "noise_covariance_", np.ones((6, 6)), "positive definite"),
        ("GSC-full", "slab_covariance_", -np.eye(4), "positive, finite variances"),
        ("MCA3", "alpha_", -1.0, "alpha_ must be at least 0"),
        ("RestrictedMCA", "field_sum_", -1.0, "field_sum_ must be at least"),
        ("mixture-full", "weights_", np.array([0.9, 0.9, 0.9]), "sum to 1"),
        ("mixture-diag", "covariances_", -np.ones((3, 6)), "must be positive"),
        ("InvECA", "masks_", -np.ones((2, 2, 2)), "masks_ must be between"),
        ("InvECA", "image_shape_", np.array([5, 5, 2]), "image_shape_ must be height, width and channels"),
        ("UPoE", "components_", np.ones((2, 6)), "components_ must follow from directions_"),
        ("UPoE", "whitening_", np.ones((6, 6)), "dewhitening_ must undo whitening_"),
        ("UPoE", "experts_", (1.0, 2.0), "experts_ must hold instances of Expert"),
        ("LinCA-gp", "selection_function_", 3, "selection_function_ cannot be an instance of int"),
    ],
)
def test_learned_attributes_out_of_range_are_refused_from_files_and_when_asked(
    tmp_path, save_unchecked, kind, name, value, message
):
    estimator, X = estimators()[kind]
    setattr(estimator, name, value)
    with pytest.raises(ValueError, match=message):
        estimator.transform(X)
    with pytest.raises(ValueError, match=message):
        save_model(estimator, tmp_path / "m")
    save_unchecked(estimator, tmp_path / "m")
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("change", [{"n_burn_in": 10**9}, {"n_sweeps": 10**9}])
def test_sweeps_without_end_are_refused_in_fit_and_when_asked(change):
    fitted, X = estimators()["NonlinearGSC"]
    with pytest.raises(
        ValueError, match=rf"'{next(iter(change))}' parameter of NonlinearGSC must be an int in the range"
    ):
        fitted.set_params(**change).transform(X)
    with pytest.raises(ValueError, match="must be an int in the range"):
        NonlinearGSC(3, **change).fit(X)


def test_settings_changed_after_a_fit_are_checked_before_kernels_see_them():
    inveca, images = estimators()["InvECA"]
    with pytest.raises(ValueError, match="'n_candidates' parameter of InvECA"):
        inveca.set_params(n_candidates=-(10**18)).transform(images)
    gsc, X = estimators()["GSC"]
    with pytest.raises(ValueError, match=r"slab_covariance_ must be finite, of shape \(4, 4\)"):
        gsc.set_params(slab="full").transform(X)
    linca, _ = estimators()["LinCA"]
    linca.components_ = np.ones((9, 6))
    with pytest.raises(ValueError, match="one number or one per component"):
        linca.sample(2)
    with pytest.raises(ValueError, match="component_shape"):
        InvECA(2, (2, 2), max_iter=2, tol=0).fit(images).set_params(component_shape=(9, 9)).transform(images)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("LinCA", "max_active", -5),
        ("LinCA", "n_candidates", -(10**18)),
        ("GSC", "n_candidates", 0),
        ("LinCA", "learning_decay", -3.0),
        ("mixture-full", "covariance_type", np.zeros(3)),
    ],
)
def test_settings_changed_after_a_fit_are_checked_before_a_batch_is_learned(kind, name, value):
    fitted, X = estimators()[kind]
    with pytest.raises(ValueError, match=f"The '{name}' parameter of"):
        fitted.set_params(**{name: value}).partial_fit(X)


def test_true_is_one_to_kernels_too():
    for kind, name in (("MCA-bernoulli", "n_candidates"), ("NonlinearGSC", "n_sweeps"), ("InvECA", "n_placements")):
        estimator, X = estimators()[kind]
        estimator.set_params(**({"max_active": 1} if kind == "MCA-bernoulli" else {}))
        one, true = (estimator.set_params(**{name: value}).transform(X) for value in (1, True))
        np.testing.assert_array_equal(true, one)


def test_a_tensor_is_used_once_and_none_is_left_over(tmp_path):
    save_model(estimators()["LinCA"][0], tmp_path / "m")

    def repeat(file):
        file.header["params"]["init"] = {"$dict": {"components": {"$array": "attributes.components_"}}}

    rewritten(tmp_path / "m", repeat)
    with pytest.raises(ModelFileError, match="components_"):
        load_model(tmp_path / "m")
    save_model(estimators()["LinCA"][0], tmp_path / "m")
    rewritten(tmp_path / "m", lambda file: file.tensors.update(more=np.zeros(3)))
    with pytest.raises(ModelFileError, match=r"tensors that nothing speaks of, \['more'\]"):
        load_model(tmp_path / "m")


def test_no_path_comes_from_a_model_file(tmp_path):
    save_model(estimators()["LinCA"][0], tmp_path / "m")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    rewritten(tmp_path / "m", lambda file: file.header["params"].update(trace=str(victim)))
    with pytest.raises(ModelFileError, match=r"sets the parameters \['trace'\]"):
        load_model(tmp_path / "m").fit(estimators()["LinCA"][1])
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("version", [1, 2])
def test_files_of_older_versions_are_read(tmp_path, version):
    linca, X = estimators()["LinCA"]
    save_model(linca, tmp_path / "m")
    file = File.of((tmp_path / "m").read_bytes())
    header = {key: value for key, value in file.header.items() if key != "digest"} | {"format_version": version}
    if version == 2:
        header["digest"] = digest_of(header, file.tensors)
    (tmp_path / "m").write_bytes(save(file.tensors, metadata={"multicause": json.dumps(header)}))
    np.testing.assert_array_equal(load_model(tmp_path / "m").transform(X), linca.transform(X))
    if version == 2:
        header["digest"] = "0"
        (tmp_path / "m").write_bytes(save(file.tensors, metadata={"multicause": json.dumps(header)}))
        with pytest.raises(ModelFileError, match="does not match its digest"):
            load_model(tmp_path / "m")


@pytest.mark.parametrize("seed", [0, None])
def test_a_network_learns_on_after_a_file_as_without(tmp_path, seed):
    X = np.random.default_rng(0).poisson(3.0, size=(60, 5)).astype(float)
    network = RestrictedMCA(4, random_state=seed, weight_noise=0.2).partial_fit(X[:30])
    save_model(network, tmp_path / "m")
    loaded = load_model(tmp_path / "m").partial_fit(X[30:])
    np.testing.assert_array_equal(loaded.components_, network.partial_fit(X[30:]).components_)


def test_a_product_learns_on_after_a_file_as_without(tmp_path):
    X = np.random.default_rng(0).laplace(size=(400, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    product = UPoE(2, random_state=0).partial_fit(X[:100]).partial_fit(X[100:200])
    save_model(product, tmp_path / "m")
    loaded = load_model(tmp_path / "m").partial_fit(X[200:])
    product.partial_fit(X[200:])
    np.testing.assert_array_equal(loaded.components_, product.components_)
    assert loaded.experts_ == product.experts_


def checkpointed(path, seed):
    X = np.random.default_rng(0).normal(size=(40, 5))
    return LinCA(3, max_iter=4, tol=0, n_candidates=2, random_state=0).fit(
        X, checkpoint=path, checkpoint_every=1, resume=seed is not None
    )


def try_checkpoints(tmp_path, seeds):
    path = tmp_path / "run.checkpoint"
    whole = checkpointed(path, None)
    content = path.read_bytes()
    for seed in seeds:
        rng = np.random.default_rng(seed)
        change = (flip_bit, cut, lengthen)[seed % 3]
        path.write_bytes(change(content, rng))
        try:
            found = checkpointed(path, seed)
        except TensorFileError:
            continue
        np.testing.assert_array_equal(found.components_, whole.components_, err_msg=str(seed))


def test_a_damaged_checkpoint_is_refused_or_says_the_same(tmp_path):
    try_checkpoints(tmp_path, range(60))


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("progress.state.params.components", lambda array: array[:2]),
        ("progress.state.params.activation", lambda array: np.full_like(array, np.nan)),
        ("progress.state.remembered.0.0.candidates", lambda array: array + 1000),
        ("progress.state.remembered.0.0.candidates", lambda array: array[:5]),
    ],
)
def test_a_checkpoint_whose_digest_matches_but_whose_arrays_do_not_is_refused(tmp_path, key, change):
    path, X = tmp_path / "run.checkpoint", np.random.default_rng(0).normal(size=(40, 5))
    settings = {"max_iter": 4, "tol": 0, "n_candidates": 2, "monotone": True, "random_state": 0}
    LinCA(3, **settings).fit(X, checkpoint=path, checkpoint_every=1)
    rewritten(path, lambda file: file.tensors.update({key: change(file.tensors[key])}))
    with pytest.raises(ValueError, match="The checkpoint holds"):
        LinCA(3, **settings).fit(X, checkpoint=path, resume=True)


@pytest.mark.slow
def test_a_thousand_damaged_checkpoints(tmp_path):
    try_checkpoints(tmp_path, range(1000, 2000))


def data_files(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))
    for extension in (".npy", ".npz", ".csv", ".parquet"):
        write_table(folder / f"table{extension}", X, column_names=None if extension == ".npy" else list("abcd"))
        yield read_table, folder / f"table{extension}"
    write_image(folder / "image.png", rng.integers(255, size=(20, 20)).astype(np.uint8))
    yield read_image, folder / "image.png"
    write_audio(folder / "sound.wav", rng.uniform(-1.0, 1.0, size=400), 8000)
    yield read_audio, folder / "sound.wav"
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(folder / "sound.flac", rng.uniform(-1.0, 1.0, size=400), 8000)
    yield read_audio, folder / "sound.flac"


def test_damaged_data_files_give_one_error(tmp_path):
    for read, path in data_files(tmp_path):
        content = path.read_bytes()
        for seed in range(150):
            path.write_bytes((flip_bit, flip_bit, cut, lengthen)[seed % 4](content, np.random.default_rng(seed)))
            try:
                read(path)
            except TableError:
                continue
            except Exception as error:
                raise AssertionError(f"{path.name}, seed {seed}") from error


def test_a_cell_beyond_the_limit_of_the_csv_module_is_an_error_of_its_line(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3," + "4" * 140_000 + "\n")
    (tmp_path / "b.csv").write_text("x" * 140_000 + ",2\n3,4\n")
    with pytest.raises(TableError, match=r"field larger than field limit \(131072\) in line 1"):
        read_table(tmp_path / "b.csv")
    X = read_table(tmp_path / "a.csv")[0]
    assert np.isinf(X[1, 1])  # a number, if a large one


@pytest.mark.parametrize("shape", [(10**12, 4), (-1, 4), (2**62, 2**62)])
def test_a_header_that_lies_of_its_array_is_refused(tmp_path, shape):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    (tmp_path / "a.npy").write_bytes(buffer.getvalue() + bytes(64))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", buffer.getvalue() + bytes(64))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(TableError, match=r"takes -?[\d,]+ bytes, but 64 are there"):
            read_table(tmp_path / name)


def test_bombs_are_refused_before_they_go_off(tmp_path, monkeypatch):
    monkeypatch.setattr(file_checks, "LARGEST_UNPACKED", 2**20)
    np.savez_compressed(tmp_path / "a.npz", X=np.zeros(2**18))
    Image.new("1", (1000, 1000)).save(tmp_path / "a.png")
    for read, name in ((read_table, "a.npz"), (read_image, "a.png")):
        with pytest.raises(TableError, match=r"says that it unpacks to [\d,]+; 1,048,576 are allowed"):
            read(tmp_path / name)


def test_models_of_one_s_own_are_checked_against_their_own_shapes(tmp_path, save_unchecked):
    estimator, _ = estimators()["TruncatedEM"]
    estimator.params_ = estimator.params_._replace(weights=np.ones((9, 2)))
    save_unchecked(estimator, tmp_path / "m", registry=REGISTRY)
    with pytest.raises(ModelFileError, match=r"weights in params_ must be finite, of shape \(3, 6\)"):
        load_model(tmp_path / "m", registry=REGISTRY)


def test_experts_take_numbers_alone():
    from multicause.models import StudentT

    for value in (np.ones(1), "1", 1e300, float("nan")):
        with pytest.raises(ValueError, match="'inverse_scale' of StudentT must be positive"):
            StudentT(inverse_scale=value)


def test_a_loaded_gsc_with_full_noise_says_so(tmp_path):
    gsc, X = estimators()["GSC-full"]
    save_model(gsc, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert isinstance(loaded, GSC)
    np.testing.assert_array_equal(loaded.transform(X), gsc.transform(X))
