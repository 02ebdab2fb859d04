"""Progress of long work, reported to a watcher if there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Watcher = Callable[[str, int, int], None]
"""Called with a description, the number of items done, and the total."""

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def report_progress_to(watcher: Watcher | None) -> Iterator[None]:
    """Report all progress in this block, and in this context, to the watcher."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def track(what: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield the items and report each one when it is done."""
    report = progress_reporter(what, total)
    report(0)
    for done, item in enumerate(items, start=1):
        yield item
        report(done)


def current_watcher() -> Watcher | None:
    return _watcher.get()


def progress_reporter(what: str, total: int) -> Callable[[int], None]:
    """A function to call, from any thread, with the number of items done so far."""
    watcher = _watcher.get()
    return lambda done: None if watcher is None else watcher(what, done, total)
