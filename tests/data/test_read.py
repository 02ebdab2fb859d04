"""Reading files: each format as people write it, and a helpful error for each way it can be wrong."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import sys
import warnings
import zipfile
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.data.delimited import Dialect, _with_point, _with_points
from oneballot.data.read import Table, read, reading_as
from oneballot.errors import DataError, MissingExtra, OneBallotWarning

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
        ("a,a\n1,2\n", "duplicate column names: a"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4 \\(row 2\\): 3 cells, but the header has 2; cells that contain ',' must be"),
        ("a,b\n1,2\n1\n", "line 3 \\(row 2\\): 1 cell, but the header has 2; it has too few cells, so complete or"),
        ("Export of 3 May,,\na,b,c\n1,2,3\n", "the first row, 'Export of 3 May', must name all columns: remove titles"),
        ("Export of 3 May\n\na,b\n1,2\n", "'Export of 3 May', must name all columns: remove titles above it, or set"),
        ('a,b\n1,"2\n3,4\n', "line 3: .*quotes"),
        ("a,b\n1,2\n1,\0\n", "line 3: the file has a NUL byte"),
    ],
)
def test_an_invalid_csv_is_refused_with_its_line(put, content, message):
    with pytest.raises(DataError, match=rf"bad\.csv.*{message}"):
        read(put("bad.csv", content))


def test_a_column_without_a_name_is_named_by_its_place(put):
    with pytest.warns(OneBallotWarning, match=r"a\.csv: a column without a name in the header is called 'unnamed 1'"):
        table = read(put("a.csv", ",age\n0,54\n1,61\n"))
    assert list(table.columns) == ["unnamed 1", "age"]
    with pytest.warns(OneBallotWarning, match="is called 'unnamed 2'"):
        assert read(put("b.csv", "unnamed 2,,age\n0,1,54\n")).repeated == ("unnamed 2",)


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
        (b"age,ill\n50,yes\n", "got 'age,ill'; if it is a table with a header, rename it to .csv or .tsv"),
        (b"# only\n\nyes 1:1\n", "line 3: expected 'label index:value …' \\(LIBSVM\\), got 'yes 1:1'"),
        (b"1 1\n", "line 1: expected"),
        (b"# nothing\n", "has no rows"),
        (b"1 2000000000:1\n", "uses feature 2,000,000,000; expected at most 16,777,216"),
    ],
)
def test_an_invalid_libsvm_file_is_refused_with_its_line(put, content, message):
    with pytest.raises(DataError, match=message):
        read(put("bad.svm", content))


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


def warned(path, **settings):
    """The table, and the text of the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = read(path, **settings)
    return table, " ".join(str(w.message) for w in caught)


GERMAN = "Alter;Größe;Ort\n39;1,75;Köln\n41;1.802,5;Ulm, Nord\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_semicolons_decimal_commas_and_the_encoding_are_detected_and_shown(put, encoding):
    table, text = warned(put("a.csv", GERMAN.encode(encoding)))
    assert {name: list(column) for name, column in table.columns.items()} == {
        "Alter": ["39", "41"],
        "Größe": ["1.75", "1802.5"],
        "Ort": ["Köln", "Ulm, Nord"],
    }
    shown = "" if encoding == "utf-8" else f", encoding {encoding}"
    assert f"a.csv: detected separator ';', decimal comma{shown}; if that is wrong, set --sep" in text


def test_a_decimal_comma_far_down_in_a_large_file_is_detected(put):
    rows = ["1;2;" + ("0,5" if i == 4321 else "") for i in range(5000)]
    table, text = warned(put("a.csv", "\n".join(["x;y;z", *rows])))
    assert table["z"][4321] == "0.5"
    assert "decimal comma" in text


@given(st.lists(st.text(st.sampled_from("0123456789,.-+eE x"), max_size=8), min_size=1))
def test_a_column_is_converted_like_its_cells(cells):
    assert list(_with_points(cells)) == [_with_point(cell) for cell in cells]


def test_a_plain_file_and_stated_settings_are_not_mentioned(put):
    assert warned(put("a.csv", "x,y\n1.5,2\n"))[1] == ""
    stated = Dialect(";", ",", "cp1252")
    assert warned(put("b.csv", GERMAN.encode("cp1252")), dialect=stated)[1] == ""


def test_stated_settings_override_detection(put):
    path = put("a.csv", GERMAN)
    table, _ = warned(path, dialect=Dialect(decimal="."))
    assert list(table["Größe"]) == ["1,75", "1.802,5"]
    table, _ = warned(path, dialect=Dialect(sep="|"))
    assert list(table.columns) == ["Alter;Größe;Ort"]
    with reading_as(Dialect(decimal="."), path):
        assert list(warned(path)[0]["Größe"]) == ["1,75", "1.802,5"]
    assert list(warned(path)[0]["Größe"]) == ["1.75", "1802.5"]
    with pytest.raises(DataError, match=r"line 1: byte 0xc3 at offset 8 is not ascii; state the file's encoding"):
        read(path, dialect=Dialect(encoding="ascii"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sep": ";;"}, "separator must be one character"),
        ({"decimal": "'"}, "decimal mark must be"),
        ({"encoding": "klingon"}, "unknown encoding 'klingon'"),
        ({"encoding": "base64"}, "unknown encoding 'base64'"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(DataError, match=message):
        Dialect(**settings)


@pytest.mark.parametrize(
    ("text", "sep", "columns"),
    [
        ("a;b\n1;2\n", ";", 2),
        ("a\tb\n1\t2\n", "\t", 2),
        ("a|b|c\n1|2|3\n", "|", 3),
        ("sep=;\na;b\n1;2\n", ";", 2),
        ('age;"weight, kg";ill\n40;70,5;no\n', ";", 3),
        ("name, first;bmi;ill\nx;27,5;no\n", ";", 3),
        ("a;b;\n1;2;\n3;4;\n", ";", 2),
        ('a,b\n"x;y;z",2\n', ",", 2),
        ("a\n1;2\n", ",", 1),
    ],
)
def test_the_separator_is_the_one_that_splits_all_rows_alike(put, text, sep, columns):
    table, _ = warned(put("a.csv", text))
    assert (table.dialect.sep, len(table.columns)) == (sep, columns)


def test_a_ragged_semicolon_file_is_refused_with_its_line(put):
    with pytest.raises(DataError, match=r"line 3 \(row 2\): 3 cells, but the header has 2"):
        read(put("a.csv", "a;b\n1;2\n1;2;3\n"))


def test_excel_files_have_numbers_dates_and_text(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [
        [None, None, None, None, None],
        ["age", "dose", "ward", "seen", "old"],
        [40, 1.5, "Köln", datetime(2024, 1, 5), True],
        [62, None, None, datetime(2024, 1, 6, 12), False],
    ]:
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    table = read(tmp_path / "a.xlsx")
    assert table["age"].tolist() == [40, 62]
    np.testing.assert_array_equal(table["dose"], [1.5, np.nan])
    assert list(table["ward"]) == ["Köln", ""]
    np.testing.assert_array_equal(table["seen"], np.array(["2024-01-05", "2024-01-06T12"], "datetime64[s]"))
    assert list(table["old"]) == ["true", "false"]
    book.create_sheet("Patients")
    book.save(tmp_path / "two.xlsx")
    with pytest.warns(OneBallotWarning, match="two.xlsx has 2 sheets, and only the first is read: 'Sheet'"):
        read(tmp_path / "two.xlsx")
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(DataError, match="the first sheet is empty"):
        read(tmp_path / "empty.xlsx")


def test_excel_without_openpyxl_says_what_to_install(put, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"pip install 'oneballot\[xlsx\]'"):
        read(put("a.xlsx", b"PK"))


def test_parquet_and_npz_have_dates_and_timestamps(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    day, moment = date(2024, 1, 5), datetime(2024, 1, 5, 18)
    columns = {
        "day": pa.array([day, None]),
        "moment": pa.array([moment, None], pa.timestamp("ns")),
        "zone": pa.array([moment, None], pa.timestamp("us", tz="Europe/Berlin")),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    table = read(tmp_path / "a.parquet")
    for name, shown in (("day", "2024-01-05"), ("moment", "2024-01-05T18"), ("zone", "2024-01-05T18")):
        np.testing.assert_array_equal(table[name], np.array([shown, "NaT"], "datetime64[s]"))
    np.savez(tmp_path / "a.npz", day=np.array(["2024-01-05"], "datetime64[D]"))
    np.testing.assert_array_equal(read(tmp_path / "a.npz")["day"], np.array(["2024-01-05"], "datetime64[s]"))


@pytest.mark.parametrize("shape", [(2**43, 1), (2**43, 0)])
def test_an_array_that_claims_more_than_its_bytes_is_refused_unread(tmp_path, shape):
    header = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    with pytest.raises(DataError, match="the array X claims the shape"):
        read(tmp_path / "a.npz")


def test_a_zip_that_claims_more_than_it_can_hold_is_refused_unread(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros(4))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 24 : directory + 28] = (2**32 - 16).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DataError, match="expands to more than 67,108,864 bytes"):
        read(tmp_path / "a.npz")
