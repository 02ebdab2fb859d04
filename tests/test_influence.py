"""The bounds on what one ballot may weigh, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from oneballot.influence import LEAST_CLAIMED, bounded_rows, cap_weights, most_share, trusted_rows


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


def test_the_cap_gives_way_as_far_as_a_party_is_trusted() -> None:
    weights = np.full((1, 10), 0.01)
    weights[0, 3] = 20
    strict, whole = (cap_weights(weights, 10.0, trust=np.full(10, trust))[0] for trust in (0.0, 1.0))
    half, gives_way = cap_weights(weights, 10.0, trust=np.where(np.arange(10) == 3, 0.5, 1))
    assert strict[0, 3] <= most_share(10) * strict.sum() + 1e-9
    np.testing.assert_array_equal(whole, cap_weights(weights, 10.0)[0])
    assert half[0, 3] == pytest.approx((strict[0, 3] + whole[0, 3]) / 2)
    assert gives_way.all()


def test_fewer_than_five_parties_are_not_capped() -> None:
    weights = np.array([[100.0, 0.01, 0.01, 0.01]])
    capped, gives_way = cap_weights(weights, 100.0)
    np.testing.assert_array_equal(capped, weights)
    assert not gives_way.any()


def test_a_party_counts_for_more_the_more_peers_it_agrees_with() -> None:
    declared = np.array([100, 100, 100, 100, 100, 1e9, 150, 400])
    bounded = bounded_rows(declared)
    np.testing.assert_array_equal(trusted_rows(declared, np.ones(8)), bounded)
    assert bounded[7] > 100
    agreement = np.array([1, 1, 1, 1, 1, 0, 1, 0.3])
    counted = trusted_rows(declared, agreement)
    assert counted[5] == 2, "one that contradicts all others, for a fiftieth of the median"
    assert counted[7] == 100, "one that agrees with few, for the median"
    np.testing.assert_array_equal(np.delete(counted, [5, 7]), np.delete(bounded, [5, 7]))
    steps = np.array([trusted_rows(declared, np.full(8, a)) for a in np.linspace(0, 1, 50)])
    assert (np.diff(steps, axis=0) >= 0).all()
