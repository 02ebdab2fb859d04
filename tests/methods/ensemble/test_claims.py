"""What claim models learn from: own rows against public rows, and own rows with other cells where these are few."""

from __future__ import annotations

import numpy as np
import pytest

import oneballot as ob
from oneballot.methods.ensemble.claims import FEW_PUBLIC_ROWS, JOINED, claim_fit
from oneballot.party.context import PartyContext
from oneballot.runtime.join import join_rows
from oneballot.types import Array, Data, Fit

OWN = 40


def request(public: Array) -> tuple[Fit, Array]:
    """The request of a party whose values are 0 to 0.5, and its rows; public row i has the value 1 + i everywhere."""
    rng = np.random.default_rng(0)
    data = Data((rng.random((OWN, *public.shape[1:])) / 2).astype(np.float32), np.arange(OWN) % 2)
    election = ob.Election(classes=[0, 1], public=public, method=ob.Ensemble(weights="open"))
    fit = claim_fit(data, PartyContext(election, "clinic"))
    X, (places,) = join_rows([fit.X])
    return fit, X[places]


def numbered(rows: int) -> Array:
    return np.tile(1.0 + np.arange(rows, dtype=np.float32)[:, None], (1, 6))


def test_with_few_public_rows_own_rows_with_other_cells_join_the_background() -> None:
    fit, X = request(numbered(100))
    for task in fit.tasks:
        own, background = X[task.rows[task.targets == 1]], X[task.rows[task.targets == 0]]
        assert len(own) == OWN
        assert own.max() < 1
        public = (background >= 1).all(axis=1)
        mixed = (background >= 1).any(axis=1) & ~public
        redrawn = ~public & ~mixed
        assert public.sum() >= 50
        assert mixed.sum() > 150
        assert redrawn.sum() == 200
        weight = task.weight[task.targets == 0]
        assert weight[redrawn].sum() / weight.sum() == pytest.approx(JOINED)
        assert weight.sum() == pytest.approx(task.weight[task.targets == 1].sum())


def test_a_claim_model_sees_no_value_of_the_public_rows_that_its_claims_are_divided_by() -> None:
    fit, X = request(numbered(100))
    seen = [set(np.unique(values[values >= 1])) for values in (X[task.rows] for task in fit.tasks)]
    assert [len(values) for values in seen] == [50, 50]
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(
    "public", [numbered(FEW_PUBLIC_ROWS), np.ones((100, 1, 8, 8), dtype=np.float32)], ids=["many rows", "images"]
)
def test_many_public_rows_and_images_are_the_whole_background(public: Array) -> None:
    fit, X = request(public)
    for task in fit.tasks:
        background = X[task.rows[task.targets == 0]]
        assert len(background) == len(public) // 2
        assert background.min() >= 1
