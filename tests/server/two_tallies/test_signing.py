"""Partials and lists are signed: what was changed, or written by another key than the election names, is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from oneballot.ballot.keys import fingerprint, public_text
from oneballot.errors import BallotError, ElectionError, KeyFileError, PrivacyError
from oneballot.server.two_tallies.combine import combine
from oneballot.server.two_tallies.partial import Partial
from oneballot.server.two_tallies.roll import Roll
from oneballot.server.two_tallies.share import tally_share
from oneballot.server.two_tallies.signing import TRAILER, describe_signers

from .conftest import NAMES, Federation

SIGNERS = {side: Ed25519PrivateKey.generate() for side in "ab"}
NAMED = {f"{side}_signs": public_text(key) for side, key in SIGNERS.items()}


def share(own: Federation, folder: Path, side: str, signer=None, other: Path | None = None):
    return tally_share(
        own.election, own.box, folder / side, side, own.servers[side],
        beside=folder / f"at-{side}", other=other, signer=signer,
    )  # fmt: skip


def exchange(own: Federation, folder: Path, signers=SIGNERS) -> list[Partial]:
    lists = {side: share(own, folder, side, signers.get(side)).roll_path for side in "ab"}
    return [share(own, folder, s, signers.get(s), lists[o]).partial for s, o in (("a", "b"), ("b", "a"))]


def test_signed_partials_are_combined_and_read_back(federation, tmp_path) -> None:
    own = federation(NAMED)
    own.cast(*NAMES[:3])
    partials = exchange(own, tmp_path)
    read = [Partial.read(tmp_path / side / f"partial-{side}") for side in "ab"]
    assert [each.signer for each in read] == [NAMED["a_signs"], NAMED["b_signs"]]
    assert [each.dump() for each in read] == [each.dump() for each in partials]
    assert sorted(combine(own.election, *read).voted) == sorted(NAMES[:3])
    assert describe_signers(own.election, *read) == (
        "Both partials are signed with the servers' keys that the election names."
    )
    assert [each.signer for each in exchange(own, tmp_path)] == [each.signer for each in read]  # the same opening


@pytest.mark.parametrize("place", [30, -TRAILER - 1, -TRAILER, -1], ids=["header", "numbers", "key", "signature"])
def test_a_partial_that_was_changed_after_it_was_signed_is_refused(place, federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    data = bytearray(exchange(own, tmp_path)[0].dump())
    at = data.index(b'"opening":1') + 10 if place == 30 else place
    data[at] ^= 2
    with pytest.raises(BallotError, match="was changed after it was signed"):
        Partial.parse(bytes(data), "partial-a")


def test_only_the_keys_that_the_election_names_are_accepted(federation, tmp_path) -> None:
    own = federation(NAMED)
    own.cast(*NAMES[:3])
    one, two = exchange(own, tmp_path)
    with pytest.raises(BallotError, match="the partial of server a is not signed, but the election names"):
        combine(own.election, one.signed(None), two)
    with pytest.raises(BallotError, match=f"another key, fingerprint {fingerprint(NAMED['b_signs'])}"):
        combine(own.election, one.signed(SIGNERS["b"]), two)
    with pytest.raises(BallotError, match="the partial of server b"):
        combine(own.election, one, two.signed(Ed25519PrivateKey.generate()))


def test_a_list_that_was_changed_or_signed_by_another_is_refused(federation, tmp_path) -> None:
    own = federation(NAMED)
    own.cast(*NAMES[:3])
    path = share(own, tmp_path, "b", SIGNERS["b"]).roll_path
    good = json.loads(path.read_text())
    assert len(Roll.read(path, own.election, "b").ballots) == 3
    for change, reason in (
        ({"ballots": good["ballots"][:2]}, "was changed after it was signed"),
        ({"signature": "0" * 2 * TRAILER}, "was changed after it was signed"),
        ({"signature": "nonsense"}, "is not a list of ballots"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(BallotError, match=reason):
            Roll.read(path, own.election, "b")
    path.write_text(json.dumps({name: value for name, value in good.items() if name != "signature"}))
    with pytest.raises(BallotError, match=r"ballots-b.json is not signed, but the election names"):
        share(own, tmp_path, "a", SIGNERS["a"], path)


def test_a_server_without_its_signing_key_stops_before_it_draws_noise(federation, tmp_path) -> None:
    own = federation(NAMED)
    own.cast(*NAMES[:3])
    for signer, reason in ((None, "but there is none"), (SIGNERS["b"], "this machine's has fingerprint")):
        with pytest.raises(KeyFileError, match=reason):
            share(own, tmp_path, "a", signer)
    assert not (tmp_path / "a").exists()


def test_without_named_keys_signatures_are_optional_and_combine_says_what_they_prove(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    one, two = exchange(own, tmp_path, {"a": SIGNERS["a"]})
    assert combine(own.election, one, two).voted
    text = describe_signers(own.election, one, two)
    assert f"that of server a is signed, fingerprint {fingerprint(NAMED['a_signs'])}" in text
    assert "that of server b is not signed" in text
    assert (tmp_path / "b" / "ballots-b.json").read_text().count("signature") == 0


def test_an_opening_on_record_that_was_changed_stops_the_server(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    exchange(own, tmp_path)
    (record,) = (tmp_path / "at-a" / "openings-a").iterdir()
    data = bytearray(record.read_bytes())
    data[-TRAILER - 1] ^= 1
    record.write_bytes(data)
    with pytest.raises(PrivacyError, match="restore"):
        exchange(own, tmp_path)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"a_signs": "ed25519:nonsense"}, r"\[tallies\] a_signs: 'ed25519:nonsense'"),
        ({"a_signs": NAMED["a_signs"], "b_signs": NAMED["a_signs"]}, "a_signs and b_signs are the same key"),
    ],
)
def test_signing_keys_that_cannot_work_are_refused(keys, reason, federation) -> None:
    with pytest.raises(ElectionError, match=reason):
        federation(keys)


def test_signing_keys_are_in_the_digest_and_absent_ones_change_nothing(federation) -> None:
    assert "a_signs" not in federation().election.describe()["tallies"]
    assert federation(NAMED).election.describe()["tallies"]["a_signs"] == NAMED["a_signs"]
