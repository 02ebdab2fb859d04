"""A certified label survives every attack that is tried; plain votes have the closed form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneballot.certificate import BoundedRows, BoundedTotals, Capped, certify_share, certify_sum, middle_range
from oneballot.influence import LOOSE_SHARE, MOST_SHARE, bounded_rows, cap_weights, most_share
from oneballot.methods.ensemble.open_count import needed_rows
from oneballot.types import Array

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(3, 25), st.integers(2, 5), st.integers(1, 3))
def test_one_vote_a_party_is_certified_if_the_margin_is_larger_than_2k(
    seed: int, parties: int, classes: int, k: int
) -> None:
    votes = np.eye(classes)[np.random.default_rng(seed).integers(classes, size=(parties, 40))]
    second, first = np.sort(votes.sum(axis=0), axis=1)[:, -2:].T
    np.testing.assert_array_equal(certify_sum(votes, 1.0, k), first - second > 2 * k)


@given(SEEDS, st.integers(2, 6), st.integers(2, 3), st.integers(1, 2))
@settings(max_examples=40)
def test_no_k_ballots_change_a_certified_sum_and_some_k_change_every_other(
    seed: int, parties: int, classes: int, k: int
) -> None:
    """Every choice of k ballots, each replaced by one for any class: linear votes have no worse one."""
    rng, rows = np.random.default_rng(seed), 20
    votes = rng.dirichlet(np.ones(classes), (parties, rows)) * rng.uniform(0, 1, (parties, rows, 1))
    k = min(k, parties)
    certified, changed = certify_sum(votes, 1.0, k), np.zeros(rows, dtype=bool)
    label = votes.sum(axis=0).argmax(axis=1)
    for replaced in itertools.combinations(range(parties), k):
        rest = np.delete(votes, replaced, axis=0).sum(axis=0)
        for lie in np.eye(classes):
            changed |= (rest + k * lie).argmax(axis=1) != label
    np.testing.assert_array_equal(certified, ~changed)


@given(SEEDS, st.integers(2, 6), st.integers(1, 2))
@settings(max_examples=40)
def test_no_k_members_change_a_certified_mean_over_the_parties_with_a_class(seed: int, parties: int, k: int) -> None:
    rng, rows, classes, k = np.random.default_rng(seed), 20, 3, min(k, parties)
    probabilities = rng.dirichlet(np.full(classes, 0.2), (parties, rows))
    counts = (rng.random((parties, classes)) < 0.8).astype(float)
    counts[0] = 1

    def labels(probabilities: Array, counts: Array) -> Array:
        sums = (probabilities * counts[:, None]).sum(axis=0)
        return np.asarray((sums / np.maximum(counts.sum(axis=0), 1)).argmax(axis=1))

    certified, honest = (
        certify_share(probabilities, np.repeat(counts[:, None], rows, axis=1), k),
        labels(probabilities, counts),
    )
    for replaced in itertools.combinations(range(parties), k):
        rest = [i for i in range(parties) if i not in replaced]
        for lie, known in itertools.product(np.eye(classes), itertools.product([0.0, 1.0], repeat=classes)):
            said = np.tile(lie, (k, rows, 1))
            attacked = labels(np.concatenate([probabilities[rest], said]), np.concatenate([counts[rest], [known] * k]))
            assert not (certified & (attacked != honest)).any()


@given(st.lists(st.integers(1, 60), min_size=4, max_size=24), st.lists(st.floats(0, 100), min_size=1, max_size=20))
def test_one_more_party_moves_the_bound_on_rows_only_within_its_range(others: list[int], declared: list[float]) -> None:
    low, high = middle_range(np.array(others, dtype=float))
    for rows in [*declared, 1e-9, 1e12, *(o - 1e-6 for o in others), *others]:
        bounded = bounded_rows(np.array([1e15, *others[1:], rows]))  # the first shows the bound
        assert bounded[0] >= 1
        everyone = bounded_rows(np.array([*others, rows]))[:-1]
        least = np.clip(others, 1, max(2 * low, 1))
        most = np.clip(others, 1, max(2 * high, 1))
        assert (least * (1 - 1e-9) <= everyone).all()
        assert (everyone <= most * (1 + 1e-9)).all()


def test_without_one_of_five_parties_the_rows_of_the_others_count_as_declared() -> None:
    """As a tally of four counts them: nobody is bounded there without public rows."""
    declared = np.array([290.0, 100, 100, 100, 100])
    (missing,) = ([least, most] for least, most, _, present in BoundedRows(declared)(np.arange(4)) if not present)
    np.testing.assert_array_equal(missing, [declared[:4], declared[:4]])
    (six,) = (least for least, _, _, present in BoundedRows(np.append(declared, 100))(np.arange(5)) if not present)
    np.testing.assert_array_equal(six, bounded_rows(declared))
    assert six[0] < 290


class Small:
    """An election with weighted, capped votes, and any ballot in the place of one of them."""

    def __init__(self, seed: int, parties: int, classes: int, *, public: bool = False, totals: bool = False) -> None:
        self.rng, self.rows, self.classes = np.random.default_rng(seed), 25, classes
        spread = self.rng.choice([0.1, 1.0, 2.0])
        self.declared = np.ceil(100 * np.exp(spread * self.rng.normal(size=parties)))
        self.claims = np.exp(self.rng.choice([0.2, 1.0, 2.0]) * self.rng.normal(size=(parties, self.rows)))
        self.claims *= self.rng.random(self.claims.shape) < self.rng.choice([0.3, 0.8, 1.0])
        truth = self.rng.integers(classes, size=self.rows)
        wrong = self.rng.random((parties, self.rows)) < self.rng.choice([0.05, 0.4])
        said = np.where(wrong, self.rng.integers(classes, size=wrong.shape), truth)
        sure = self.rng.uniform(0.6, 1, (parties, self.rows, 1))
        self.votes = sure * np.eye(classes)[said] + (1 - sure) / classes
        self.votes *= (self.claims > 0)[:, :, None]
        self.public = np.exp(0.5 * self.rng.normal(size=(30, parties))) if public else None
        self.totals, self.cap = totals, MOST_SHARE if public or totals else LOOSE_SHARE
        self.honest = self.labels(self.declared, self.claims, self.votes, self.public)
        bounded = self.weights(self.declared, self.claims, self.public)
        reach = BoundedTotals(self.declared) if totals else BoundedRows(self.declared, self.public)
        expected = 1 / self.rows if totals else 1.0
        self.certified = Capped(self.claims, self.votes, reach, expected, self.cap).certify(bounded, 1)

    def weights(self, declared: Array, claims: Array, public: Array | None) -> Array:
        if self.totals:  # as FedKT bounds votes: by the median, and the cap expects their mean over the rows
            rows = np.minimum(declared, np.median(declared))
            return np.asarray(cap_weights((claims * rows[:, None]).T, float(rows.sum()) / self.rows)[0].T)
        rows = bounded_rows(declared) if public is None else needed_rows(declared, public)
        share = most_share(len(rows), self.cap)
        return np.asarray(cap_weights((claims * rows[:, None]).T, float(rows.sum()), share)[0].T)

    def labels(self, declared: Array, claims: Array, votes: Array, public: Array | None) -> Array:
        total = np.einsum("pr,prc->rc", self.weights(declared, claims, public), votes)
        return np.where(total.any(axis=1), total.argmax(axis=1), -1)

    def survives(self, replaced: int, declared: float | None, claims: Array, lie: Array, public: Array | None) -> bool:
        """Whether the certified labels stay with this ballot in the place of another; None declares nothing."""
        rest = np.arange(len(self.declared)) != replaced
        theirs = None if self.public is None else self.public[:, rest]
        if declared is None:
            found = self.labels(self.declared[rest], self.claims[rest], self.votes[rest], theirs)
        else:
            found = self.labels(
                np.append(self.declared[rest], declared),
                np.vstack([self.claims[rest], claims]),
                np.concatenate([self.votes[rest], np.eye(self.classes)[lie][None]]),
                None if theirs is None or public is None else np.column_stack([theirs, public]),
            )
        return not (self.certified & (found != self.honest)).any()


@pytest.mark.parametrize("rule", ["rows", "rows and public claims", "totals"])
@given(SEEDS, st.integers(5, 9), st.integers(2, 3))
@settings(max_examples=50)
@pytest.mark.slow
def test_no_ballot_changes_a_certified_label_under_the_cap(rule: str, seed: int, parties: int, classes: int) -> None:
    small = Small(seed, parties, classes, public="public" in rule, totals=rule == "totals")
    rng = small.rng
    values = [1.0, 1e9, *small.declared, *(0.999 * small.declared), *rng.uniform(1, 1000, 4)]
    for replaced in range(parties):
        assert small.survives(replaced, None, small.claims[0], np.zeros(small.rows, dtype=int), None)
        for declared, lie in itertools.product(values, range(classes)):
            claims = np.exp(rng.uniform(-8, 8, small.rows)) * (rng.random(small.rows) < 0.9)
            lies = np.full(small.rows, lie)
            seen = np.exp(rng.choice([0.1, 3.0]) * rng.normal(size=30))
            for strength in (claims, np.full(small.rows, 1e6)):
                assert small.survives(replaced, declared, strength, lies, seen)


@pytest.mark.slow
def test_most_labels_of_parties_that_agree_are_certified_and_the_bound_is_not_loose() -> None:
    shares = []
    for seed in range(30):
        small = Small(seed, 9, 2)
        broken = np.zeros(small.rows, dtype=bool)
        whole, small.certified = small.certified, np.ones(small.rows, dtype=bool)
        for replaced, lie, size in itertools.product(range(9), range(2), np.exp(np.linspace(-6, 14, 30))):
            rest = np.arange(9) != replaced
            for declared in (1.0, 1e9, float(np.median(small.declared))):
                found = small.labels(
                    np.append(small.declared[rest], declared),
                    np.vstack([small.claims[rest], np.full(small.rows, size / declared)]),
                    np.concatenate([small.votes[rest], np.tile(np.eye(2)[lie], (1, small.rows, 1))]),
                    None,
                )
                broken |= found != small.honest
        assert not (whole & broken).any()
        shares.append((whole.sum(), (~broken).sum()))
    certified, survived = np.sum(shares, axis=0)
    assert survived > 100
    assert certified > 0.7 * survived, (certified, survived)


def test_two_ballots_may_have_half_of_a_row_so_nothing_is_certified_against_them() -> None:
    votes, claims = np.tile(np.eye(2)[0], (9, 4, 1)), np.ones((9, 4))
    capped = Capped(claims, votes, BoundedRows(np.full(9, 100.0)))
    weights = cap_weights(100 * claims.T, 900.0)[0].T
    assert capped.certify(weights, 1).all()
    assert not capped.certify(weights, 2).any()
    few = Capped(claims[:4], votes[:4], BoundedRows(np.full(4, 100.0)))
    assert not few.certify(weights[:4], 1).any()  # below five parties there is no cap
