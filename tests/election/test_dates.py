"""Dates as hospitals write them: read where their order is certain, and pointed out where it is not."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import pytest

from oneballot.election.columns import Date
from oneballot.election.dates import as_days, looks_like_date
from oneballot.election.infer import recognise
from oneballot.election.schema import Schema
from oneballot.errors import WillNotWork


def moment(text, order="YMD"):
    return datetime(1970, 1, 1) + timedelta(days=as_days(text, order))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17.05.23", datetime(2023, 5, 17)),
        ("1.5.29", datetime(2029, 5, 1)),
        ("1.5.30", datetime(1930, 5, 1)),
        ("17.05.23 14:30", datetime(2023, 5, 17, 14, 30)),
        ("12-Mar-2020", datetime(2020, 3, 12)),
        ("12-MAR-99", datetime(1999, 3, 12)),
        ("12MAR2020", datetime(2020, 3, 12)),
        ("12. March 2020", datetime(2020, 3, 12)),
        ("12 Sept. 2020", datetime(2020, 9, 12)),
        ("March 12, 2020", datetime(2020, 3, 12)),
        ("2020-Mar-12 08:15:30", datetime(2020, 3, 12, 8, 15, 30)),
        ("2020-03-12 02:05 PM", datetime(2020, 3, 12, 14, 5)),
        ("2020-03-12 12:05 am", datetime(2020, 3, 12, 0, 5)),
        ("2020-03-12 12:05 p.m.", datetime(2020, 3, 12, 12, 5)),
        ("2020-03-12T14:05:06.5Z", datetime(2020, 3, 12, 14, 5, 6)),
    ],
)
@pytest.mark.parametrize("order", ["YMD", "DMY"])
def test_a_date_whose_day_is_certain_is_read(text, expected, order):
    assert abs(moment(text, order) - expected) < timedelta(milliseconds=1)


def test_slashes_with_am_and_pm_are_read_in_the_order_of_the_column():
    assert abs(moment("03/31/2020 02:05 PM", "MDY") - datetime(2020, 3, 31, 14, 5)) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("05/17/23", "MDY"),  # or a year first
        ("17-05-23", "DMY"),
        ("05.06.23", "MDY"),
        ("31.02.23", "DMY"),
        ("30-Feb-2020", "YMD"),
        ("12-Mär-2020", "YMD"),
        ("2020-03-12 14:05 PM", "YMD"),
        ("2020-03-12 00:05 AM", "YMD"),
        ("1.2.3", "DMY"),
        ("mar 12", "YMD"),
    ],
)
def test_a_date_that_is_uncertain_or_impossible_is_refused(text, order):
    with pytest.raises(ValueError, match=r"is not|out of range|must be in"):
        as_days(text, order)


def found(*texts):
    (only,) = recognise({"when": np.array([*texts], dtype=object)}, "y")
    return only


DAYS = [date(2019, 11, 20) + timedelta(days=41 * i) for i in range(60)]


@pytest.mark.parametrize(
    ("form", "order", "note"),
    [
        ("%d.%m.%y", "DMY", "written DMY; years of two digits are 1930 to 2029"),
        ("%d-%b-%Y", "YMD", "2019-11-20 to 2026-07-05"),
        ("%d%b%y", "YMD", "years of two digits are 1930 to 2029"),
        ("%B %d, %Y", "YMD", "2019-11-20 to 2026-07-05"),
        ("%m/%d/%Y %I:%M %p", "MDY", "written MDY"),
    ],
)
def test_new_recognises_short_years_names_of_months_and_am_pm(form, order, note):
    each = found(*(day.strftime(form) for day in DAYS))
    assert isinstance(each.column, Date)
    assert each.column.range == (DAYS[0], DAYS[-1])
    assert each.column.order == order
    assert note in each.note


@pytest.mark.parametrize(
    "form", ["%m/%d/%y", "%d-%m-%y", "%y/%m/%d", "%d. Mai %Y", "%d %m %Y", "%Y-%m-%d %H:%M +02:00"]
)
def test_new_says_what_to_write_for_dates_that_it_cannot_read(form):
    each = found(*(day.strftime(form) for day in DAYS))
    assert (each.column, each.kind, each.note) == (None, "left out", "looks like dates; write 2027-03-31")


def test_new_does_not_guess_day_or_month():
    each = found(*(f"{1 + i % 12}/{1 + i % 11}/2020" for i in range(60)))
    assert each.note == "dates that could be day/month or month/day; write them as 2027-03-31"


@pytest.mark.parametrize(
    "text", ["078-05-1120", "12-34-56", "1.2.3", "10.0.0.1", "A12-03-20", "May", "12 Marienhof", "5 mar", ""]
)
def test_codes_and_words_do_not_look_like_dates(text):
    assert not looks_like_date(text)


def test_a_party_may_write_dates_in_another_way_than_the_election():
    column = Date(name="seen", range=(date(2024, 1, 1), date(2024, 1, 10)), outside="clip", missing=True)
    texts = np.array(["06.01.24", "6-Jan-2024", "2024-01-06 12:00 AM"], dtype=object)
    np.testing.assert_allclose(Schema(label="y", columns=(column,)).encode({"seen": texts}, "a.csv"), [[0.5, 0]] * 3)
    wrong = np.array(["01/06/24"] * 6, dtype=object)
    with pytest.warns(WillNotWork, match="Write dates with the year first, as in 2023-05-17"):
        Schema(label="y", columns=(column,)).encode({"seen": wrong}, "a.csv")
