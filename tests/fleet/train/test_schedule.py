"""Schedules are prefetched: a thread draws the next chunk of a schedule while the current one is in use."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from oneballot.fleet.train.schedule import prefetch


def test_the_next_item_is_made_while_one_is_in_use() -> None:
    made = [threading.Event() for _ in range(4)]

    def make() -> Iterator[int]:
        for i, event in enumerate(made):
            event.set()
            yield i

    seen = []
    for i in prefetch(make()):
        assert all(event.wait(10) for event in made[: i + 2])
        assert not any(event.is_set() for event in made[i + 2 :])
        seen.append(i)
    assert seen == [0, 1, 2, 3]


def test_an_error_is_raised_in_its_turn() -> None:
    def make() -> Iterator[int]:
        yield 7
        raise ValueError("no more")

    items = prefetch(make())
    assert next(items) == 7
    with pytest.raises(ValueError, match="no more"):
        next(items)


def test_closing_early_leaves_no_thread() -> None:
    before = threading.active_count()
    items = prefetch(iter(range(10)))
    assert next(items) == 0
    assert threading.active_count() == before + 1
    items.close()
    assert threading.active_count() == before
