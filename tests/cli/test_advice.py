"""`new` and `check` say what the public rows are good for; `cast` and `tally` say what models in ballots reveal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oneballot.cli import app
from oneballot.cli.tallied import publish_outcome
from oneballot.election.election import Election
from oneballot.errors import OneBallotError
from oneballot.server.outcome import Outcome


def oneballot(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == status, result.output + repr(result.exception)
    return " ".join(result.output.split())


@pytest.fixture
def here(clinic: Path, monkeypatch) -> Path:
    monkeypatch.chdir(clinic)
    return clinic


def keep_rows(file: str, count: int) -> None:
    Path(file).write_text("\n".join(Path(file).read_text().splitlines()[: count + 1]) + "\n")


def test_with_12_public_rows_new_and_check_say_that_it_will_not_work_and_what_would(here: Path) -> None:
    keep_rows("public.csv", 12)
    outputs = [oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt")]
    outputs.append(oneballot("check", "e.toml"))
    for output in outputs:
        assert "12 public rows: this will not work" in output
        assert "2 classes need at least 20" in output
        assert 'ensemble with weights = "open", or analytic' in output
    facts = json.loads(CliRunner().invoke(app, ["check", "e.toml", "--json"]).stdout)
    assert any("this will not work" in line for line in facts["expect"])


def test_new_names_the_class_that_is_too_rare_in_the_public_rows(here: Path) -> None:
    lines = Path("public.csv").read_text().splitlines()
    label = lines[0].split(",").index("ill")
    rows = [line.split(",") for line in lines[1:101]]
    for i, row in enumerate(rows):
        row[label] = "yes" if i < 3 else "no"
    Path("public.csv").write_text("\n".join([lines[0], *(",".join(row) for row in rows)]) + "\n")
    output = oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt")
    assert "Too few of the 100 public rows are of class yes (about 3)" in output
    assert "Use about 334 public rows, or ensemble" in output
    assert "A class with less than 10 % of the rows would get fewer than 10 labels" in oneballot("check", "e.toml")


def test_at_l2_check_says_what_the_budget_pays_for_and_names_analytic(here: Path) -> None:
    private = ("--method", "fedkt", "--level", "L2", "--epsilon", "0.5")
    oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill", *private)
    output = oneballot("check", "e.toml", "--parties", "2")
    assert "The budget pays for labels of" in output
    assert "The method analytic adds noise once" in output
    assert "rows of 2 parties together" in output
    assert "This will not work" in output


@pytest.fixture
def ensemble(here: Path) -> Path:
    oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill", "--method", "ensemble")
    text = Path("e.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
    Path("e.toml").write_text(text.replace("n_estimators = 50", "n_estimators = 5"))
    return here


def test_a_dry_run_says_what_a_model_in_the_ballot_reveals(ensemble: Path) -> None:
    output = oneballot("cast", "e.toml", "--party", "a", "--data", "a.csv", "--dry-run")
    assert "this ballot carries a model" in output
    assert "membership attack" in output
    assert "docs/model_ballots.md" in output
    oneballot("new", "votes.toml", "--public", "public.csv", "--label", "ill", "--method", "fedkt")
    assert "carries a model" not in oneballot("cast", "votes.toml", "--party", "a", "--data", "a.csv", "--dry-run")


def test_publish_shares_a_distilled_model_unless_the_members_are_asked_for(ensemble: Path) -> None:
    for party in "ab":
        oneballot("cast", "e.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
    tally = ("tally", "e.toml", "--from", "box", "--out", "outcome", "--publish")
    output = oneballot(*tally, "shared")
    assert "Its model is distilled from the parties' models" in output
    assert "--publish-members" in output
    assert Outcome.load(Path("outcome")).model.model_.dump().format == "ensemble"
    assert Outcome.load(Path("shared")).model.model_.dump().format != "ensemble"
    score = json.loads(CliRunner().invoke(app, ["evaluate", "shared", "--data", "test.csv", "--json"]).stdout)
    assert score["accuracy"] > 0.8
    output = oneballot(*tally, "members", "--publish-members")
    assert "made of the parties' own models" in output
    assert Outcome.load(Path("members")).model.model_.dump().format == "ensemble"


def test_without_public_rows_the_members_are_published_only_if_asked_for(here: Path) -> None:
    oneballot("new", "e.toml", "--like", "a.csv", "--label", "ill")
    text = Path("e.toml").read_text().replace("n_estimators = 100", "n_estimators = 5")
    Path("e.toml").write_text(text.replace("n_estimators = 50", "n_estimators = 5"))
    for party in "ab":
        oneballot("cast", "e.toml", "--party", party, "--data", f"{party}.csv", "--to", "box")
    tally = ("tally", "e.toml", "--from", "box", "--out", "outcome")
    output = oneballot(*tally, "--publish", "shared", status=1)
    assert "--publish-members" in output
    assert "oneballot new --public" in output
    assert not Path("outcome").exists(), "it is refused before anything is counted"
    oneballot(*tally)
    parts = Election.read(Path("e.toml")), Outcome.load(Path("outcome")), Path("outcome"), Path("shared")
    with pytest.raises(OneBallotError, match="The outcome is in outcome, and nothing was published"):
        publish_outcome(*parts, members=False, rows=False)  # as after a method that does not declare `asks_members`
    assert not Path("shared").exists()
    assert "made of the parties' own models" in oneballot(*tally, "--publish", "shared", "--publish-members")
    assert "ensemble" in Outcome.load(Path("shared")).model.model_.dump().format


def test_check_and_cast_say_for_how_many_parties_an_accuracy_is_stated(here: Path) -> None:
    private = ("--method", "fedkt", "--level", "L2", "--epsilon", "5")
    oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill", *private)
    cast = ("cast", "e.toml", "--party", "a", "--data", "a.csv", "--keep")
    unknown = "The number of parties is unknown, as there is no roster and no quorum above 1"
    for words in (("check", "e.toml"), (*cast, "one", "--dry-run"), (*cast, "one")):
        assert unknown in oneballot(*words)
    with_three = oneballot("check", "e.toml", "--parties", "3")
    assert "With 3 parties (--parties): When all" in with_three
    assert "The majority of 3 such parties" in with_three
    Path("q.toml").write_text(Path("e.toml").read_text().replace("quorum = 1", "quorum = 4"))
    assert "With the 4 parties of the quorum, and no roster" in oneballot("check", "q.toml")
    for name in "abcde":
        key = oneballot("keys", "new", name, "--json").split('"public": "')[1].split('"')[0]
        oneballot("keys", "add", "q.toml", name, key)
    roster = "With the 5 parties of the roster, if all of them take part; the quorum is 4: When all"
    assert roster in oneballot("check", "q.toml")
    assert roster in oneballot("cast", "q.toml", "--party", "b", "--data", "b.csv", "--keep", "three")


def test_at_l0_cast_says_nothing_about_the_number_of_parties(here: Path) -> None:
    oneballot("new", "e.toml", "--public", "public.csv", "--label", "ill")
    assert "parties is unknown" not in oneballot("cast", "e.toml", "--party", "a", "--data", "a.csv")
