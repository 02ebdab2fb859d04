"""Reports of outcomes: what they state and refuse, what is escaped, and how large they become."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from oneballot.data.read import Table
from oneballot.errors import DataError, ElectionError, OneBallotError
from oneballot.report.outcome.subject import Subject, assess, load
from oneballot.report.outcome.write import check_options, render_report, secret_path, write
from oneballot.server.influence import Influence
from oneballot.server.outcome import Outcome

from ..test_page import Tags
from .conftest import CLASSES, HOSPITALS, HTML, Place, draw, text_of, with_trouble, write_rows

Make = Callable[..., Place]


def test_a_report_with_labelled_rows_states_quality_parties_privacy_and_digests(make_place: Make) -> None:
    place = make_place()
    subject = Subject(place.outcome, place.folder, place.election).with_test(assess(place.outcome, place.test))
    text = text_of(subject)
    for heading in ("What was decided", "Who decided", "What each party brought", "Quality", "Privacy"):
        assert f">{heading}</h2>" in text
    for word in ("balanced accuracy", "precision", "recall", "F1", "Brier score", "ECE", "AUC", "always the shares"):
        assert word in text
    for figure in ("ROC curve", "Precision-recall curve", "Calibration curve", "Decision curve", "Confusion matrix"):
        assert f"<title>{figure}" in text, figure
    for party in HOSPITALS:
        assert party in text
        assert place.outcome.voted[party].digest in text
    assert "rows where its model agrees" in text
    assert place.outcome.election in text
    assert "Level L0: nothing is protected" in text
    assert "Tested on labelled rows" in text


def test_every_value_is_escaped(make_place: Make) -> None:
    place = make_place()
    outcome = with_trouble(place.outcome)
    tested = assess(outcome, place.test, ["site"])
    page = render_report(Subject(outcome, place.folder, place.election, tested=tested, command=HTML))
    tags = Tags(page)
    assert tags.tags.count("script") == 1
    assert "img" not in tags.tags
    assert "b" not in tags.tags
    assert "i" not in tags.tags
    assert not [name for name, _ in tags.attributes if name.startswith("on")]
    ids = [value for name, value in tags.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    shown = unescape(page)
    for text in (f"too few rows {HTML}", f"not a ballot {HTML}", f"left out {HTML}", CLASSES[0], "<i>ill</i>"):
        assert text in shown


def test_each_value_of_a_column_is_tested_alone(make_place: Make) -> None:
    place = make_place()
    text = text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, place.test, ["site"])))
    assert "Metrics by site" in text
    for value in ("north", HTML, "(missing)"):
        assert f"site: {value} (80 rows)" in text
    with pytest.raises(DataError, match="no column 'sites'; it has"):
        assess(place.outcome, place.test, ["sites"])


def test_a_small_group_is_not_counted_nor_measured(make_place: Make, tmp_path: Path) -> None:
    place, (X, y) = make_place(), draw(137, 6)
    sites = ["north"] * 73 + ["south"] * 57 + ["tiny"] * 7
    path = write_rows(tmp_path / "test.csv", X, np.where(np.array(sites) == "south", 1 - y, y), site=sites)
    text = text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, path, ["site"])))
    groups = text[text.index("Metrics by site") :]
    assert re.search(r"tiny\s*</th>\s*<td[^>]*>\s*< 10", groups)
    assert "may point at single people" in groups
    assert "site: north (about 70 rows)" in groups
    assert text.count("on about 60 rows") == 2, "in the first box and below the table"
    by_site = groups[: groups.index('id="privacy"')]
    assert "support" not in by_site
    assert "Confusion matrix" not in by_site
    by_site += text[: text.index('id="what-was-decided"')]
    for count in (73, 57, 7):
        assert not re.search(rf"\b{count} rows", by_site)
        assert f">{count}<" not in by_site


def test_the_labelled_rows_are_parsed_once(make_place: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    place, read, real = make_place(), [], Outcome.read_table

    def counted(self: Outcome, path: Path) -> Table:
        read.append(path)
        return real(self, path)

    monkeypatch.setattr(Outcome, "read_table", counted)
    assess(place.outcome, place.test, ["site"])
    assert read == [place.test]


def test_a_report_is_small_and_complete(make_place: Make, tmp_path: Path) -> None:
    place = make_place()
    subject = Subject(place.outcome, place.folder, tested=assess(place.outcome, place.test, ["site"]))
    (page,) = write(subject, tmp_path / "report.html")
    assert page.stat().st_size < 1_000_000


@pytest.mark.slow
def test_a_report_by_many_columns_stays_below_a_megabyte_and_says_what_it_leaves_out(
    make_place: Make, tmp_path: Path
) -> None:
    place, (X, y) = make_place(), draw(400, 8)
    columns = {f"column{i}": [f"value{(row // (i + 1)) % 8}" for row in range(400)] for i in range(3)}
    path = write_rows(tmp_path / "test.csv", X, y, **columns)
    (page,) = write(
        Subject(place.outcome, place.folder, tested=assess(place.outcome, path, columns)), tmp_path / "a.html"
    )
    text = page.read_text("utf-8")
    assert 500_000 < len(text.encode()) < 1_000_000
    assert "column0: value7 (50 rows)" in text
    assert "column2: value7 (" not in text
    assert "to keep this page small. For others, name fewer columns" in text


def test_small_numbers_of_rows_of_a_class_in_a_group_are_pointed_out(make_place: Make, tmp_path: Path) -> None:
    place, (X, y) = make_place(), draw(120, 9)
    sites = np.where((y == 1) & (np.cumsum(y) <= 4), "north", np.where(y == 1, "south", "north"))
    path = write_rows(tmp_path / "test.csv", X, y, site=sites.tolist())
    said = "A class has fewer than 10 rows here, which may point at single people: share this page only with"
    assert said in text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, path, ["site"])))
    assert said not in text_of(Subject(place.outcome, place.folder, tested=assess(place.outcome, path)))


def test_commands_in_sentences_look_like_code(make_place: Make) -> None:
    place = make_place()
    text = text_of(
        Subject(replace(place.outcome, influence=Influence(unknown="no rows. `oneballot certify`")), place.folder)
    )
    assert "no rows. <code>oneballot certify</code>" in text


def test_the_demo_names_the_one_command_that_makes_its_page_again(make_place: Make) -> None:
    place = make_place()
    text = text_of(Subject(place.outcome, place.folder).made_by("oneballot demo --out demo"))
    assert re.search(r"<code>oneballot demo --out demo\s*</code>", text)


def test_a_published_outcome_has_a_report_too(make_place: Make) -> None:
    place = make_place()
    text = text_of(Subject(place.outcome.published(), place.folder))
    assert "published without the list of ballots" in text


def test_the_outcome_of_another_election_is_refused(make_place: Make, tmp_path: Path) -> None:
    place = make_place()
    toml = 'format = 1\nname = "other"\nclasses = ["x", "y"]\n[method]\nname = "ensemble"\nweights = "open"\n'
    toml += '[schema]\nlabel = "l"\n[[schema.columns]]\nname = "a"\nkind = "number"\nrange = [0, 1]\n'
    (tmp_path / "election.toml").write_text(toml)
    with pytest.raises(ElectionError, match="is not the outcome of"):
        load(place.folder, tmp_path / "election.toml")


def test_options_without_a_meaning_are_refused(make_place: Make) -> None:
    place = make_place()
    subject = Subject(place.outcome, place.folder)
    with pytest.raises(OneBallotError, match="--by names a column of the labelled rows"):
        check_options(subject, None, ["site"], server_page=False, public_data=False)
    with pytest.raises(OneBallotError, match="are for level L1"):
        check_options(subject, place.test, (), server_page=True, public_data=False)
    assert secret_path(Path("a/report.html")) == Path("a/report.do-not-publish.html")


def test_rows_without_labels_cannot_be_tested(make_place: Make, tmp_path: Path) -> None:
    place = make_place()
    path = tmp_path / "unlabelled.csv"
    path.write_text("<b>age</b>,dose\n0.5,0.5\n")
    with pytest.raises(DataError, match="no label column"):
        assess(Outcome.load(place.folder), path)
