"""Rows that are kept back from a ballot, and folds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.election.targets import Classes
from oneballot.errors import DataError, ElectionError
from oneballot.party.context import PartyContext
from oneballot.party.holdout import assign_folds, choose_holdout, find_holdout, record_holdout
from oneballot.types import Data


def rows(count: int = 200, ids: bool = False) -> Data:
    rng = np.random.default_rng(0)
    y = (np.arange(count) % 10 == 0).astype(np.int64)
    names = np.array([f"patient {i // 2}" for i in range(count)]) if ids else None
    return Data(rng.random((count, 3), dtype=np.float32), y, names)


@pytest.fixture
def ctx() -> PartyContext:
    return PartyContext(ob.Election([0, 1], np.random.default_rng(1).random((30, 3))), "a")


def test_folds_have_the_same_size_and_spread_each_class() -> None:
    data = rows()
    folds = assign_folds(data, 5, 3, Classes([0, 1]))
    assert np.bincount(folds).tolist() == [40] * 5
    assert np.bincount(folds[data.y == 1]).tolist() == [4] * 5
    assert (folds != assign_folds(data, 5, 4, Classes([0, 1]))).any()


def test_rows_of_one_id_stay_together(ctx: PartyContext) -> None:
    data = rows(ids=True)
    folds, held = assign_folds(data, 4, 0, ctx.target), choose_holdout(ctx, data, 0.25)
    assert (folds[::2] == folds[1::2]).all()
    assert (held[::2] == held[1::2]).all()


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_the_same_share_of_each_class_is_kept_back(ctx: PartyContext, share: float) -> None:
    data = rows()
    held = choose_holdout(ctx, data, share)
    assert held.sum() == pytest.approx(200 * share, abs=1)
    assert held[data.y == 1].sum() == pytest.approx(20 * share, abs=1)
    assert (held == choose_holdout(ctx, data, share)).all()


def test_the_record_finds_the_same_rows_in_the_same_file_only(ctx: PartyContext, tmp_path: Path) -> None:
    path, data = tmp_path / "a.holdout.json", rows()
    assert find_holdout(path, ctx, data) is None
    record_holdout(path, ctx, data, 0.2)
    found = find_holdout(path, ctx, data)
    assert found is not None
    assert (found == choose_holdout(ctx, data, 0.2)).all()
    with pytest.raises(DataError, match="there were 200, here are 150"):
        find_holdout(path, ctx, data.take(np.arange(150)))
    other = json.loads(path.read_text()) | {"election": "another"}
    path.write_text(json.dumps(other))
    assert find_holdout(path, ctx, data) is None
    record_holdout(path, ctx, data, None)
    assert not path.exists()


def test_a_holdout_that_leaves_nothing_and_one_at_l2_are_refused(ctx: PartyContext) -> None:
    with pytest.raises(DataError, match="leaves none to test"):
        choose_holdout(ctx, rows(3), 0.01)
    private = ob.Election([0, 1], np.random.default_rng(1).random((30, 3)), privacy=ob.L2(epsilon=50, delta=1e-3))
    with pytest.raises(ElectionError, match="not available at L2"):
        choose_holdout(PartyContext(private, "a"), rows(), 0.2)
