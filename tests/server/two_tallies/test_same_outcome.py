"""Without noise two tallies give the model of one tally, bit for bit, from ballots of a bounded size."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Data

from .conftest import plain

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})
METHODS = {
    "fedkt": ob.FedKT(),
    "fedkt, second choice": ob.FedKT(second_choice=True),
    "fedkt, consistent": ob.FedKT(partitions=2, voting="consistent", open_vote="off"),
    "fedkt, students": ob.FedKT(students=True, subsets=2),
    "fedkt, weighted": ob.FedKT(open_vote="weighted", influence="equal"),
    "fedkt, odds": ob.FedKT(open_vote="odds"),
    "fedkt, soft": ob.FedKT(voting="soft"),
    "fedkt, class counts": ob.FedKT(weights="class-counts"),
    "fedkt, prior": ob.FedKT(weights="prior"),
    "fedkd": ob.FedKD(temperature=0.0, influence="claimed"),
    "fedkd, bound": ob.FedKD(temperature=0.0, influence="claimed", weights="uniform", bound=10.0),
    "analytic": ob.Analytic(influence="claimed"),
    "neighbours": ob.Neighbours(influence="claimed"),
    "analytic, fourier": ob.Analytic(influence="claimed", features="fourier", number=20, solver="ridge"),
}
WIDE = {"fedkt, second choice", "fedkt, weighted", "fedkt, odds", "fedkt, class counts", "fedkd"}
"""Their sums weigh votes by large numbers: 4 or 8 bytes a number instead of 2."""


@pytest.mark.parametrize("name", METHODS)
def test_the_outcome_is_that_of_one_tally(name, federation, digits) -> None:
    election = federation({"parties": 20}, method=METHODS[name], learner=TREE).election
    parties = divide(Data(digits.X, digits.y), 5, "dirichlet:0.5")
    shared, single = simulate_parties(election, parties), simulate_parties(plain(election), parties)
    assert shared.outcome.model.dump() == single.outcome.model.dump()
    for sum_name, value in single.outcome.count.sums.items():
        assert np.array_equal(shared.outcome.count.sums[sum_name], value)
    assert not shared.outcome.count.by_party
    if name not in WIDE:
        for ballot, one in zip(shared.ballots, single.ballots, strict=True):
            numbers = sum(value.size for value in shared.outcome.count.sums.values())
            assert len(ballot.sealed) <= 4 * len(one.sealed) + 2 * numbers


def test_a_plugin_that_declares_nothing_has_the_same_outcome(federation, digits) -> None:
    from oneballot.methods.analytic.method import Analytic

    class Undeclared(Analytic):
        name = "undeclared"

        def shared_sums(self, ctx):
            return None

    election = federation(method=Undeclared(influence="claimed")).election
    parties = divide(Data(digits.X, digits.y), 5, "homogeneous")
    shared, single = simulate_parties(election, parties), simulate_parties(plain(election), parties)
    assert shared.outcome.model.dump() == single.outcome.model.dump()


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (ob.Ensemble(), "its ballots are models"),
        (ob.DOSFL(), "distilled data"),
        (ob.Decoder(), "its ballots are models"),
        (ob.Dense(), "its ballots are models"),
        (ob.Analytic(), "compares the sums of each party"),
        (ob.FedKD(), "compares the logits"),
        (ob.Neighbours(), "compares the votes of each party"),
        (ob.FedKT(influence="bounded"), "compares the parties' votes"),
        (ob.FedKT(ballot="models", open_vote="off"), "send votes"),
    ],
)
def test_a_method_that_needs_single_ballots_is_refused_with_the_reason(method, reason, federation) -> None:
    with pytest.raises(ElectionError, match=reason):
        federation(method=method, public_labels=None)


def test_a_plugin_that_does_not_declare_sums_alone_is_refused_before_anyone_trains(federation) -> None:
    from oneballot.methods.analytic.method import Analytic

    class Silent(Analytic):
        name = "silent"
        sums_alone = False

        def cast(self, data, ctx):
            raise AssertionError

    with pytest.raises(ElectionError, match="does not declare that its counts are sums alone"):
        federation(method=Silent(influence="claimed"))


def test_a_plugin_that_declares_it_wrongly_is_refused_at_the_cast(federation) -> None:
    from oneballot.methods.analytic.method import Analytic

    class Careless(Analytic):
        name = "careless"

        def for_shares(self, level):
            return self

    own = federation(method=Careless())
    with pytest.raises(
        ElectionError, match=r"declares that its counts are sums alone, but this one keeps .* Nothing was sent"
    ):
        own.make("clinic-1")


def test_an_election_without_two_tallies_keeps_its_digest(make_election) -> None:
    assert "tallies" not in make_election(method=ob.Analytic()).describe()


def test_a_ballot_holds_two_sealed_shares_and_nothing_else(federation) -> None:
    own = federation()
    own.cast("clinic-1")
    from oneballot.ballot.manifest import open_ballot

    opened = open_ballot(own.ballots["clinic-1"].sealed)
    assert sorted(opened.files) == ["for-a.share", "for-b.share"]
