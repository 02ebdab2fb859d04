"""The next schedule is made while this one is used, each once and in turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from oneballot.fleet.train.schedule import prefetch


def test_the_next_is_made_while_one_is_used() -> None:
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


def test_an_error_comes_in_its_turn() -> None:
    def make() -> Iterator[int]:
        yield 7
        raise ValueError("no more")

    found = prefetch(make())
    assert next(found) == 7
    with pytest.raises(ValueError, match="no more"):
        next(found)


def test_who_stops_early_leaves_no_thread() -> None:
    before = threading.active_count()
    found = prefetch(iter(range(10)))
    assert next(found) == 0
    assert threading.active_count() == before + 1
    found.close()
    assert threading.active_count() == before
