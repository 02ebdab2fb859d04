"""Collects the errors of several steps, to report them all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import DataError

SHOWN = 20


class Problems:
    def __init__(self) -> None:
        self.found: list[str] = []

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Record a DataError of this block instead of raising it."""
        try:
            yield
        except DataError as error:
            self.found += str(error).splitlines()

    def raise_all(self) -> None:
        """Raise one DataError with a line for each problem, if there are any."""
        if self.found:
            more = [f"… and {len(self.found) - SHOWN} more problems"] if len(self.found) > SHOWN else []
            raise DataError("\n".join(self.found[:SHOWN] + more))
