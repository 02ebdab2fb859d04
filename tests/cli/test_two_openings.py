"""At a terminal: a party that casts again, or signs its ballot again, does not make a second opening different."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import oneballot as ob
from oneballot.ballot.keys import new_key, new_server_key
from oneballot.cli import app

SERVERS = ("a", "b")


def run(*arguments: object, status: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == status, result.output + result.stderr
    return result


def cast(folder: Path, party: str, *more: object) -> Path:
    done = run("cast", folder / "election.toml", "--party", party, "--data", folder / f"{party}.csv", "--json",
               "--to", folder / "box", "--keep", folder / "kept", "--key", folder / f"{party}.key", *more)  # fmt: skip
    return folder / "box" / f"{json.loads(done.output)['name']}.ballot"


def share(folder: Path, side: str, *more: object, status: int = 0) -> Result:
    home = folder / f"at-{side}"
    return run("tally", folder / "election.toml", "--from", folder / "box", "--out", home, "--share", side,
               "--key", folder / f"{side}-server.key", *more, status=status)  # fmt: skip


def exchange(folder: Path, status: int = 0) -> Result:
    """Both servers list their ballots and write partials; what server b answers."""
    for side in SERVERS:
        share(folder, side)
    share(folder, "a", "--other", folder / "at-b" / "ballots-b.json", status=status)
    return share(folder, "b", "--other", folder / "at-a" / "ballots-a.json", status=status)


@pytest.fixture
def opened(clinic: Path) -> Path:
    """An election at L0 for five parties, of which a, b and c have cast; their total is opened."""
    keys = [new_server_key(clinic / f"{side}-server.key") for side in SERVERS]
    run("new", clinic / "election.toml", "--public", clinic / "public.csv", "--label", "ill", "--tallies", *keys)
    for name in "de":
        (clinic / f"{name}.csv").write_bytes((clinic / "test.csv").read_bytes())
    for name in "abcde":
        run("keys", "add", clinic / "election.toml", name, new_key(clinic / f"{name}.key"))
    for name in "abc":
        cast(clinic, name)
    exchange(clinic)
    return clinic


def test_a_late_ballot_is_not_opened_beside_a_recast_one(opened: Path) -> None:
    (opened / "box" / "c.ballot").rename(opened / "c.moved")
    assert cast(opened, "c", "--recast").read_bytes() != (opened / "c.moved").read_bytes()
    cast(opened, "d")
    refused = " ".join(exchange(opened, status=1).stderr.split())
    assert "these ballots differ from an earlier opening by 1 (d)" in refused
    assert "The new ballot of c may hold the same numbers, so it does not count" in refused
    cast(opened, "e")
    assert "by 2 (d, e)" in " ".join(exchange(opened, status=1).stderr.split())


def test_a_late_ballot_is_not_opened_beside_one_that_was_signed_again(opened: Path) -> None:
    old = ob.Election.read(opened / "election.toml").roster["c"][0]
    (opened / "c.key").rename(opened / "c.old.key")
    new = new_key(opened / "c.key")
    text = (opened / "election.toml").read_text()
    (opened / "election.toml").write_text(text.replace(old, new))
    first = (opened / "box" / "c.ballot").read_bytes()
    (opened / "box" / "c.ballot").unlink()
    assert cast(opened, "c", "--resign").read_bytes() != first
    cast(opened, "d")
    refused = " ".join(exchange(opened, status=1).stderr.split())
    assert "these ballots differ from an earlier opening by 1 (d)" in refused


def test_check_says_how_few_ballots_are_opened_and_that_a_short_roster_never_opens(opened: Path) -> None:
    path = opened / "election.toml"
    assert "a total is opened from 3 ballots on: the larger of quorum and min_difference" in run("check", path).output
    text = path.read_text()
    path.write_text(text.replace("quorum = 1", "quorum = 4"))
    assert "a total is opened from 4 ballots on" in run("check", path).output
    path.write_text(text.replace("min_difference = 3", "min_difference = 6"))
    refused = " ".join(run("check", path, status=1).stderr.split())
    assert "no total can ever be opened: with two tallies it takes at least 6 ballots (min_difference" in refused
    assert "the roster lists 5 parties. Add more (oneballot keys add)" in refused


def test_check_says_that_planning_for_fewer_parties_makes_ballots_smaller(opened: Path) -> None:
    path = opened / "election.toml"
    assert "sums are planned for" not in run("check", path).output
    text = path.read_text()
    start, end = text.index('name = "analytic"'), text.index("[privacy]")
    path.write_text(f'{text[:start]}name = "fedkt"\nvoting = "soft"\n\n{text[end:]}')
    shown = " ".join(run("check", path).output.split())
    assert "a number takes 4 bytes, because sums are planned for 1,000 parties; with parties = 10 under" in shown
