"""`oneballot new` recognises identifiers, dates, constants, codes and free text, and says what it did with each."""

import math
from datetime import date, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.election.columns import Category, Date, Number, Text
from oneballot.election.infer import Choices, outwards, recognise, sorted_labels
from oneballot.errors import WillNotWork


def objects(*values):
    return np.array(values, dtype=object)


def one(name, *values, **choices):
    array = values[0] if isinstance(values[0], np.ndarray) else objects(*values)
    (found,) = recognise({name: array}, "y", Choices(**choices))
    return found


def test_unique_strings_are_an_identifier_and_left_out():
    found = one("case", *(f"K-{i:04d}" for i in range(30)))
    assert found.column is None
    assert found.note == "identifier: 30 different values; as row ID: --id case"
    assert one("case no", *(f"K-{i:04d}" for i in range(30))).note.endswith("--id 'case no'")  # to copy into a shell


@pytest.mark.parametrize("name", ["id", "ID", "patient_id", "patientId", "case no", "Fall-Nr", "mrn", "unnamed 1"])
def test_unique_whole_numbers_are_an_identifier_if_the_name_says_so(name):
    values = [str(1000 + 7 * i) for i in range(10)]
    assert one(name, *values).note.startswith("identifier: 10 different values")
    assert isinstance(one("weight", *values).column, Number)


def test_repeated_patient_ids_are_an_identifier_too():
    assert one("patient_id", *(str(i // 2 * 3) if i < 20 else str(i) for i in range(60))).note.startswith("identifier")


@pytest.mark.parametrize(("name", "values"), [("valid", "123"), ("ward_id", "112"), ("measured_no", ["0.5", "1.5"])])
def test_few_or_fractional_numbers_are_no_identifier(name, values):
    assert isinstance(one(name, *values).column, Number)


def test_a_small_private_table_does_not_publish_texts_or_names_that_differ_in_every_row():
    notes = [f"patient {i} reports pain since day {i}" for i in range(12)]
    names = ["Adler", "Brandt", "Conrad", "Dietz", "Ebert", "Falk", "Graf", "Haas", "Ihle", "Jung", "Kern", "Lang"]
    assert isinstance(one("note", *notes).column, Category)  # public rows: everyone has them
    found = one("note", *notes, outwards=True)
    assert found.kind == "left out"
    assert found.note == "free text: 12 different values; to use its words: --text note"
    assert one("note", *notes[:8], *notes[:4], outwards=True).kind == "left out"  # also if some are repeated
    assert one("doctor", *names, outwards=True).note == "identifier: 12 different values; as row ID: --id doctor"
    assert one("doctor", *names[:8], *names[:4], outwards=True).kind == "left out"
    assert one("zip", *(f"0{i}067" for i in range(8)), "01067", outwards=True).kind == "left out"
    assert one("doctor", *names[:6], *names[:6], outwards=True).kind == "category"  # not in more than half of the rows
    assert one("doctor", *names, outwards=True, category=("doctor",)).column.categories == tuple(names)


def test_categories_of_a_small_private_table_are_kept():
    assert one("ward", *["intensive care", "day clinic"] * 6, outwards=True).column.categories == (
        "day clinic", "intensive care",
    )  # fmt: skip
    assert len(one("size", "S", "M", "L", "XL", "XXL", outwards=True).column.categories) == 5


@pytest.mark.parametrize(
    ("texts", "written", "plain"),
    [
        (["0,5", "1,25", "12"], "0,5", "0.5"),
        (["45 %", "7%", "100 %"], "45 %", "45"),
        (["1,234.50", "9.50", "12,000.00"], "1,234.50", "1234.50"),
        (["1.234,5", "9,5", "3"], "1.234,5", "1234.5"),
        (["1 200 EUR", "900 EUR"], "1 200 EUR", "1200"),
        (["1,200", "12,400,000"], "1,200", "1200"),
        (["1.200.000", "12.400.000"], "1.200.000", "1200000"),
    ],
)
def test_numbers_written_as_text_are_pointed_out(texts, written, plain):
    hint = f"; if these are numbers, write {written!r} as {plain}"
    assert one("lactate", *texts * 2).note.endswith(hint)
    many = [texts[0], *(f"{i},{i}" for i in range(80))]
    assert one("lactate", *many).note == f"81 different texts{hint}"


@pytest.mark.parametrize(
    "texts", [["3A", "12B"], ["1.2.3", "1.10.2"], ["12:30", "8:15"], ["I10.1", "E11"], ["<5", "7 of 9"]]
)
def test_codes_times_and_words_are_no_numbers_written_as_text(texts):
    assert "numbers" not in one("code", *texts * 2).note


def test_a_constant_and_an_empty_column_are_left_out():
    assert one("land", "DE", "DE", "DE").note == "constant: always DE"
    assert one("gone", "", "NA").note == "empty"
    assert isinstance(one("flag", "x", "", "x").column, Category)  # a missing value differs from x


def test_codes_with_leading_zeros_stay_text():
    found = one("plz", "01067", "10115", "01067")
    assert found.column.categories == ("01067", "10115")
    assert found.note == "codes with leading zeros: 01067, 10115"
    assert isinstance(one("count", "0", "10", "20").column, Number)


@pytest.mark.parametrize(
    ("texts", "order", "first", "last"),
    [
        (["2024-01-05", "2023-12-31"], "YMD", date(2023, 12, 31), date(2024, 1, 5)),
        (["2024-01-05 13:30", "2023-12-31T08:00:00"], "YMD", date(2023, 12, 31), date(2024, 1, 5)),
        (["5.1.2024", "03.02.2024"], "DMY", date(2024, 1, 5), date(2024, 2, 3)),
        (["05/01/2024", "31/01/2024"], "DMY", date(2024, 1, 5), date(2024, 1, 31)),
        (["01/05/2024", "01/31/2024"], "MDY", date(2024, 1, 5), date(2024, 1, 31)),
        (["0001-01-01", "9999-12-31"], "YMD", date(1, 1, 1), date(9999, 12, 31)),
    ],
)
def test_dates_are_recognised(texts, order, first, last):
    found = one("seen", *texts)
    assert found.column == Date(name="seen", range=(first, last), order=order, outside="clip", missing=True)
    assert str(first) in found.note


def test_dates_that_could_be_read_in_two_ways_are_left_out_with_the_reason():
    assert one("seen", "01/02/2024", "03/04/2024").note.startswith("dates that could be day/month or month/day")


def test_dates_of_other_formats_are_dates():
    found = one("seen", np.array(["2024-01-05", "NaT", "2024-03-01"], "datetime64[s]"), strict=True)
    assert found.column == Date(name="seen", range=(date(2024, 1, 5), date(2024, 3, 1)), missing=True)


def test_a_few_texts_among_numbers_count_as_missing_unless_strict():
    values = [*map(str, range(40)), "unknown", "<5"]
    found = one("crp", *values)
    assert found.column == Number(name="crp", range=(0, 39), outside="clip", missing=True)
    assert found.note == "0 to 39; 2 other values, such as 'unknown', count as missing"
    assert not isinstance(one("crp", *values, strict=True).column, Number)


def test_choices_override_what_is_recognised():
    assert one("x", "1", "2", drop=["x"]).note == "--drop"
    assert one("x", "1", "2", category=["x"]).column.categories == ("1", "2")
    assert one("x", "1", "2", text=["x"]).column == Text(name="x")
    ids = [f"K-{i}" for i in range(30)]
    assert one("case", *ids, id="case").kind == "row ID"
    assert len(one("case", *ids, category=["case"]).column.categories) == 30


def test_too_many_categories_are_left_out():
    values = [f"code{i % 80}" for i in range(400)]
    assert one("icd", *values).note == "80 different values, too many for a category; to keep them: --category icd"


def test_every_column_is_lenient_by_default():
    assert one("x", "1", "2").column == Number(name="x", range=(1, 2), outside="clip", missing=True)
    assert one("c", "a", "b").column.model_dump()["missing"] == "feature"
    assert one("x", "1", "2", strict=True).column == Number(name="x", range=(1, 2))


def test_labels_with_leading_zeros_stay_text():
    assert sorted_labels(objects("01", "02")) == ["01", "02"]
    assert sorted_labels(objects("yes", "no", "NA", "?")) == ["no", "yes"]
    assert sorted_labels(objects("none", "mild")) == ["mild", "none"]


@pytest.mark.parametrize(
    ("limits", "rounded"),
    [
        ((18.3, 87.2), (10, 90)),
        ((0, 1), (0, 1)),
        ((0.031, 0.94), (0, 1)),
        ((-3.7, 12), (-10, 20)),
        ((1953, 2011), (1950, 2020)),
        ((7, 7), (7, 7)),
        ((0.1, 0.4), (0.1, 0.4)),
    ],
)
def test_ranges_of_a_private_file_are_rounded_outwards(limits, rounded):
    assert outwards(*limits) == pytest.approx(rounded)


@given(st.floats(-1e299, 1e299), st.floats(-1e299, 1e299))
def test_a_rounded_range_holds_the_range(a, b):
    low, high = outwards(min(a, b), max(a, b))
    assert low <= min(a, b) <= max(a, b) <= high
    assert math.isfinite(low)
    assert math.isfinite(high)


def test_dates_of_a_private_file_are_rounded_to_years():
    found = one("seen", "2021-03-04", "2023-05-06", outwards=True)
    assert found.column.range == (date(2021, 1, 1), date(2023, 12, 31))


def test_a_date_is_encoded_as_the_share_of_its_range():
    from oneballot.election.schema import Schema

    column = Date(name="seen", range=(date(2024, 1, 1), date(2024, 1, 10)), order="DMY", outside="clip", missing=True)
    schema = Schema(label="y", columns=(column,))
    texts = objects("1.1.2024", "06.01.2024", "2024-01-06", "6.1.2024 12:00", "1.1.1999", "", "soon", "40.1.2024")
    encoded = [[0, 0], [0.5, 0], [0.5, 0], [0.55, 0], [0, 0], [0, 1], [0, 1], [0, 1]]
    np.testing.assert_allclose(schema.encode({"seen": texts}, "a.csv"), encoded, rtol=1e-6)
    moments = np.array([datetime(2024, 1, 6), None], "datetime64[s]")
    np.testing.assert_allclose(schema.encode({"seen": moments}, "a.parquet"), [[0.5, 0], [0, 1]], rtol=1e-6)


@pytest.mark.parametrize(
    ("order", "text", "expected"),
    [
        ("YMD", "6.1.2024", [0.5, 0]),
        ("YMD", "2024.01.06", [0.5, 0]),
        ("YMD", "06/01/2024", [0, 1]),  # the sixth of January, or the first of June
        ("MDY", "01.06.2024", [0.5, 0]),
    ],
)
def test_a_date_with_dots_has_its_day_first_where_the_election_has_the_year_first(order, text, expected):
    from oneballot.election.schema import Schema

    column = Date(name="seen", range=(date(2024, 1, 1), date(2024, 1, 10)), order=order, outside="clip", missing=True)
    encoded = Schema(label="y", columns=(column,)).encode({"seen": objects(text)}, "a.csv", report=False)
    np.testing.assert_allclose(encoded, [expected], rtol=1e-6)


def test_dates_in_another_order_are_pointed_out_with_the_cure():
    from oneballot.election.schema import Schema

    column = Date(name="seen", range=(date(2024, 1, 1), date(2024, 1, 10)), outside="clip", missing=True)
    with pytest.warns(
        WillNotWork, match="none of the 6 values is a date.*Write dates with the year first, as in 2023-05-17"
    ):
        Schema(label="y", columns=(column,)).encode({"seen": objects(*["06/01/2024"] * 6)}, "a.csv")
