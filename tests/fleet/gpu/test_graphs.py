"""Garbage collection pauses while a CUDA graph is recorded."""

from __future__ import annotations

import gc
import weakref

import pytest

pytest.importorskip("torch")

from oneballot.fleet.gpu.graphs import no_garbage_collection


class Graph:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


def many(count: int = 5_000) -> list[list[object]]:
    """Create so many objects that the collector would run."""
    return [[] for _ in range(count)]


def test_no_graph_is_destroyed_while_another_is_recorded() -> None:
    gc.collect()
    with no_garbage_collection():
        other = weakref.ref(Graph())
        kept = many()
        assert other() is not None
    kept += many()
    assert other() is None
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
