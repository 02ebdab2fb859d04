"""What each ballot says about the public rows, and that some parties are combined as without the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oneballot as ob
from oneballot.influence import Opinions
from oneballot.methods.fedkt.method import FedKT
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.server.tally import tally
from oneballot.simulation import divide

SETTINGS = {
    "weighted": ob.FedKT(),
    "hard": ob.FedKT(open_vote="hard", partitions=2),
    "odds": ob.FedKT(open_vote="odds"),
    "labels": ob.FedKT(open_vote="off"),
    "consistent": ob.FedKT(open_vote="off", partitions=2, voting="consistent"),
    "soft": ob.FedKT(open_vote="off", voting="soft"),
    "class counts": ob.FedKT(open_vote="off", weights="class-counts"),
    "equal": ob.FedKT(influence="equal"),
    "claimed": ob.FedKT(influence="claimed"),
    "class counts, claimed": ob.FedKT(open_vote="off", weights="class-counts", influence="claimed"),
    "models": ob.FedKT(ballot="models"),
}


@pytest.fixture
def final_votes(monkeypatch):
    """The votes that `close` decides by, of each tally."""
    seen, decide = [], TallyContext.decide

    def watch(self, votes, **rest):
        seen.append(np.asarray(votes))
        return decide(self, votes, **rest)

    monkeypatch.setattr(TallyContext, "decide", watch)
    return seen


def opinions_of(election: ob.Election, outcome: ob.Outcome) -> Opinions:
    with TallyContext(election) as ctx:
        found = election.method.opinions(outcome.count, ctx)
    assert found is not None
    return found


@pytest.mark.parametrize("name", SETTINGS)
def test_all_parties_and_all_but_one_are_combined_as_a_tally_combines_them(
    name: str, make_election, digits, final_votes
) -> None:
    election = make_election(method=SETTINGS[name], learner=ob.Kernel())
    ballots = cast_together(election, divide(election.data(digits.X, digits.y), 6, "dirichlet:0.3", seed=1))
    outcome = tally(election, ballots)
    opinions = opinions_of(election, outcome)
    assert opinions.parties == tuple(sorted(ballot.party for ballot in ballots))
    for left_out in (None, *opinions.parties[:2]):
        if left_out is not None:
            tally(election, ballots, without=[left_out])
        kept = np.flatnonzero([party != left_out for party in opinions.parties])
        votes = opinions.combine(kept)
        assert np.array_equal(votes[votes.sum(axis=1) > 0], final_votes[-1])


@pytest.mark.parametrize("name", SETTINGS)
def test_weights_and_votes_make_up_the_combined_votes(name: str, make_election, digits) -> None:
    election = make_election(method=SETTINGS[name], learner=ob.Kernel())
    ballots = cast_together(election, divide(election.data(digits.X, digits.y), 6, "dirichlet:0.3", seed=1))
    opinions = opinions_of(election, tally(election, ballots))
    made = np.einsum("pr,prc->rc", opinions.weights, opinions.votes.astype(np.float64))
    assert np.allclose(made, opinions.combine(np.arange(6)), rtol=1e-4)
    voted = opinions.votes.any(axis=2)
    assert np.allclose(opinions.votes.sum(axis=2)[voted], 1, atol=1e-5)
    assert not opinions.weights[~voted].any()


def test_a_late_ballot_a_withdrawn_one_and_a_saved_outcome_keep_the_votes_of_each_party(
    make_election, parties, tmp_path
) -> None:
    election = make_election()
    ballots = cast_together(election, parties)
    tally(election, ballots[:4]).save(tmp_path)
    late = tally(election, ballots, previous=ob.Outcome.load(tmp_path))
    again = tally(election, ballots, previous=late, without=["party-2"])
    assert opinions_of(election, late).parties == tuple(sorted(parties))
    assert opinions_of(election, again).parties == tuple(sorted(parties.keys() - {"party-2"}))
    scratch = tally(election, ballots, without=["party-2"])
    rows = election.public
    assert np.array_equal(again.model.predict_proba(rows), scratch.model.predict_proba(rows))


def test_opinions_at_l1_are_the_votes_without_noise(make_election, parties) -> None:
    election = make_election(method=ob.FedKT(), privacy={"level": "L1", "epsilon": 50, "delta": 1e-5})
    ballots = cast_together(election, parties)
    outcome = tally(election, ballots)
    opinions = opinions_of(election, outcome)
    assert np.array_equal(opinions.combine(np.arange(len(parties))), outcome.count.sums["votes"])
    assert not outcome.published().count.by_party


def test_there_are_no_opinions_on_other_rows_nor_on_a_count_of_an_earlier_version(make_election, parties) -> None:
    election = make_election(method=ob.FedKT(influence="claimed"))
    outcome = tally(election, cast_together(election, parties))
    with TallyContext(election) as ctx:
        assert election.method.opinions(outcome.count, ctx, rows=election.public) is None
        known = replace(outcome.count, by_party=dict(list(outcome.count.by_party.items())[1:]))
        assert isinstance(election.method, FedKT)
        assert election.method.opinions(known, ctx) is None
        assert election.method.opinions(replace(outcome.count, by_party={}), ctx) is None


@pytest.mark.parametrize("method", [ob.FedKT(open_vote="hard", influence="claimed", partitions=p) for p in (1, 2)])
@pytest.mark.parametrize("second", [True, False])
def test_no_ballot_changes_a_certified_label(method: FedKT, second: bool, make_election, digits) -> None:
    """Each party in turn sends the strongest ballot for one class: a claim of every row in every partition."""
    election = make_election(method=replace(method, second_choice=second), learner=ob.Kernel())
    ballots = cast_together(election, divide(election.data(digits.X, digits.y), 7, "dirichlet:0.5", seed=1))
    opinions = opinions_of(election, tally(election, ballots))
    assert opinions.certified is not None
    certified, labels = opinions.certified(1), opinions.labels()
    assert certified.any()
    encoding = election.method.encoding(election)
    for party in range(7):
        rest = opinions.combine(np.delete(np.arange(7), party))
        for label in range(10):
            lie = np.zeros((encoding.partitions, len(labels), 11))
            lie[..., label] = 1
            found = (rest + encoding.decode(encoding.encode(lie), len(labels))).argmax(axis=1)
            assert (found == labels)[certified].all()
