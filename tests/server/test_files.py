"""Deadlines: before it a tally waits for every party on the roster; later ballots count at the next tally."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.keys import new_key
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.election import template
from oneballot.errors import ElectionError, QuorumError
from oneballot.party.submit import cast_file
from oneballot.server.files import tally_files

HOUR = timedelta(hours=1)


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def agreed(clinic: Path) -> ob.Election:
    """An election in files, in which two of three parties have voted."""
    keys = "".join(f'{name} = "{new_key(clinic / name)}"\n' for name in "abc")
    text = template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml").text
    text = text.replace("n_estimators = 100", "n_estimators = 5").replace("[roster]", f"[roster]\n{keys}#", 1)
    (clinic / "election.toml").write_text(text)
    election = ob.Election.read(clinic / "election.toml")
    for name in "ab":
        cast(election, clinic, name)
    return election


def cast(election: ob.Election, clinic: Path, name: str) -> None:
    rows = clinic / f"{name}.csv"
    cast_file(election, name, rows, keep=clinic / "kept", key=clinic / name, box=Folder(clinic / "box"))


def tally(election: ob.Election, clinic: Path, **more: bool) -> ob.Outcome:
    return tally_files(election, Folder(clinic / "box"), clinic / "outcome", beside=clinic, **more)


def test_before_the_deadline_a_tally_waits_for_every_party_on_the_roster(agreed, clinic: Path) -> None:
    ahead = replace(agreed, deadline=now() + HOUR)
    with pytest.raises(QuorumError, match=r"2 parties have voted, and c may vote until .* clock: .* --early"):
        tally(ahead, clinic)
    assert not (clinic / "outcome").exists()
    assert sorted(tally(ahead, clinic, early=True).voted) == ["a", "b"]
    cast(ahead, clinic, "c")
    assert sorted(tally(ahead, clinic).voted) == ["a", "b", "c"]


def test_without_a_roster_any_party_can_vote_until_the_deadline(agreed, clinic: Path) -> None:
    open_election = replace(agreed, deadline=now() + HOUR, roster={})
    with pytest.raises(QuorumError, match="2 parties have voted, and others may vote until"):
        tally(open_election, clinic)


def test_after_the_deadline_a_quorum_is_tallied_and_a_late_ballot_counts_at_the_next_tally(
    agreed, clinic: Path
) -> None:
    past = replace(agreed, deadline=now() - HOUR)
    assert sorted(tally(past, clinic).voted) == ["a", "b"]
    with pytest.warns(ob.OneBallotWarning, match="deadline of this election was .* counts at the next tally"):
        cast(past, clinic, "c")
    late = tally(past, clinic)
    assert sorted(late.voted) == ["a", "b", "c"]
    assert not late.spoiled


def test_an_early_l1_tally_draws_no_noise(agreed, clinic: Path) -> None:
    private = replace(agreed, method=ob.FedKT(), privacy=ob.L1(epsilon=50.0), server_key="none", deadline=now() + HOUR)
    for path in (*(clinic / "box").iterdir(), *(clinic / "kept").iterdir()):
        path.unlink()
    for name in "ab":
        cast(private, clinic, name)
    with pytest.raises(QuorumError, match="c may vote until"):
        tally(private, clinic)
    assert not (clinic / "tallies.json").exists()


def test_the_deadline_does_not_change_the_digest(agreed) -> None:
    assert replace(agreed, deadline=now()).digest == agreed.digest


@pytest.mark.parametrize("text", ["2027-03-01T12:00:00", "2027-03-01", '"2027-03-01T12:00:00Z"', "12:00:00", "5"])
def test_a_deadline_without_a_time_zone_is_rejected(text: str, agreed, clinic: Path) -> None:
    path = clinic / "election.toml"
    path.write_text(path.read_text().replace("# deadline = 2027-03-01T12:00:00Z", f"deadline = {text}"))
    with pytest.raises(
        ElectionError, match=r"deadline: expected a date and time with a time zone, such as 2027-03-01T12"
    ):
        ob.Election.read(path)
    with pytest.raises(ElectionError, match="needs a time zone"):
        replace(agreed, deadline=datetime(2027, 3, 1))


def test_commands_apply_the_deadline(agreed, clinic: Path) -> None:
    path = clinic / "election.toml"
    path.write_text(
        path.read_text().replace("# deadline = 2027-03-01T12:00:00Z", "deadline = 9999-03-01T12:00:00+01:00")
    )
    checked = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert json.loads(checked.stdout)["deadline"] == "9999-03-01 12:00:00+01:00"
    assert "deadline: 9999-03-01" in CliRunner().invoke(app, ["check", str(path)]).stdout
    words = ["tally", str(path), "--from", str(clinic / "box"), "--out", str(clinic / "outcome")]
    early = CliRunner().invoke(app, words)
    assert early.exit_code == 1
    assert "c may vote until 9999-03-01" in early.output
    assert CliRunner().invoke(app, [*words, "--early"]).exit_code == 0
