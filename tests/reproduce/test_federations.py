"""Data sets are loaded once, whoever asks, and how often."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oneballot.data.registry import DataSet
from oneballot.reproduce import federations
from oneballot.reproduce.federations import Federation


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
