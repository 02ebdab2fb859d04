"""Schemas encode tables as numbers: identically for every file format, and without learning from the data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from oneballot.data.read import Table, read
from oneballot.election.cells import Place
from oneballot.election.columns import Category, Date, Number, Tensor, Text
from oneballot.election.frames import complete, encode_labels
from oneballot.election.infer import Choices, as_schema, infer, recognise, sorted_labels
from oneballot.election.schema import Schema
from oneballot.election.targets import Classes
from oneballot.errors import DataError, OddValues, OneBallotWarning

AGE = Number(name="age", range=(0, 100), missing=True)
DOSE = Number(name="dose", range=(-1, 1), outside="clip")
WARD = Category(name="ward", categories=("north", "south"), outside="blank", missing=True)
NOTE = Text(name="note", features=8)
SCHEMA = Schema(label="ill", id="patient", columns=(AGE, DOSE, WARD, NOTE))


def objects(*values):
    return np.array(values, dtype=object)


def one(column, *values, source="a.csv"):
    array = values[0] if isinstance(values[0], np.ndarray) else objects(*values)
    return Schema(label="ill", columns=(column,)).encode({column.name: array}, source)


def test_a_number_is_scaled_by_its_range():
    np.testing.assert_array_equal(one(Number(name="x", range=(10, 30)), "10", "15", "30"), [[0], [0.25], [1]])
    assert one(Number(name="x", range=(0, 1)), "0.5").dtype == np.float32


def test_a_constant_number_becomes_zero():
    np.testing.assert_array_equal(one(Number(name="x", range=(7, 7)), "7", "7"), [[0], [0]])


def test_a_number_that_may_be_missing_has_an_indicator_feature():
    column = Number(name="x", range=(0, 10), missing=True)
    for gap in ("", "NA", "nan", "-nan", "?", "null", "None", " "):
        np.testing.assert_array_equal(one(column, "5", gap), [[0.5, 0], [0, 1]])
    np.testing.assert_array_equal(one(column, np.array([5, np.nan])), [[0.5, 0], [0, 1]])


def test_a_number_outside_its_range_is_clipped_if_the_schema_allows_it():
    np.testing.assert_array_equal(one(DOSE, "-7", "0", "9"), [[0], [0.5], [1]])


def test_a_category_is_one_hot_encoded():
    np.testing.assert_array_equal(
        one(Category(name="x", categories=("b", "a")), "a", " b ", "a"), [[0, 1], [1, 0], [0, 1]]
    )


def test_a_missing_or_unknown_category_is_all_zeros_if_the_schema_allows_it():
    np.testing.assert_array_equal(one(WARD, "south", "", "west"), [[0, 1], [0, 0], [0, 0]])


def test_a_category_may_be_a_number():
    column = Category(name="x", categories=("1", "2"))
    for values in (objects("1", "2"), np.array([1, 2]), np.array([1.0, 2.0])):
        np.testing.assert_array_equal(one(column, values), [[1, 0], [0, 1]])


def test_text_is_hashed_words_of_unit_length():
    X = one(Text(name="x", features=64), "Fever and cough", "cough AND  fever", "", "fever")
    np.testing.assert_array_equal(X[0], X[1])
    assert not X[2].any()
    np.testing.assert_allclose(np.linalg.norm(X[[0, 3]], axis=1), 1, rtol=1e-6)
    assert np.count_nonzero(X[3]) == 1


def test_text_is_hashed_the_same_everywhere():
    np.testing.assert_array_equal(np.flatnonzero(one(Text(name="x", features=256), "fever")[0]), [230])


@pytest.mark.parametrize(("kind", "dtype"), [("image", np.uint8), ("tokens", np.int32), ("features", np.float32)])
def test_an_array_column_keeps_its_shape_and_has_the_dtype_of_its_kind(kind, dtype):
    values = np.arange(24).reshape(2, 3, 4)
    X = one(Tensor(name="x", kind=kind, shape=(3, 4)), values.astype(np.int64))
    assert X.dtype == dtype
    np.testing.assert_array_equal(X, values)


def test_an_array_beside_other_columns_is_flattened():
    schema = Schema(
        label="y", columns=(Number(name="a", range=(0, 2)), Tensor(name="x", kind="features", shape=(2, 2)))
    )
    X = schema.encode({"a": np.array([1]), "x": np.arange(4.0).reshape(1, 2, 2)}, "a.npz")
    np.testing.assert_array_equal(X, [[0.5, 0, 1, 2, 3]])


MISTAKES = [
    (Number(name="x", range=(0, 1)), ["0", "high"], r"row 2 \('high'\) is not a number\. To fix it: correct the value"),
    (Number(name="x", range=(0, 1)), ["0", ""], r"row 2 \(''\) is missing\. To fix it: fill it, or set missing"),
    (Number(name="x", range=(0, 1)), np.array([0, np.nan]), r"row 2 \(''\) is missing"),
    (Number(name="x", range=(0, 1)), ["0", "3", "4"], r"row 2 \('3'\), row 3 \('4'\) are outside the range.*widen"),
    (Number(name="x", range=(0, 1)), ["2"] * 5, r"row 3 \('2'\) and 2 more are outside"),
    (DOSE, ["inf"], r"row 1 \('inf'\) is infinite\. To fix it: correct"),
    (DOSE, np.array([0, -np.inf]), r"row 2 \('-inf'\) is infinite"),
    (Category(name="x", categories=("a",)), ["a", "b"], r"row 2 \('b'\) is none of the 1 categories\. .*add it"),
    (Category(name="x", categories=("a",)), ["a", ""], r"row 2 \(''\) is missing\. To fix it: fill it"),
    (Number(name="x", range=(0, 1)), np.zeros((2, 3)), r"expected one number per row, not shape \(3,\)"),
    (Category(name="x", categories=("a",)), np.zeros((2, 3)), r"expected one category per row, not shape"),
    (Text(name="x"), np.zeros((2, 3)), "expected one text per row, not shape"),
    (Tensor(name="x", kind="features", shape=(3,)), np.zeros((2, 4)), r"shape \(4,\), but \(3,\) in the schema"),
    (Tensor(name="x", kind="features", shape=(3,)), ["1", "2"], r"rows have shape \(\), but \(3,\) in the schema"),
    (Tensor(name="x", kind="features", shape=(1,)), objects(["a"], ["b"]), "holds numbers, not text; save it as"),
    (Tensor(name="x", kind="features", shape=(2,)), np.array([[0, 1], [np.nan, 1]]), r"row 2 holds nan at \(0,\)"),
    (Tensor(name="x", kind="features", shape=(1,)), np.array([[1e300]]), r"row 1 holds 1e\+300 at \(0,\), .*float32"),
    (Tensor(name="x", kind="image", shape=(2,)), np.array([[0, 1], [0, 256]]), r"row 2 holds 256 at \(1,\).*uint8"),
    (Tensor(name="x", kind="image", shape=(1,)), np.array([[0.5]]), r"row 1 holds 0.5 at \(0,\).*uint8"),
    (Tensor(name="x", kind="tokens", shape=(1,)), np.array([[3], [-(2**40)]]), r"row 2 holds -1\d+ at \(0,\).*int32"),
    (Tensor(name="x", kind="tokens", shape=(1,)), np.array([[np.nan]]), r"row 1 holds nan at \(0,\).*int32"),
]  # fmt: skip


@pytest.mark.parametrize(("column", "values", "error"), MISTAKES)
def test_an_invalid_value_is_reported_with_source_column_row_and_fix(column, values, error):
    with pytest.raises(DataError, match=rf"^clinic/a\.csv, column '{column.name}': .*{error}"):
        one(column, values if isinstance(values, np.ndarray) else objects(*values), source="clinic/a.csv")


def test_missing_columns_are_reported_with_the_closest_match():
    columns = {"Age": objects("1"), "note": objects("x")}
    with pytest.raises(
        DataError, match=r"^a\.csv: missing columns 'age' \(did you mean 'Age'\?\), 'dose', 'ward'; available:"
    ):
        SCHEMA.encode(columns, "a.csv")
    with pytest.raises(
        DataError, match=r"^a\.csv: missing column 'ill'; available: Age, note\. The schema needs it for the label\."
    ):
        encode_labels(SCHEMA, Classes(["no", "yes"]), Table(columns, "a.csv"))
    with pytest.raises(DataError, match=r"^a\.csv: missing column 'patient'; .* The schema needs it for the row ID\."):
        SCHEMA.ids(columns, "a.csv")


def test_labels_of_any_type_become_class_indices():
    for values in (
        objects("1", "0", " 1"),
        np.array([1, 0, 1]),
        np.array([1.0, 0.0, 1.0]),
        objects("1.0", "0.0", "1.00"),
    ):
        assert Classes([0, 1]).encode(values, Place("a.csv", "y")).tolist() == [1, 0, 1]
        assert Classes(["0", "1"]).encode(values, Place("a.csv", "y")).tolist() == [1, 0, 1]
    assert Classes(["false", "true"]).encode(np.array([True, False]), Place("a", "y")).tolist() == [1, 0]
    assert Classes([False, True]).encode(objects("true", "false"), Place("a", "y")).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (
            ["yes", "perhaps"],
            r"^a\.csv, column 'ill': row 2 \('perhaps'\) is not a class of the election.*one of no, yes",
        ),
        (["yes", ""], r"row 2 \(''\) has no label"),
        ([0.5], r"row 1 \('0.5'\) is not a class"),
        ([["yes"]], r"expected one label per row, not shape \(1, 1\)"),
    ],
)
def test_an_unknown_label_is_reported_with_its_row(values, error):
    with pytest.raises(DataError, match=error):
        Classes(["no", "yes"]).encode(values, Place("a.csv", "ill"))


def test_many_classes_are_not_all_listed():
    with pytest.raises(DataError, match=r"use one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"):
        Classes(range(20)).encode([77], Place("a", "y"))


def test_ids_are_text_and_may_be_repeated_but_not_missing():
    assert SCHEMA.ids({"patient": np.array([7.0, 8.0])}, "a.csv").tolist() == ["7", "8"]
    assert Schema(label="y", columns=(AGE,)).ids({}, "a.csv") is None
    assert SCHEMA.ids({"patient": objects("b", "a", "a")}, "a.csv").tolist() == ["b", "a", "a"]
    with pytest.raises(DataError, match=r"row 2 \(''\) is missing. To fix it: give every row an ID"):
        SCHEMA.ids({"patient": objects("a", "")}, "a.csv")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Number(name="x", range=(2, 1)), r"range must be \[low, high\], not \[2, 1\]"),
        (lambda: Number(name="x", range=(0, float("nan"))), "finite"),
        (lambda: Number(name="x", range=(0, float("inf"))), "finite"),
        (lambda: Category(name="x", categories=("a", "b", "a")), "listed more than once: 'a'"),
        (lambda: Category(name="x", categories=()), "at least 1 item"),
        (lambda: Text(name="x", features=0), "greater than 0"),
        (lambda: Tensor(name="x", kind="image", shape=()), "at least 1 item"),
        (lambda: Number(name="x", range=(0, 1), unit="kg"), "Extra inputs"),
        (lambda: Schema(label="age", columns=(AGE,)), "a column may be used once, as label, id or feature: 'age'"),
        (lambda: Schema(label="y", id="age", columns=(AGE,)), "'age'"),
        (lambda: Schema(label="y", id="y", columns=(AGE,)), "'y'"),
        (lambda: Schema(label="y", columns=(AGE, AGE)), "'age'"),
        (lambda: Schema(label="y", columns=()), "at least 1 item"),
    ],
)
def test_an_invalid_schema_is_rejected(make, error):
    with pytest.raises(ValidationError, match=error):
        make()


def test_a_schema_is_inferred_from_text_cells():
    columns = {
        "id": objects("p1", "p2", "p3"),
        "age": objects("40", "", "62.5"),
        "whole": objects("1", "2", "3"),
        "ward": objects("north", "south", "north"),
        "gap": objects("a", "", "b"),
        "ill": objects("yes", "no", "yes"),
    }
    schema = as_schema(recognise(columns, "ill", Choices("id", strict=True)), "ill", "id")
    assert schema == Schema(
        label="ill",
        id="id",
        columns=(
            Number(name="age", range=(40, 62.5), missing=True),
            Number(name="whole", range=(1, 3)),
            Category(name="ward", categories=("north", "south")),
            Category(name="gap", categories=("a", "b"), missing=True),
        ),
    )
    assert infer(columns, "ill", "id") == schema.lenient()


def test_free_text_is_left_out_unless_it_is_asked_for():
    columns = {"note": objects(*(f"word {i}" for i in range(60)))}
    (found,) = recognise(columns, "y")
    assert (found.kind, found.column) == ("left out", None)
    assert found.note == "free text: 60 different values; to use its words: --text note"
    (found,) = recognise(columns, "y", Choices(text=["note"]))
    assert found.column == Text(name="note")


def test_negative_nan_is_a_missing_number():
    (found,) = recognise({"x": objects("1", "-nan", "3")}, "y", Choices(strict=True))
    assert found.column == Number(name="x", range=(1, 3), missing=True)


def test_a_schema_is_inferred_from_arrays():
    schema = infer(
        {
            "picture": np.zeros((3, 1, 8, 8), dtype=np.uint8),
            "words": np.zeros((3, 5), dtype=np.int64),
            "X": np.zeros((3, 4), dtype=np.float32),
            "age": np.array([1.0, np.nan, 3.0]),
            "y": np.array([0, 1, 0]),
        },
        "y",
    )
    assert [(c.name, c.kind) for c in schema.columns] == [
        ("picture", "image"),
        ("words", "tokens"),
        ("X", "features"),
        ("age", "number"),
    ]
    assert schema.columns[0].shape == (1, 8, 8)
    assert schema.columns[3] == Number(name="age", range=(1, 3), outside="clip", missing=True)


def test_a_public_file_with_no_features_or_an_empty_column_is_rejected():
    with pytest.raises(DataError, match=r"no features to learn from\. The columns are id: row ID \(not a feature\)"):
        infer({"y": objects("a"), "id": objects("1")}, "y", "id")
    with pytest.raises(DataError, match=r"gone: left out \(empty\)"):
        infer({"gone": objects("", "NA")}, "y")


def test_the_classes_of_a_label_column_are_sorted_integers_or_text():
    assert sorted_labels(objects("10", "9", "", "10")) == [9, 10]
    assert sorted_labels(np.array([1.0, 0.0, np.nan])) == [0, 1]
    assert sorted_labels(objects("1.0", "0.0")) == [0, 1]
    assert sorted_labels(objects("b", "a", "1")) == ["1", "a", "b"]
    assert sorted_labels(objects("true", "false")) == ["false", "true"]
    with pytest.raises(DataError, match="expected one label per row"):
        sorted_labels(np.eye(3))


def test_csv_parquet_and_arrays_are_encoded_the_same(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {
        "age": [40.25, None, 62.0],
        "whole": [3, 1, 2],
        "ward": ["north", "", "south"],
        "sober": [True, False, True],
        "ill": [1, 0, 1],
    }
    (tmp_path / "a.csv").write_text(
        "age,whole,ward,sober,ill\n40.25,3,north,true,1\n,1,,false,0\n62.0,2, south,true,1\n"
    )
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    np.savez(
        tmp_path / "a.npz",
        age=np.array([40.25, np.nan, 62.0]),
        whole=np.array([3, 1, 2], dtype=np.int16),
        ward=np.array(table["ward"]),
        sober=np.array(table["sober"]),
        ill=np.array([1.0, 0.0, 1.0]),
    )
    tables = [read(tmp_path / f"a.{suffix}") for suffix in ("csv", "parquet", "npz")]
    schemas = [infer(table.columns, "ill") for table in tables]
    assert schemas[0] == schemas[1] == schemas[2]
    encoded = [schemas[0].encode(table.columns, table.source).tobytes() for table in tables]
    assert encoded[0] == encoded[1] == encoded[2]
    classes = [sorted_labels(table.columns["ill"]) for table in tables]
    assert classes == [[0, 1]] * 3
    assert all(encode_labels(schemas[0], Classes([0, 1]), t).tolist() == [1, 0, 1] for t in tables)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.just(""), st.floats(0, 100).map(repr)),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.sampled_from(["north", "south", "west", ""]),
        st.text(max_size=20),
    ),
    min_size=1,
    max_size=8,
)


def encode(rows):
    columns = (objects(*cells) for cells in zip(*rows, strict=True))
    return SCHEMA.encode(dict(zip(("age", "dose", "ward", "note"), columns, strict=True)), "a")


@given(ROWS, st.randoms(use_true_random=False))
def test_encoding_a_permuted_table_permutes_the_rows(rows, random):
    order = list(range(len(rows)))
    random.shuffle(order)
    np.testing.assert_array_equal(encode([rows[i] for i in order]), encode(rows)[order])


@given(ROWS)
def test_a_row_is_encoded_the_same_with_and_without_the_others(rows):
    together = encode(rows)
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(encode([row])[0], together[i])
    assert np.isfinite(together).all()
    assert together.shape == (len(rows), 2 + 1 + 2 + 8)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(lambda values: len(set(values)) > 1))
def test_a_table_fits_the_schema_that_was_inferred_from_it(values):
    columns = {"x": np.array(values), "y": np.zeros(len(values))}
    X = infer(columns, "y").encode(columns, "a")
    assert ((X >= 0) & (X <= 1)).all()


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=9))
def test_integers_are_the_same_label_as_text_floats_and_integers(values):
    classes = sorted_labels(np.array(values))
    assert classes == sorted(set(values))
    texts, floats = objects(*map(str, values)), np.array(values, dtype=float)
    where = Place("a", "y")
    codes = Classes(classes).encode(np.array(values), where)
    assert [classes[code] for code in codes] == values
    np.testing.assert_array_equal(Classes(classes).encode(texts, where), codes)
    np.testing.assert_array_equal(Classes(classes).encode(floats, where), codes)


def test_a_lenient_schema_clips_and_blanks_instead_of_raising() -> None:
    columns = (Number(name="x", range=(0, 10)), Category(name="c", categories=("a", "b")), Text(name="t", features=4))
    schema = Schema(label="y", columns=columns).lenient()
    rows = schema.encode({"x": objects("-5", "20"), "c": objects("a", "z"), "t": objects("w", "")}, "a.csv")
    assert rows[:, :5].tolist() == [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]


def test_the_shape_of_a_row_is_known_without_data() -> None:
    columns = (
        Number(name="x", range=(0, 1), missing=True),
        Category(name="c", categories=("a", "b", "d")),
        Text(name="t", features=4),
        Tensor(name="m", kind="features", shape=(2, 3)),
    )
    table = {"x": objects("1"), "c": objects("a"), "t": objects("w"), "m": np.zeros((1, 2, 3))}
    schema = Schema(label="y", columns=columns)
    assert schema.encode(table, "a").shape[1:] == schema.shape == (2 + 3 + 4 + 6,)
    image = Schema(label="y", columns=(Tensor(name="m", kind="image", shape=(1, 4, 4)),))
    assert image.shape == (1, 4, 4)


LENIENT = Schema(
    label="y",
    columns=(
        Number(name="a", range=(0, 10)),
        Number(name="b", range=(0, 10)),
        Category(name="c", categories=("x", "z")),
        Date(name="d", range=("2024-01-01", "2024-12-31")),
    ),
).lenient()


def test_no_cell_stops_a_lenient_encoding() -> None:
    cells = objects("5", "", "NA", "inf", "-inf", "1e999", "high", "99", "?", "2024-05-05", "nan", "\u00e9", "0x10")
    rows = LENIENT.encode(dict.fromkeys("abcd", cells), "a.csv")
    assert rows.shape == (len(cells), 2 + 2 + 3 + 2)
    assert np.isfinite(rows).all()
    assert ((rows >= 0) & (rows <= 1)).all()
    assert rows[1].tolist() == [0, 1, 0, 1, 0, 0, 1, 0, 1]  # all missing
    assert rows[6].tolist() == [0, 1, 0, 1, 0, 0, 0, 0, 1]  # text counts as missing, an unseen category is blank
    infinite = np.array([np.inf, -np.inf, np.nan, 3])
    assert LENIENT.encode({**dict.fromkeys("abd", infinite), "c": objects(*"xzxz")}, "a").shape == (4, 9)


def test_odd_values_are_summed_up_in_one_warning() -> None:
    table = {
        "a": objects("5", "99", "98", ""),
        "b": objects("77", "1", "2", "3"),
        "c": objects("x", "w", "x", ""),
        "d": objects("2024-01-01", "2024-02-02", "soon", "2024-03-03"),
    }
    with pytest.warns(OddValues) as caught:
        LENIENT.encode(table, "a.csv")
    assert len(caught) == 1
    assert str(caught[0].message) == (
        "a.csv: 2 columns clipped, 18.8 % of cells; 1 column with unseen categories, 6.2 % of cells; 2 columns with "
        "missing values, 12.5 % of cells; 1 column with values that are not dates, 6.2 % of cells"
    )
    lines = [str(each) for each in caught[0].message.odd]
    assert "column 'a': 2 values are clipped, such as '99'" in lines
    assert "column 'a': 1 value is missing" in lines
    assert "column 'c': 1 value is unseen, such as 'w'" in lines
    assert "column 'd': 1 value is not a date, such as 'soon'" in lines
    twice = OddValues.merged([caught[0].message, caught[0].message])
    assert str(twice) == str(caught[0].message)


def test_rows_without_a_label_or_an_id_are_left_out_and_counted() -> None:
    schema = Schema(label="y", id="i", columns=(Number(name="x", range=(0, 9)),))
    columns = {"i": objects("a", "b", "", "d"), "x": objects(*"1234"), "y": objects("no", "", "yes", "NA")}
    with pytest.warns(OneBallotWarning, match=r"a\.csv: 3 of 4 rows have no label or ID and are left out"):
        table = complete(schema, Classes(["no", "yes"]), Table(columns, "a.csv"))
    assert {name: list(values) for name, values in table.columns.items()} == {"i": ["a"], "x": ["1"], "y": ["no"]}
    kept = complete(schema, Classes(["no", "yes", "NA", ""]), Table({**columns, "i": objects(*"abcd")}, "a.csv"))
    assert len(kept) == 4  # a class may have such a name
    nothing = Table({**columns, "y": objects("", "", "", "")}, "a.csv")
    with pytest.raises(DataError, match=r"4 of 4 rows have no label or ID, so there is nothing to learn from"):
        complete(schema, Classes(["no", "yes"]), nothing)
    assert len(complete(schema, Classes(["no", "yes"]), nothing, empty=True)) == 0
