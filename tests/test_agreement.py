"""How far parties agree with their peers: against the definition, and with liars that confirm one another."""

from __future__ import annotations

import numpy as np
import pytest

from oneballot import agreement
from oneballot.agreement import LEAST_OVERLAP, MOST_CHANCE, Comparison, compare, compared_rows

ROWS, CLASSES = 400, 5
TRUTH = np.arange(ROWS) % CLASSES
LOW, MEDIAN = 0.2, 0.3
"""Below the first a party counts for a fiftieth of the median, from the second on for it (`rows_by_agreement`)."""


def honest(parties: int, known: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Claims and labels of parties that know some classes, and there name the right one nine times in ten. On other
    rows they claim little, and guess among the classes that they know."""
    rng = np.random.default_rng(seed)
    claims, labels = np.empty((parties, ROWS)), np.empty((parties, ROWS), dtype=int)
    for party in range(parties):
        classes = (party + np.arange(known)) % CLASSES
        mine = np.isin(TRUTH, classes)
        claims[party] = np.where(mine, 5, 0.2) * rng.lognormal(0, 0.5, ROWS)
        labels[party] = np.where(mine & (rng.random(ROWS) < 0.9), TRUTH, rng.choice(classes, ROWS))
    return claims, labels


LIES = {
    "shift": lambda i: (TRUTH + 1) % CLASSES,
    "one class": lambda i: np.zeros(ROWS, dtype=int),
    "random": lambda i: np.random.default_rng(i).integers(CLASSES, size=ROWS),
}


def with_liars(claims: np.ndarray, labels: np.ndarray, liars: int, lie: str) -> tuple[np.ndarray, np.ndarray]:
    """The same with liars that claim every row."""
    lies = np.array([LIES[lie](i) for i in range(liars)])
    return np.vstack([claims, np.full((liars, ROWS), 1e6)]), np.vstack([labels, lies])


def among_all(claims: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return Comparison(claims, labels, CLASSES).among(np.arange(len(claims)))


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("parties", "liars"), [(10, 1), (12, 3), (20, 6), (20, 8)])
def test_liars_that_confirm_one_another_agree_with_few_and_honest_parties_with_many(
    lie: str, parties: int, liars: int
) -> None:
    found = among_all(*with_liars(*honest(parties - liars), liars, lie))
    assert found[: parties - liars].min() > MEDIAN + 0.1
    assert found[parties - liars :].max() < LOW


def test_nobody_is_judged_where_honest_parties_hardly_agree() -> None:
    """As with credit data, whose columns say little: a hospital with one class names it on every row."""
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((9, ROWS)) < 0.1, TRUTH % 2, rng.integers(2, size=(9, ROWS)))
    labels[0] = 1
    found = Comparison(np.ones((9, ROWS)), labels, 2).among(np.arange(9))
    assert found.min() > MEDIAN + 0.1
    labels[1:] = np.where(rng.random((8, ROWS)) < 0.7, TRUTH % 2, labels[1:])
    found = Comparison(np.ones((9, ROWS)), labels, 2).among(np.arange(9))
    assert found[0] < LOW, "where the others agree, a constant answer on every row stands out"
    assert found[1:].min() > MEDIAN + 0.1


def test_parties_with_one_class_each_are_not_blamed() -> None:
    claims, labels = honest(20, known=1)
    assert among_all(claims, labels).min() == 1, "parties of one class would agree by chance"


def test_a_party_that_alone_knows_a_class_is_not_blamed() -> None:
    claims, labels = honest(9)
    known = TRUTH != 4
    claims, labels = np.where(known, claims, 0.01), np.where(labels == 4, 3, labels)
    alone = np.where(known, 0.05, 20.0)
    found = among_all(np.vstack([claims, alone]), np.vstack([labels, np.full(ROWS, 4)]))
    assert found[9] == 1, "it overlaps with none"
    assert found.min() > MEDIAN + 0.1


def test_a_party_that_does_not_vote_is_not_blamed() -> None:
    claims, labels = honest(6)
    labels[2] = -1
    claims[3] = 0
    found = among_all(claims, labels)
    assert found[2] == found[3] == 1
    assert np.isfinite(found).all()


def test_two_parties_are_compared_as_defined() -> None:
    rng = np.random.default_rng(5)
    claims, labels = rng.lognormal(0, 1, (6, ROWS)), rng.integers(-1, CLASSES, (6, ROWS))
    labels[1] = np.where(rng.random(ROWS) < 0.7, labels[0], labels[1])
    labels[4] = labels[5] = 2  # they agree always, and would by chance
    agreed, compared = compare(claims, labels, CLASSES)
    for j in range(6):
        for k in range(6):
            c, d = (claims[i] / claims[i].mean() * (labels[i] >= 0) for i in (j, k))
            both = c * d
            same = both[labels[j] == labels[k]].sum() / both.sum()
            chance = 0.0
            for one, other, weight in ((j, k, d), (k, j, c)):
                for label in range(CLASSES):
                    there = both[labels[one] == label].sum() / both.sum()
                    chance += there * weight[labels[other] == label].sum() / weight.sum() / 2
            enough = both.mean() >= LEAST_OVERLAP * c.mean() * d.mean() and chance <= MOST_CHANCE and j != k
            assert compared[j, k] == enough
            assert agreed[j, k] == pytest.approx((same - chance) / (1 - chance) if enough else 0, abs=0.01)
    assert not compared[4, 5]


def test_parties_are_left_out_as_if_they_had_never_been_there() -> None:
    claims, labels = with_liars(*honest(10), 2, "shift")
    all_of_them = Comparison(claims, labels, CLASSES)
    for left_out in range(12):
        some = np.delete(np.arange(12), left_out)
        np.testing.assert_array_equal(all_of_them.among(some), among_all(claims[some], labels[some]))


def test_the_order_of_the_parties_and_of_the_rows_does_not_matter() -> None:
    claims, labels = with_liars(*honest(8), 2, "shift")
    rng = np.random.default_rng(1)
    parties, rows = rng.permutation(10), rng.permutation(ROWS)
    agreed, compared = compare(claims, labels, CLASSES)
    shuffled = compare(claims[:, rows], labels[:, rows], CLASSES)
    np.testing.assert_array_equal(agreed, shuffled[0], "sums of integers are exact")
    np.testing.assert_array_equal(compared, shuffled[1])
    np.testing.assert_allclose(among_all(claims, labels)[parties], among_all(claims[parties], labels[parties]))


def test_with_many_parties_each_is_compared_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "MOST_PEERS", 15)
    claims, labels = with_liars(*honest(32), 8, "shift")
    assert compare(claims, labels, CLASSES)[0].shape == (40, 15)
    found = among_all(claims, labels)
    assert found[:32].min() > MEDIAN > LOW > found[32:].max()
    some = np.arange(1, 40)
    np.testing.assert_array_equal(
        Comparison(claims, labels, CLASSES).among(some), among_all(claims[some], labels[some])
    )


def test_all_rows_are_compared_unless_that_takes_too_long() -> None:
    np.testing.assert_array_equal(compared_rows(20, 60_000), np.arange(60_000))
    assert len(np.unique(compared_rows(500, 60_000))) == 4000
    assert len(compared_rows(10_000, 60_000)) == 1000


@pytest.mark.parametrize(("rows", "expected"), [(10, False), (30, True)])
def test_parties_are_not_compared_on_a_handful_of_rows(rows: int, expected: bool) -> None:
    """Of 100 public rows both claim the same few a hundred times as strongly as the others, and contradict there."""
    claims = np.tile(np.where(np.arange(100) < rows, 1.0, 0.01), (2, 1))
    labels = np.stack([TRUTH[:100], (TRUTH[:100] + 1) % CLASSES])
    _, compared = compare(claims, labels, CLASSES)
    assert compared[0, 1] == expected
