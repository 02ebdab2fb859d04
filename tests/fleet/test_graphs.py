"""What recording steps on a GPU asks of Python, where there is none."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("torch")

from oneballot.fleet.gpu.graphs import no_garbage_collection


class Graph:
    """Like one that only the collector can find."""

    def __init__(self) -> None:
        self.itself = self


def many(count: int = 5_000) -> list[list[object]]:
    """So many new objects that the collector would run."""
    return [[] for _ in range(count)]


def test_while_a_graph_is_recorded_no_other_is_destroyed() -> None:
    gc.collect()
    with no_garbage_collection():
        other = weakref.ref(Graph())
        kept = many()
        assert other() is not None
    kept += many()
    assert other() is None
    assert gc.isenabled()


def test_who_has_switched_the_collector_off_finds_it_so() -> None:
    gc.disable()
    try:
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
