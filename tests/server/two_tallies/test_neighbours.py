"""Reverse k-NN votes with two tallies: the unit is a row, the servers draw the noise, and the settings of L2 hold."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import DataError, ElectionError, OneBallotWarning
from oneballot.methods.neighbours.settings import MOST_ROWS
from oneballot.party.context import PartyContext
from oneballot.party.shared_count import CountContext, share_contents
from oneballot.runtime.scheduler import Job, run, steps_of
from oneballot.server.context import TallyContext
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Ballot, Data

from .conftest import NAMES, Federation, plain
from .test_noise import noise
from .test_servers import both, opened

K = 5
ROWS = ob.L2(4.0, stable_ids=True)


def sums_of(election: ob.Election, X, y, ids) -> dict[str, np.ndarray]:
    """What a party with these rows would share."""
    ctx = PartyContext(election, NAMES[0])
    contents = run(Job(steps_of(election.method.cast, Data(X, y, ids), ctx), election.learner_of, "", "", {}))
    share_contents(contents, ctx)  # it is accepted
    ballot = Ballot(NAMES[0], contents, "", None, b"")
    return dict(election.method.count(ballot, CountContext(election, NAMES[0])).sums)


@pytest.mark.parametrize(
    ("privacy", "squared"),
    [
        (ROWS, 2 * K),
        (ob.L2(4.0), 2 * K),  # by content: one row goes and another comes, as for any row
        (ob.L2(4.0, stable_ids=True, adjacency="swap"), 2 * K),
        (ob.L2(4.0, adjacency="add-remove"), K),
        (ob.L2(4.0, stable_ids=True, rows_per_id=3), 9 * 2 * K),
    ],
)
def test_the_sensitivity_at_unit_row_is_that_of_l2(privacy, squared, federation) -> None:
    election = federation(method=ob.Neighbours(neighbours=K), privacy=privacy).election
    assert election.guarantee.numbers.squared_shift == squared
    assert plain(election).guarantee.numbers.squared_shift == squared
    assert election.guarantee.epsilon() <= 4.0


def test_no_changed_row_moves_the_shared_sums_further_than_declared(federation, digits) -> None:
    """By experiment; and a row whose label alone changes moves them exactly so far."""
    election = federation(method=ob.Neighbours(neighbours=K), privacy=ROWS).election
    X, y = digits.X[:60], digits.y[:60]
    ids = np.arange(len(y)).astype(str)
    before, found = sums_of(election, X, y, ids)["votes"], []
    for row in range(0, 60, 6):
        label, content = y.copy(), X.copy()
        label[row], content[row] = (y[row] + 1) % 10, 16 - X[row]
        kept = np.arange(len(y)) != row
        relabelled = sums_of(election, X, label, ids)["votes"]
        moved = [relabelled, sums_of(election, content, label, ids)["votes"]]
        found += [int(((each - before) ** 2).sum()) for each in moved]
        gone = sums_of(election, X[kept], y[kept], ids[kept])["votes"]
        assert int(((gone - before) ** 2).sum()) == K
        assert int(((relabelled - before) ** 2).sum()) == 2 * K
    assert max(found) == 2 * K


def test_each_server_adds_the_noise_of_the_ledger_to_votes_and_none_to_the_number_of_ballots(federation) -> None:
    election = federation(method=ob.Neighbours(neighbours=K), privacy=ROWS).election
    drawn = [noise(election) for _ in range(15)]
    votes = np.concatenate([each["votes"].ravel() for each in drawn])
    (line,) = election.guarantee.ledger().lines
    assert math.isclose(votes.std(), line.scale, rel_tol=0.05)
    assert all(each["ballots"] == 0 for each in drawn)
    with TallyContext(election) as ctx:
        assert math.isclose(ctx.noise_of_total(7), math.sqrt(2) * line.scale)


def test_two_servers_open_votes_that_are_right_up_to_their_noise(federation, tmp_path) -> None:
    own = federation(method=ob.Neighbours(neighbours=K), privacy=ob.L2(8.0))
    own.cast(*NAMES)
    both(own, tmp_path)
    outcome = opened(own, tmp_path)
    nothing = {name: np.array([str(i) for i in range(len(data))]) for name, data in own.parties.items()}
    exact = sum(sums_of(own.election, own.parties[n].X, own.parties[n].y, nothing[n])["votes"] for n in NAMES)
    sigma = math.sqrt(2) * own.election.guarantee.numbers.sigma
    assert math.isclose((outcome.count.sums["votes"] - exact).std(), sigma, rel_tol=0.15)
    assert outcome.ledger == own.election.guarantee.ledger()
    assert outcome.count.sums["ballots"].tolist() == [7]


@pytest.mark.parametrize(
    "settings",
    [
        {"estimate": "none"},
        {"labels": "lead"},
        {"scale": "standard"},
        {"most_rows": 400},
        {"influence": "bounded"},
    ],
    ids=str,
)
def test_settings_of_l2_work_and_are_as_accurate_as_there(settings, federation, digits) -> None:
    """With noise once instead of once a party, at the same epsilon: never clearly worse."""
    election = federation(
        method=ob.Neighbours(neighbours=K, **settings), privacy=ob.L2(8.0, rehearsal=True, noise_seed=4),
        learner=ob.Sklearn("ExtraTreesClassifier", {"n_estimators": 30}), public=digits.public[:200],
    ).election  # fmt: skip
    parties = divide(Data(digits.X, digits.y), 5, "dirichlet:0.5", seed=1)
    test = Data(digits.X_test, digits.y_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OneBallotWarning)
        shared, single = (simulate_parties(each, parties).accuracy(test) for each in (election, plain(election)))
    assert shared > single - 0.05
    assert shared > 0.6


def test_a_party_with_more_rows_than_the_election_allows_is_refused_before_it_shares_them(federation) -> None:
    own = federation(method=ob.Neighbours(neighbours=K, most_rows=20), privacy=ob.L2(4.0))
    with pytest.raises(ElectionError, match="20 at most"):
        own.make(NAMES[0])


def test_rows_of_one_id_are_limited(federation, digits) -> None:
    election = federation(method=ob.Neighbours(neighbours=K), privacy=ROWS).election
    ids = np.array(["same"] * 10 + [str(i) for i in range(20)])
    with pytest.warns(OneBallotWarning, match="at most 1 of each ID"):
        votes = sums_of(election, digits.X[:30], digits.y[:30], ids)["votes"]
    assert votes.sum() == 21 * K


def test_ids_are_required_where_rows_have_them(federation) -> None:
    own = federation(method=ob.Neighbours(neighbours=K), privacy=ROWS)
    with pytest.raises((DataError, ElectionError), match="ID"):
        own.make(NAMES[0])


def test_a_number_takes_four_bytes(federation) -> None:
    own: Federation = federation(method=ob.Neighbours(neighbours=K), privacy=ob.L2(4.0))
    numbers = 60 * 10 + 1
    assert MOST_ROWS * 1000 < 2**31
    assert 4 * numbers < len(own.make(NAMES[0]).sealed) < 4 * numbers + 4000
