"""Additive shares: exact sums, the fewest bits that cannot overflow, and shares that are uniform on their own."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from oneballot.ballot.shares import Layout, as_residues, as_signed, bits_for, expand, subtract_share
from oneballot.errors import ElectionError
from oneballot.types import SumRange

widths = st.sampled_from([16, 32, 64])


@given(widths, st.lists(st.integers(-(2**15), 2**15 - 1), max_size=50), st.binary(min_size=32, max_size=32))
def test_two_shares_add_up_to_the_numbers(bits, values, seed) -> None:
    numbers = np.array(values, dtype=np.int64)
    first, second = expand(seed, len(numbers), bits), subtract_share(numbers, seed, bits)
    assert np.array_equal(as_signed(first + second, bits), numbers)


@given(widths, st.integers(1, 20), st.integers(0, 2**32))
def test_sums_of_shares_are_shares_of_the_sum(bits, parties, seed) -> None:
    rng = np.random.default_rng(seed)
    most = 2 ** (bits - 1) // parties - 1
    numbers = rng.integers(-most, most, size=(parties, 7))
    seeds = [rng.bytes(32) for _ in range(parties)]
    first = sum(expand(each, 7, bits) for each in seeds)
    second = sum(subtract_share(own, each, bits) for own, each in zip(numbers, seeds, strict=True))
    assert np.array_equal(as_signed(np.asarray(first + second), bits), numbers.sum(axis=0))


def test_a_seed_is_expanded_by_chacha20() -> None:
    """The key stream of RFC 8439, appendix A.1, test vector 1: key, counter and nonce are 0."""
    known = "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
    assert expand(bytes(32), 16, 16).tobytes().hex() == known


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("numbers", [np.zeros(20_000, dtype=np.int64), np.full(20_000, 12_345)])
def test_the_bytes_of_each_share_are_uniform_whatever_the_numbers_are(bits, numbers) -> None:
    seed = os.urandom(32)
    for share in (expand(seed, len(numbers), bits), subtract_share(numbers, seed, bits)):
        counts = np.bincount(np.frombuffer(share.tobytes(), dtype=np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-6


def test_every_value_of_a_share_is_equally_likely_by_enumeration() -> None:
    """With a uniform first share, the second one takes every residue exactly once, whatever the number is."""
    every = np.arange(2**16, dtype="<u2")
    for number in (0, 1, -1, 31_000):
        second = as_residues(np.full(2**16, number), 16) - every
        assert np.array_equal(np.sort(second), every)


@pytest.mark.parametrize(
    ("most", "parties", "sigma", "bits"),
    [(1, 1000, 0.0, 16), (50, 655, 0.0, 16), (50, 656, 0.0, 32), (50, 400, 400.0, 32), (2**40, 20, 0.0, 64)],
)
def test_a_number_takes_the_fewest_bits_that_cannot_overflow(most, parties, sigma, bits) -> None:
    assert bits_for({"votes": SumRange((3,), 0, most)}, parties, sigma) == bits
    if not sigma and bits < 64:
        total = np.array([parties * most, -parties * most])
        assert np.array_equal(as_signed(as_residues(total, bits), bits), total)


def test_sums_that_do_not_fit_into_64_bits_are_refused() -> None:
    with pytest.raises(ElectionError, match="lower parties"):
        bits_for({"sums": SumRange((1,), 0, 2**60)}, 1000)


def test_a_layout_joins_sums_and_splits_them_again() -> None:
    sums = {"votes": np.arange(6).reshape(2, 3), "ballots": np.array([7])}
    layout = Layout.of(sums, 32)
    assert (layout.numbers, layout.bytes) == (7, 28)
    joined = layout.join(sums)
    assert joined[0] == 7
    assert all(np.array_equal(value, sums[name]) for name, value in layout.split(joined).items())
