"""A report says what its tally warned of: before the result, and at L1 on the server's own page alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import oneballot as ob
from oneballot.report.outcome.subject import Subject, assess

from .conftest import HOSPITALS, HTML, Place
from .test_write import text_of

Make = Callable[..., Place]
NAMING = f"{HOSPITALS[0]} counts for 3 rows instead of 100"
SENTENCES = (NAMING, f"no rows of class {HTML}", "the noise is large", "one", "two.")


def subject_of(place: Place, *sentences: str) -> Subject:
    return Subject(replace(place.outcome, warnings=sentences), place.folder, place.election)


def test_the_first_warnings_are_listed_before_the_result(make_place: Make) -> None:
    place = make_place()
    subject = subject_of(place, *SENTENCES).with_test(assess(place.outcome, place.test))
    text = text_of(subject)
    said = f"(1) {NAMING}. (2) no rows of class {HTML}. (3) the noise is large. And 2 more warnings, in outcome.json."
    assert said in text
    assert text.index("The tally gave 5 warnings") < text.index("Tested on labelled rows")
    assert "The tally gave" not in text_of(subject_of(place))


def test_at_l2_a_sentence_that_names_a_party_is_left_out(make_place: Make) -> None:
    """It would show that the party has not abstained."""
    text = text_of(subject_of(make_place(privacy=ob.L2(50.0), method=ob.FedKT()), *SENTENCES))
    assert "counts for 3 rows" not in text
    assert "The tally gave 4 warnings" in text


def test_at_l1_only_the_servers_own_page_has_them(make_place: Make) -> None:
    subject = subject_of(make_place(privacy=ob.L1(20.0), method=ob.FedKT()), *SENTENCES)
    assert "The tally gave" not in text_of(subject)
    assert NAMING in text_of(subject, secret=True)
