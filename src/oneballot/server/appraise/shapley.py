"""Shapley values of a game whose value is a mean over rows: exact, or sampled in random orders.

Shapley 1953; sampling by Castro, Gómez and Tejada 2009, with each order also taken in reverse. The estimates are
unbiased: every order is followed to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from ...runtime.progress import track
from ...types import Array

MOST_EXACT = 12
"""With more players, orders are sampled: 4,096 coalitions of 12 players can all be valued."""
Coalition = tuple[int, ...]
"""The numbers of its members, in ascending order."""
Game = Callable[[Sequence[Coalition]], Iterable[Array]]
"""What each row contributes to the value of each of these coalitions, `(rows,)`; the value is the mean over the rows.
"""


@dataclass(frozen=True)
class Shares:
    """The Shapley value of each player, and its standard errors.

    values `(players,)`. row_errors: what other rows of the same kind would change. order_errors: what other sampled
    orders would change; 0 if exact. orders: how many were sampled; 0 if exact. whole, empty: the values of all players
    together and of none. The values sum to whole − empty.
    """

    values: Array
    row_errors: Array
    order_errors: Array
    orders: int
    whole: float
    empty: float

    @property
    def errors(self) -> Array:
        """The standard error of each value, of rows and of orders together."""
        return np.hypot(self.row_errors, self.order_errors)


def coalitions(players: int) -> Iterator[Coalition]:
    """All coalitions, the smallest first."""
    for size in range(players + 1):
        yield from combinations(range(players), size)


def exact(players: int, game: Game) -> Shares:
    """The exact values, from all coalitions. A member of a coalition S gains (|S|−1)!(n−|S|)!/n! of its value."""
    every = list(coalitions(players))
    gain = [1 / (players * comb(players - 1, size)) for size in range(players)]  # of joining a coalition of this size
    rows, ends = np.zeros((players, 1)), dict[Coalition, float]()
    for members, value in zip(every, track("appraising coalitions", game(every), len(every)), strict=True):
        weight = np.full(players, -gain[len(members)] if len(members) < players else 0.0)
        weight[list(members)] = gain[len(members) - 1] if members else 0.0
        rows = rows + np.outer(weight, value)
        if len(members) in (0, players):
            ends[members] = float(np.mean(value))
    return _shares(rows, np.zeros(players), 0, ends[every[-1]], ends[()])


def sampled(players: int, game: Game, orders: int, seed: int) -> Shares:
    """Estimates from this many random orders, rounded up to pairs of an order and its reverse."""
    rng, pairs = np.random.default_rng(seed), max((orders + 1) // 2, 2)
    ends = _valued([(), tuple(range(players))], game)
    empty, whole = ends[()], ends[tuple(range(players))]
    rows, means = np.zeros((players, len(empty))), np.zeros((pairs, players))
    for pair in track("appraising orders", range(pairs), pairs):
        order = rng.permutation(players)
        found = ends | _valued(_prefixes(order) | _prefixes(order[::-1]), game)
        for each in (order, order[::-1]):
            before = empty
            for place, player in enumerate(each):
                after = found[tuple(sorted(each[: place + 1].tolist()))]
                rows[player] += after - before
                means[pair, player] += float(np.mean(after - before)) / 2
                before = after
    errors = means.std(axis=0, ddof=1) / np.sqrt(pairs)
    return _shares(rows / (2 * pairs), errors, 2 * pairs, float(np.mean(whole)), float(np.mean(empty)))


def _prefixes(order: Array) -> set[Coalition]:
    """The coalitions that grow in this order, without the first, which is empty, and the last, which is whole."""
    return {tuple(sorted(order[:size].tolist())) for size in range(1, len(order))}


def _valued(some: Iterable[Coalition], game: Game) -> dict[Coalition, Array]:
    wanted = sorted(some)
    return dict(zip(wanted, (np.asarray(value, dtype=np.float64) for value in game(wanted)), strict=True))


def _shares(rows: Array, order_errors: Array, orders: int, whole: float, empty: float) -> Shares:
    count = rows.shape[1]
    errors = rows.std(axis=1, ddof=1) / np.sqrt(count) if count > 1 else np.zeros(len(rows))
    return Shares(rows.mean(axis=1), errors, order_errors, orders, whole, empty)
