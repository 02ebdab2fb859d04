"""The nearest public rows: exact, in any block, with ties in one order; each row casts k votes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.neighbors import NearestNeighbors

from oneballot.methods.neighbours import search
from oneballot.methods.neighbours.search import Space, nearest

RNG = np.random.default_rng(0)
PUBLIC, ROWS = RNG.normal(size=(90, 5)).astype(np.float32), RNG.normal(size=(200, 5)).astype(np.float32)


def space(public: np.ndarray = PUBLIC, standardise: bool = False) -> Space:
    return Space.of(public, standardise=standardise, encoder=None)


def chosen(where: Space, rows: np.ndarray, k: int) -> list[set[int]]:
    """The public rows that each row votes on."""
    voted = [where.votes(row[None], np.zeros(1, dtype=int), k, 1, "")[:, 0] for row in rows]
    return [set(np.flatnonzero(votes).tolist()) for votes in voted]


@pytest.mark.parametrize("standardise", [False, True])
def test_the_neighbours_are_those_of_scikit_learn(standardise: bool) -> None:
    public, rows = PUBLIC * [1, 2, 30, 4, 5], ROWS * [1, 2, 30, 4, 5]
    scale = public.std(axis=0) if standardise else 1.0
    if standardise:
        scale = np.maximum(scale, search.LEAST_DEVIATION * scale.max())
    theirs = NearestNeighbors(n_neighbors=7, algorithm="brute").fit(public / scale)
    expected = [set(found) for found in theirs.kneighbors(rows / scale, return_distance=False).tolist()]
    assert chosen(space(public, standardise), rows, 7) == expected


@given(arrays(np.int8, (12, 3), elements=st.integers(0, 2)), st.integers(1, 8))
def test_of_rows_at_equal_distances_the_first_in_the_shared_order_are_taken(public: np.ndarray, k: int) -> None:
    where, row = space(public.astype(np.float32)), np.array([1, 0, 2], dtype=np.float32)
    distance = [sum((int(a) - int(b)) ** 2 for a, b in zip(row, other, strict=True)) for other in public]
    place = np.argsort(where.order)
    expected = sorted(range(len(public)), key=lambda p: (distance[p], place[p]))[:k]
    assert chosen(where, row[None], k) == [set(expected)]


def test_so_many_are_chosen_even_if_all_are_equal() -> None:
    assert nearest(np.zeros((4, 9)), 3).tolist() == [[True] * 3 + [False] * 6] * 4


def test_distances_on_the_grid_are_whole_numbers_that_floats_hold_exactly() -> None:
    for columns in (1, 5, 784, 4096):
        public = np.random.default_rng(columns).random((5, columns))
        where = space(public)
        far = np.full((1, columns), 1e30)
        longest = [sum(int(a - b) ** 2 for a, b in zip(where._on_grid(far)[0], p, strict=True)) for p in where.points]
        assert max(longest) < 2**53
        assert (where.points == np.rint(where.points)).all()


def test_votes_are_the_same_in_blocks_of_any_size_and_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    y, order = RNG.integers(3, size=len(ROWS)), RNG.permutation(len(ROWS))
    whole = space().votes(ROWS, y, 7, 3, "")
    monkeypatch.setattr(search, "CELLS_AT_ONCE", 7 * len(PUBLIC))
    np.testing.assert_array_equal(space().votes(ROWS[order], y[order], 7, 3, ""), whole)
    assert whole.sum(axis=0).tolist() == (7 * np.bincount(y)).tolist()


def test_what_is_not_a_finite_number_is_zero() -> None:
    broken = ROWS[:4].copy()
    broken[0], broken[1, 2], broken[2, 0], broken[3] = np.nan, np.inf, -np.inf, 1e38
    zeros = np.where(np.isfinite(broken), broken, 0)
    assert chosen(space(), broken, 5) == chosen(space(), zeros, 5)


def test_a_public_row_is_not_its_own_neighbour() -> None:
    graph = space().among_public(PUBLIC, 6, "").toarray()
    theirs = NearestNeighbors(n_neighbors=6).fit(PUBLIC).kneighbors_graph().toarray()
    np.testing.assert_array_equal(graph, theirs)
