"""Data that are not in memory: the same fit, to the bit, wherever the rows come from."""

import h5py
import numpy as np
import pytest
import zarr
from scipy import sparse

from multicause import ETNMF, GSC, MCA, LinCA, TruncatedGaussianMixture
from multicause.datasets import make_bars
from multicause.execution import chunks_of, row_source
from multicause.execution.sources import Stream


@pytest.fixture(scope="module")
def X():
    return make_bars(n_samples=1500, size=4, random_state=0).X


def as_memmap(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def as_hdf5(X, folder):
    return h5py.File(folder / "X.h5", "w").create_dataset("X", data=X)


def as_zarr(X, folder):
    stored = zarr.create_array(str(folder / "X.zarr"), shape=X.shape, dtype=X.dtype, chunks=(400, 16))
    stored[:] = X
    return stored


def as_blocks(X, folder):
    return np.array_split(X, 7)


def as_function(X, folder):
    return lambda: iter(np.array_split(X, 7))


@pytest.fixture(params=[as_memmap, as_hdf5, as_zarr, as_blocks, as_function])
def stored(request, X, tmp_path):
    return request.param(X, tmp_path)


def assert_same_fit(first, second):
    for name in ("components_", "activation_", "noise_variance_", "free_energy_"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize(("shape", "lacking"), [((24, 0), "0 feature"), ((0, 4), "0 sample")])
@pytest.mark.parametrize("keep", [as_memmap, as_hdf5])
def test_stored_data_without_columns_or_rows_are_refused(tmp_path, keep, shape, lacking):
    with pytest.raises(ValueError, match=rf"Found array with {lacking}\(s\) .* minimum of"):
        LinCA(2).fit(keep(np.ones(shape), tmp_path))


def test_a_fit_has_the_same_bits_wherever_its_rows_come_from(X, stored):
    weights = np.random.default_rng(1).random(len(X))
    fits = [LinCA(8, max_iter=5, tol=0, random_state=0, n_jobs=2) for _ in range(2)]
    with chunks_of(256):
        for fit, data in zip(fits, (X, stored), strict=True):
            fit.fit(data, sample_weight=weights)
    assert_same_fit(*fits)


def test_questions_have_the_same_answers_wherever_rows_come_from(X, stored):
    gsc = GSC(8, max_iter=3, tol=0, random_state=0).fit(X)
    for ask in (gsc.transform, gsc.reconstruct, gsc.score_samples, gsc.predict_proba, gsc.score):
        np.testing.assert_array_equal(ask(stored), ask(X))


def test_clusters_start_from_rows_that_are_read_one_by_one(X, stored):
    fits = [TruncatedGaussianMixture(4, max_iter=3, tol=0, random_state=0).fit(data) for data in (X, stored)]
    np.testing.assert_array_equal(fits[0].means_, fits[1].means_)


def test_single_precision_stays_and_counts_become_double_precision(X, tmp_path):
    for dtype, kept in ((np.float32, np.float32), (np.int16, np.float64)):
        data = np.abs(X).astype(dtype)
        inner, outer = (ETNMF(4, max_iter=2, tol=0, random_state=0).fit(x) for x in (data, as_memmap(data, tmp_path)))
        assert outer.components_.dtype == outer.transform(as_memmap(data, tmp_path)).dtype == kept
        assert_same_fit(inner, outer)


def test_no_pass_reads_all_rows_of_a_stored_array_at_once(X):
    class Watched:
        shape, dtype, most = X.shape, X.dtype, 0

        def __getitem__(self, rows):
            Watched.most = max(Watched.most, rows.stop - rows.start)
            return X[rows]

    with chunks_of(256):
        MCA(8, max_iter=2, tol=0, random_state=0).fit(Watched()).transform(Watched())
    assert Watched.most == 256


def test_pages_of_a_memory_map_are_given_back_unless_changes_would_be_lost(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    changed = np.load(tmp_path / "X.npy", mmap_mode="c")
    changed[3] = 7.0
    source = row_source(changed)
    for _ in range(2):
        assert (source[3:4] == 7.0).all()
    written = np.load(tmp_path / "X.npy", mmap_mode="r+")
    written[3] = 5.0
    for part in (written, written[1:]):
        source = row_source(part)
        for _ in range(2):
            np.testing.assert_array_equal(source[:], part)


def test_counts_in_compressed_rows_are_learned_as_dense_ones_are():
    X = np.random.default_rng(0).poisson(0.3, size=(600, 12)).astype(float)
    dense, compressed = (
        ETNMF(4, noise="poisson", max_iter=4, tol=0, random_state=0).fit(x) for x in (X, sparse.csr_array(X))
    )
    np.testing.assert_array_equal(dense.components_, compressed.components_)
    np.testing.assert_array_equal(dense.transform(X), compressed.transform(sparse.csc_matrix(X)))
    with pytest.raises(TypeError, match="parse data"):
        ETNMF(4).fit(sparse.csr_array(X))


def test_rows_out_of_range_are_named_by_their_number_in_all_data(X):
    blocks = np.array_split(np.abs(X), 3)
    blocks[2][4, 5] = -1.0
    with pytest.raises(ValueError, match=r"X holds -1 at row 1004, column 5"), chunks_of(256):
        ETNMF(4).fit(blocks)
    blocks[2][4, 5] = np.inf
    with pytest.raises(ValueError, match="contains infinity"):
        LinCA(4).fit(blocks)
    blocks[2][4, 5] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        ETNMF(4).fit(blocks)
    blocks[2][4, 5] = 1e200
    with pytest.raises(ValueError, match="Rescale the data"):
        LinCA(4).fit(blocks)


def test_what_can_be_read_once_only_is_refused_with_the_way_out(X):
    with pytest.raises(TypeError, match="partial_fit"):
        LinCA(4).fit(iter([X]))
    once = iter(np.array_split(X, 3))
    with pytest.raises(ValueError, match="a new iterator over the same rows each time"):
        LinCA(4).fit(lambda: once)
    with pytest.raises(TypeError, match="must return an iterator over blocks"):
        LinCA(4).fit(lambda: 3)
    with pytest.raises(ValueError, match=r"must be arrays of shape \(n, 16\). Block 1 has shape \(1500, 15\)"):
        LinCA(4).fit([X, X[:, 1:]])
    with pytest.raises(ValueError, match="gave no block"):
        LinCA(4).fit(lambda: iter([]))
    with pytest.raises(ValueError, match="0 sample"):
        LinCA(4).fit([X[:0]])


def other_kinds():
    words, complex_numbers = np.full((24, 4), b"a"), np.ones((24, 4)) * 1j
    h5py = pytest.importorskip("h5py")
    with h5py.File("other.h5", "w") as file:
        file["words"], file["complex"] = words, complex_numbers
    file = h5py.File("other.h5")
    import dask.array

    yield file["words"]
    yield file["complex"]
    yield dask.array.from_array(complex_numbers, chunks=7)
    yield [np.ones((3, 4)), words]
    yield lambda: iter([np.ones((3, 4)), complex_numbers])
    yield lambda: iter([np.ones((3, 4)), np.full((3, 4), np.datetime64("2020-01-01"))])


def test_what_is_read_by_rows_must_hold_real_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for X in other_kinds():
        with pytest.raises(ValueError, match=r"X must hold real numbers\. Got values of type"):
            LinCA(2).fit(X)


def test_a_file_that_was_closed_is_named(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        X = file.create_dataset("x", data=np.ones((24, 4)))
    with pytest.raises(ValueError, match=r"X cannot be read: .*Keep its file open"):
        LinCA(2).fit(X)


def test_a_stream_can_be_asked_out_of_order():
    X = np.arange(60.0).reshape(20, 3)
    stream = Stream(lambda: (X[i : i + 3] for i in range(0, 20, 3)))
    for start, stop in ((8, 12), (0, 4), (2, 20), (19, 20), (5, 5)):
        np.testing.assert_array_equal(stream[start:stop], X[start:stop])
    np.testing.assert_array_equal(stream[np.array([17, 2, 2])], X[[17, 2, 2]])
