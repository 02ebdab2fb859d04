"""How ballots travel, up and down: in which pieces, and how far they are."""

from __future__ import annotations

from collections.abc import Callable

from ..runtime.progress import progress_reporter

PIECE = 8 * 2**20
"""Bytes that are moved in one piece where a protocol has pieces; smaller transfers show no progress."""


def transfer(what: str, total: int) -> Callable[[int], None]:
    """To be told how many bytes have been moved by now."""
    if total < PIECE:
        return lambda done: None
    tell = progress_reporter(what, -(-total // 2**20))
    return lambda done: tell(-(-done // 2**20))
