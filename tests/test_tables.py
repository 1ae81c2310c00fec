"""Tables, pictures and sounds: read, written, and refused with one line that says why."""

import importlib
import os

import numpy as np
import pandas
import pytest

from multicause.media import read_audio, read_image
from multicause.tables import TableError, read_table, write_table

FORMATS = [".npy", ".npz", ".csv", ".parquet"]


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(7, 3))


@pytest.fixture
def csv_file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return write


def without(monkeypatch, missing):
    """Make one module look as if it were not installed."""
    real = importlib.import_module

    def import_module(name, *args):
        if name == missing:
            raise ImportError(name)
        return real(name, *args)

    monkeypatch.setattr(importlib, "import_module", import_module)


@pytest.mark.parametrize("extension", FORMATS)
def test_a_table_comes_back_to_the_last_bit(tmp_path, X, extension):
    path = tmp_path / f"table{extension}"
    write_table(path, X)
    found, names = read_table(path)
    np.testing.assert_array_equal(found, X, strict=True)
    assert names == (["x0", "x1", "x2"] if extension == ".parquet" else None)
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("extension", [".npz", ".csv", ".parquet"])
def test_column_names_come_back(tmp_path, X, extension):
    names = ["größe", "b, c", 'd "e"']
    write_table(tmp_path / f"table{extension}", X, column_names=names)
    found, found_names = read_table(tmp_path / f"table{extension}")
    assert found_names == names
    np.testing.assert_array_equal(found, X, strict=True)


def test_a_npy_file_leaves_column_names_out(tmp_path, X):
    write_table(tmp_path / "table.npy", X, column_names=["a", "b", "c"])
    assert read_table(tmp_path / "table.npy")[1] is None


@pytest.mark.parametrize("extension", [".npy", ".npz", ".parquet"])
def test_float32_is_kept(tmp_path, X, extension):
    write_table(tmp_path / f"table{extension}", X.astype(np.float32))
    np.testing.assert_array_equal(read_table(tmp_path / f"table{extension}")[0], X.astype(np.float32), strict=True)


def test_float32_written_as_text_is_the_same_number(tmp_path, X):
    write_table(tmp_path / "table.csv", X.astype(np.float32))
    np.testing.assert_array_equal(read_table(tmp_path / "table.csv")[0].astype(np.float32), X.astype(np.float32))


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("dtype", ["int64", "bool", "uint8"])
def test_integers_and_booleans_are_read_as_float64(tmp_path, X, extension, dtype):
    array = (X > 0).astype(dtype)
    write_table(tmp_path / f"table{extension}", array)
    np.testing.assert_array_equal(read_table(tmp_path / f"table{extension}")[0], array.astype(float), strict=True)


@pytest.mark.parametrize("extension", FORMATS)
def test_one_dimension_is_one_column(tmp_path, X, extension):
    write_table(tmp_path / f"table{extension}", X[:, 0])
    np.testing.assert_array_equal(read_table(tmp_path / f"table{extension}")[0], X[:, :1], strict=True)


@pytest.mark.parametrize("extension", FORMATS)
def test_nan_and_infinity_survive(tmp_path, extension):
    X = np.array([[np.nan, np.inf], [-np.inf, 1.0]])
    write_table(tmp_path / f"table{extension}", X)
    np.testing.assert_array_equal(read_table(tmp_path / f"table{extension}")[0], X)


def test_a_fortran_ordered_table_is_read_in_c_order(tmp_path, X):
    write_table(tmp_path / "table.npy", np.asfortranarray(X))
    found, _ = read_table(tmp_path / "table.npy")
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, X)


def test_the_extension_may_be_in_capitals(tmp_path, X):
    write_table(tmp_path / "table.CSV", X)
    np.testing.assert_array_equal(read_table(tmp_path / "table.CSV")[0], X)


def test_a_write_that_fails_leaves_the_old_table(tmp_path, X):
    write_table(tmp_path / "table.npy", X)
    with pytest.raises(TableError):
        write_table(tmp_path / "table.npy", np.array(["text"]))
    np.testing.assert_array_equal(read_table(tmp_path / "table.npy")[0], X)
    assert os.listdir(tmp_path) == ["table.npy"]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("1,2\n3,4\n", None, [[1, 2], [3, 4]]),
        ("a,b\n1,2\n3,4", ["a", "b"], [[1, 2], [3, 4]]),
        ("\ufeffa,b\r\n1,2\r\n", ["a", "b"], [[1, 2]]),
        ("\ufeff1,2\n", None, [[1, 2]]),
        ("\n\na , b\n\n1, 2\n\n", ["a", "b"], [[1, 2]]),
        ('"a\nb","c"\n"1","2"\n', ["a\nb", "c"], [[1, 2]]),
        ("1e3,-.5,nan\n", None, [[1000, -0.5, np.nan]]),
        ("a\n1\n2\n", ["a"], [[1], [2]]),
        ("a#1,b\n1,2\n", ["a#1", "b"], [[1, 2]]),
    ],
    ids=repr,
)
def test_a_csv_header_is_detected(csv_file, text, names, rows):
    X, found = read_table(csv_file(text))
    assert found == names
    np.testing.assert_array_equal(X, np.array(rows, dtype=float), strict=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", r"has 1 columns in line 2, but 2 in line 1"),
        ("a,b\n1,2\n\n1,2,3\n", r"has 3 columns in line 4, but 2 in line 1"),
        ("a,b,c\n1,2\n3,4\n", r"has 2 columns of numbers, but 3 column names"),
        ("1,2\n3,four\n", r"in line 2, column 2 'four', which is not a number"),
        ("1,2,c\n3,4,5\n", r"in line 1, column 3 'c', which is not a number"),
        ("a,b\n1,1_000\n", r"in line 2, column 2 '1_000', which is not a number"),
        ("1,2\n#3,4\n", r"in line 2, column 1 '#3', which is not a number"),
        ("1 2\n3 4\n", r"in line 2, column 1 '3 4', which is not a number. Put commas, semicolons or tabs between"),
        ("name,a\nx,1\ny,2\n", r"in line 2, column 1 'x', .* If the first column names the rows, leave it out"),
        ("a,b\n1,n/a\n", r"column 2 'n/a', which is not a number. Write nan, or nothing, for a missing value"),
        (
            "a,b\n1,5,2,5\n",
            r"has 4 columns of numbers, but 2 column names. If these are decimal commas, put semicolons",
        ),
        (",a,b\n7,1,2\n3,1,2\n", r"no name for column 1 in its header, line 1\..*index=False"),
        ("a,,b\n0,1,2\n", r"no name for column 2 in its header, line 1\..*index=False"),
        ("a,b\n", r"holds a header, but no row of numbers"),
        ("\n\n", r"The file '.*table.csv' is empty"),
    ],
    ids=repr,
)
def test_a_csv_that_is_no_table_of_numbers_is_refused_with_the_place(csv_file, text, message):
    with pytest.raises(TableError, match=message):
        read_table(csv_file(text))


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\n1,\n,2\n", ["a", "b"], [[1, np.nan], [np.nan, 2]]),
        ("1,,3\n4,5,\n", None, [[1, np.nan, 3], [4, 5, np.nan]]),
        ("a;b\n1;2\n", ["a", "b"], [[1, 2]]),
        ("a;b\n1,5;-2,25e1\n;7\n", ["a", "b"], [[1.5, -22.5], [np.nan, 7]]),
        ("1,5;2,5\n3;4\n", None, [[1.5, 2.5], [3, 4]]),
        ("a\tb\n1.5\t2\n", ["a", "b"], [[1.5, 2]]),
        ('"a;x","b"\n1,2\n', ["a;x", "b"], [[1, 2]]),
    ],
    ids=repr,
)
def test_csv_files_of_other_programs_are_read(csv_file, text, names, rows):
    X, found = read_table(csv_file(text))
    assert found == names
    np.testing.assert_array_equal(X, np.array(rows, dtype=float), strict=True)


@pytest.mark.parametrize("text", [",a,b\n0,1,2\n1,3,4\n", ",a,b\n1,1,2\n2,3,4\n"])
def test_a_column_that_numbers_the_rows_is_left_out_with_a_hint(csv_file, text):
    with pytest.warns(UserWarning, match=r"numbers the rows: it is left out \(pandas: to_csv\(index=False\)"):
        X, names = read_table(csv_file(text))
    assert names == ["a", "b"]
    np.testing.assert_array_equal(X, [[1, 2], [3, 4]])


def test_what_pandas_writes_is_read(tmp_path):
    frame = pandas.DataFrame({"a": [1.5, np.nan], "b": [2.0, 3.0]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(read_table(tmp_path / "t.csv")[0], frame.to_numpy())
    frame.to_csv(tmp_path / "german.csv", index=False, sep=";", decimal=",")
    np.testing.assert_array_equal(read_table(tmp_path / "german.csv")[0], frame.to_numpy())


def test_a_csv_in_another_encoding_is_refused(csv_file):
    with pytest.raises(TableError, match=r"is not text in UTF-8: .* at byte 2"):
        read_table(csv_file("grö,b\n1,2\n", encoding="latin-1"))


@pytest.mark.parametrize("name", ["0", "-1.5", "nan", ""])
def test_a_csv_column_name_that_would_read_as_data_is_refused(tmp_path, X, name):
    with pytest.raises(TableError, match=f"column_names must not hold '{name}'"):
        write_table(tmp_path / "table.csv", X, column_names=["a", name, "c"])


def test_parquet_column_names_must_differ(tmp_path, X):
    with pytest.raises(TableError, match=r"must not repeat a name in a \.parquet file"):
        write_table(tmp_path / "table.parquet", X, column_names=["a", "b", "a"])


@pytest.mark.parametrize("extension", FORMATS)
def test_the_number_of_column_names_must_fit(tmp_path, X, extension):
    with pytest.raises(TableError, match=r"column_names must hold a name for each of the 3 columns of array, got 2"):
        write_table(tmp_path / f"table{extension}", X, column_names=["a", "b"])


@pytest.mark.parametrize(("array", "shape"), [(np.array(1.0), r"\(\)"), (np.zeros((2, 2, 2)), r"\(2, 2, 2\)")])
def test_no_dimension_or_three_are_refused(tmp_path, array, shape):
    message = rf"has shape {shape}, wanted two dimensions"
    with pytest.raises(TableError, match=message):
        write_table(tmp_path / "table.npy", array)
    np.save(tmp_path / "table.npy", array)
    with pytest.raises(TableError, match=message):
        read_table(tmp_path / "table.npy")


@pytest.mark.parametrize("dtype", ["complex128", "U3"])
def test_an_array_that_is_not_of_real_numbers_is_refused(tmp_path, dtype):
    np.save(tmp_path / "table.npy", np.ones((2, 2)).astype(dtype))
    with pytest.raises(TableError, match=r"has dtype '.*', wanted real numbers"):
        read_table(tmp_path / "table.npy")


@pytest.mark.parametrize("extension", [".npy", ".npz"])
def test_an_object_array_is_refused_and_not_unpickled(tmp_path, extension):
    path = tmp_path / f"table{extension}"
    save = np.save if extension == ".npy" else np.savez
    save(path, np.array([[1, "a"]], dtype=object), allow_pickle=True)
    with pytest.raises(TableError, match="holds an object array, wanted numbers"):
        read_table(path)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_an_array_without_entries_is_refused(tmp_path, shape):
    np.save(tmp_path / "table.npy", np.zeros(shape))
    with pytest.raises(TableError, match=r"is empty: its shape is"):
        read_table(tmp_path / "table.npy")


def test_the_only_array_of_a_npz_file_needs_no_name(tmp_path, X):
    np.savez(tmp_path / "table.npz", whatever=X)
    np.testing.assert_array_equal(read_table(tmp_path / "table.npz")[0], X)


def test_the_array_x_is_taken_from_a_npz_file_with_others(tmp_path, X):
    np.savez(tmp_path / "table.npz", labels=X[:, 0], X=X)
    np.testing.assert_array_equal(read_table(tmp_path / "table.npz")[0], X)


def test_a_npz_file_of_several_arrays_without_x_lists_them(tmp_path, X):
    np.savez(tmp_path / "table.npz", train=X, test=X)
    with pytest.raises(TableError, match=r"holds the arrays \['train', 'test'\]: name the one to read 'X'"):
        read_table(tmp_path / "table.npz")


def test_a_numpy_file_under_the_other_extension_is_named(tmp_path, X):
    np.save(tmp_path / "a.npy", X)
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(TableError, match=r"Rename it to end in \.npy"):
        read_table(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=X)
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(TableError, match=r"Rename it to end in \.npz"):
        read_table(tmp_path / "b.npy")


@pytest.mark.parametrize("extension", [".npy", ".npz", ".parquet"])
def test_a_damaged_table_is_refused(tmp_path, X, extension):
    path = tmp_path / f"table{extension}"
    write_table(path, X)
    whole = path.read_bytes()
    for content in (whole[:-20], whole[:20], b"no table at all"):
        path.write_bytes(content)
        with pytest.raises(TableError, match=r"table\.\w+' cannot be read: "):
            read_table(path)


def test_parquet_columns_that_are_not_numbers_are_named(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0], "city": ["Rome"], "day": pandas.to_datetime(["2020-01-01"]), "ok": [True]})
    frame.to_parquet(tmp_path / "table.parquet")
    with pytest.raises(TableError, match=r"columns that are not numbers: \['city', 'day'\]"):
        read_table(tmp_path / "table.parquet")


def test_a_missing_integer_in_parquet_is_nan(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64")}).to_parquet(tmp_path / "table.parquet")
    np.testing.assert_array_equal(read_table(tmp_path / "table.parquet")[0], [[1.0], [np.nan]])


@pytest.mark.parametrize("missing", ["pandas", "pyarrow"])
def test_parquet_without_its_libraries_says_what_to_install(tmp_path, X, monkeypatch, missing):
    write_table(tmp_path / "table.parquet", X)
    without(monkeypatch, missing)
    with pytest.raises(ImportError, match=rf'needs {missing}.*pip install "multicause\[tables\]"'):
        read_table(tmp_path / "table.parquet")
    with pytest.raises(ImportError, match=rf'needs {missing}.*pip install "multicause\[tables\]"'):
        write_table(tmp_path / "other.parquet", X)


@pytest.mark.parametrize(("read", "name"), [(read_table, "a.csv"), (read_image, "a.png"), (read_audio, "a.wav")])
def test_a_missing_and_an_empty_file_are_named(tmp_path, read, name):
    with pytest.raises(TableError, match=rf"There is no file '.*{name}'"):
        read(tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(TableError, match=rf"The file '.*{name}' is empty"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("read", "name", "message"),
    [
        (read_table, "a.xlsx", r"extension '.xlsx', wanted one of .npy, .npz, .csv, .parquet\.$"),
        (read_table, "a", r"extension '', wanted one of .npy"),
        (read_table, "a.png", r"wanted one of .npy, .npz, .csv, .parquet\. Read it with read_image\."),
        (read_table, "a.wav", r"Read it with read_audio\."),
        (read_image, "a.csv", r"wanted one of .png, .jpg, .jpeg, .tif, .tiff\. Read it with read_table\."),
        (read_audio, "a.mp3", r"wanted one of .wav, .flac\.$"),
    ],
)
def test_an_unknown_extension_lists_the_known_ones(read, name, message):
    with pytest.raises(TableError, match=message):
        read(name)


def test_a_table_of_unknown_extension_is_not_written(tmp_path, X):
    with pytest.raises(TableError, match=r"extension '\.txt', wanted one of \.npy"):
        write_table(tmp_path / "table.txt", X)
    assert os.listdir(tmp_path) == []


def test_every_error_is_one_line(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no picture\n")
    (tmp_path / "a.npy").write_bytes(b"no array\n")
    for read, name in ((read_image, "a.png"), (read_table, "a.npy")):
        with pytest.raises(TableError) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3"])
def test_a_csv_line_that_counts_the_columns_is_a_header(tmp_path, first):
    (tmp_path / "t.csv").write_text(f"{first}\n5,6,7\n8,9,10\n")
    X, names = read_table(tmp_path / "t.csv")
    assert X.tolist() == [[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]
    assert names == first.split(",")


def test_two_columns_that_begin_with_0_and_1_are_data(tmp_path):
    (tmp_path / "t.csv").write_text("0,1\n1,0\n")
    X, names = read_table(tmp_path / "t.csv")
    assert (X.shape, names) == ((2, 2), None)
