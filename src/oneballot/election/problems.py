"""Reports problems: the errors of several steps at once, and warnings with the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import DataError

SHOWN = 20
_PACKAGE = str(Path(__file__).parents[1])


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


def warn_caller(warning: Warning) -> None:
    """Warn with the line that called this package: what is inside tells a user nothing."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
