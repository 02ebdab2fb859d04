"""Federations: data sets are loaded once and split as declared; public rows of other data sets; notes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from oneballot_lab.data.registry import DataSet
from oneballot_lab.reproduce import federations
from oneballot_lab.reproduce.federations import SHUFFLED, Federation


def test_cells_load_a_data_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads, load_digits = [], federations._digits

    def digits() -> DataSet:
        loads.append("digits")
        return load_digits()

    monkeypatch.setattr(federations, "_digits", digits)
    federations._load.cache_clear()
    loaded = [Federation("digits", parties=3).load(seed) for seed in (0, 0, 0, 1, 1, 1)]
    assert len(loads) == 1
    for data in loaded[1:3]:
        np.testing.assert_array_equal(data.X, loaded[0].X)
    assert not np.array_equal(loaded[3].X, loaded[0].X)


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two data sets whose values identify the data set and its training or test part."""

    def load(name: str) -> DataSet:
        offset, note = (100, "every second row") if name == "foreign" else (0, "")
        X, X_test = offset + np.arange(40.0)[:, None], offset + np.arange(50.0, 70)[:, None]
        return DataSet(name, X, np.zeros(40, int), X_test, np.zeros(20, int), ("a", "b"), note)

    monkeypatch.setattr(federations.registry, "load", load)
    federations._load.cache_clear()
    yield
    federations._load.cache_clear()


def test_all_training_rows_of_another_data_set_can_be_public(sets: None) -> None:
    data = Federation("own", 2, public="foreign/train").load(0)
    np.testing.assert_array_equal(np.sort(data.public[:, 0]), np.arange(100, 140))
    np.testing.assert_array_equal(np.sort(data.X_test[:, 0]), np.arange(50, 70))
    np.testing.assert_array_equal(np.sort(data.X[:, 0]), np.arange(40))
    assert len(data.y_test) == 20
    some = Federation("own", 2, public="foreign").load(0)
    assert set(some.public[:, 0]) < set(range(150, 170))
    assert (len(some.public), len(some.X_test)) == (10, 10)


def test_notes_name_data_sets_that_are_incomplete(sets: None) -> None:
    assert Federation("own", 2).notes == ()
    assert Federation("own", 2, public="foreign/train").notes == ("foreign: every second row",)
    assert Federation("foreign", 2, public="none").notes == ("foreign: every second row",)


def test_a_federation_is_split_as_declared():
    whole = Federation("digits", 5).load(3)
    assert (len(whole.X), len(whole.public), len(whole.X_test)) == (897, 450, 450)
    assert len(Federation("digits", 5, share=0.2).load(3).public) == 90
    assert len(Federation("digits", 5, share=0.2, public_rows=100).load(3).public) == 20
    none = Federation("digits", 5, public="none").load(3)
    assert (len(none.public), len(none.X_test)) == (0, 900)
    train = Federation("digits", 5, public="train").load(3)
    assert (len(train.X), len(train.public), len(train.X_test)) == (718, 179, 900)
    shuffled = Federation("digits", 5, public=SHUFFLED).load(3).public
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(whole.public, axis=0))
    assert (shuffled != whole.public).any(axis=1).mean() > 0.9
    scaled = Federation("digits", 5, scaled=True).load(3).public
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-5)
