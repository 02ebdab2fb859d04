"""What the host prepares while the device works."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(made: Iterator[T]) -> Generator[T, None, None]:
    """Each in turn, the next one in the making, by a thread, while it is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(_some, made)
        while found := coming.result():
            coming = thread.submit(_some, made)
            yield found.pop()


def _some(made: Iterator[T]) -> list[T]:
    """The next one, if there is one."""
    for one in made:
        return [one]
    return []
