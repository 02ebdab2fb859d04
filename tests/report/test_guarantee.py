"""The guarantee card as a page and in the report: escaped, the same numbers everywhere, nothing that has no noise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.party.cast import cast_together
from oneballot.report.guarantee import election_card, write_card
from oneballot.report.outcome.privacy import privacy
from oneballot.report.outcome.subject import Subject
from oneballot.report.page import render_page
from oneballot.types import Data

from ..browser import A4, chromium
from ..conftest import write_csv

HTML = "<img src=x onerror=alert(1)>"
TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})


def rows(count: int, seed: int) -> Data:
    X = np.random.default_rng(seed).uniform(size=(count, 2)).astype(np.float32)
    return Data(X, (X.sum(axis=1) > 1).astype(np.int64))


def agree(**settings: object) -> ob.Election:
    return ob.Election(
        classes=("no", "yes"), public=rows(60, 1).X, learner=TREE, method=ob.FedKT(), name=f"trial {HTML}", **settings
    )


LEVELS = {"L0": "L0", "L1": ob.L1(2.0), "L2": ob.L2(2.0), "rehearsal": ob.L2(2.0, rehearsal=True, noise_seed=1)}


@pytest.mark.parametrize("level", LEVELS)
def test_the_page_shows_the_card_and_escapes_the_election(tmp_path: Path, level: str) -> None:
    election = agree(privacy=LEVELS[level])
    card = write_card(election, tmp_path / "card.html")
    page = (tmp_path / "card.html").read_text("utf-8")
    assert HTML not in page
    assert "trial &lt;img src=x onerror=alert(1)&gt;" in page
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for words in (card.title, *card.sections(), election.digest):
        assert words in text
    assert ("NOT PRIVATE" in text) == (level == "rehearsal")
    assert ("Level L0: nothing is protected" in text) == (level == "L0")
    assert ("guesses right" in text) == (level in ("L1", "L2"))


def test_the_page_of_every_level_is_one_sheet_of_paper(tmp_path: Path) -> None:
    import base64

    with chromium() as session:
        for level, given in LEVELS.items():
            write_card(agree(privacy=given), tmp_path / f"{level}.html")
            session.get((tmp_path / f"{level}.html").as_uri())
            printed = base64.b64decode(session.execute_cdp_cmd("Page.printToPDF", A4)["data"])
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) == 1, level


def report_of(election: ob.Election, seed: int, parties: int, folder: Path) -> str:
    held = {f"clinic-{seed}-{i}": rows(40, 100 * seed + i) for i in range(parties)}
    outcome = ob.tally(election, cast_together(election, held))
    subject = Subject(outcome, folder, election).for_page(secret=False)
    return render_page("report", [privacy(subject)])


def test_at_l1_the_report_states_nothing_about_the_ballots(tmp_path: Path) -> None:
    election = agree(privacy=ob.L1(2.0))
    page = report_of(election, 1, 3, tmp_path)
    assert page == report_of(election, 2, 5, tmp_path)
    assert "clinic-" not in page
    assert "Level L1: each party is protected" in page


@pytest.mark.parametrize("level", ["L0", "L1", "L2"])
def test_the_report_has_the_card_of_the_election(tmp_path: Path, level: str) -> None:
    election = agree(privacy=LEVELS[level])
    text = report_of(election, 1, 3, tmp_path)
    card = election_card(election)
    parts = card.sections() if level != "L0" else {"": card.not_protected}
    for sentence in [card.title, card.summary, *(s for part in parts.values() for s in part)]:
        assert sentence.replace("'", "&#39;") in text


def test_the_dossier_and_its_json_have_the_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    public, private = rows(40, 1), rows(60, 2)
    for name, data in (("public.csv", public), ("a.csv", private)):
        write_csv(Path(name), ["age", "dose", "ill"], [[*x, "ny"[y]] for x, y in zip(data.X, data.y, strict=True)])
    run("new", "election.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt", "--level", "L2",
        "--epsilon", "1")  # fmt: skip
    election = ob.Election.read("election.toml")
    run("cast", "election.toml", "--party", "a", "--data", "a.csv", "--dry-run", "--dossier", "plan.html")
    card = election_card(election)
    assert json.loads(Path("plan.json").read_text())["guarantee"]["card"] == card.model_dump(mode="json")
    assert card.summary in Path("plan.html").read_text("utf-8")
    # at a terminal, as text, as JSON and as a page
    text = run("guarantee", "election.toml", "--out", "card.html")
    assert "LEVEL L2: EACH ROW IS PROTECTED" in text
    assert card.summary in text
    assert "card.html" in text
    assert card.summary in Path("card.html").read_text("utf-8")
    assert json.loads(run("guarantee", "election.toml", "--json"))["guess"] == card.guess
    refused = CliRunner().invoke(app, ["guarantee", "election.toml", "--out", "card.txt"])
    assert refused.exit_code == 1
    assert "must end in .html" in refused.output


def test_a_ballot_alone_has_no_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    election = agree(privacy=ob.L2(2.0))
    ballot = cast_together(election, {"a": rows(40, 3)})[0]
    Path("a.ballot").write_bytes(ballot.sealed)
    run("inspect", "a.ballot", "--dossier", "page.html")
    assert json.loads(Path("page.json").read_text())["guarantee"]["card"] is None
    assert "Without the election (" in Path("page.html").read_text("utf-8")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout
