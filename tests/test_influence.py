"""The bounds on what one ballot may weigh, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from oneballot.influence import LEAST_CLAIMED, agreements, bounded_rows, cap_weights, most_share, trusted_rows


@pytest.mark.parametrize("parties", [5, 7, 20])
def test_the_cap_is_the_largest_level_that_its_definition_allows(parties: int) -> None:
    weights = np.random.default_rng(parties).lognormal(0, 2, (200, parties))
    expected = float(weights.mean(axis=0).sum())
    capped, _ = cap_weights(weights, expected)
    for row, cut in zip(weights, capped, strict=True):
        levels = np.linspace(0, row.max(), 4001)
        totals = np.minimum(row, levels[:, None]).sum(axis=1)
        allowed = (levels <= most_share(parties) * totals + 1e-12) | (totals <= LEAST_CLAIMED * expected)
        assert cut.max() == pytest.approx(levels[allowed].max(), abs=row.max() / 3000)
        np.testing.assert_allclose(cut, np.minimum(row, cut.max()))


def test_no_party_has_more_than_its_share_of_a_row_that_others_claim() -> None:
    weights = np.ones((3, 10))
    weights[:, 0] = [1, 5, 1000]
    capped, gives_way = cap_weights(weights, 10.0)
    assert not gives_way.any()
    assert (capped / capped.sum(axis=1, keepdims=True)).max() <= most_share(10) + 1e-9
    np.testing.assert_array_equal(capped[:, 1:], 1)


def test_two_parties_together_have_at_most_twice_the_share_of_one() -> None:
    weights = np.ones((1, 10))
    weights[0, :2] = 1e9
    capped, _ = cap_weights(weights, 10.0)
    assert capped[0, :2].sum() <= 2 * most_share(10) * capped.sum() + 1e-9


def test_the_cap_gives_way_where_one_party_alone_claims_a_row() -> None:
    weights = np.full((1, 10), 0.01)
    weights[0, 3] = 20
    capped, gives_way = cap_weights(weights, 10.0)
    assert gives_way.all()
    assert capped[0, 3] == pytest.approx(LEAST_CLAIMED * 10 - 9 * 0.01)


def test_fewer_than_five_parties_are_not_capped() -> None:
    weights = np.array([[100.0, 0.01, 0.01, 0.01]])
    capped, gives_way = cap_weights(weights, 100.0)
    np.testing.assert_array_equal(capped, weights)
    assert not gives_way.any()


def test_a_party_that_contradicts_the_others_agrees_least_and_counts_for_little() -> None:
    labels = np.random.default_rng(0).integers(0, 3, 200)
    votes = np.repeat(np.eye(3)[labels][None], 8, axis=0)
    votes[5] = np.eye(3)[(labels + 1) % 3]
    agreement = agreements(np.ones((200, 8)), votes)
    np.testing.assert_allclose(np.delete(agreement, 5), 1)
    assert agreement[5] == 0
    declared = np.array([100, 100, 100, 100, 100, 1e9, 150, 400])
    counted = trusted_rows(declared, agreement)
    assert counted[5] == 10
    np.testing.assert_array_equal(np.delete(counted, 5), np.delete(bounded_rows(declared), 5))


def test_rows_that_a_party_claims_alone_do_not_count_against_it() -> None:
    labels = np.zeros(100, dtype=int)
    votes = np.repeat(np.eye(2)[labels][None], 6, axis=0)
    weights = np.ones((100, 6))
    weights[:20, :] = 0
    weights[:20, 0] = 5
    votes[0, :20] = [0, 1]  # nobody else claims these rows
    assert agreements(weights, votes)[0] == pytest.approx(1)


def test_a_party_that_does_not_vote_is_not_blamed() -> None:
    votes = np.repeat(np.eye(2)[np.zeros(50, dtype=int)][None], 6, axis=0)
    votes[2] = 0
    agreement = agreements(np.ones((50, 6)), votes)
    assert np.isfinite(agreement).all()
