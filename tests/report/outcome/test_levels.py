"""Reports at L1 and L2: what they leave out, and what only the page of the server states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.ballot.keys import new_key
from oneballot.privacy.guarantee import LabelGuarantee
from oneballot.report.outcome.comparison import ComparisonFile
from oneballot.report.outcome.subject import Subject, assess
from oneballot.report.outcome.write import write

from .conftest import HOSPITALS, HTML, Place, text_of, with_trouble

Make = Callable[..., Place]


def test_at_l1_the_page_holds_nothing_without_noise(make_place: Make, tmp_path: Path) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    outcome = with_trouble(place.outcome)
    subject = Subject(outcome, place.folder, place.election, tested=assess(outcome, place.test))
    public, own = write(subject, tmp_path / "report.html", server_page=True)
    text = unescape(public.read_text("utf-8"))
    private = [*HOSPITALS, "left out", "too few rows", "not a ballot", "ballots counted", "model agrees"]
    private += [ballot.digest for ballot in outcome.voted.values()] + ["Confusion", "ROC curve", "AUC"]
    for word in private:
        assert word not in text, word
    assert "does not state how good the model is" in text
    assert "Level L1: each party is protected" in text
    assert own.name == "report.do-not-publish.html"
    assert own.stat().st_mode & 0o077 == 0
    server = unescape(own.read_text("utf-8"))
    for word in (*HOSPITALS, "DO NOT PUBLISH", "Confusion matrix", f"left out {HTML}"):
        assert word in server, word
    assert "<title>DO NOT PUBLISH" in server
    assert 'class="banner"' in server
    assert "DO NOT PUBLISH" not in text


def test_at_l1_figures_about_rows_that_may_be_published_are_on_the_page(make_place: Make) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    tested = assess(place.outcome, place.test, publishable=True)
    text = text_of(Subject(place.outcome, place.folder, tested=tested))
    assert "Confusion matrix" in text
    assert "It does not cover the rows of test.csv" in text
    assert not [party for party in HOSPITALS if party in text]


def test_at_l1_the_roster_and_late_parties_are_not_on_the_page(make_place: Make, tmp_path: Path) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    election = replace(
        place.election, roster={"never-voted": new_key(tmp_path / "key")}, variant_of=place.election.digest
    )
    subject = Subject(place.outcome, place.folder, election)
    assert "never-voted" not in text_of(subject)
    assert "never-voted" in text_of(subject, secret=True)


def test_at_l1_a_simulation_with_parties_rows_is_on_the_servers_page_only(make_place: Make) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    scores = {"accuracy": 0.5, "auc": None}
    without = {"mean_party": scores, "best_party": {"party": "party-1", **scores}, "pooled": scores}
    found = {"election": "", "parties": 2, "test_rows": 90, "split": "iid", "methods": [], "baselines": without}
    subject = Subject(place.outcome, place.folder).with_comparison(ComparisonFile.model_validate(found))
    assert "Other methods and pooled data" not in text_of(subject)
    assert "Other methods and pooled data" in text_of(subject, secret=True)


def test_rows_and_classes_of_parties_are_stated_at_l0_only(make_place: Make) -> None:
    place = make_place(privacy=ob.L2(50.0), method=ob.FedKT())
    text = text_of(Subject(place.outcome, place.folder, place.election))
    assert "Rows and classes of a party are not stated at level L2" in text
    assert HOSPITALS[0] in text


def test_at_l2_the_page_does_not_state_who_abstained(make_place: Make) -> None:
    place = make_place(privacy=ob.L2(50.0), method=ob.FedKT())
    text = text_of(Subject(with_trouble(place.outcome), place.folder, place.election))
    assert "5 ballots arrived" in text
    for word in ("too few rows", ">abstained<", "1 abstained", ">counted<", "all ballots"):
        assert word not in text, word


@pytest.mark.parametrize("tested", [True, False])
@pytest.mark.slow
def test_at_l1_the_page_names_no_file_and_no_column_of_the_rows(make_place: Make, tested: bool) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    subject = Subject(place.outcome, place.folder, place.election, place.folder.parent / "trial.toml")
    if tested:
        subject = subject.with_test(assess(place.outcome, place.test, ["site"]))
    subject = subject.made_by(f"oneballot report {place.folder} --data {place.test} --by site --election trial.toml")
    text = text_of(subject)
    names = [str(place.folder), "trial.toml", "--by site", str(place.test)]
    for name in [*names, "test.csv (", "on test.csv"]:
        assert name not in text, name
    for name in names:
        assert name in text_of(subject, secret=True)


def test_at_l1_the_page_says_how_many_parties_it_takes_and_that_no_command_makes_the_outcome_again(
    make_place: Make,
) -> None:
    place = make_place(privacy=ob.L1(20.0), method=ob.FedKT())
    guarantee = place.election.guarantee
    assert isinstance(guarantee, LabelGuarantee)
    subject = Subject(place.outcome, place.folder, place.election).made_by("oneballot report outcome/")
    for secret in (False, True):
        text = text_of(subject, secret=secret)
        assert f"it takes {guarantee.voters_needed():,} parties to win" in text
        assert "No command makes the outcome again" in text
        assert "draws new noise, gives another model, and is charged" in text
        assert "<code>oneballot tally" not in text
    assert "add --election" in text_of(Subject(place.outcome, place.folder))
