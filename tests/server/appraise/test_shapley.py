"""Shapley values against closed forms, against their definition, and against the axioms that define them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oneballot.server.appraise.shapley import Coalition, Game, coalitions, exact, sampled
from oneballot.types import Array


def game_of(value: Callable[[frozenset[int]], float | Array]) -> Game:
    return lambda some: (np.atleast_1d(np.asarray(value(frozenset(members)), dtype=float)) for members in some)


def game_from(table: Array, players: int) -> Game:
    """The game with these values `(2^players, rows)` of its coalitions."""
    places = {members: i for i, members in enumerate(coalitions(players))}
    return lambda some: (table[places[members]] for members in some)


def by_definition(players: int, value: Callable[[Coalition], Array]) -> Array:
    """The mean gain over all orders in which the players can arrive."""
    orders = list(permutations(range(players)))
    total = np.zeros(players)
    for order in orders:
        for place, player in enumerate(order):
            gained = value(tuple(sorted(order[: place + 1]))) - value(tuple(sorted(order[:place])))
            total[player] += gained.mean()
    return total / len(orders)


def tables(players: int, rows: int = 3) -> st.SearchStrategy[Array]:
    numbers = st.floats(-1, 1, allow_nan=False, width=32)
    return hnp.arrays(np.float64, (2**players, rows), elements=numbers)


def test_the_shares_of_an_additive_game_are_what_each_player_adds() -> None:
    worth = np.array([0.5, -0.25, 0.0, 2.0, 1.0])
    shares = exact(5, game_of(lambda members: 0.3 + worth[list(members)].sum()))
    np.testing.assert_allclose(shares.values, worth, atol=1e-12)
    assert (shares.empty, shares.whole) == pytest.approx((0.3, 0.3 + worth.sum()))
    assert shares.orders == 0
    assert not shares.order_errors.any()


def test_the_shares_of_the_glove_game_are_a_sixth_a_sixth_and_two_thirds() -> None:
    shares = exact(3, game_of(lambda members: float(2 in members and len(members) > 1)))
    np.testing.assert_allclose(shares.values, [1 / 6, 1 / 6, 2 / 3], atol=1e-12)


@settings(max_examples=30)
@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), tables(n))))
def test_exact_shares_are_the_mean_over_all_orders(drawn: tuple[int, Array]) -> None:
    players, table = drawn
    game = game_from(table, players)
    expected = by_definition(players, lambda members: next(iter(game([members]))))
    np.testing.assert_allclose(exact(players, game).values, expected, atol=1e-9)


@settings(max_examples=30)
@given(tables(4))
def test_shares_sum_to_what_all_players_gain_over_none(table: Array) -> None:
    for shares in (exact(4, game_from(table, 4)), sampled(4, game_from(table, 4), 6, 0)):
        assert shares.values.sum() == pytest.approx(shares.whole - shares.empty, abs=1e-9)
        assert shares.whole == pytest.approx(table[-1].mean())


@settings(max_examples=30)
@given(tables(3))
def test_a_player_that_changes_nothing_has_no_share_and_equal_players_have_equal_shares(table: Array) -> None:
    places = {members: i for i, members in enumerate(coalitions(3))}

    def value(members: frozenset[int]) -> Array:  # player 3 adds nothing; 0 and 1 are the same
        alike = len(members & {0, 1})
        stands_for = tuple(sorted([*range(alike), *members & {2}]))
        return table[places[stands_for]]

    shares = exact(4, game_of(value))
    assert shares.values[3] == pytest.approx(0, abs=1e-9)
    assert shares.values[0] == pytest.approx(shares.values[1], abs=1e-9)
    for each in (shares, sampled(4, game_of(value), 8, 1)):
        assert each.values[3] == pytest.approx(0, abs=1e-9)


def test_sampled_shares_are_within_their_intervals_of_the_exact_ones() -> None:
    rng, inside = np.random.default_rng(0), []
    for seed in range(40):
        table = rng.random((2**6, 1)) + np.array([len(members) for members in coalitions(6)])[:, None] / 6
        game = game_from(table, 6)
        shares = sampled(6, game, 60, seed)
        assert shares.orders == 60
        inside += list(np.abs(shares.values - exact(6, game).values) <= 1.96 * shares.order_errors)
    assert 0.9 <= np.mean(inside) <= 0.99


def test_the_error_of_rows_is_what_other_rows_would_change() -> None:
    rng = np.random.default_rng(0)
    worth = rng.normal([0.2, -0.1], [1.0, 3.0], (400, 2))
    shares = exact(2, game_of(lambda members: worth[:, list(members)].sum(axis=1)))
    np.testing.assert_allclose(shares.row_errors, worth.std(axis=0, ddof=1) / 20, rtol=1e-9)


def test_the_same_seed_samples_the_same_orders() -> None:
    game = game_of(lambda members: float(len(members) > 2) + 0.1 * (0 in members))
    first, again, other = (sampled(15, game, 10, seed).values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
