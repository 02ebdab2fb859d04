"""Numbers as text, for terminals and pages."""

from __future__ import annotations

SHARES = ("accuracy", "balanced_accuracy", "precision", "recall", "f1")
"""Metrics that are shown in percent."""


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    return (
        f"{count:,} B" if count < 10_000 else f"{count / 1000:,.1f} kB" if count < 10**6 else f"{count / 1e6:,.1f} MB"
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def score(name: str, value: float) -> str:
    """A metric: shares in percent, others as a number; – if it has no value."""
    if value != value:
        return "–"
    return percent(value) if name in SHARES else f"{value:.3f}"


def plural(count: int, one: str, many: str = "") -> str:
    """The number and the noun: 1 ballot, 2 ballots."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
