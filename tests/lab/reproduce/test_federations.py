"""Data sets are loaded once, whoever asks, and how often; public rows of another; and what is not the whole of one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oneballot_lab.data.registry import DataSet
from oneballot_lab.reproduce import federations
from oneballot_lab.reproduce.federations import Federation


def test_cells_that_begin_together_load_a_data_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads, really = [], federations._digits

    def digits() -> DataSet:
        loads.append(threading.get_ident())
        time.sleep(0.1)  # long enough for all others to come
        return really()

    monkeypatch.setattr(federations, "_digits", digits)
    federations._load_once.cache_clear()
    with ThreadPoolExecutor(6) as cells:
        cuts = list(cells.map(Federation("digits", parties=3).cut, [0, 0, 0, 1, 1, 1]))
    assert len(loads) == 1
    for cut in cuts[1:3]:
        np.testing.assert_array_equal(cut.X, cuts[0].X)
    assert not np.array_equal(cuts[3].X, cuts[0].X)


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two data sets whose rows tell which they are of, and whether of its training or of its test set."""

    def load(name: str) -> DataSet:
        far, note = (100, "every second row") if name == "foreign" else (0, "")
        X, X_test = far + np.arange(40.0)[:, None], far + np.arange(50.0, 70)[:, None]
        return DataSet(name, X, np.zeros(40, int), X_test, np.zeros(20, int), ("a", "b"), note)

    monkeypatch.setattr(federations.registry, "load", load)
    federations._load_once.cache_clear()
    yield
    federations._load_once.cache_clear()


def test_all_training_rows_of_another_data_set_are_public_and_the_whole_test_set_tests(sets: None) -> None:
    cut = Federation("own", 2, public="foreign/train").cut(0)
    np.testing.assert_array_equal(np.sort(cut.public[:, 0]), np.arange(100, 140))
    np.testing.assert_array_equal(np.sort(cut.X_test[:, 0]), np.arange(50, 70))
    np.testing.assert_array_equal(np.sort(cut.X[:, 0]), np.arange(40))
    assert len(cut.y_test) == 20
    some = Federation("own", 2, public="foreign").cut(0)
    assert set(some.public[:, 0]) < set(range(150, 170))
    assert (len(some.public), len(some.X_test)) == (10, 10)


def test_what_is_not_the_whole_of_a_data_set_is_told(sets: None) -> None:
    assert Federation("own", 2).notes == ()
    assert Federation("own", 2, public="foreign/train").notes == ("foreign: every second row",)
    assert Federation("foreign", 2, public="none").notes == ("foreign: every second row",)
