"""Hostile lists of ballots, partials and records: each is refused with its reason, or adds nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import oneballot as ob
from oneballot.errors import BallotError, PrivacyError
from oneballot.party.cast import cast_together
from oneballot.server.tally import tally
from oneballot.server.two_tallies.combine import combine
from oneballot.server.two_tallies.partial import MOST_BYTES, Partial
from oneballot.server.two_tallies.roll import Roll
from oneballot.server.two_tallies.share import tally_share

from .conftest import NAMES, plain
from .test_servers import both

LIAR = NAMES[3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda roll: roll | {"side": "a"}, "is the list of server a"),
        (lambda roll: roll | {"election": "0" * 64}, "is of another election"),
        (lambda roll: roll | {"ballots": roll["ballots"] * 2}, "lists a party twice"),
        (lambda roll: roll | {"extra": 1}, "is not a list of ballots"),
        (lambda roll: [], "is not a list of ballots"),
    ],
)
def test_a_malformed_list_is_refused(change, reason, federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    path = tally_share(own.election, own.box, tmp_path / "b", "b", own.servers["b"], beside=tmp_path).roll_path
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(BallotError, match=reason):
        Roll.read(path, own.election, "b")


def test_a_list_with_ballots_that_do_not_exist_adds_nothing(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    path = tally_share(own.election, own.box, tmp_path / "b", "b", own.servers["b"], beside=tmp_path).roll_path
    roll = json.loads(path.read_text())
    roll["ballots"].append({"party": "invented", "digest": "1" * 64, "abstained": False})
    path.write_text(json.dumps(roll))
    made = tally_share(own.election, own.box, tmp_path / "a", "a", own.servers["a"], beside=tmp_path, other=path)
    assert sorted(made.partial.voted) == sorted(NAMES[:3])
    assert made.differing == ("the ballot of invented is listed by server b, not by server a",)


def test_a_list_that_names_one_of_two_ballots_of_a_party_adds_neither(federation, tmp_path) -> None:
    """Its share is added when it is read, and subtracted when the party's second ballot is found."""
    own = federation()
    own.cast(*NAMES[:4])
    ballots = cast_together(plain(own.election), {name: own.parties[name] for name in NAMES[:3]})
    own.box.deliver("zz-replayed", own.make(LIAR).sealed)
    lists = {}
    for side in "ab":
        made = tally_share(own.election, own.box, tmp_path / side, side, own.servers[side], beside=tmp_path)
        assert LIAR not in made.counter.voted
        roll = json.loads(made.roll_path.read_text())
        roll["ballots"].append({"party": LIAR, "digest": own.ballots[LIAR].digest, "abstained": False})
        lists[side] = tmp_path / f"forged-{side}.json"
        lists[side].write_text(json.dumps(roll))
    partials = [
        tally_share(own.election, own.box, tmp_path / side, side, own.servers[side], beside=tmp_path, other=lists[its])
        for side, its in ("ab", "ba")
    ]
    outcome = combine(own.election, *(each.partial for each in partials))
    assert sorted(outcome.voted) == sorted(NAMES[:3])
    assert outcome.model.dump() == tally(plain(own.election), ballots).model.dump()


def test_a_server_that_lists_single_ballots_learns_nothing_from_an_honest_one(federation, tmp_path) -> None:
    own = federation(quorum=1)
    own.cast(*NAMES[:5])
    path = tally_share(own.election, own.box, tmp_path / "b", "b", own.servers["b"], beside=tmp_path).roll_path
    roll = json.loads(path.read_text())
    path.write_text(json.dumps(roll | {"ballots": roll["ballots"][:1]}))
    with pytest.raises(PrivacyError, match="at least 3 must differ"):
        tally_share(own.election, own.box, tmp_path / "a", "a", own.servers["a"], beside=tmp_path, other=path)
    assert not (tmp_path / "a" / "partial-a").exists()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-1], "is incomplete"),
        (lambda data: data[:40], "is not a partial"),
        (lambda data: b"PK" + data, "is not a partial"),
        (lambda data: data.replace(b'"bits":64', b'"bits":63'), "its header is malformed"),
        (lambda data: data.replace(b'"opening":1', b'"opening":0'), "its header is malformed"),
        (lambda data: data.replace(b'"opening":1', b'"opening":1000000000'), "its header is malformed"),
        (lambda data: re.sub(rb'"digest":"[0-9a-f]+"', b'"digest":[]', data), "its header is malformed"),
        (lambda data: data.replace(b'"bytes":', b'"bytes":-'), "its header is malformed"),
        (lambda data: data.replace(b'"casts":1', b'"casts":"x"'), "its header is malformed"),
        (lambda data: re.sub(rb'"name":"[^"]*"', rb'"name":"\\u001b[2J"', data), "its header is malformed"),
        (lambda data: re.sub(rb'"sums":\[(.*?\]\])', rb'"sums":[\1,\1', data), "listed twice"),
    ],
)
def test_a_damaged_partial_is_refused(change, reason, federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    path: Path = tmp_path / "a" / "partial-a"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(BallotError, match=reason):
        Partial.read(path)


def test_a_file_that_is_too_large_for_a_partial_is_not_read(tmp_path) -> None:
    path = tmp_path / "partial-a"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(BallotError, match="too large for a partial"):
        Partial.read(path)


def test_a_partial_of_another_election_is_refused(federation, tmp_path) -> None:
    own, other = federation(), federation({"min_difference": 2})
    own.cast(*NAMES[:3])
    one, two = both(own, tmp_path)
    with pytest.raises(BallotError, match="of another election"):
        combine(other.election, one.partial, two.partial)


def test_a_damaged_record_of_openings_stops_the_server(federation, tmp_path) -> None:
    own = federation(privacy=ob.L2(5.0))
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    (record,) = (tmp_path / "at-a" / "openings-a").iterdir()
    kept = record.read_bytes()
    record.write_bytes(kept[:-5])
    with pytest.raises(PrivacyError, match="restore"):
        both(own, tmp_path)
    record.write_bytes(kept)
    os.rename(record, record.with_name(record.name.replace("0001", "0002")))
    with pytest.raises(PrivacyError, match="an earlier one is missing"):
        both(own, tmp_path)
