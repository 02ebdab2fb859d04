"""All errors that OneBallot raises on purpose.

OneBallotError
├── ElectionError       the election: a setting, a combination that cannot work, a digest that does not match
├── PrivacyError        a release would exceed the guarantee; nothing was released
├── DataError           a party's file or the public file: columns, values, labels, sizes
│   └── DataNotFound    a public data set, or word vectors, that must be downloaded or copied first
├── BallotError
│   ├── Spoiled         a rejected ballot; the tally reports it with the reason and counts the others
│   ├── AlreadyCast     a ballot of this party exists and would be replaced
│   └── SmallCount      a ballot states, or would state, the exact number of a few rows; nothing was sent
├── BoxError            the box cannot be read or written
│   └── NotFound        the box, or a ballot in it, does not exist or is not visible
├── QuorumError         too few ballots, or a tally that should wait for more
├── ExportError         an outcome that cannot be exported in a form, or an export that predicts something else
├── KeyFileError        a key that is missing, unreadable or of the wrong type
└── MissingExtra        an optional library is not installed

OneBallotWarning        something that the user should know; the work continues
├── OddValues           values of a table that were clipped, unseen, missing or not numbers
└── WillNotWork         the result will not be what was asked for, or no better than chance
    └── CollapsedModel  the final model predicts one class for nearly every row, or never predicts a class

A message says what was wrong, where, what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def printable(text: object, most: int = 2000) -> str:
    """Untrusted text made safe to print: no control characters, and not too long."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:most])


def printable_lines(text: object) -> str:
    """The same for text of any length, whose lines stay lines."""
    return "\n".join(printable(line, len(line)) for line in str(text).split("\n"))


class OneBallotError(Exception):
    """The base class: catch this to catch every error that OneBallot raises on purpose."""


class ElectionError(OneBallotError): ...


class PrivacyError(OneBallotError): ...


class DataError(OneBallotError): ...


class DataNotFound(DataError): ...


class BallotError(OneBallotError): ...


class Spoiled(BallotError):
    """A rejected ballot. The reason may quote untrusted text."""

    def __init__(self, reason: str) -> None:
        super().__init__(printable(reason))


class AlreadyCast(BallotError): ...


class SmallCount(BallotError): ...


class BoxError(OneBallotError): ...


class NotFound(BoxError): ...


class QuorumError(OneBallotError): ...


class ExportError(OneBallotError): ...


class KeyFileError(OneBallotError): ...


class MissingExtra(OneBallotError):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(what, extra)  # both, so that the error can be pickled by a worker process

    def __str__(self) -> str:
        what, extra = self.args
        return f"{what} needs an optional library. Install it with: pip install 'oneballot[{extra}]'"


class OneBallotWarning(UserWarning): ...


@dataclass(frozen=True)
class Odd:
    """How many values of a column were clipped, missing, unseen, not numbers or not dates, and the first of them."""

    column: str
    how: str
    count: int
    first: str

    def __str__(self) -> str:
        example = f", such as {printable(self.first, 40)!r}" if self.first else ""
        values = f"{self.count:,} values are {self.how}"
        if self.count == 1:
            plural = self.how.startswith("not ")  # not numbers
            values = f"1 value is not a {self.how[4:-1]}" if plural else f"1 value is {self.how}"
        return f"column {self.column!r}: {values}{example}"


class OddValues(OneBallotWarning):
    """One warning for all values of a table that were encoded although they were odd. `odd` lists them by column."""

    _IN_WORDS = {"clipped": "clipped", "unseen": "with unseen categories", "missing": "with missing values"}  # noqa: RUF012

    def __init__(self, sources: tuple[str, ...], cells: int, odd: tuple[Odd, ...]) -> None:
        super().__init__(sources, cells, odd)
        self.sources, self.cells, self.odd = sources, cells, odd

    def __str__(self) -> str:
        parts = []
        known = list(self._IN_WORDS)
        for how in sorted(
            {each.how for each in self.odd}, key=lambda how: (known.index(how) if how in known else 9, how)
        ):
            same = [each for each in self.odd if each.how == how]
            columns, share = len({each.column for each in same}), sum(each.count for each in same) / self.cells
            shown = f"{100 * share:.1f}" if share >= 0.001 else "under 0.1"
            what = self._IN_WORDS.get(how, f"with values that are {how}")
            parts.append(f"{columns} column{'s' * (columns > 1)} {what}, {shown} % of cells")
        return f"{' and '.join(self.sources)}: {'; '.join(parts)}"

    @classmethod
    def merged(cls, several: Iterable[OddValues]) -> OddValues:
        """The same for several tables; a table that was read twice counts once."""
        distinct = {each.args: each for each in several}.values()
        sources = tuple(dict.fromkeys(source for each in distinct for source in each.sources))
        return cls(sources, sum(each.cells for each in distinct), tuple(odd for each in distinct for odd in each.odd))


class WillNotWork(OneBallotWarning): ...


class CollapsedModel(WillNotWork): ...
