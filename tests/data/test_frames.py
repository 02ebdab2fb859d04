"""DataFrames of pandas, polars and pyarrow are read alike, and as files are."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from oneballot.data.frames import as_column, as_table, is_frame
from oneballot.data.read import read
from oneballot.election.cells import as_text
from oneballot.errors import DataError

CELLS = {
    "text": (["a", None, " b "], ["a", "", "b"]),
    "whole numbers": ([1, 2, 3], [1, 2, 3]),
    "whole numbers, one missing": ([1, None, 3], [1, np.nan, 3]),
    "numbers": ([0.5, None, 2.0], [0.5, np.nan, 2.0]),
    "booleans": ([True, False, True], ["true", "false", "true"]),
    "booleans, one missing": ([True, None, False], ["true", "", "false"]),
    "days": ([date(2024, 1, 2), None, date(2024, 5, 3)], ["2024-01-02", "", "2024-05-03"]),
    "times": (
        [datetime(2024, 1, 2, 3, 4), None, datetime(2024, 5, 3)],
        ["2024-01-02T03:04:00", "", "2024-05-03"],
    ),
    "times with a zone": ([datetime(2024, 1, 2, 3, tzinfo=UTC)] * 3, ["2024-01-02T03:00:00"] * 3),
    "decimals": ([Decimal("1.50"), None, Decimal("2.00")], [1.5, np.nan, 2.0]),
    "arrays": ([[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]]),
}


@pytest.mark.parametrize("kind", CELLS)
def test_a_column_of_every_library_becomes_the_same_array(kind, make_frame):
    given, expected = CELLS[kind]
    column = as_table(make_frame({"x": given}), "here")["x"]
    assert column.dtype.kind in "iufOM"
    if column.dtype.kind in "OM":
        assert list(map(as_text, column)) == expected
    else:
        np.testing.assert_array_equal(column, np.array(expected, dtype=float))


def categories_of_pandas():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame({"x": pd.Categorical(["x", "y", None])})


def categories_of_polars():
    pl = pytest.importorskip("polars")
    return pl.DataFrame({"x": pl.Series(["x", "y", None], dtype=pl.Categorical)})


def categories_of_pyarrow():
    pa = pytest.importorskip("pyarrow")
    return pa.table({"x": pa.array(["x", "y", None]).dictionary_encode()})


@pytest.mark.parametrize("make", [categories_of_pandas, categories_of_polars, categories_of_pyarrow])
def test_a_missing_category_stays_missing(make):
    assert as_table(make(), "here")["x"].tolist() == ["x", "y", ""]


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("Int64", [1, None, 3], [1.0, None, 3.0]),
        ("Float32", [0.5, None, 3], [0.5, None, 3.0]),
        ("boolean", [True, None, False], ["true", "", "false"]),
        ("string", ["a", None, "b"], ["a", "", "b"]),
        ("category", [1, 2, 1], [1, 2, 1]),
        ("object", [1, 2.5, "three"], ["1", "2.5", "three"]),
        ("object", [2.0, None, "three"], ["2", "", "three"]),
        ("object", [2**70, 1, 2], [2.0**70, 1.0, 2.0]),
    ],
)
def test_types_that_only_pandas_has(dtype, values, expected):
    pd = pytest.importorskip("pandas")
    column = as_table(pd.DataFrame({"x": pd.Series(values, dtype=dtype)}), "here")["x"].tolist()
    assert [None if value != value else value for value in column] == expected


def test_an_odd_column_is_an_error_only_when_it_is_read():
    pd = pytest.importorskip("pandas")
    table = as_table(
        pd.DataFrame({"x": [1, 2], "gap": pd.to_timedelta([1, 2], unit="h"), "set": [{1}, {2}], "list": [[1], [1, 2]]}),
        "clinic-a",
    )
    assert table["x"].tolist() == [1, 2]
    with pytest.raises(DataError, match=r"clinic-a, column 'gap' has type timedelta64.*convert it to numbers or text"):
        _ = table["gap"]
    with pytest.raises(DataError, match="clinic-a, column 'set': row 1 has type set; expected numbers, text"):
        _ = table["set"]
    with pytest.raises(DataError, match="clinic-a, column 'list': the arrays of the rows differ in shape"):
        _ = table["list"]


def test_the_names_of_columns_are_text_and_unique():
    pd = pytest.importorskip("pandas")
    assert list(as_table(pd.DataFrame(np.eye(2)), "here").columns) == ["0", "1"]
    with pytest.raises(DataError, match="duplicate column names: x"):
        as_table(pd.DataFrame([[1, 2]], columns=["x", "x"]), "here")


def test_a_dict_of_columns_is_a_frame():
    table = as_table({"x": [1, 2], "images": np.zeros((2, 3, 3), np.uint8)}, "here")
    assert table["images"].shape == (2, 3, 3)
    assert table["images"].dtype == np.uint8
    with pytest.raises(DataError, match=r"columns differ in length \(x: 2, y: 1\)"):
        as_table({"x": [1, 2], "y": [1]}, "here")


def test_arrow_batches_and_streams_are_frames():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": ["a", "b"]})
    for stream in (table.to_batches()[0], table.to_reader()):
        assert is_frame(stream)
        assert as_table(stream, "here")["x"].tolist() == ["a", "b"]


def test_arrays_lists_and_series_are_no_frames(make_frame):
    for other in (np.eye(2), [[1.0]], make_frame({"x": [1, 2]})["x"], None, "file.csv"):
        assert not is_frame(other)
    with pytest.raises(DataError, match="here: expected a DataFrame of pandas, polars or pyarrow, not ndarray"):
        as_table(np.eye(2), "here")


def test_a_lazy_frame_must_be_collected():
    pl = pytest.importorskip("polars")
    with pytest.raises(DataError, match=r"not LazyFrame; call \.collect\(\) first"):
        as_table(pl.DataFrame({"x": [1]}).lazy(), "here")


def test_a_frame_is_read_as_the_same_parquet_file_is(tmp_path, make_frame):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {name: given for name, (given, _) in CELLS.items() if name != "arrays"}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    table = as_table(make_frame(columns), "here")
    for name, expected in read(tmp_path / "x.parquet").columns.items():
        assert [as_text(v) for v in table[name]] == [as_text(v) for v in expected], name


def test_a_single_column_is_converted_likewise(make_frame):
    assert as_column(make_frame({"x": [True, None]})["x"], "x", "here").tolist() == ["true", ""]


def test_a_type_that_numpy_lacks_is_an_error_with_the_column():
    pl = pytest.importorskip("polars")
    wide = pl.DataFrame({"x": pl.Series([1, 2], dtype=pl.Int128)})
    with pytest.raises(DataError, match=r"here, column 'x': .*convert it to numbers or text"):
        _ = as_table(wide, "here")["x"]
