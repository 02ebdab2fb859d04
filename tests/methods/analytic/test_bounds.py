"""Bounded influence: what one party's sums may do to the analytic model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.errors import ElectionError, Spoiled
from oneballot.methods.analytic.bounds import LEVERAGE, RIDGE, PartySums, bound
from oneballot.methods.analytic.statistics import GRID, MOST_ROWS
from oneballot.party.context import PartyContext
from oneballot.server.context import TallyContext
from oneballot.simulation import divide
from oneballot.types import Array, Ballot, Contents, Count, Data

X, Y = load_digits(return_X_y=True)
X = X.astype(np.float32) / 16
ORDER = np.random.default_rng(20).permutation(len(Y))
X, Y = X[ORDER], Y[ORDER]
PUBLIC, TEST, ROWS = slice(300), slice(300, 800), slice(800, None)
TARGET = 3


def election(influence: str = "bounded", **settings: Any) -> ob.Election:
    method = ob.Analytic(influence=influence, **settings)  # type: ignore[arg-type]
    return ob.Election(classes=range(10), public=X[PUBLIC], method=method)


def accuracy(agreed: ob.Election, ballots: Mapping[str, Contents]) -> float:
    """Of the model that follows from these ballots."""
    with warnings.catch_warnings(), TallyContext(agreed) as ctx:
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        total = Count()
        for party, contents in ballots.items():
            total += agreed.method.count(Ballot(party, contents, "", None, b""), ctx)
        model: Any = agreed.method.close(total, ctx)
    return float((model.predict_proba(X[TEST]).argmax(axis=1) == Y[TEST]).mean())


def honest(agreed: ob.Election, split: str, seed: int) -> dict[str, Contents]:
    parties = divide(Data(X[ROWS], Y[ROWS]), 10, split, seed)
    return {party: contents(agreed, data.X, data.y) for party, data in parties.items() if len(data)}


def contents(agreed: ob.Election, rows: Array, labels: Array) -> Contents:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        made: Any = agreed.method.cast(Data(rows, labels), PartyContext(agreed, "a"))
    return made


def attack(agreed: ob.Election, lie: str) -> Contents:
    """A liar that has all public rows and knows their labels. Its sums are multiplied by 3,000, up to 900,000 rows."""
    rows, labels = X[PUBLIC], Y[PUBLIC]
    if lie == "one class of rows":
        chosen = labels == TARGET
        rows, labels = rows[chosen], np.full(chosen.sum(), TARGET + 1)
    false = {
        "shift": (labels + 1) % 10,
        "one class": np.full_like(labels, TARGET),
        "random": np.random.default_rng(0).integers(0, 10, len(labels)),
    }.get(lie, labels)
    made = contents(agreed, rows, false)
    return {name: np.asarray(value) * 3000 for name, value in made.items()}


@pytest.mark.parametrize(("split", "cost"), [("dirichlet:0.5", 0.005), ("dirichlet:0.1", 0.02)])
def test_bounds_cost_little_without_liars(split: str, cost: float) -> None:
    lost = [
        accuracy(election("claimed"), ballots) - accuracy(election(), ballots)
        for ballots in (honest(election(), split, seed) for seed in (10, 11, 12))
    ]
    assert np.mean(lost) <= cost


@pytest.mark.parametrize("split", ["dirichlet:0.5", "dirichlet:0.1"])
@pytest.mark.parametrize("lie", ["shift", "one class", "random", "one class of rows"])
def test_one_liar_in_ten_costs_at_most_5_points(lie: str, split: str) -> None:
    agreed = election()
    for seed in (10, 11):
        ballots = honest(agreed, split, seed)
        lied = {**ballots, min(ballots): attack(agreed, lie)}
        assert accuracy(agreed, lied) >= accuracy(agreed, ballots) - 0.05
    assert accuracy(election("claimed"), lied) < 0.8  # the same ballots decide alone without bounds


def test_a_liar_is_named_with_what_does_not_count() -> None:
    agreed = election()
    ballots = honest(agreed, "dirichlet:0.5", 10)
    parties = {party: agreed.method.count(Ballot(party, each, "", None, b""), TallyContext(agreed)) for party, each in
               {**ballots, "liar": attack(agreed, "shift")}.items()}  # fmt: skip
    total = Count()
    for one in parties.values():
        total += one
    with pytest.warns(ob.OneBallotWarning) as caught, TallyContext(agreed) as ctx:
        agreed.method.close(total, ctx)
    said = [str(each.message) for each in caught]
    contradicted = [each for each in said if "contradict" in each]
    first = "liar does not count: the other parties' sums contradict at least half of its 10 classes. Ask it to check"
    assert any(first in each for each in contradicted)
    assert len(contradicted) == len({each.split(" count")[0] for each in contradicted}), "one sentence for each party"
    assert any("liar declares 900,000 rows and counts for" in each for each in said)


def test_500_invented_rows_times_4000_are_spoiled() -> None:
    agreed = election()
    made = contents(agreed, X[:500], Y[:500])
    many = {name: np.asarray(value) * 4000 for name, value in made.items()}
    with (
        TallyContext(agreed) as ctx,
        pytest.raises(Spoiled, match="2,000,000 rows, but the election allows"),
    ):
        agreed.method.count(Ballot("a", many, "", None, b""), ctx)
    with pytest.raises(ElectionError, match="100 at most; raise most_rows, up to 2,097,152"):
        contents(election(most_rows=100), X[:101], Y[:101])


def test_class_means_that_the_gram_matrix_does_not_allow_are_spoiled() -> None:
    agreed = election()
    made = contents(agreed, X[ROWS], Y[ROWS])
    sums = np.array(made["sums"])
    apart = np.abs(sums).max() // GRID // 4 * GRID
    feature = int(np.abs(sums[:-1].sum(axis=1)).argmin())
    sums[feature, :2] += [apart, -apart]  # the total is the same, and no class is longer than its rows
    with TallyContext(agreed) as ctx, pytest.raises(Spoiled, match=r"not positive semi-definite|longer than"):
        agreed.method.count(Ballot("a", {**made, "sums": sums}, "", None, b""), ctx)


def test_a_party_that_alone_knows_a_class_is_believed_and_named() -> None:
    agreed = election()
    nine = Y[ROWS] == 9
    rows, labels = X[ROWS][~nine], Y[ROWS][~nine]
    ballots = {f"p{i}": contents(agreed, rows[i::6], labels[i::6]) for i in range(6)}
    ballots["expert"] = contents(agreed, X[ROWS][nine], Y[ROWS][nine])
    total = Count()
    with TallyContext(agreed) as ctx:
        for party, each in ballots.items():
            total += agreed.method.count(Ballot(party, each, "", None, b""), ctx)
        with pytest.warns(ob.OneBallotWarning, match="expert has nearly all rows of class 9"):
            model: Any = agreed.method.close(total, ctx)
    chosen = Y[TEST] == 9
    assert (model.predict_proba(X[TEST][chosen]).argmax(axis=1) == 9).mean() > 0.8


def test_a_party_of_which_most_classes_are_others_is_not_believed_about_a_class_that_others_lack() -> None:
    agreed = election()
    eight = Y[ROWS] == 8
    rows, labels = X[ROWS][~eight], Y[ROWS][~eight]
    ballots = {f"p{i}": contents(agreed, rows[i::6], labels[i::6]) for i in range(6)}
    ballots["liar"] = attack(agreed, "shift")
    kept = {party: (np.asarray(each["gram"]), np.asarray(each["sums"])) for party, each in ballots.items()}
    found = bound(kept, agreed.method._constant)
    assert sorted(found.unrecognised) == [("liar", c) for c in range(10)]
    assert not found.alone
    assert found.totals.rows[8] == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_handful_of_rows_does_not_overrule_a_party(seed: int) -> None:
    """Two classes that overlap, and 64 features: the mean of 6 rows may be anywhere."""
    agreed = ob.Election(classes=range(2), public=X[PUBLIC], method=ob.Analytic())
    rng = np.random.default_rng(seed)

    def party(*counts: int) -> Contents:
        labels = np.repeat([0, 1], counts)
        rows = rng.normal(0.3, 0.2, (len(labels), 64)) + 0.05 * labels[:, None]
        return contents(agreed, rows.astype(np.float32), labels)

    ballots = {"large": party(500, 100)} | {f"p{i}": party(int(i < 6), 60) for i in range(8)}
    kept = {name: (np.asarray(each["gram"]), np.asarray(each["sums"])) for name, each in ballots.items()}
    assert ("large", 0) not in bound(kept, agreed.method._constant).unrecognised


def test_rows_of_a_class_count_where_everybody_contradicts_everybody() -> None:
    agreed = election()
    chosen = np.isin(Y[ROWS], [1, 2])
    rows, labels = X[ROWS][chosen], Y[ROWS][chosen]
    ballots = {"a": contents(agreed, rows, labels), "b": contents(agreed, rows, 3 - labels)}
    ballots |= {f"p{i}": contents(agreed, X[ROWS][Y[ROWS] == i], Y[ROWS][Y[ROWS] == i]) for i in (5, 6, 7)}
    kept = {party: (np.asarray(each["gram"]), np.asarray(each["sums"])) for party, each in ballots.items()}
    assert (bound(kept, agreed.method._constant).totals.rows[[1, 2, 5, 6, 7]] > 0).all()


def test_two_parties_with_one_class_each_give_the_model_of_the_pooled_rows() -> None:
    agreed, plain = election(), election("claimed")
    labels = (Y[ROWS] > 4).astype(int)
    models = [
        ob.tally(each, [ob.cast(each, X[ROWS][labels == c], labels[labels == c], party=f"p{c}") for c in (0, 1)])
        for each in (agreed, plain)
    ]
    np.testing.assert_array_equal(models[0].model.model_.weights, models[1].model.model_.weights)


def test_no_party_has_more_scatter_in_any_direction_than_its_leverage() -> None:
    agreed = election()
    constant = agreed.method._constant
    ballots = honest(agreed, "dirichlet:0.5", 10)
    along = np.zeros((300, 64), dtype=np.float32)
    along[:, 20] = np.resize(np.repeat([-9.0, 9.0], 10), 300)
    ballots["liar"] = contents(agreed, along, np.arange(300) % 10)
    kept = {party: (np.asarray(each["gram"]), np.asarray(each["sums"])) for party, each in ballots.items()}
    total = bound(kept, constant).totals
    without = bound({party: pair for party, pair in kept.items() if party != "liar"}, constant).totals
    claimed = PartySums.read(*kept["liar"], constant).within[20, 20]
    assert claimed > 10 * without.gram[20, 20]
    assert total.gram[20, 20] < (1 + LEVERAGE) * (without.gram[20, 20] + RIDGE) + 5


def test_a_late_ballot_and_one_left_out_give_the_same_model_as_from_scratch() -> None:
    agreed = election()
    ballots = [ob.cast(agreed, X[ROWS][i::7], Y[ROWS][i::7], party=f"p{i}") for i in range(7)]
    early = ob.tally(agreed, ballots[2:])
    late = ob.tally(agreed, ballots, previous=early, without=["p6"])
    np.testing.assert_array_equal(late.model.model_.weights, ob.tally(agreed, ballots[:6]).model.model_.weights)


def test_files_that_leave_influence_out_mean_what_they_meant(tmp_path: Path) -> None:
    from oneballot.election.file import make
    from oneballot.election.template import section

    old = make("methods", {"name": "analytic"}, "[method]")
    assert (old.influence, old.most_rows) == ("claimed", MOST_ROWS)
    assert not {"influence", "most_rows"} & old.describe().keys()
    assert 'influence = "bounded"' in section("analytic")


def test_at_l2_sums_are_scaled_to_a_public_number_of_rows() -> None:
    agreed = ob.Election(classes=range(10), public=X[PUBLIC], method=ob.Analytic(most_rows=100), privacy=ob.L2(1.0))
    assert agreed.method.influence == "claimed"
    made = ob.cast(agreed, X[ROWS], Y[ROWS], party="a").contents
    large = {name: np.asarray(value) * 50 for name, value in made.items()}
    with TallyContext(agreed) as ctx:
        counted = agreed.method.count(Ballot("a", large, "", None, b""), ctx).sums
    assert max(np.abs(counted["gram"]).max() / 2, np.abs(counted["sums"]).max()) <= 100 * GRID**2 + 1
