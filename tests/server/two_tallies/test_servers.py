"""Two servers, with files: lists, partials, late ballots, openings that are too alike, and the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.seal import seal
from oneballot.errors import BallotError, ElectionError, KeyFileError, PrivacyError, QuorumError
from oneballot.party.cast import cast_together
from oneballot.server.tally import tally
from oneballot.server.two_tallies.combine import combine
from oneballot.server.two_tallies.leave import explain_withdrawal
from oneballot.server.two_tallies.partial import Partial
from oneballot.server.two_tallies.share import Shared, tally_share

from .conftest import NAMES, Federation, plain


def both(own: Federation, folder: Path, **options) -> tuple[Shared, Shared]:
    """Both servers list their ballots, exchange the lists, and write their partials."""
    for side in ("a", "b"):
        tally_share(own.election, own.box, folder / side, side, own.servers[side], beside=folder / f"at-{side}")
    lists = {side: folder / side / f"ballots-{side}.json" for side in ("a", "b")}
    made = [
        tally_share(
            own.election, own.box, folder / side, side, own.servers[side],
            beside=folder / f"at-{side}", other=lists[other], **options,
        )
        for side, other in (("a", "b"), ("b", "a"))
    ]  # fmt: skip
    return made[0], made[1]


def test_two_servers_open_the_total_that_one_server_would_count(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:4])
    both(own, tmp_path)
    assert own.election.level == "L0"
    outcome = combine(own.election, *(Partial.read(tmp_path / side / f"partial-{side}") for side in "ab"))
    ballots = cast_together(plain(own.election), {name: own.parties[name] for name in NAMES[:4]})
    single = tally(plain(own.election), ballots)
    assert outcome.model.dump() == single.model.dump()
    assert sorted(outcome.voted) == sorted(NAMES[:4])
    assert {party: each.digest for party, each in outcome.voted.items()} == {
        party: ballot.digest for party, ballot in own.ballots.items()
    }


def test_one_partial_says_nothing_about_the_total(federation, tmp_path) -> None:
    from scipy.stats import chisquare

    own = federation(method=ob.Analytic(influence="claimed", features="fourier", number=60))
    own.cast(*NAMES[:3])
    for shared in both(own, tmp_path):
        counts = np.bincount(np.frombuffer(shared.partial.numbers.tobytes(), dtype=np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6


def test_fewer_ballots_than_the_quorum_are_not_opened(federation, tmp_path) -> None:
    own = federation(quorum=4)
    own.cast(*NAMES[:3])
    with pytest.raises(QuorumError, match="3 ballots are on both servers' lists, but the quorum is 4"):
        both(own, tmp_path)


def opened(own: Federation, folder: Path) -> ob.Outcome:
    return combine(own.election, *(Partial.read(folder / side / f"partial-{side}") for side in "ab"))


def test_a_late_ballot_alone_is_not_opened_but_three_are(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    assert len(opened(own, tmp_path).voted) == 3
    own.cast(NAMES[3])
    with pytest.raises(PrivacyError, match=r"differ from an earlier opening by 1 \(clinic-4\).*min_difference"):
        both(own, tmp_path)
    own.cast(*NAMES[4:6])
    both(own, tmp_path)
    assert len(opened(own, tmp_path).voted) == 6


def test_a_withdrawal_works_on_shares_if_enough_parties_leave(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES)
    both(own, tmp_path)
    with pytest.raises(PrivacyError, match="clinic-1"):
        both(own, tmp_path, without=NAMES[:1])
    both(own, tmp_path, without=NAMES[:3])
    left = opened(own, tmp_path)
    assert sorted(left.voted) == sorted(NAMES[3:])
    fresh = Federation(own.election, own.parties, own.keys, own.servers, own.box.__class__(tmp_path / "fresh"))
    for party in NAMES[3:]:
        fresh.box.deliver(party, own.ballots[party].sealed)
    both(fresh, tmp_path / "again")
    assert opened(fresh, tmp_path / "again").model.dump() == left.model.dump()


def test_withdraw_refuses_and_says_how_many_others_must_leave_too(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:6])
    empty = seal({}, own.election, NAMES[6], key=own.keys[NAMES[6]], reason="it has no rows")
    own.box.deliver(NAMES[6], empty.sealed)
    both(own, tmp_path)
    outcome = opened(own, tmp_path)
    with pytest.raises(ElectionError, match="--share a --without clinic-1") as refused:
        ob.withdraw(own.election, outcome, "clinic-1", ballot=own.ballots["clinic-1"])
    assert "let 2 more leave (repeat --without) or arrive at the same time" in str(refused.value)
    assert "costs again" not in str(refused.value)  # L0
    assert "clinic-7 abstained" in explain_withdrawal(own.election, outcome, "clinic-7")
    both(own, tmp_path, without=NAMES[:3])
    left = opened(own, tmp_path)
    assert "--without clinic-1 --without clinic-2 --without clinic-3 --without clinic-4" in explain_withdrawal(
        own.election, left, "clinic-4"
    )
    assert "2 ballots would remain, and at least 3 are needed" in explain_withdrawal(own.election, left, "clinic-4")


def test_too_few_ballots_to_hide_one_another_are_not_opened(federation, tmp_path) -> None:
    own = federation(quorum=1)
    own.cast(*NAMES[:2])
    with pytest.raises(PrivacyError, match="differ from no ballots at all by 2"):
        both(own, tmp_path)


def test_min_difference_is_a_setting_of_the_election(federation, tmp_path) -> None:
    own = federation({"min_difference": 1}, quorum=1)
    own.cast(NAMES[0])
    both(own, tmp_path)
    assert len(opened(own, tmp_path).voted) == 1


def test_the_same_ballots_give_the_same_partial_and_cost_nothing_more(federation, tmp_path) -> None:
    own = federation(privacy=ob.L2(5.0))
    own.cast(*NAMES[:3])
    first = both(own, tmp_path)
    second = both(own, tmp_path)
    assert [shared.reused for shared in (*first, *second)] == [False, False, True, True]
    assert all(np.array_equal(one.partial.numbers, two.partial.numbers) for one, two in zip(first, second, strict=True))
    assert opened(own, tmp_path).ledger.drawn == 1


def test_further_openings_cost_again_and_need_a_budget_or_a_confirmation(federation, tmp_path) -> None:
    own = federation(privacy=ob.L2(5.0))
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    once = opened(own, tmp_path).ledger
    own.cast(*NAMES[3:])
    with pytest.raises(PrivacyError, match="opening number 2, but the privacy budget covers 1"):
        both(own, tmp_path)
    both(own, tmp_path, over_budget=True)
    twice = opened(own, tmp_path).ledger
    assert (once.drawn, twice.drawn) == (1, 2)
    assert once.epsilon <= 5.0 < twice.epsilon
    assert twice == own.election.guarantee.ledger().times(2)


def test_planned_openings_stay_within_the_budget(federation, tmp_path) -> None:
    own = federation({"openings": 2}, privacy=ob.L2(5.0))
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    own.cast(*NAMES[3:])
    both(own, tmp_path)
    assert 4.9 < opened(own, tmp_path).ledger.epsilon <= 5.0
    assert own.election.guarantee.epsilon() <= 5.0


def test_an_abstention_is_listed_and_adds_nothing(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    empty = seal({}, own.election, NAMES[3], key=own.keys[NAMES[3]], reason="it has no rows")
    own.box.deliver(NAMES[3], empty.sealed)
    both(own, tmp_path)
    outcome = opened(own, tmp_path)
    assert outcome.voted["clinic-4"].abstained == "it has no rows"
    assert int(outcome.count.sums["ballots"][0]) == 3


def test_a_ballot_that_only_one_server_lists_does_not_count(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:4])
    tally_share(own.election, own.box, tmp_path / "a", "a", own.servers["a"], beside=tmp_path)
    own.cast(NAMES[4])
    made = tally_share(
        own.election, own.box, tmp_path / "b", "b", own.servers["b"],
        beside=tmp_path, other=tmp_path / "a" / "ballots-a.json",
    )  # fmt: skip
    assert made.differing == ("the ballot of clinic-5 is listed by server b, not by server a",)
    assert sorted(made.partial.voted) == sorted(NAMES[:4])


def test_partials_of_different_ballots_are_not_combined(federation, tmp_path) -> None:
    own = federation()
    own.cast(*NAMES[:3])
    one, _ = both(own, tmp_path / "first")
    own.cast(*NAMES[3:6])
    _, two = both(own, tmp_path / "second")
    with pytest.raises(BallotError, match=r"do not count the same ballots: clinic-4 \(b alone\)"):
        combine(own.election, one.partial, two.partial)
    with pytest.raises(BallotError, match="both partials are of server a"):
        combine(own.election, one.partial, one.partial)
    with pytest.raises(QuorumError, match="the quorum is 7"):
        combine(replace(own.election, quorum=7), *(shared.partial for shared in both(own, tmp_path / "first")))


def test_an_election_without_a_roster_cannot_have_two_tallies(federation) -> None:
    own = federation(roster={}, quorum=1)
    with pytest.raises(ElectionError, match="two tallies need a roster"):
        own.make("clinic-1")


def test_a_roster_that_can_never_open_a_total_is_refused_before_anyone_casts(federation, tmp_path) -> None:
    own = federation({"min_difference": 8})
    with pytest.raises(ElectionError, match=r"at least 8 ballots.*roster lists 7 parties.*or set min_difference = 7"):
        own.make("clinic-1")
    with pytest.raises(ElectionError, match="no total can ever be opened"):
        tally_share(own.election, own.box, tmp_path, "a", own.servers["a"], beside=tmp_path)
    assert federation({"min_difference": 7}).make("clinic-1").contents


def test_the_wrong_key_is_refused_before_any_ballot_is_read(federation, tmp_path) -> None:
    own = federation()
    with pytest.raises(KeyFileError, match="the given key has fingerprint"):
        tally_share(own.election, own.box, tmp_path, "a", own.servers["b"], beside=tmp_path)
    with pytest.raises(KeyFileError, match="give its secret key"):
        tally_share(own.election, own.box, tmp_path, "b", None, beside=tmp_path)


@pytest.mark.parametrize(
    ("tallies", "settings", "reason"),
    [
        ({"a": "x25519:nonsense"}, {}, r"\[tallies\] a: 'x25519:nonsense'"),
        ({"unit": "party"}, {"privacy": ob.L2(1.0)}, 'the unit of level L2 is "row"'),
        ({"unit": "row"}, {}, "level L0 protects no unit"),
        ({"parties": 4}, {}, "the roster lists 7 parties"),
        ({}, {"server_key": "none"}, "remove server_key"),
        ({}, {"privacy": ob.L1(1.0, tallies=2), "method": ob.FedKT()}, "set openings there"),
        ({}, {"privacy": ob.L1(1.0, adjacency="add-remove"), "method": ob.FedKT()}, "both servers see who casts"),
        ({"min_difference": 0}, {}, "min_difference"),
    ],
)
def test_settings_that_cannot_work_are_refused(tallies, settings, reason, federation) -> None:
    with pytest.raises(ElectionError, match=reason):
        federation(tallies, **settings)
