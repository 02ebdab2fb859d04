"""`oneballot log` prints and verifies what tallies, publications and exports have recorded."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.election import template
from oneballot.party.submit import cast_file
from oneballot.server.log import LOG, save


def oneballot(*words: object, status: int = 0) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done.stdout if "--json" in words else done.output


@pytest.fixture
def tallied(clinic: Path, monkeypatch) -> Path:
    """A folder with an election at L1, its box, its outcome and a published copy."""
    privacy = '[privacy]\nlevel = "L1"\nepsilon = 50.0\n'
    text = template.draft(
        clinic / "public.csv", "ill", beside=clinic / "election.toml", privacy=privacy, server_key="none"
    ).text
    (clinic / "election.toml").write_text(text.replace("n_estimators = 100", "n_estimators = 3"))
    monkeypatch.chdir(clinic)
    election = ob.Election.read(clinic / "election.toml")
    for name in "ab":
        cast_file(election, f"party-{name}", clinic / f"{name}.csv", keep=clinic / "kept", box=ob.Folder("box"))
    words = ("--from", "box", "--out", "outcome", "--publish", "published", "--json")
    done = json.loads(oneballot("tally", "election.toml", *words))
    assert len(done["log"]) == 64
    return clinic


def test_a_tally_and_its_publication_are_in_the_log(tallied: Path) -> None:
    printed = oneballot("log", "outcome")
    assert "2 counted" in printed
    assert re.search(r" 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", printed), "the time is on one line"
    assert "The log is intact: 2 entries" in printed
    log = json.loads(oneballot("log", "outcome", "--json"))
    for entry in log["entries"]:
        assert f"hash {entry['number']}: {entry['hash']}\n" in printed, "a hash is on one line at any width"
    assert [entry["kind"] for entry in log["entries"]] == ["tally", "release"]
    assert log["intact"]
    assert 0 < log["entries"][0]["facts"]["seconds"] < 600
    oneballot("log", "outcome", "--expect", log["head"])
    assert "cut off or rewritten" in oneballot("log", "outcome", "--expect", "0" * 64, status=1)


def test_at_l1_only_the_servers_own_page_states_how_long_the_tally_took(tallied: Path) -> None:
    pytest.importorskip("jinja2")
    oneballot("report", "outcome", "--server-page")
    assert "s at the server" not in (tallied / "report.html").read_text()
    seconds = json.loads(oneballot("log", "outcome", "--json"))["entries"][0]["facts"]["seconds"]
    assert f"{seconds:,.1f} s at the server" in (tallied / "report.do-not-publish.html").read_text()
    index = tallied / "outcome" / "outcome.json"
    index.write_bytes(index.read_bytes() + b" ")  # the log is of another outcome
    oneballot("report", "outcome", "--server-page")
    assert "s at the server" not in (tallied / "report.do-not-publish.html").read_text()


def test_a_published_copy_has_a_log_that_names_no_party(tallied: Path) -> None:
    text = (tallied / "published" / LOG).read_text()
    assert "party-" not in text
    assert "seconds" not in text
    own = json.loads(oneballot("log", "outcome", "--json"))
    (entry,) = json.loads(oneballot("log", "published", "--json"))["entries"]
    assert entry["facts"]["server_entry"] == own["head"]
    assert not {"counted", "abstained", "spoiled", "without"} & entry["facts"].keys()
    for digest in own["entries"][0]["facts"]["counted"].values():
        assert digest not in text


def test_a_log_at_l1_holds_no_votes(tallied: Path) -> None:
    allowed = {"oneballot", "outcome", "model", "count", "replaces", "election", "privacy", "counted", "abstained"}
    for line in (tallied / "outcome" / LOG).read_text().splitlines():
        assert json.loads(line)["facts"].keys() <= allowed | {"spoiled", "without", "withdrawn", "to", "seconds"}


def test_a_broken_log_is_reported_with_exit_status_1(tallied: Path) -> None:
    path = tallied / "outcome" / LOG
    path.write_text(path.read_text().replace("party-a", "party-z"))
    assert "BROKEN: entry 1 was edited" in oneballot("log", "outcome", status=1)
    assert not json.loads(oneballot("log", "outcome", "--json", status=1))["intact"]


def test_a_log_that_was_signed_again_beside_an_outcome_stripped_of_its_voters_is_not_taken_for_this_machines(
    tallied: Path, monkeypatch
) -> None:
    """Without voters an outcome looks published, and a published one may be signed by any server's key."""
    assert "this machine's log key" in oneballot("log", "outcome")
    assert json.loads(oneballot("log", "outcome", "--json"))["own_key"] is True
    own = os.environ["ONEBALLOT_LOG_KEY"]
    monkeypatch.setenv("ONEBALLOT_LOG_KEY", str(tallied / "forger" / "log.key"))
    (tallied / "outcome" / LOG).unlink()
    save(ob.Outcome.load(tallied / "outcome").published(), tallied / "outcome", "tally")
    monkeypatch.setenv("ONEBALLOT_LOG_KEY", own)
    assert ", not this machine's log key" in oneballot("log", "outcome")
    assert json.loads(oneballot("log", "outcome", "--json"))["own_key"] is False


def test_an_export_is_in_the_log(tallied: Path) -> None:
    oneballot("export", "outcome", "--to", "sklearn", "--out", "model.skops")
    last = json.loads(oneballot("log", "outcome", "--json"))["entries"][-1]
    assert (last["kind"], last["facts"]["to"], last["facts"]["path"]) == ("release", "sklearn", "model.skops")


def test_an_export_of_a_published_copy_by_someone_else_leaves_its_log_alone(tallied: Path, monkeypatch) -> None:
    monkeypatch.setenv("ONEBALLOT_LOG_KEY", str(tallied / "elsewhere" / "log.key"))
    before = (tallied / "published" / LOG).read_bytes()
    oneballot("export", "published", "--to", "sklearn", "--out", "model.skops")
    assert (tallied / "published" / LOG).read_bytes() == before
    assert "intact" in oneballot("log", "published"), "its readers have other keys"


def test_a_folder_without_a_log_says_why(tallied: Path) -> None:
    (tallied / "outcome" / LOG).unlink()
    assert "a version before 0.6" in oneballot("log", "outcome", status=1)
