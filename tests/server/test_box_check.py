"""`oneballot box check` finds what a tally would spoil, for the same reasons, and writes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.keys import new_key, new_server_key, read_key, read_server_key
from oneballot.boxes.folder import Folder
from oneballot.cli import app
from oneballot.election import template
from oneballot.errors import KeyFileError
from oneballot.party.cast import cast_data, cast_together
from oneballot.party.context import PartyContext
from oneballot.party.submit import cast_file
from oneballot.server.box_check import check_box
from oneballot.server.tally import Options, tally_box


def test_every_type_of_bad_ballot_is_found_with_the_reason_of_the_tally(make_election, parties, tmp_path: Path) -> None:
    names = list(parties)
    roster = {name: new_key(tmp_path / name) for name in names[:4]}
    election, open_election = make_election(roster=roster, max_ballot_mb=1), make_election(max_ballot_mb=1)
    other = make_election(seed=9, max_ballot_mb=1)

    def sealed(which: ob.Election, party: str, key: str | None, rows: str | None = None) -> bytes:
        secret = None if key is None else read_key(tmp_path / key)
        return cast_data(PartyContext(which, party), parties[rows or party], key=secret).sealed

    good = sealed(election, names[0], names[0])
    box = Folder(tmp_path / "box")
    delivered = {
        "good": good,
        "good again": good,
        "twice 1": sealed(election, names[1], names[1]),
        "twice 2": sealed(election, names[1], names[1], names[0]),
        "unsigned": sealed(open_election, names[2], None),
        "forged": sealed(open_election, names[2], names[0]),
        "unlisted": sealed(open_election, names[4], None),
        "elsewhere": sealed(other, names[3], names[3]),
        "altered": good[:200] + b"x" + good[201:],
        "nonsense": b"nonsense",
        "large": b"0" * (2**20 + 1),
    }
    for name, data in delivered.items():
        box.deliver(name, data)
    checked = {ballot.name: ballot for ballot in check_box(election, box)}
    assert list(checked) == sorted(delivered)
    assert [checked[name].status for name in ("good", "good again")] == ["valid", "copy"]
    assert checked["good"].party == names[0]
    assert checked["twice 2"].party == names[1]
    assert checked["forged"].party is None
    spoiled = {ballot.name: ballot.reason for ballot in checked.values() if ballot.status == "spoiled"}
    assert spoiled == tally_box(election, box).spoiled
    assert len(spoiled) == len(delivered) - 2


@pytest.mark.parametrize("privacy", [None, ob.L1(epsilon=50.0)], ids=["L0", "L1"])
def test_an_encrypted_box_is_checked_with_the_servers_key(make_election, parties, privacy, tmp_path: Path) -> None:
    settings = {} if privacy is None else {"privacy": privacy, "method": ob.FedKT()}
    election = make_election(server_key=new_server_key(tmp_path / "server.key"), **settings)
    box, key = Folder(tmp_path / "box"), read_server_key(tmp_path / "server.key")
    for ballot in cast_together(election, parties):
        box.deliver(ballot.party, ballot.sealed)
    with pytest.raises(KeyFileError, match="give the server's secret key"):
        check_box(election, box)
    before = sorted(tmp_path.iterdir())
    checked = check_box(election, box, key)
    assert {ballot.status for ballot in checked} == {"valid"}
    assert {ballot.party for ballot in checked} == set(parties)
    assert sorted(tmp_path.iterdir()) == before, "nothing is written or charged"
    assert tally_box(election, box, Options(key=key)).ledger.drawn == 1


def test_contents_that_the_method_cannot_read_are_found(election, parties, tmp_path: Path) -> None:
    from oneballot.ballot.seal import seal

    box = Folder(tmp_path / "box")
    box.deliver("bad", seal({}, election, "a").sealed)
    box.deliver("away", seal({}, election, "b", reason="no rows").sealed)
    (away, bad) = check_box(election, box)
    assert (bad.status, bad.party) == ("spoiled", "a")
    assert (away.status, away.reason) == ("abstains", "no rows")


def test_the_command_prints_a_table_and_its_exit_status(clinic: Path, monkeypatch) -> None:
    text = template.draft(clinic / "public.csv", "ill", beside=clinic / "election.toml").text
    (clinic / "election.toml").write_text(text.replace("n_estimators = 100", "n_estimators = 3"))
    monkeypatch.chdir(clinic)
    election = ob.Election.read("election.toml")
    for name in "ab":
        cast_file(replace(election, roster={}), name, clinic / f"{name}.csv", keep=Path("kept"), box=Folder("box"))

    def run(*more: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["box", "check", "election.toml", "box", *more])
        return done.exit_code, done.stdout

    status, said = run()
    assert status == 0
    assert "2 ballots in box: 2 valid" in said
    (clinic / "box" / "zz.ballot").write_bytes(b"nonsense")
    status, said = run("--json")
    facts = json.loads(said)
    assert (status, facts["bad"]) == (1, 1)
    assert [ballot["status"] for ballot in facts["ballots"]] == ["valid", "valid", "spoiled"]
    assert "SPOILED" in run()[1]
