"""Which openings a server refuses: parties in exactly one of two openings count as differences, not their ballots."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import PrivacyError
from oneballot.server.two_tallies.openings import check_difference

from .conftest import NAMES, Federation
from .test_servers import both, opened

STATED = ob.L2(sigma=3.0)


def fresh(own: Federation, folder) -> Federation:
    """The same election and parties, with a box of its own."""
    return Federation(own.election, own.parties, own.keys, own.servers, own.box.__class__(folder))


def test_a_recast_on_the_same_rows_would_cancel_so_it_is_no_difference(federation, tmp_path) -> None:
    """With the rule switched off the difference of both totals is exactly what the late party sent."""
    own = federation({"min_difference": 1}, quorum=1)
    own.cast(*NAMES[:3])
    both(own, tmp_path / "first")
    first = opened(own, tmp_path / "first").count.sums
    again, alone = fresh(own, tmp_path / "recast"), fresh(own, tmp_path / "alone")
    again.cast(*NAMES[:4])
    assert again.ballots[NAMES[2]].digest != own.ballots[NAMES[2]].digest
    alone.cast(NAMES[3])
    for one, name in ((again, "again"), (alone, "single")):
        both(one, tmp_path / name)
    second, late = (opened(one, tmp_path / name).count.sums for one, name in ((again, "again"), (alone, "single")))
    assert all(np.array_equal(second[name] - first[name], late[name]) for name in late)

    own = fresh(federation(), tmp_path / "guarded-first")
    own.cast(*NAMES[:3])
    both(own, tmp_path / "guarded")
    again = fresh(own, tmp_path / "guarded-box")
    again.cast(*NAMES[:4])
    with pytest.raises(PrivacyError, match=r"differ from an earlier opening by 1 \(clinic-4\).*new ballot of clinic-1"):
        both(again, tmp_path / "guarded")
    again.cast(*NAMES[4:6])
    both(again, tmp_path / "guarded")
    assert len(opened(again, tmp_path / "guarded").voted) == 6


def ballots(*names: str) -> frozenset[tuple[str, str]]:
    """Party and digest of each; a digit after the party stands for another ballot of it."""
    return frozenset((name[0], name) for name in names)


@pytest.mark.parametrize(
    ("now", "before", "reason"),
    [
        ("a b c d", "a b c", r"earlier opening by 1 \(d\)"),
        ("a b c2 d", "a b c", r"earlier opening by 1 \(d\).*The new ballot of c may hold the same numbers"),
        ("a2 b2 c2 d2", "a b c d", r"earlier opening by 0, .*The new ballot of a, b, c, d may"),
        ("a2 b2 c2", "a b c d e", r"earlier opening by 2 \(d, e\)"),
        ("a b", "", r"no ballots at all by 2 \(a, b\)"),
        ("b c d", "a b c", r"earlier opening by 2 \(a, d\)"),
        ("a b c d e f", "a b c", None),
        ("a b c2 d e f", "a b c", None),
        ("b2 c d e", "a b c", None),
        ("d e f", "a b c", None),
    ],
)
def test_parties_in_exactly_one_of_two_openings_are_counted(now, before, reason) -> None:
    earlier = [ballots(*before.split())] if before else []
    for one, others in ((ballots(*now.split()), earlier), *((each, [ballots(*now.split())]) for each in earlier)):
        if reason is None:
            check_difference(one, others, 3)
            continue
        with pytest.raises(PrivacyError):
            check_difference(one, others, 3)
    if reason is not None:
        with pytest.raises(PrivacyError, match=reason):
            check_difference(ballots(*now.split()), earlier, 3)


def test_every_pair_of_accepted_openings_leaves_three_parties_in_their_difference() -> None:
    """By enumeration, over five parties that may each cast again: no sum or difference of two accepted openings, and
    neither alone, is about fewer than three parties, whether or not the new ballots hold the same numbers."""
    names = "abcde"
    sets = [
        ballots(*(name + ("2" if name in recast else "") for name in chosen))
        for size in range(1, 6)
        for chosen in combinations(names, size)
        for recast in [(), chosen, chosen[:1]]
    ]
    accepted = 0
    for before in sets:
        for now in sets:
            try:
                check_difference(before, [], 3)
                check_difference(now, [before], 3)
            except PrivacyError:
                continue
            accepted += 1
            for same_numbers in (True, False):
                columns = sorted({party if same_numbers else name for each in (before, now) for party, name in each})
                one, two = (
                    np.array([c in {party if same_numbers else name for party, name in each} for c in columns], int)
                    for each in (before, now)
                )
                for combined in (one, two, one - two, one + two):
                    assert len({columns[i][0] for i in np.flatnonzero(combined)}) >= 3
    assert accepted > 100


def test_three_openings_may_reveal_one_ballot_as_the_documentation_says() -> None:
    """The known limit: the rule compares pairs. C − A − B is one party's ballot."""
    a, b, c = ballots(*"abc"), ballots(*"def"), ballots(*"abcdefg")
    check_difference(a, [], 3)
    check_difference(b, [a], 3)
    check_difference(c, [a, b], 3)
    assert c - a - b == ballots("g")
    # Parties in the same openings form a group. Of groups of three or more no combination is about fewer parties.
    groups = [range(3), range(3, 6), range(6, 10)]
    members = [set().union(*(groups[g] for g in chosen)) for chosen in [(0,), (1,), (0, 1, 2)]]
    openings = np.array([[party in each for party in range(10)] for each in members])
    for weights in product(range(-3, 4), repeat=3):
        about = int(np.count_nonzero(np.array(weights) @ openings))
        assert about == 0 or about >= 3


def test_with_a_min_difference_of_one_a_corrected_ballot_may_be_opened(federation, tmp_path) -> None:
    own = federation({"min_difference": 1}, quorum=1)
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    again = fresh(own, tmp_path / "recast")
    again.cast(*NAMES[:3])
    both(again, tmp_path)
    assert opened(again, tmp_path).voted[NAMES[0]].digest == again.ballots[NAMES[0]].digest


def test_openings_are_limited_also_where_the_election_states_the_noise(federation, tmp_path) -> None:
    own = federation(privacy=STATED)
    own.cast(*NAMES[:3])
    both(own, tmp_path)
    own.cast(*NAMES[3:])
    with pytest.raises(PrivacyError, match="opening number 2, but the privacy budget covers 1"):
        both(own, tmp_path)
    both(own, tmp_path, over_budget=True)
    ledger = opened(own, tmp_path).ledger
    assert ledger.drawn == 2
    assert ledger.epsilon > own.election.guarantee.epsilon()
