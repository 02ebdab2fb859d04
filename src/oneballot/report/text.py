"""How results look in the terminal: tables, sizes, shares and scores. Every command prints through it.

Pages and plots use the same words for numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import printable, printable_lines


def print_json(value: Mapping[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=False, default=str))


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, whole: Sequence[int] = ()) -> None:
    """Print a table. Columns of numbers, except the first, are aligned to the right; columns in `whole` never wrap.

    Control characters, which could write to a terminal what they like, become spaces.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        numbers = i > 0 and all(row[i].lstrip("+-")[:1].isdigit() or row[i] in ("", "–") for row in rows)
        table.add_column(printable(name), justify="right" if numbers else "left", overflow="fold", no_wrap=i in whole)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console = Console(markup=False, highlight=False)
    console.print(Text(printable(title), style="bold"), table, sep="\n")


def print_lines(lines: Iterable[object]) -> None:
    """Print sentences, which may name what is in data: control characters become spaces."""
    for line in lines:
        print(printable_lines(line))


def print_facts(facts: Mapping[str, object], width: int = 12) -> None:
    """Print names and values, aligned at the colon. A list has one line each; an empty list is left out.

    width: of the names.
    """
    for name, value in facts.items():
        for i, line in enumerate(value if isinstance(value, list) else [value]):
            print_lines([f"{name:>{width}}: {line}" if not i else f"{'':>{width}}  {line}"])


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    return (
        f"{count:,} B" if count < 10_000 else f"{count / 1000:,.1f} kB" if count < 10**6 else f"{count / 1e6:,.1f} MB"
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def signed(value: float, digits: int) -> str:
    """A difference with its sign; zero, also after rounding, has none of its own: +0.0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def score(name: str, value: float) -> str:
    """A metric: shares in percent, others as a number; – if it has no value."""
    if value != value:
        return "–"
    return percent(value) if name in SHARES else f"{value:.3f}"


SHARES = ("accuracy", "balanced_accuracy", "precision", "recall", "f1")


def score_cells(metrics: Any) -> list[str]:
    """The metrics of a model for a table with the columns `Target.columns`."""
    return [score(name, metrics[name]) for name in metrics.target.columns]


FEW_ROWS = 10
"""Smaller numbers of rows are not stated on a page that may be passed on, as in a release dossier."""


def row_count(rows: int, *, exact: bool = True) -> str:
    """A number of rows for a page that may be passed on: small ones could single people out.

    exact: False rounds it, where numbers beside it would otherwise reveal a small one.
    """
    if 0 < rows < FEW_ROWS:
        return f"< {FEW_ROWS}"
    return "–" if not rows else f"{rows:,}" if exact else f"about {round(rows, -1):,}"


def plural(count: int, one: str, many: str = "") -> str:
    """The number and the noun: 1 ballot, 2 ballots."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
