"""What coalitions are worth: against outcomes that were tallied from the coalition's ballots alone."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import DataError, ElectionError, PrivacyError
from oneballot.influence import Opinions
from oneballot.party.cast import cast_together
from oneballot.server.appraise import appraise
from oneballot.server.appraise.games import Labels, Measure, Members, find_similar
from oneballot.server.appraise.shapley import coalitions
from oneballot.simulation import divide
from oneballot.types import Array

TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6})
METHODS = {
    "analytic": ob.Analytic(),
    "ensemble": ob.Ensemble(),
    "open ensemble": ob.Ensemble(weights="open"),
}


def by_tallies(election: ob.Election, ballots: list[ob.Ballot], X: Array, measure: Measure) -> Array:
    """Shapley values from a tally of every coalition, by the definition over subsets."""
    from math import factorial

    n, worth = len(ballots), {(): measure.nobody.mean()}
    for members in coalitions(n):
        if members:
            outcome = ob.tally(election, [ballots[i] for i in members])
            worth[members] = measure(outcome.probabilities(X).argmax(axis=1)).mean()
    values = np.zeros(n)
    for members, value in worth.items():
        for player in set(range(n)) - set(members):
            weight = factorial(len(members)) * factorial(n - len(members) - 1) / factorial(n)
            values[player] += weight * (worth[tuple(sorted({*members, player}))] - value)
    return values


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "metric"), [*((name, "accuracy") for name in METHODS), ("analytic", "balanced accuracy")]
)
def test_values_are_those_of_a_tally_of_every_coalition(name, metric, make_election, digits, tmp_path) -> None:
    election = make_election(method=METHODS[name])
    ballots = cast_together(election, divide(election.data(digits.X, digits.y), 3, "dirichlet:0.5", seed=1))
    box = ob.Folder(tmp_path / "box")
    for ballot in ballots:
        box.deliver(ballot.party, ballot.sealed)
    outcome = ob.Outcome.load(saved(ob.tally(election, ballots), tmp_path))
    outcome = with_names(outcome, {ballot.party: name for ballot, (name, _) in zip(ballots, box.names(), strict=True)})
    found = appraise(election, outcome, digits.X_test, digits.y_test, metric=metric, box=box)
    expected = by_tallies(election, ballots, digits.X_test, Measure.of(metric, digits.y_test))
    values = {each.party: each.value for each in found.parties}
    np.testing.assert_allclose([values[b.party] for b in ballots], expected, atol=1e-9)
    assert found.whole == pytest.approx(found.final)
    assert [each.value for each in found.parties] == sorted(values.values(), reverse=True)


def saved(outcome: ob.Outcome, folder) -> object:
    outcome.save(folder / "outcome")
    return folder / "outcome"


def with_names(outcome: ob.Outcome, names: dict[str, str]) -> ob.Outcome:
    from dataclasses import replace

    return replace(outcome, voted={p: replace(b, name=names[p]) for p, b in outcome.voted.items()})


def opinions(votes: Array) -> Opinions:
    """Votes `(parties, rows, classes)` that are simply added."""
    parties = tuple(f"p{i}" for i in range(len(votes)))
    return Opinions(parties, np.ones(len(votes)), votes.sum(axis=2), votes, lambda some: votes[some].sum(axis=0))


def test_balanced_accuracy_counts_every_class_alike() -> None:
    y = np.array([0, 0, 0, 1])
    labels = np.array([0, 0, 1, 1])
    assert Measure.of("accuracy", y)(labels).mean() == 0.75
    assert Measure.of("balanced accuracy", y)(labels).mean() == pytest.approx((2 / 3 + 1) / 2)
    assert Measure.of("accuracy", y).nobody.mean() == 0.75
    assert Measure.of("balanced accuracy", y).nobody.mean() == pytest.approx(0.5)


def test_a_row_that_no_member_votes_on_is_wrong() -> None:
    votes = np.zeros((2, 3, 2))
    votes[0, 0, 1] = votes[1, 1, 1] = 1
    game = Members(opinions(votes), Measure.of("accuracy", np.array([1, 1, 0])))
    alone, both, nobody = game([(0,), (0, 1), ()])
    np.testing.assert_array_equal(alone, [1, 0, 0])
    np.testing.assert_array_equal(both, [1, 1, 0])
    np.testing.assert_array_equal(nobody, [1, 1, 0])


def test_similar_public_rows_are_those_in_the_same_leaves() -> None:
    rng = np.random.default_rng(0)
    public = rng.normal(size=(200, 2)) + 8 * (np.arange(200) % 2)[:, None]
    near, similarity = find_similar(public, np.arange(200) % 2, np.array([[0.0, 0.0], [8.0, 8.0]]), 0)
    chosen = near[np.arange(2)[:, None], np.argsort(-similarity, axis=1)[:, :10]]
    assert (chosen[0] % 2 == 0).all()
    assert (chosen[1] % 2 == 1).all()


def test_the_proxy_ranks_a_party_with_shuffled_labels_last() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    public = rng.normal(size=(300, 4)) * 0.5 + np.eye(3, 4)[y] * 4
    votes = np.stack(
        [np.eye(3)[np.where(rng.random(300) < right, y, rng.integers(0, 3, 300))] for right in (0.9, 0, 0.6)]
    )
    labels = Labels.of(opinions(votes), public, public[:100], Measure.of("accuracy", y[:100]), 0)
    from oneballot.server.appraise.shapley import exact

    values = exact(3, labels).values
    assert values.argmin() == 1


@pytest.mark.slow
def test_what_cannot_be_appraised_is_refused_with_the_reason(make_election, parties, digits) -> None:
    election = make_election(method=ob.Ensemble())
    outcome = ob.tally(election, cast_together(election, parties))
    with pytest.raises(ElectionError, match="published without votes"):
        appraise(election, outcome.published(rows=True), digits.X_test, digits.y_test)
    with pytest.raises(DataError, match="no labelled validation rows"):
        appraise(election, outcome, digits.X_test[:0], digits.y_test[:0])
    with pytest.raises(ElectionError, match="another election"):
        appraise(make_election(method=ob.Ensemble(), seed=5), outcome, digits.X_test, digits.y_test)


def test_where_the_count_holds_sums_the_ballots_are_needed(make_election, parties, digits) -> None:
    election = make_election(method=ob.Analytic(), privacy=ob.L2(sigma=0.02, noise_seed=1, rehearsal=True))
    outcome = ob.tally(election, cast_together(election, parties))
    with pytest.raises(ElectionError, match=r"analytic keeps only sums over all ballots.*give the box \(--from BOX\)"):
        appraise(election, outcome, digits.X_test, digits.y_test)


def test_at_l1_an_appraisal_is_for_the_server_alone(make_election, parties, digits) -> None:
    election = make_election(method=ob.FedKT(), privacy=ob.L1(epsilon=50.0))
    outcome = ob.tally(election, cast_together(election, parties))
    with pytest.raises(PrivacyError, match="uses the votes without noise, which only the server may see"):
        appraise(election, outcome, digits.X_test, digits.y_test)
    with pytest.raises(PrivacyError, match="every refitted model would draw noise"):
        appraise(election, outcome, digits.X_test, digits.y_test, server_only=True, refit=True)
