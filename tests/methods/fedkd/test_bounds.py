"""Bounded influence: what one party's logits may do to FedKD's labels."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import oneballot as ob
from oneballot.election.file import make
from oneballot.election.template import section
from oneballot.methods.fedkd.bounds import bound, trust
from oneballot.party.cast import cast_together
from oneballot.server.context import TallyContext
from oneballot.simulation import divide
from oneballot.types import Array, Ballot, Contents, Count, Data

X, Y = load_digits(return_X_y=True)
X = X / 16
ORDER = np.random.default_rng(21).permutation(len(Y))
X, Y = X[ORDER], Y[ORDER]
PUBLIC, TRUTH = X[:400], Y[:400]
ROWS = slice(400, None)
TARGET = 3


def election(influence: str = "bounded", **settings: Any) -> ob.Election:
    method = ob.FedKD(**{"temperature": 0.0, "influence": influence, **settings})
    return ob.Election(range(10), PUBLIC, method=method, learner=ob.Sklearn("LogisticRegression", {"max_iter": 200}))


@cache
def honest(split: str, seed: int) -> dict[str, Contents]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        parties = divide(Data(X[ROWS], Y[ROWS]), 10, split, seed)
        return {ballot.party: ballot.contents for ballot in cast_together(election(), parties)}


def right(agreed: ob.Election, ballots: dict[str, Contents]) -> float:
    """The share of public rows whose label, which the final model learns, is true."""
    count = Count()
    with warnings.catch_warnings(), TallyContext(agreed) as ctx:
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        for party, contents in ballots.items():
            count += agreed.method.count(Ballot(party, contents, "", None, b""), ctx)
        labels: Array = next(agreed.method.close(count, ctx)).tasks[0].targets  # type: ignore[arg-type]
    return float((labels == TRUTH).mean())


def lie(what: str) -> Contents:
    """Logits of ±1,000, and 100,000 rows of each class, of a liar that knows the truth."""
    false = {
        "shift": (TRUTH + 1) % 10,
        "one class": np.zeros_like(TRUTH),
        "random": np.random.default_rng(0).integers(0, 10, len(TRUTH)),
        "rows of one class": np.where(TRUTH == TARGET, TARGET + 1, TRUTH),
    }[what]
    seen = np.full(10, 100_000)
    if what == "rows of one class":
        seen[[c for c in range(10) if c not in (TARGET, TARGET + 1)]] = 0
    return election().method._encode(1000.0 * (2 * np.eye(10)[false] - 1), seen)


@pytest.mark.parametrize(("split", "cost"), [("dirichlet:0.5", 0.005), ("dirichlet:0.1", 0.02)])
def test_bounds_cost_little_without_liars(split: str, cost: float) -> None:
    ballots = [honest(split, seed) for seed in (10, 11)]
    lost = [right(election("claimed"), each) - right(election(), each) for each in ballots]
    assert np.mean(lost) <= cost


@pytest.mark.parametrize("split", ["dirichlet:0.5", "dirichlet:0.1"])
@pytest.mark.parametrize("what", ["shift", "one class", "random", "rows of one class"])
def test_one_liar_in_ten_costs_at_most_5_points(what: str, split: str) -> None:
    agreed, lost = election(), []
    for seed in (10, 11):
        ballots = honest(split, seed)
        alone = {party: each for party, each in ballots.items() if party != min(ballots)}
        lost.append(right(agreed, alone) - right(agreed, {**alone, min(ballots): lie(what)}))
    assert np.mean(lost) <= 0.05


def test_liars_that_confirm_one_another_have_little_say() -> None:
    logits = [answers(2, i) for i in range(8)] + [answers(0.1, i, sign=-1) for i in (8, 9, 10)]
    trusted = trust(np.stack(logits), np.full((11, 2), 50), exclusive=True)
    assert trusted[8:].max() < 0.1 < trusted[:8].min()


def test_without_bounds_one_liar_decides_alone() -> None:
    ballots = honest("dirichlet:0.5", 10)
    assert right(election("claimed"), {**ballots, min(ballots): lie("shift")}) == 0


def test_a_party_that_disagrees_with_all_others_is_named() -> None:
    agreed, count = election(), Count()
    with TallyContext(agreed) as ctx:
        for party, contents in {**honest("dirichlet:0.5", 10), "liar": lie("shift")}.items():
            count += agreed.method.count(Ballot(party, contents, "", None, b""), ctx)
        with pytest.warns(ob.OneBallotWarning, match="liar counts for 0.0% of .*: its logits .* Ask it to check its"):
            next(agreed.method.close(count, ctx))  # type: ignore[arg-type]


def test_a_class_that_one_party_alone_knows_is_believed() -> None:
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(50, 3)) for _ in range(6)]
    seen = np.array([[10, 10, 0]] * 5 + [[0, 0, 40]])
    assert (trust(np.stack(logits), seen, exclusive=True)[5, 2], bound(logits, seen, exclusive=True)[1][5, 2] > 0) == (
        1,
        True,
    )


def answers(noise: float, seed: int, sign: float = 1.0) -> Array:
    """Logits of two classes for 400 rows, half of each class: the truth and some noise."""
    truth = np.where(np.arange(400) % 2, 2.0, -2.0)
    score = sign * truth + noise * np.random.default_rng(seed).normal(size=400)
    return np.stack([-score, score], axis=1)


def test_two_parties_that_agree_are_believed_against_one_that_contradicts_both() -> None:
    single = np.repeat([[2.0, 0.0]], 400, axis=0)
    logits = [answers(2, 1), answers(2, 2), answers(0, 3, sign=-1), single, single]
    seen = np.array([[20, 90], [60, 50], [100_000, 100_000], [40, 0], [30, 0]])
    trusted = trust(np.stack(logits), seen, exclusive=True)
    assert (trusted[2] == 0).all()
    assert (trusted[:2] > 0.05).all()


def test_a_party_with_one_class_counts_where_the_others_hardly_agree() -> None:
    seen = np.array([[20, 90], [60, 50], [30, 40], [3000, 0], [0, 8]])
    single = [np.repeat([each], 400, axis=0) for each in ([2.0, 0.0], [0.0, 2.0])]
    trusted = {
        noise: trust(np.stack([*(answers(noise, i) for i in range(3)), *single]), seen, exclusive=True)
        for noise in (0.1, 6.0)
    }
    alike, differ = trusted[0.1], trusted[6.0]
    assert alike[3, 0] < 0.1 < 0.9 < alike[:3].min()
    assert 0.7 * differ[:3, 0].mean() < differ[3, 0] < differ[:3, 0].max()
    assert alike[3, 1] == differ[3, 1] == 0


def test_a_party_that_answers_alike_for_every_row_is_not_believed_about_a_class_that_others_lack() -> None:
    flat = np.repeat([[2.0, -2.0, -2.0]], 400, axis=0)
    seen = np.array([[50, 50, 0]] * 4 + [[100_000] * 3])
    logits = [np.hstack([answers(1, i), np.zeros((400, 1))]) for i in range(4)]
    assert (trust(np.stack([*logits, flat]), seen, exclusive=True)[4] == 0).all()
    assert bound([*logits, flat], seen, exclusive=True)[1][4, 2] == 0


def test_where_nobody_agrees_a_party_counts_for_the_median_of_the_rows() -> None:
    single = np.repeat([[2.0, 0.0]], 400, axis=0)
    logits = [answers(0, 1), answers(0, 2, sign=-1), single, single, single]
    seen = np.array([[10, 10], [100_000, 100_000], [30, 0], [40, 0], [50, 0]])
    weights = bound(logits, seen, exclusive=True)[1]
    assert weights[:2].tolist() == [[10, 10], [20, 20]]


def test_fewer_than_five_parties_are_counted_without_bounds() -> None:
    few = dict(list(honest("dirichlet:0.5", 10).items())[:4])
    assert right(election(), few) == right(election("claimed"), few)


def test_files_that_leave_influence_out_mean_what_they_meant() -> None:
    assert make("methods", {"name": "fedkd"}, "[method]").influence == "claimed"
    assert "influence" not in ob.FedKD(influence="claimed").describe()
    assert ob.FedKD.paper().influence == "claimed"
    assert 'influence = "bounded"' in section("fedkd")
    assert "decide alone" in ob.FedKD(influence="claimed").risk
    assert not ob.FedKD().risk
