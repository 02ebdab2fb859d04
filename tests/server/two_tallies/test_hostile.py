"""Hostile shares: each is refused with its reason, and the other ballots count."""

from __future__ import annotations

import json

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.encryption import decrypt, encrypt
from oneballot.ballot.seal import seal
from oneballot.ballot.sealed_shares import MAGIC, seal_shares
from oneballot.ballot.shares import SEED_BYTES, Layout
from oneballot.errors import BallotError
from oneballot.server.prefetch import InMemory
from oneballot.server.two_tallies.combine import combine
from oneballot.server.two_tallies.counting import count_shares
from oneballot.server.two_tallies.partial import Partial
from oneballot.server.two_tallies.share import make_partials
from oneballot.types import Blob

from .conftest import NAMES, Federation
from .test_servers import both, opened

LIAR = NAMES[3]


def reasons(own: Federation, side: str) -> dict[str, str]:
    from oneballot.server.prefetch import Prefetcher

    with Prefetcher(own.box) as source:
        return count_shares(own.election, source, side, own.servers[side]).spoiled


def deliver(own: Federation, contents, party: str = LIAR) -> None:
    own.box.deliver(party, seal(contents, own.election, party, key=own.keys[party]).sealed)


def rewritten(own: Federation, blob: Blob, side: str, change) -> Blob:
    """A part with another clear text, encrypted to the same server."""
    clear = change(decrypt(blob.data, own.servers[side]))
    return Blob("share", encrypt(clear, own.election.tallies.key_of(side), own.election.digest))


def with_header(**changes):
    def change(clear: bytes) -> bytes:
        header, body = clear[len(MAGIC) :].split(b"\n", 1)
        return MAGIC + json.dumps(json.loads(header) | changes).encode() + b"\n" + body

    return change


@pytest.mark.parametrize(
    ("side", "change", "reason"),
    [
        ("a", lambda clear: clear[:-1], "has 31 bytes of share, expected 32"),
        ("a", lambda clear: clear + b"x", "has 33 bytes of share, expected 32"),
        ("b", lambda clear: clear[:-2], "bytes of share, expected"),
        ("b", lambda clear: b"", None),
        ("a", lambda clear: clear[:30], "is not a share that"),
        ("a", with_header(bits=8), "malformed: bits"),
        ("a", with_header(bits=128), "malformed: bits"),
        ("b", with_header(bits=16), "bytes of share, expected"),
        ("a", with_header(bits=16), "other names, shapes or sizes"),
        ("a", with_header(side="b"), "is the part for server b"),
        ("a", with_header(party="clinic-2"), "was made by clinic-2, not by clinic-4"),
        ("a", with_header(election="0" * 64), "is of another election"),
        ("a", with_header(sums=[["gram", [10**9, 10**9]]]), "malformed: sums"),
        ("a", with_header(sums=[["gram", [2**27]], ["sums", [2**27]]]), "or are too many"),
        ("a", with_header(sums=[["sums", [1]], ["gram", [1]]]), "out of order"),
        ("a", with_header(sums=[["sums", [1]], ["sums", [1]]]), "listed twice"),
        ("a", with_header(extra=1), "malformed: extra"),
    ],
)
def test_a_malformed_share_is_spoiled_and_the_others_count(side, change, reason, federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    contents = dict(own.make(LIAR).contents)
    name = f"for-{side}"
    if reason is None:
        contents[name] = Blob("share", b"nonsense")
        reason = "cannot be opened"
    else:
        contents[name] = rewritten(own, contents[name], side, change)
    deliver(own, contents)
    assert reason in reasons(own, side)[LIAR]
    other = "b" if side == "a" else "a"
    assert reasons(own, other) == {}
    both(own, tmp_path)
    assert sorted(opened(own, tmp_path).voted) == sorted(NAMES[:3])


def test_swapped_missing_and_additional_parts_are_spoiled(federation) -> None:
    own = federation()
    good = own.make(LIAR).contents
    wrong = {
        "swapped": {"for-a": good["for-b"], "for-b": good["for-a"]},
        "missing": {"for-a": good["for-a"]},
        "additional": {**good, "gram": np.zeros(3, dtype=np.int64)},
        "format": {**good, "for-b": Blob("skops", good["for-b"].data)},
    }
    found = {}
    for name, contents in wrong.items():
        fresh = Federation(own.election, own.parties, own.keys, own.servers, own.box.__class__(own.box.path / name))
        deliver(fresh, contents)
        found[name] = reasons(fresh, "a")[LIAR]
    assert "is encrypted to another key" in found["swapped"]
    assert "expected a model 'for-b', found none" in found["missing"]
    assert "unexpected contents gram" in found["additional"]
    assert "is not a share" in found["format"]


def test_the_shares_of_another_party_cannot_be_cast_again(federation) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    deliver(own, own.ballots[NAMES[0]].contents)
    for side in "ab":
        assert "was made by clinic-1, not by clinic-4" in reasons(own, side)[LIAR]


def test_a_replayed_old_ballot_beside_a_new_one_counts_neither(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:4])
    own.box.deliver("replayed", own.make(LIAR).sealed)
    both(own, tmp_path)
    outcome = opened(own, tmp_path)
    assert sorted(outcome.voted) == sorted(NAMES[:3])
    assert all("two different ballots" in reason for reason in outcome.spoiled.values())
    assert len(outcome.spoiled) == 2


def test_shares_that_do_not_belong_together_are_noticed_in_the_total(federation, tmp_path) -> None:
    own = federation({"parties": 20}, method=ob.FedKT(influence="claimed"), learner=ob.Sklearn("GaussianNB"))
    own.cast(*NAMES[:3])
    one, two = own.make(LIAR).contents, own.make(LIAR).contents
    deliver(own, {"for-a": one["for-a"], "for-b": two["for-b"]})
    both(own, tmp_path)
    with pytest.raises(BallotError, match="do not belong together"):
        opened(own, tmp_path)


def test_what_a_lying_party_adds_is_not_proved(federation, tmp_path) -> None:
    """The known limit: numbers in the range of four ballots pass, although one party has sent them all."""
    own = federation({"parties": 20}, method=ob.FedKT(influence="claimed"), learner=ob.Sklearn("GaussianNB"))
    own.cast(*NAMES[:3])
    rows = len(own.election.public)
    sums = {"votes": np.zeros((rows, 10), dtype=np.int64), "ballots": np.ones(1, dtype=np.int64)}
    layout = Layout.of(sums, 16)
    before = {side: own.box.names() for side in "ab"}
    assert before
    sums["votes"][:, 7] = 1
    deliver(own, seal_shares(layout.join(sums), layout, own.election, LIAR))
    both(own, tmp_path)
    assert LIAR in opened(own, tmp_path).voted
    sums["votes"][:, 7] = 100
    worse = Federation(own.election, own.parties, own.keys, own.servers, own.box.__class__(tmp_path / "worse"))
    for party in NAMES[:3]:
        worse.box.deliver(party, own.ballots[party].sealed)
    deliver(worse, seal_shares(layout.join(sums), layout, own.election, LIAR))
    both(worse, tmp_path / "again")
    with pytest.raises(BallotError, match="the total of votes is 0 to 10"):
        opened(worse, tmp_path / "again")


def test_ballots_with_odd_names_in_the_box_are_counted_or_named(federation, tmp_path) -> None:
    """Names of files in a box are not ours: a name of 600 characters, or with a line feed, stops no server."""
    own = federation()
    own.cast(*NAMES[:2])
    sealed = {f"{name}.ballot": own.ballots[name].sealed for name in NAMES[:2]}
    sealed |= {"odd\n\udcff.ballot": own.make(NAMES[2]).sealed, "x" * 600: b"nothing"}
    source = InMemory(sealed)
    partials = make_partials(own.election, source, own.servers)
    read = [Partial.parse(each.dump(), "a partial") for each in partials]
    assert sorted(read[0].voted) == sorted(NAMES[:3])
    assert len(read[0].spoiled) == 1
    combine(own.election, *read)


def test_a_seed_is_never_used_twice(federation) -> None:
    own = federation()
    seeds = {decrypt(own.make(LIAR).contents["for-a"].data, own.servers["a"])[-SEED_BYTES:] for _ in range(5)}
    assert len(seeds) == 5
