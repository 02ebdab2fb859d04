"""Redrawn and mixed rows: the background of claim models where there are few public rows, or none."""

from __future__ import annotations

import numpy as np

import oneballot as ob
from oneballot.election.columns import Category, Number
from oneballot.methods.ensemble.background import SHARE, mix, redraw

RNG = np.random.default_rng(0)


def test_a_share_of_the_cells_is_replaced() -> None:
    X = RNG.normal(size=(500, 20)).astype(np.float32)
    changed = redraw(X, np.random.default_rng(1)) != X
    assert abs(changed.mean() - SHARE) < 0.02
    assert changed.any(axis=1).all()


def test_cells_are_redrawn_from_the_schema_and_categories_stay_whole() -> None:
    schema = ob.Schema(
        label="y",
        columns=(
            Number(name="age", range=(0, 100), missing=True),
            Category(name="sex", categories=("f", "m", "x")),
        ),
    )
    X = np.tile(np.array([0.1, 0, 1, 0, 0], dtype=np.float32), (1000, 1))
    drawn, column = schema.draw_rows(len(X), 0)
    assert column.tolist() == [0, 0, 1, 1, 1]
    new = redraw(X, np.random.default_rng(0), drawn, column)
    assert new[:, 0].max() > 0.9
    np.testing.assert_array_equal(new[:, 2:].sum(axis=1), 1)
    assert set(np.unique(new[:, 2:])) == {0, 1}


def test_whole_numbers_stay_whole_numbers() -> None:
    X = np.column_stack([RNG.integers(0, 2, 300), RNG.integers(18, 90, 300) / 100]).astype(np.float32)
    new = redraw(X, np.random.default_rng(0), np.random.default_rng(1).random(X.shape), np.arange(2))
    assert set(np.unique(new[:, 0])) == {0, 1}
    np.testing.assert_allclose(new[:, 1] * 100, np.round(new[:, 1] * 100), atol=1e-3)


def test_mixed_rows_have_some_cells_of_other_rows() -> None:
    X, others = np.full((400, 10), 1, dtype=np.float32), np.full((7, 10), 2, dtype=np.float32)
    new = mix(X, others, np.random.default_rng(1))
    assert set(np.unique(new)) == {1, 2}
    assert abs((new == 2).mean() - SHARE) < 0.03
    assert (new == 2).any(axis=1).all()


def test_the_features_of_a_mixed_category_come_from_one_row() -> None:
    X, others = np.tile(np.eye(3, dtype=np.float32)[:1], (300, 1)), np.eye(3, dtype=np.float32)
    new = mix(X, others, np.random.default_rng(1), np.zeros(3, dtype=int))
    np.testing.assert_array_equal(new.sum(axis=1), 1)
    assert new[:, 1:].any(axis=0).all()
