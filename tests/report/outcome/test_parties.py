"""What a report says about the parties: who has trouble comes first, and few rows are not counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import oneballot as ob
from oneballot.report.influence import influence_lines
from oneballot.report.outcome import parties
from oneballot.report.outcome.benefits import BenefitFile
from oneballot.report.outcome.subject import Subject
from oneballot.report.text import row_count
from oneballot.server.influence import Influence, Standing
from oneballot.server.outcome import CountedBallot

from .conftest import HOSPITALS, Place, text_of

Make = Callable[..., Place]


def test_of_ten_thousand_parties_those_with_trouble_are_on_a_page_below_a_megabyte(make_place: Make) -> None:
    place, names = make_place(), [f"hospital-{i:05d}" for i in range(10_000)]
    ballot = CountedBallot("x.ballot", "0" * 64, 1000)
    voted = {name: replace(ballot, abstained="`no` rows" if i == 9_000 else None) for i, name in enumerate(names)}
    standings = [
        Standing(name, 0.0, 0.5, 0.1, 0.1, 0.0, "contradicts" if i == 8_000 else "") for i, name in enumerate(names)
    ]
    outcome = replace(
        place.outcome,
        voted=voted,
        spoiled={"junk.ballot": "it is not a ballot: expected a file that `oneballot cast` wrote"},
        influence=Influence(150, tuple(standings), {1: 0.5, 2: 0.25, 3: 0.0}),
        count=replace(place.outcome.count, by_party={name: {"seen": np.array([70, 80])} for name in names}),
    )
    benefit = BenefitFile.model_validate(
        {"election": "", "party": "p", "verdict": "better", "rows": 90, "differences": {}}
        | {model: {"accuracy": 0.5} for model in ("own", "outcome")}
    )
    text = text_of(Subject(outcome, place.folder, place.election).with_benefits([benefit] * 10_000))
    assert len(text.encode()) < 1_000_000
    for section in ("who-decided", "what-each-party-brought", "how-to-reproduce-it"):
        part = text[text.index(f'id="{section}"') :]
        part = part[: part.index("</section>")]
        assert "more, which are left out to keep this page small; outcome.json lists every ballot" in part
        assert names[8_000] in part, "it stands out"
    assert text.count("And 9,900 more,") == 4
    assert text.count("And 9,899 more,") == 1, "without the party that abstained"
    assert text.count("And 9,901 more,") == 1, "with the file that is not a ballot"
    who = text[text.index('id="who-decided"') : text.index('id="what-each-party-brought"')]
    assert who.index("junk.ballot") < who.index(names[9_000]) < who.index(names[8_000]) < who.index(names[0])
    assert "expected a file that oneballot cast wrote" in who
    assert "A file that no party sent can be removed" in who


def test_an_agreement_that_influence_gives_is_not_called_unknown(make_place: Make) -> None:
    place = make_place(method=ob.FedKT())
    found = place.outcome.influence
    assert found is not None
    text = text_of(Subject(place.outcome, place.folder, place.election))
    assert "agreement by weight" in text
    assert "Agreement by weight: of the party's weight" in text
    assert "cannot be computed" not in text
    assert "cannot be computed" in text_of(Subject(replace(place.outcome, influence=None), place.folder))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            {1: 0.5, 2: 0.25, 3: 0.0},
            "Certified: 50.0 % of the labels could not have been changed by any 1 ballot, 25.0 %",
        ),
        (
            {1: 0.0, 2: 0.0, 3: 0.0},
            "No label is certified: for each, one arbitrary ballot might have changed it, because",
        ),
    ],
)
def test_the_certificate_is_a_sentence(found: dict[int, float], said: str) -> None:
    (line,) = influence_lines(Influence(150, (), found, uncertified="x"))
    assert said in line
    assert line.endswith("because x.")


def test_small_numbers_of_rows_are_not_stated(make_place: Make) -> None:
    assert row_count(0) == "–"
    assert row_count(9) == "< 10"
    assert row_count(10) == "10"
    assert parties._total(np.array([3, 172])) == "about 180"
    assert parties._total(np.array([0, 172])) == "172"
    place = make_place()
    counts = {HOSPITALS[0]: np.array([7, 1234])}
    table = parties._table(Subject(place.outcome, place.folder), [HOSPITALS[0]], counts, {}, {}, "")
    assert "about 1,240" in table.rows[0]
