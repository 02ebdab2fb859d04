"""Splits: every row goes to exactly one party, a seed fixes the split, and the skew is as described."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneballot.data.split import SPLITS, parse, split
from oneballot.errors import DataError

TEN = np.repeat(np.arange(10), 300)


@given(
    y=st.lists(st.integers(0, 4), min_size=12, max_size=200),
    parties=st.integers(1, 6),
    how=st.sampled_from(["homogeneous", "shards:1", "shards:2", "dirichlet:0.1", "dirichlet:5", "dirichlet:1e-6"]),
    seed=st.integers(0, 2**40),
)
def test_every_row_goes_to_exactly_one_party_and_the_split_is_reproducible(y, parties, how, seed):
    pieces = split(np.array(y), parties, how, seed)
    assert len(pieces) == parties
    assert sorted(np.concatenate(pieces)) == list(range(len(y)))
    for piece, again in zip(pieces, split(np.array(y), parties, how, seed), strict=True):
        np.testing.assert_array_equal(piece, again)
        assert np.issubdtype(piece.dtype, np.integer)
        assert (np.diff(piece) > 0).all()


@given(st.integers(0, 10**6), st.sampled_from([0.1, 0.5, 10]), st.integers(1, 12))
def test_a_balanced_split_gives_every_party_at_least_ten_rows(seed, beta, parties):
    pieces = split(TEN, parties, f"dirichlet:{beta}:balanced", seed)
    assert min(map(len, pieces)) >= 10
    assert sorted(np.concatenate(pieces)) == list(range(len(TEN)))


@given(st.integers(0, 10**6))
def test_a_party_with_its_share_of_rows_gets_no_further_class(seed):
    counts = np.array([np.bincount(TEN[rows], minlength=10) for rows in split(TEN, 10, "dirichlet:0.5:balanced", seed)])
    before = np.cumsum(counts, axis=1) - counts
    assert (counts[before >= len(TEN) / 10] == 0).all()


def test_a_balanced_split_starts_with_the_rarest_class_whatever_its_name():
    rare_last = np.repeat([0, 1], [300, 60])
    for seed in range(20):
        pieces = split(rare_last, 6, "dirichlet:0.5:balanced", seed)
        for piece, again in zip(pieces, split(1 - rare_last, 6, "dirichlet:0.5:balanced", seed), strict=True):
            np.testing.assert_array_equal(piece, again)
        rare = np.array([rare_last[rows].sum() for rows in pieces])
        assert all(len(rows) == n for rows, n in zip(pieces, rare, strict=True) if n >= 60), "a full party gets no more"
    assert len(rare_last) / 6 == 60


def test_adult_can_be_balanced_among_20_parties_with_beta_0_1():
    """A setting of FedKT's table on beta, where about one draw in 1,200 leaves every party ten rows."""
    adult = np.repeat([0, 1], [18_541, 5_880])
    assert all(min(map(len, split(adult, 20, "dirichlet:0.1:balanced", seed))) >= 10 for seed in range(3))


def test_different_seeds_give_different_splits():
    for how in ("homogeneous", "shards:2", "dirichlet:0.5"):
        assert any(
            (a.tolist() != b.tolist()) for a, b in zip(split(TEN, 5, how, 0), split(TEN, 5, how, 1), strict=True)
        )


def test_a_smaller_beta_gives_more_label_skew():
    def largest_class(how: str) -> float:
        pieces = [rows for seed in range(5) for rows in split(TEN, 10, how, seed) if len(rows)]
        return float(np.mean([np.bincount(TEN[rows]).max() / len(rows) for rows in pieces]))

    shares = [largest_class(f"dirichlet:{beta}") for beta in (0.05, 0.5, 5, 1000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.6
    assert shares[-1] < 0.15


def test_class_proportions_have_the_moments_of_the_dirichlet_distribution():
    """Of a class, a party's share has mean 1/parties and variance (parties - 1) / (parties² (parties beta + 1))."""
    y = np.zeros(1000, dtype=int)
    shares = np.array([[len(rows) for rows in split(y, 4, "dirichlet:0.5", seed)] for seed in range(2000)]) / 1000
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=0.02)
    np.testing.assert_allclose(shares.var(axis=0), 3 / (16 * 3), rtol=0.12)


def test_homogeneous_parties_have_equal_sizes():
    assert sorted(map(len, split(TEN[:103], 10, "homogeneous", 3))) == [10] * 7 + [11] * 3


def test_two_shards_per_party_hold_at_most_two_classes():
    pieces = split(TEN, 10, "shards:2", 0)
    assert {len(rows) for rows in pieces} == {300}
    assert all(len(set(TEN[rows])) <= 2 for rows in pieces)


def test_labels_may_be_text():
    pieces = split(np.array(["no", "yes"] * 50, dtype=object), 4, "dirichlet:1", 0)
    assert sum(map(len, pieces)) == 100


def test_a_column_gives_one_party_per_sorted_value():
    values = np.array(["Ulm", "Aachen", "Ulm", "Köln"], dtype=object)
    for parties in (None, 3):
        pieces = split(np.zeros(4), parties, "column", 0, values)
        assert [list(rows) for rows in pieces] == [[1], [3], [0, 2]]


def test_every_listed_split_can_be_parsed():
    for name in SPLITS:
        assert name.startswith(parse(name.replace("BETA", "0.5").replace(":N", ":2")).type)


@pytest.mark.parametrize(
    ("parties", "how", "message"),
    [
        (2, "dirichlet", "available: homogeneous, dirichlet:BETA, dirichlet:BETA:balanced, shards:N, column"),
        (2, "iid", "unknown split 'iid'"),
        (2, "dirichlet:0.5:even", "unknown split"),
        (2, "dirichlet:0", "beta must be a number above 0"),
        (2, "dirichlet:-1:balanced", "beta must be a number above 0"),
        (2, "dirichlet:nan", "beta must be"),
        (2, "dirichlet:half", "beta must be"),
        (2, "shards:0", "must be 1 or more"),
        (2, "shards:1.5", "must be 1 or more"),
        (0, "homogeneous", "number of parties must be 1 or more, not 0"),
        (None, "shards:2", "number of parties must be 1 or more, not None"),
        (9, "homogeneous", "8 rows are too few for 9 parties; use fewer parties"),
        (5, "shards:2", "8 rows are too few for 5 parties with 2 shards each"),
        (2, "column", "name the column"),
    ],
)
def test_an_impossible_split_is_refused(parties, how, message):
    with pytest.raises(DataError, match=re.escape(message)):
        split(np.arange(8) % 2, parties, how, 0)


def test_a_column_of_the_wrong_length_or_number_of_values_is_refused():
    with pytest.raises(DataError, match="2 distinct values, but 3 parties"):
        split(np.zeros(4), 3, "column", 0, np.array([1, 1, 2, 2]))
    with pytest.raises(DataError, match="3 values for 4 rows"):
        split(np.zeros(4), None, "column", 0, np.array([1, 1, 2]))


def test_labels_of_two_axes_and_negative_seeds_are_refused():
    with pytest.raises(DataError, match="one axis"):
        split(np.zeros((4, 2)), 2, "homogeneous", 0)
    with pytest.raises(DataError, match="seed must be 0 or more"):
        split(np.zeros(4), 2, "homogeneous", -1)


def test_a_balanced_split_that_never_succeeds_says_what_to_change():
    with pytest.raises(DataError, match="use a larger beta, fewer parties, or leave out ':balanced'"):
        split(np.zeros(100, dtype=int), 10, "dirichlet:0.1:balanced", 0)
