"""Reading files: each format as people write it, and a helpful error for each way it can be wrong."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.data import libsvm
from oneballot.data.read import Table, read
from oneballot.errors import DataError, MissingExtra

CSV = 'age, name ,city\n39,"Doe, Jane", Ulm\n41, "says ""hi""",\n'
SVM = b"-1 1:0.5 3:2\n+1 2:1 # a comment\n-1\n"


@pytest.fixture
def put(tmp_path):
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def test_csv_cells_stay_text_without_surrounding_blanks(put):
    table = read(put("a.csv", CSV))
    assert list(table.columns) == ["age", "name", "city"]
    assert [list(column) for column in table.columns.values()] == [
        ["39", "41"],
        ["Doe, Jane", 'says "hi"'],
        ["Ulm", ""],
    ]
    assert len(table) == 2


def test_csv_may_have_a_byte_order_mark_carriage_returns_and_blank_lines(put):
    table = read(put("a.csv", b"\xef\xbb\xbfx,y\r\n1,2\r\n\r\n3,4\r\n\r\n"))
    assert list(table["x"]) == ["1", "3"]


def test_tsv_is_separated_by_tabs(put):
    assert list(read(put("a.tsv", "x\ty\n1,5 kg\t2\n"))["x"]) == ["1,5 kg"]


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("xz", lzma.compress), ("bz2", bz2.compress)])
def test_compressed_files_are_decompressed(put, suffix, pack):
    assert list(read(put(f"a.csv.{suffix}", pack(CSV.encode())))["age"]) == ["39", "41"]
    assert read(put(f"a9a.{suffix}", pack(SVM)))["X"].shape == (3, 3)


@given(
    st.lists(st.text("ab1,;\"'\n é", max_size=4).map(str.strip), min_size=6, max_size=6),
)
def test_csv_round_trips_with_the_csv_module(tmp_path_factory, cells):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["a", "b", "c"], cells[:3], cells[3:]])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    table = read(path)
    assert [list(table[name]) for name in "abc"] == [[cells[i], cells[i + 3]] for i in range(3)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "only blank lines"),
        ("a,b\n", "columns \\(a, b\\) but no rows"),
        ("a,b,a\n1,2,3\n", "duplicate column names: a"),
        (",b\n1,2\n", "column 1 of 2 has no name.*index=False"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4 \\(row 2\\): 3 cells, but the header has 2"),
        ('a,b\n1,"2\n3,4\n', "line 3: .*quotes"),
        ("a,b\n1,2\n1,\0\n", "line 3: the file has a NUL byte"),
    ],
)
def test_an_invalid_csv_is_refused_with_its_line(put, content, message):
    with pytest.raises(DataError, match=rf"bad\.csv.*{message}"):
        read(put("bad.csv", content))


def test_libsvm_gives_a_dense_x_and_the_labels(put):
    for name in ("a9a", "a9a.t", "a.libsvm", "a.svm", "a.txt"):
        table = read(put(name, SVM))
        assert table["X"].dtype == np.float32
        assert table["y"].dtype == np.float64
        np.testing.assert_array_equal(table["X"], [[0.5, 0, 2], [0, 1, 0], [0, 0, 0]])
        np.testing.assert_array_equal(table["y"], [-1, 1, -1])


def test_the_number_of_libsvm_features_can_be_set(put):
    path = put("a9a.t", SVM)
    assert read(path, features=5)["X"].shape == (3, 5)
    with pytest.raises(DataError, match="uses feature 3, but only 2 features are expected"):
        read(path, features=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 1:2\n1 0:1\n", "line 2: feature 0 after 0; indices must start at 1"),
        (b"1 2:1 1:1\n", "line 1: feature 1 after 2"),
        (b"1 1:1 1:1\n", "line 1: feature 1 after 1"),
        (b"1 99999999999:1\n", "line 1: feature 99999999999"),
        (b"# only\n\nyes 1:1\n", "line 3: expected 'label index:value …' \\(LIBSVM\\), got 'yes 1:1'"),
        (b"1 1\n", "line 1: expected"),
        (b"# nothing\n", "has no rows"),
        (b"1 2000000000:1\n", "need 7.5 GiB, more than the limit of 4 GiB"),
    ],
)
def test_an_invalid_libsvm_file_is_refused_with_its_line(put, content, message):
    with pytest.raises(DataError, match=message):
        read(put("bad.svm", content))


def test_a_dense_table_larger_than_the_limit_is_refused(put, monkeypatch):
    path = put("a9a", SVM)
    monkeypatch.setattr(libsvm, "DENSE_LIMIT", 3 * 3 * 4)
    assert read(path)["X"].nbytes == 36
    monkeypatch.setattr(libsvm, "DENSE_LIMIT", 35)
    with pytest.raises(DataError, match="keep fewer features"):
        read(path)


def test_npz_gives_one_column_per_array(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.zeros((2, 1, 4, 4), np.uint8), y=[1, 0], city=["Ulm", "Köln"], sick=[True, False])
    table = read(path)
    assert {name: column.shape for name, column in table.columns.items()} == {
        "X": (2, 1, 4, 4),
        "y": (2,),
        "city": (2,),
        "sick": (2,),
    }
    assert list(table["city"]) == ["Ulm", "Köln"]
    assert list(table["sick"]) == ["true", "false"]
    assert table["X"].dtype == np.uint8


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "differ in length \\(a: 2, b: 1\\)"),
        ({"a": np.array(3.0)}, "'a' is a single value"),
        ({"a": np.array([1, "x"], dtype=object)}, "'a' is damaged or holds Python objects, which are never loaded"),
        ({"a": np.array([1], dtype="timedelta64[D]")}, "'a' has type timedelta64"),
        ({"a": np.zeros((0, 3))}, "but no rows"),
    ],
)
def test_an_invalid_npz_is_refused_with_its_array(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "bad.npz")


def test_parquet_keeps_numbers_and_turns_the_rest_into_text(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {
        "whole": pa.array([1, 2**60], pa.int64()),
        "gap": pa.array([1, None], pa.int32()),
        "real": pa.array([0.5, None], pa.float32()),
        "name": pa.array(["x", None]),
        "kind": pa.array(["p", "q"]).dictionary_encode(),
        "sick": pa.array([True, None]),
        "blank": pa.nulls(2),
    }
    pq.write_table(pa.table(columns), path)
    table = read(path)
    assert list(table.columns) == list(columns)
    assert table["whole"].dtype == np.int64
    assert list(table["whole"]) == [1, 2**60]
    np.testing.assert_array_equal(table["gap"], [1, np.nan])
    np.testing.assert_array_equal(table["real"], [0.5, np.nan])
    np.testing.assert_array_equal(table["blank"], [np.nan, np.nan])
    assert [list(table[name]) for name in ("name", "kind", "sick")] == [["x", ""], ["p", "q"], ["true", ""]]


def test_a_parquet_column_of_an_unsupported_type_is_refused_by_name(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    for values, message in [
        ([[1], [2]], "column 'odd' has type list"),
        ([2**62 + 1, None], "column 'odd' has numbers"),
    ]:
        pq.write_table(pa.table({"odd": values}), tmp_path / "a.parquet")
        with pytest.raises(DataError, match=message):
            read(tmp_path / "a.parquet")


def test_parquet_without_pyarrow_says_what_to_install(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'oneballot\[parquet\]'"):
        read(put("a.parquet", b"PAR1"))


@pytest.mark.parametrize(
    "name", ["a.npz", "a.parquet", "a.xlsx", "a.csv.gz", "a.csv.xz", "a.csv.bz2", "a9a.gz", "a.svm.xz"]
)
def test_a_damaged_file_is_named_in_the_error(put, name):
    with pytest.raises(DataError, match=f"{name} cannot be read; it may be truncated or damaged"):
        read(put(name, b"\x1f\x8bnothing of the kind"))


def test_a_truncated_file_is_named_in_the_error(put):
    with pytest.raises(DataError, match="truncated"):
        read(put("a.csv.gz", gzip.compress(CSV.encode() * 50)[:-12]))


def test_a_missing_file_and_a_folder_are_named_in_the_error(tmp_path):
    with pytest.raises(DataError, match=r"there is no file .*none\.csv"):
        read(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["a.xls", "a.npz.gz", "a.pkl"])
def test_an_unknown_suffix_is_refused_with_the_supported_ones(put, name):
    with pytest.raises(DataError, match=r"\.csv, \.tsv, \.parquet, \.npz"):
        read(put(name, b"x"))


def test_a_missing_column_is_refused_with_the_existing_ones():
    table = Table({"a": np.array([1, 2, 3]), "b": np.array([4, 5, 6])}, "somewhere.csv")
    with pytest.raises(DataError, match=r"somewhere\.csv has no column 'c'; it has a, b"):
        table["c"]
