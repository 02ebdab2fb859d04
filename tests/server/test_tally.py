"""Tallies: spoiled ballots, two ballots of one party, late ballots, and resuming from an earlier outcome."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oneballot as ob
from oneballot.ballot.archive import unzip, zip_up
from oneballot.ballot.keys import new_key, read_key
from oneballot.errors import BoxError, QuorumError, WillNotWork
from oneballot.party.cast import cast_together
from oneballot.server.tally import Options, tally_box
from oneballot.types import Blob, Count


@pytest.fixture
def ballots(election, parties) -> list[ob.Ballot]:
    return cast_together(election, parties)


def same(one: ob.Outcome, other: ob.Outcome) -> bool:
    """Whether votes, count and the bytes of the final model are equal."""
    return (
        one.voted.keys() == other.voted.keys()
        and all(one.voted[p].digest == other.voted[p].digest for p in one.voted)
        and one.count.sums.keys() == other.count.sums.keys()
        and all(np.array_equal(one.count.sums[k], other.count.sums[k]) for k in one.count.sums)
        and one.model.dump() == other.model.dump()
    )


def test_ballots_count_in_any_order(election, ballots) -> None:
    assert same(ob.tally(election, ballots), ob.tally(election, ballots[::-1]))


def test_adding_a_late_ballot_equals_a_tally_from_scratch(election, ballots) -> None:
    early = ob.tally(election, ballots[:4])
    assert same(ob.tally(election, ballots, previous=early), ob.tally(election, ballots))


def test_excluding_a_party_equals_a_tally_without_its_ballot(election, ballots) -> None:
    complete = ob.tally(election, ballots)
    without = ob.tally(election, ballots, without=["party-2"], previous=complete)
    assert same(without, ob.tally(election, [b for b in ballots if b.party != "party-2"]))
    assert without.without == ("party-2",)
    assert same(ob.tally(election, ballots, previous=without), complete)


def test_excluding_an_unknown_party_changes_nothing(election, ballots) -> None:
    assert same(ob.tally(election, ballots, without=["unknown"]), ob.tally(election, ballots))


def test_only_new_ballots_are_counted(make_election, parties, monkeypatch) -> None:
    election = make_election()
    ballots = cast_together(election, parties)
    before = ob.tally(election, ballots[:4])
    counted, count = [], ob.FedKT.count
    monkeypatch.setattr(
        ob.FedKT, "count", lambda self, ballot, ctx: counted.append(ballot.party) or count(self, ballot, ctx)
    )
    ob.tally(election, ballots, previous=before)
    assert counted == ["party-5"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sets(st.integers(0, 4), min_size=1), st.sets(st.sampled_from("12345"))), max_size=4))
def test_any_sequence_of_tallies_equals_a_single_tally(election, ballots, steps) -> None:
    outcome = None
    for present, left_out in [*steps, ({0, 1, 2, 3, 4}, set())]:
        names = [f"party-{n}" for n in left_out]
        try:
            outcome = ob.tally(election, [ballots[i] for i in sorted(present)], without=names, previous=outcome)
        except QuorumError:
            continue
    assert outcome is not None
    assert same(outcome, ob.tally(election, ballots))


def test_an_outcome_of_another_election_is_not_resumed(make_election, election, ballots, parties) -> None:
    other = make_election(seed=7)
    assert same(
        ob.tally(other, cast_together(other, parties), previous=ob.tally(election, ballots)),
        ob.tally(other, cast_together(other, parties)),
    )


def test_the_same_bytes_twice_are_one_ballot(election, ballots) -> None:
    assert same(ob.tally(election, [*ballots, ballots[0]]), ob.tally(election, ballots))


class TestTwoBallotsOfOneParty:
    @pytest.fixture
    def other(self, election, parties) -> ob.Ballot:
        data = parties["party-1"]
        return ob.cast(election, data.X[::2], data.y[::2], party="party-1")

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
    def test_both_are_spoiled_in_any_order(self, election, ballots, other, order) -> None:
        mixed = [[ballots[0], other, ballots[0]][i] for i in order]
        outcome = ob.tally(election, [*mixed, *ballots[1:]])
        assert "party-1" not in outcome.voted
        assert len(outcome.spoiled) >= 2
        assert all("two different ballots" in reason for reason in outcome.spoiled.values())
        assert np.array_equal(outcome.count.sums["votes"], ob.tally(election, ballots[1:]).count.sums["votes"])

    def test_both_are_spoiled_even_if_an_earlier_tally_counted_the_first(self, election, ballots, other) -> None:
        outcome = ob.tally(election, [*ballots, other], previous=ob.tally(election, ballots))
        assert np.array_equal(outcome.count.sums["votes"], ob.tally(election, ballots[1:]).count.sums["votes"])

    def test_a_forged_ballot_does_not_spoil_the_honest_one(self, make_election, parties, tmp_path: Path) -> None:
        """In either order of arrival."""
        public = {party: new_key(tmp_path / f"{party}.key") for party in parties}
        keys = {party: read_key(tmp_path / f"{party}.key") for party in parties}
        election = make_election(roster=public)
        honest = cast_together(election, parties, keys=keys)
        forged = ob.cast(make_election(), *some_rows(parties["party-1"]), party="party-1", key=keys["party-2"])
        for ballots in ([forged, *honest], [*honest, forged]):
            outcome = ob.tally(election, ballots)
            assert len(outcome.voted) == 5
            assert len(outcome.spoiled) == 1


def some_rows(data):
    return data.X[::3], data.y[::3]


def test_too_few_ballots_make_no_outcome(make_election, parties) -> None:
    election = make_election(quorum=4)
    ballots = cast_together(election, parties)
    with pytest.raises(QuorumError, match="3 ballots count, but the quorum is 4"):
        ob.tally(election, ballots[:3])
    assert len(ob.tally(election, ballots[:4]).voted) == 4


def test_a_quorum_can_change_while_ballots_arrive(make_election, parties) -> None:
    ballots = cast_together(make_election(), parties)
    assert len(ob.tally(make_election(quorum=5), ballots).voted) == 5


def test_a_party_removed_from_the_roster_is_removed_from_the_count(make_election, parties, tmp_path: Path) -> None:
    public = {party: new_key(tmp_path / f"{party}.key") for party in parties}
    keys = {party: read_key(tmp_path / f"{party}.key") for party in parties}
    ballots = cast_together(make_election(roster=public), parties, keys=keys)
    before = ob.tally(make_election(roster=public), ballots)
    fewer = make_election(roster={party: key for party, key in public.items() if party != "party-3"})
    after = ob.tally(fewer, ballots, previous=before)
    assert "party-3" not in after.voted
    assert same(after, ob.tally(fewer, [b for b in ballots if b.party != "party-3"]))


def test_a_tally_follows_changes_of_the_box(election, ballots, tmp_path: Path) -> None:
    box = ob.Folder(tmp_path)
    for b in ballots[:4]:
        box.deliver(b.party, b.sealed)
    first = tally_box(election, box)
    (tmp_path / "party-1.ballot").unlink()
    box.deliver("party-5", ballots[4].sealed)
    assert same(tally_box(election, box, Options(previous=first)), ob.tally(election, ballots[1:]))


def test_a_count_rejects_fractions() -> None:
    total = Count()
    with pytest.raises(TypeError, match="adds integers"):
        total += Count({"n": np.array([0.9])})


def test_a_count_rejects_a_party_that_is_already_counted() -> None:
    one = Count({"n": np.array([1])}, {"a": {"model": Blob("skops", b"")}})
    total = Count()
    total += one
    with pytest.raises(ValueError, match="counted twice: a"):
        total += one
    total -= one
    assert total.sums["n"].tolist() == [0]
    assert not total.by_party


def test_sums_of_many_narrow_integers_do_not_overflow(make_election, digits) -> None:
    """With more ballots than a byte can count, for hard and weighted votes."""
    from oneballot.ballot.seal import seal
    from oneballot.server.context import TallyContext

    for method in (ob.FedKT(open_vote="hard"), ob.FedKT()):
        election = make_election(method=method)
        with TallyContext(election) as ctx:
            opinion = np.random.default_rng(0).dirichlet(np.ones(11), (1, len(digits.public)))
            votes = election.method.encoding(ctx).encode(opinion)
            one = election.method.encoding(ctx).decode(votes, len(digits.public)).astype(np.int64)
        ballots = [seal({"votes": votes}, election, f"p{i}") for i in range(600)]
        assert np.array_equal(ob.tally(election, ballots).count.sums["votes"], 600 * one)


def test_excluding_a_party_without_a_ballot_gives_a_warning(election, ballots) -> None:
    for name in ("partyy-2", "PARTY-2"):
        with pytest.warns(WillNotWork, match=f"cannot leave out {name}.*did you mean party-2"):
            outcome = ob.tally(election, ballots, without=[name])
        assert outcome.without == ()
    with pytest.warns(WillNotWork, match="cannot leave out Ulm: .*; there are ballots of party-1, party-2"):
        ob.tally(election, ballots, without=["Ulm"])


def test_a_ballot_that_cannot_be_read_is_spoiled_and_the_others_count(election, ballots, tmp_path: Path) -> None:
    class Torn(ob.Folder):
        def open(self, name: str):
            if name == "party-1":
                raise OSError("the disk is gone")
            return super().open(name)

    box = Torn(tmp_path)
    for b in ballots:
        box.deliver(b.party, b.sealed)
    outcome = tally_box(election, box)
    assert outcome.spoiled == {"party-1": "it cannot be read: the disk is gone"}
    assert len(outcome.voted) == 4


def test_a_box_that_disappears_spoils_no_ballot(election, ballots, tmp_path: Path) -> None:
    class Unplugged(ob.Folder):
        def open(self, name: str):
            if name == "party-2":
                self.path.rename(tmp_path / "elsewhere")
            return super().open(name)

    box = Unplugged(tmp_path / "box")
    for b in ballots:
        box.deliver(b.party, b.sealed)
    with pytest.raises(BoxError, match="the box disappeared while ballots were counted"):
        tally_box(election, box)


def test_a_named_pipe_in_the_box_does_not_block_the_tally(election, ballots, tmp_path: Path) -> None:
    box = ob.Folder(tmp_path)
    for b in ballots[1:]:
        box.deliver(b.party, b.sealed)
    os.mkfifo(tmp_path / f"{ballots[0].party}.ballot")
    assert len(tally_box(election, box).voted) == 4
    with pytest.raises(BoxError, match="not a regular file"):
        box.open(ballots[0].party)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-320, 1.7e308])
def test_a_forged_ledger_spoils_only_its_own_ballot(election, ballots, epsilon: float) -> None:
    files = unzip(ballots[0].sealed)
    manifest = json.loads(bytes(files["manifest.json"]))
    manifest["privacy"] = {
        "level": "L2",
        "unit": "row",
        "adjacency": "replace",
        "epsilon": epsilon,
        "delta": 0.1,
        "accountant": "tight",
    }
    forged = zip_up(files | {"manifest.json": json.dumps(manifest).encode()})
    outcome = ob.tally(election, [forged, *ballots[1:]])
    assert len(outcome.voted) == 4
    assert len(outcome.spoiled) == 1


@pytest.mark.parametrize("removed", [True, False])
def test_a_new_ballot_of_a_counted_party_equals_a_tally_from_scratch(election, parties, removed: bool) -> None:
    agreed = ob.Election(election.classes, election.public, method=ob.Ensemble(), learner=ob.Kernel())
    ballots = cast_together(agreed, parties)
    data = parties["party-1"]
    other = ob.cast(agreed, data.X[::2], data.y[::2], party="party-1")
    now = [other, *(ballots[1:] if removed else ballots)]
    again, scratch = ob.tally(agreed, now, previous=ob.tally(agreed, ballots)), ob.tally(agreed, now)
    assert again.voted.keys() == scratch.voted.keys()
    assert ("party-1" in again.voted) == removed
    assert again.count.by_party.keys() == scratch.count.by_party.keys()


def test_excluded_parties_are_kept_if_the_count_restarts(election, parties, recwarn) -> None:
    agreed = ob.Election(election.classes, election.public, method=ob.Ensemble(), learner=ob.Kernel())
    ballots = cast_together(agreed, parties)
    data = parties["party-1"]
    now = [ob.cast(agreed, data.X[::2], data.y[::2], party="party-1"), *ballots[1:]]
    again = ob.tally(agreed, now, previous=ob.tally(agreed, ballots), without=["party-2"])
    assert again.without == ("party-2",)
    assert not [w for w in recwarn if "there is no ballot of that name" in str(w.message)]


def test_replacing_a_counted_ballot_during_a_tally_spoils_only_that_party(election, parties, tmp_path: Path) -> None:
    class Vanishing(ob.Folder):
        def open(self, name: str):
            file = super().open(name)
            if name == "party-1":
                (self.path / "party-1.ballot").unlink()
            return file

    ballots, data = cast_together(election, parties), parties["party-1"]
    other = ob.cast(election, data.X[::2], data.y[::2], party="party-1")
    box = Vanishing(tmp_path)
    for name, ballot in [*((b.party, b) for b in ballots), ("party-1b", other)]:
        box.deliver(name, ballot.sealed)
    outcome = tally_box(election, box)
    assert outcome.voted.keys() == parties.keys() - {"party-1"}
    assert "neither counts" in outcome.spoiled["party-1b"]
    assert same(outcome, ob.tally(election, ballots[1:]))
