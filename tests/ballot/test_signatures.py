"""A party can have several keys at a time, and a revoked key is rejected whenever it signed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.keys import new_key, read_key
from oneballot.ballot.manifest import open_ballot
from oneballot.ballot.seal import seal, sign_again, unseal
from oneballot.ballot.signatures import check_signer
from oneballot.errors import ElectionError, KeyFileError, Spoiled
from oneballot.party.cast import cast_together


@pytest.fixture
def keys(tmp_path: Path):
    """Public and secret keys by name: party a has an old and a new one."""
    names = ("old", "new", "b")
    public = {name: new_key(tmp_path / f"{name}.key") for name in names}
    return public, {name: read_key(tmp_path / f"{name}.key") for name in names}


def test_both_keys_of_a_party_are_accepted_during_a_rotation(keys, make_election) -> None:
    public, secret = keys
    election = make_election(roster={"a": [public["new"], public["old"]], "b": public["b"]})
    for name in ("old", "new"):
        assert unseal(seal({}, election, "a", key=secret[name], reason="-").sealed, election).party == "a"
    with pytest.raises(KeyFileError, match="the roster lists another key for a"):
        check_signer(election, "a", secret["b"])


@pytest.mark.parametrize("listed", [["new"], ["new", "old"]], ids=["removed from the roster", "still listed"])
def test_a_revoked_key_is_rejected_with_its_reason(keys, make_election, listed) -> None:
    public, secret = keys
    before = make_election(roster={"a": public["old"]})
    after = make_election(roster={"a": [public[k] for k in listed]}, revoked={public["old"]: "stolen on 3 May"})
    assert before.digest == after.digest
    ballot = seal({}, before, "a", key=secret["old"], reason="-")
    with pytest.raises(
        Spoiled, match=r"names a as its party but is signed with a revoked key \(stolen on 3 May\).*its new key"
    ):
        unseal(ballot.sealed, after)
    with pytest.raises(KeyFileError, match=r"was revoked \(stolen on 3 May\).*keys new a"):
        check_signer(after, "a", secret["old"])
    again = sign_again(ballot.sealed, secret["new"])
    assert unseal(again, after).digest == ballot.digest


def test_a_party_whose_only_key_was_revoked_stays_on_the_roster_and_cannot_vote(keys, make_election) -> None:
    public, secret = keys
    election = make_election(roster={"a": public["old"], "b": public["b"]}, revoked={public["old"]: ""})
    assert election.parties == 2
    with pytest.raises(KeyFileError, match="this key of a was revoked; make a new one"):
        check_signer(election, "a", secret["old"])


def test_a_key_that_was_never_listed_is_not_called_revoked(keys, make_election) -> None:
    public, secret = keys
    election = make_election(roster={"a": public["new"]}, revoked={public["old"]: "lost"})
    forged = seal({}, make_election(), "a", key=secret["b"], reason="-").sealed
    with pytest.raises(Spoiled, match="the signature is not theirs"):
        unseal(forged, election)


def test_invalid_lists_of_keys_are_rejected(keys, make_election) -> None:
    public, _ = keys
    for roster in ({"a": [public["old"]], "b": [public["b"], public["old"]]}, {"a": [public["old"], public["old"]]}):
        with pytest.raises(ElectionError, match="a key is listed twice"):
            make_election(roster=roster)
    with pytest.raises(ElectionError, match="a has no key"):
        make_election(roster={"a": []})
    with pytest.raises(KeyFileError, match=r"the key of \[revoked\] is 'old'"):
        make_election(revoked={"old": "reason"})


def test_a_ballot_signed_with_a_revoked_key_is_removed_from_the_count(make_election, parties, tmp_path: Path) -> None:
    public = {party: new_key(tmp_path / f"{party}.key") for party in parties}
    secret = {party: read_key(tmp_path / f"{party}.key") for party in parties}
    election = make_election(roster=public)
    ballots = cast_together(election, parties, keys=secret)
    first = ob.tally(election, ballots)
    fresh = new_key(tmp_path / "fresh.key")
    roster = {**public, "party-3": [fresh]}
    revoked = make_election(roster=roster, revoked={public["party-3"]: "stolen"})
    second = ob.tally(revoked, ballots, previous=first)
    scratch = ob.tally(revoked, ballots)
    assert "party-3" not in second.voted
    assert "revoked key (stolen)" in second.spoiled["ballot 3"]
    assert np.array_equal(second.count.sums["votes"], scratch.count.sums["votes"])
    assert not np.array_equal(second.count.sums["votes"], first.count.sums["votes"])
    again = sign_again(ballots[2].sealed, read_key(tmp_path / "fresh.key"))
    third = ob.tally(revoked, [*ballots, again], previous=second)
    assert third.voted["party-3"].digest == first.voted["party-3"].digest
    assert np.array_equal(third.count.sums["votes"], first.count.sums["votes"])
    assert list(third.spoiled) == ["ballot 3"]


def test_a_ballot_is_removed_without_counting_any_again(make_election, parties, tmp_path: Path, monkeypatch) -> None:
    """The votes that the count keeps of the party are subtracted."""
    public = {party: new_key(tmp_path / f"{party}.key") for party in parties}
    secret = {party: read_key(tmp_path / f"{party}.key") for party in parties}
    ballots = cast_together(make_election(roster=public), parties, keys=secret)
    first = ob.tally(make_election(roster=public), ballots)
    counted = []
    count = ob.FedKT.count
    monkeypatch.setattr(ob.FedKT, "count", lambda self, b, ctx: counted.append(b.party) or count(self, b, ctx))
    revoked = make_election(roster=public, revoked={public["party-3"]: ""})
    second = ob.tally(revoked, ballots, previous=first)
    assert counted == []
    scratch = ob.tally(revoked, ballots)
    assert sorted(counted) == sorted(set(parties) - {"party-3"})
    assert np.array_equal(second.count.sums["votes"], scratch.count.sums["votes"])


class TestKeysPage:
    page = (Path(__file__).parents[2] / "docs/keys.md").read_text("utf-8")

    def test_its_roster_can_be_read(self, make_election) -> None:
        text, named = re.findall(r"```toml\n(.*?)```", self.page, re.S)
        assert list(make_election(**tomllib.loads(named)).roster) == ["Universitätsklinikum Köln – Haus 3"]
        settings = tomllib.loads(text)
        election = make_election(**settings)
        assert [len(keys) for keys in election.roster.values()] == [1, 2]
        assert election.encrypted
        assert election.revoked == settings["revoked"]

    def test_its_python_runs(self, tmp_path: Path, monkeypatch) -> None:
        (program,) = re.findall(r"```python\n(.*?)```", self.page, re.S)
        monkeypatch.chdir(tmp_path)
        names: dict[str, object] = {}
        exec(compile(program, "docs/keys.md", "exec"), names)
        assert list(names["outcome"].voted) == ["clinic-a"]


def test_signing_again_changes_only_the_signature(keys, make_election) -> None:
    public, secret = keys
    ballot = seal(
        {"votes": np.arange(9, dtype=np.uint8)}, make_election(roster={"a": public["old"]}), "a", key=secret["old"]
    )
    old, new = open_ballot(ballot.sealed), open_ballot(sign_again(ballot.sealed, secret["new"]))
    assert (old.signed, old.files) == (new.signed, new.files)
    assert old.signature != new.signature
    assert sign_again(ballot.sealed, secret["old"]) == ballot.sealed
