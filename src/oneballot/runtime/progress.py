"""Tells whoever watches how far long work has come. Silent unless somebody has asked to watch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Watcher = Callable[[str, int, int], None]
"""Called with what is being done, how many of it are done, and how many there are."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def report_progress_to(watcher: Watcher) -> Iterator[None]:
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def track(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    """The items, reported one by one."""
    watcher = _watcher.get()
    if watcher is None:
        yield from items
        return
    watcher(what, 0, total)
    for done, item in enumerate(items, start=1):
        yield item
        watcher(what, done, total)


def progress_reporter(what: str, total: int) -> Callable[[int], None]:
    """For work that is no loop, or goes on in another thread: call it with how many are done by now."""
    watcher = _watcher.get()
    return lambda done: None if watcher is None else watcher(what, done, total)
