"""The noise of two tallies: each server adds all of it, the total has twice the variance, one server's is charged."""

from __future__ import annotations

import math

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError, PrivacyError
from oneballot.party.cast import cast
from oneballot.party.context import PartyContext
from oneballot.party.shared_count import CountContext, expected_layout
from oneballot.runtime.scheduler import Job, run, steps_of
from oneballot.server.context import TallyContext
from oneballot.server.two_tallies.noise import draw_noise
from oneballot.simulation import divide, simulate_parties
from oneballot.types import Ballot, Data

from .conftest import NAMES, plain

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 4})
ROWS = ob.L2(2.0, stable_ids=True)
WAYS = ({"subsets": 4}, {"subsets": 4, "partitions": 2}, {"subsets": 4, "voting": "soft"})


def noise(election: ob.Election, side: str = "a") -> dict[str, np.ndarray]:
    with TallyContext(election) as ctx:
        layout = expected_layout(ctx)
        return layout.split(draw_noise(ctx, layout, side, 1))


def shared_sums(election: ob.Election, party: str, X, y, ids) -> np.ndarray:
    """What a party with these rows adds to the total, before it is split into shares."""
    ctx = PartyContext(election, party)
    contents = run(Job(steps_of(election.method.cast, Data(X, y, ids), ctx), election.learner_of, "", "", {}))
    count = election.method.count(Ballot(party, contents, "", None, b""), CountContext(election, party))
    return np.concatenate([value.ravel() for value in count.sums.values()])


def test_one_server_adds_the_full_noise_that_the_ledger_charges(federation) -> None:
    election = federation(method=ob.FedKT(subsets=3, queries=60), learner=TREE, privacy=ROWS).election
    (line,) = election.guarantee.ledger().lines
    drawn = np.concatenate([noise(election)["votes"].ravel() for _ in range(20)])
    assert math.isclose(drawn.std(), line.scale, rel_tol=0.05)
    assert line.squared_shift == 2 * 60 + 2  # one vote moves on each query, and a row from a class to another
    assert line.times == 1


def test_both_servers_noise_together_has_twice_the_variance(federation) -> None:
    election = federation(method=ob.FedKT(subsets=3, queries=60), learner=TREE, privacy=ROWS).election
    sigma = election.guarantee.numbers.sigma
    both = [noise(election, "a")["votes"] + noise(election, "b")["votes"] for _ in range(20)]
    assert math.isclose(np.std(both), math.sqrt(2) * sigma, rel_tol=0.05)
    with TallyContext(election) as ctx:
        assert math.isclose(ctx.noise_of_total(7), math.sqrt(2) * sigma)
    with TallyContext(plain(election)) as ctx:
        assert math.isclose(ctx.noise_of_total(7), math.sqrt(7) * ctx.noise)


def test_the_cost_is_that_of_a_discrete_gaussian_by_zcdp(federation) -> None:
    """Independent: ρ = Δ²/2σ², and the conversion of Rényi divergences α·ρ, minimised over a grid of orders."""
    election = federation(method=ob.FedKT(subsets=3, queries=60), learner=TREE, privacy=ROWS).election
    sigma = election.guarantee.numbers.sigma
    rho, orders = 122 / (2 * sigma**2), np.arange(1.001, 400, 0.001)
    costs = orders * rho + np.log1p(-1 / orders) - (math.log(1e-5) + np.log(orders)) / (orders - 1)
    assert math.isclose(election.guarantee.epsilon(), costs.min(), rel_tol=1e-5)
    assert election.guarantee.epsilon() <= 2.0


@pytest.mark.parametrize(
    ("settings", "privacy", "squared"),
    [
        ({"subsets": 3, "count_classes": False}, ob.L2(2.0, stable_ids=True), 2 * 60),
        # A row adds the weight √(60/40), rounded, in units of a vote to the number of its class.
        ({"subsets": 3}, ob.L2(2.0, stable_ids=True), 2 * 60 + 2),
        ({"subsets": 3, "partitions": 2}, ob.L2(2.0, stable_ids=True), 2 * 60 * 4 + 2 * 2**2),
        ({"subsets": 3, "voting": "soft"}, ob.L2(2.0, stable_ids=True), 2 * 60 * 255**2 + 2 * 312**2),
        ({"subsets": 3}, ob.L2(2.0), 4 * 2 * 60 + 2),  # by content a replaced row moves two votes, by 2 together
        ({"subsets": 3}, ob.L2(2.0, adjacency="add-remove"), 2 * 60 + 1),
        ({"subsets": 3}, ob.L2(2.0, stable_ids=True, adjacency="swap"), 4 * 2 * 60 + 2),
        ({"subsets": 3}, ob.L2(2.0, stable_ids=True, rows_per_id=3), 2 * 60 + 9 * 2),
        ({}, ob.L1(8.0), 2 * 60),
        # A person with rows at three parties moves the total, which has one noise, three times as far.
        ({"subsets": 3}, ob.L2(2.0, stable_ids=True, max_silos_per_person=3), 9 * (2 * 60 + 2)),
        ({"partitions": 2}, ob.L1(8.0), 2 * 60 * 4),
        ({"partitions": 2, "voting": "consistent"}, ob.L1(8.0), 2 * 60),
        ({"weights": "class-counts", "most_rows": 10, "open_vote": "off"}, ob.L1(8.0), 2 * 60 * 100),
    ],
)
def test_the_sensitivity_of_votes(settings, privacy, squared, federation) -> None:
    election = federation(method=ob.FedKT(queries=60, **settings), learner=TREE, privacy=privacy).election
    assert election.guarantee.numbers.squared_shift == squared


@pytest.mark.parametrize("method", [ob.FedKT(subsets=2, queries=60), ob.Analytic(), ob.Neighbours(neighbours=5)])
def test_a_person_at_several_parties_moves_the_total_as_far_as_the_ledger_charges(method, federation, digits) -> None:
    """The same patient's rows are replaced at both parties. The totals are twice as far apart as one party's sums, so
    the squared distance is four times that of one party, and not twice, as it is where each party adds noise."""
    settings = {"method": method, "learner": TREE}
    one, two = (
        federation(**settings, privacy=ob.L2(2.0, stable_ids=True, max_silos_per_person=m)).election.guarantee
        for m in (1, 2)
    )
    assert two.numbers.squared_shift == 4 * one.numbers.squared_shift
    assert math.isclose(two.numbers.sigma, 2 * one.numbers.sigma, rel_tol=1e-5)
    assert two.epsilon() <= 2.0
    assert two.ledger().silos == two.planned().silos == 2
    assert two.ledger().epsilon == two.planned().epsilon == two.epsilon()
    assert "for people with rows at up to 2 parties" in two.ledger().describe()
    election = federation(**settings, privacy=ob.L2(2.0, stable_ids=True, max_silos_per_person=2)).election
    patient, other = [Data(digits.X[i : i + 1], digits.y[i : i + 1], np.array(["p"])) for i in (0, 1)]
    assert digits.y[0] != digits.y[1]
    moved = [
        (shared_sums(election, party, other.X, other.y, other.ids) - before).astype(np.float64)
        for party in NAMES[:2]
        for before in [shared_sums(election, party, patient.X, patient.y, patient.ids)]
    ]
    assert (moved[0] ** 2).sum() > 0
    assert math.isclose((sum(moved) ** 2).sum(), 4 * (moved[0] ** 2).sum())


def test_the_outcome_states_at_how_many_parties_a_person_may_be(federation, digits) -> None:
    privacy = ob.L2(5.0, stable_ids=True, max_silos_per_person=2)
    election = federation(method=ob.Analytic(), privacy=privacy).election
    data = Data(digits.X, digits.y, np.arange(len(digits.y)).astype(str))
    made = simulate_parties(election, divide(data, 7, "homogeneous"))
    assert made.outcome.ledger == election.guarantee.planned()
    assert made.outcome.ledger.epsilon <= 5.0
    assert all(ballot.ledger.agrees_with(election.ballot_ledger) for ballot in made.ballots)
    forgotten = federation(method=ob.Analytic(), privacy=ob.L2(5.0, stable_ids=True)).election
    assert not made.ballots[0].ledger.agrees_with(forgotten.ballot_ledger)


@pytest.mark.parametrize("method", [ob.FedKT(subsets=3, queries=60), ob.Analytic(), ob.Neighbours(neighbours=5)])
def test_a_person_swapped_for_another_at_another_party_stays_within_the_distance(method, federation, digits) -> None:
    """One party loses a row, another gains one with another ID: both change the same total."""
    privacy = ob.L2(2.0, stable_ids=True, adjacency="swap")
    election = federation(method=method, learner=TREE, privacy=privacy).election
    numbers, ids = election.guarantee.numbers, np.arange(len(digits.y)).astype(str)
    declared = numbers.squared_shift * (4 if election.method.name == "analytic" else 1)  # the count holds G + Gᵀ

    def total(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        rows = zip(NAMES, (first, second), strict=False)
        return sum(shared_sums(election, party, digits.X[i], digits.y[i], ids[i]) for party, i in rows)

    some, others = np.arange(12), np.arange(12, 24)
    before = total(some, others).astype(np.float64)
    for leaves, comes in zip(range(6), range(30, 36), strict=True):
        moved = float(((total(np.delete(some, leaves), np.append(others, comes)) - before) ** 2).sum())
        assert 0 < moved <= declared


@pytest.mark.parametrize(
    "settings", [{"subsets": 4}, {"subsets": 4, "partitions": 2}, {"subsets": 4, "voting": "soft"}]
)
def test_no_changed_row_moves_the_sums_further_than_declared(settings, federation, digits) -> None:
    """By experiment: rows are replaced under the same ID, and removed; the sums never differ by more."""
    own = federation(method=ob.FedKT(queries=60, **settings), learner=TREE, privacy=ob.L2(2.0, stable_ids=True))
    election, X, y = own.election, digits.X[:120], digits.y[:120]
    ids = np.arange(len(y)).astype(str)
    declared = election.guarantee.numbers.squared_shift

    before, largest = shared_sums(election, NAMES[0], X, y, ids), 0
    for row in range(0, 24, 3):
        changed, labels = X.copy(), y.copy()
        changed[row], labels[row] = 16 - X[row], (y[row] + 5) % 10
        kept = np.arange(len(y)) != row
        for after in (
            shared_sums(election, NAMES[0], changed, labels, ids),
            shared_sums(election, NAMES[0], X[kept], y[kept], ids[kept]),
        ):
            largest = max(largest, int(((after - before) ** 2).sum()))
    assert 0 < largest <= declared


def test_the_noise_of_analytic_is_that_of_a_partys_release(federation) -> None:
    """Noise on all of G, of which the count holds the triangle of G + Gᵀ: √2·σ beside the diagonal, 2·σ on it."""
    election = federation(method=ob.Analytic(), privacy=ob.L2(2.0)).election
    sigma, drawn = election.guarantee.numbers.sigma, noise(election)
    size = drawn["sums"].shape[0]
    upper = np.zeros((size, size))
    upper[np.triu_indices(size)] = drawn["gram"]
    assert math.isclose(np.diag(upper).std(), 2 * sigma, rel_tol=0.4)
    assert math.isclose(upper[np.triu_indices(size, 1)].std(), math.sqrt(2) * sigma, rel_tol=0.1)
    assert math.isclose(drawn["sums"].std(), sigma, rel_tol=0.15)
    assert drawn["ballots"] == 0  # public: the lists of ballots state it


def test_no_noise_is_drawn_at_a_cast_and_a_second_cast_costs_nothing(federation) -> None:
    own = federation(privacy=ob.L2(2.0))
    ballot = own.make(NAMES[0])
    assert ballot.ledger == own.election.guarantee.ledger()
    assert ballot.ledger.released_to == "the public or either server alone, not both together"
    assert not ballot.noised
    data = own.parties[NAMES[0]]
    again = cast(own.election, data.X, data.y, party=NAMES[0], key=own.keys[NAMES[0]])
    assert again.ledger == ballot.ledger
    assert again.digest != ballot.digest


def test_one_noise_costs_less_than_one_a_party(federation, digits) -> None:
    """At the same budget the total of 7 parties has √2·σ instead of √7·σ, and the model is better."""
    election = federation(method=ob.Analytic(), privacy=ob.L2(4.0)).election
    parties = divide(Data(digits.X, digits.y), 7, "homogeneous")
    test = Data(digits.X_test, digits.y_test)
    shared = simulate_parties(election, parties).accuracy(test)  # 0.9 in trials
    try:
        single = simulate_parties(plain(election), parties).accuracy(test)  # 0.5 to 0.8
    except ElectionError:  # all classes are lost in the noise
        single = 0.0
    assert shared > single


def test_a_rehearsal_is_reproducible_and_has_no_epsilon(federation, digits) -> None:
    election = federation(privacy=ob.L2(2.0, rehearsal=True, noise_seed=3)).election
    parties = divide(Data(digits.X, digits.y), 4, "homogeneous")
    one, two = (simulate_parties(election, parties) for _ in range(2))
    assert one.outcome.model.dump() == two.outcome.model.dump()
    assert one.outcome.ledger.epsilon is None


def test_a_release_that_is_not_what_the_count_adds_is_refused(federation) -> None:
    """A method that declares no sums: noise on them covers what one row changes only if they are what it released."""
    from oneballot.methods.fedkd.method import FedKD

    class Undeclared(FedKD):
        name = "undeclared"

        def shared_sums(self, ctx):
            return None

    class Scaled(Undeclared):
        name = "scaled"

        def count(self, ballot, ctx):
            counted = super().count(ballot, ctx)
            return type(counted)({name: 2 * value for name, value in counted.sums.items()})

    own = federation(method=Undeclared(temperature=0.0, subsets=2), learner=TREE, privacy=ob.L2(5.0))
    assert own.make(NAMES[0]).contents
    own = federation(method=Scaled(temperature=0.0, subsets=2), learner=TREE, privacy=ob.L2(5.0))
    with pytest.raises(PrivacyError, match="are not the numbers that it releases"):
        own.make(NAMES[0])


def test_a_method_that_declares_votes_alone_is_refused_with_noise(federation) -> None:
    from oneballot.interfaces import Method
    from oneballot.methods.fedkt.method import FedKT

    class Votes(FedKT):
        name = "votes"
        shared_numbers = Method.shared_numbers

    with pytest.raises(ElectionError, match="does not declare at L2 what one unit changes in its sums"):
        _ = federation(method=Votes(subsets=2), learner=TREE, privacy=ob.L2(5.0))
