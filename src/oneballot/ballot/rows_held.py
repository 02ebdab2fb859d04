"""How many of a party's rows a ballot or a model holds as they are, readable by anyone who has the file.

k-nearest neighbours hold all of their training rows, support vector machines and kernel models some of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from .. import plugins
from ..election.election import Election
from ..formats._common import row_keys
from ..sparse import dense_blocks
from ..types import Array, Blob, Contents


@dataclass(frozen=True)
class RowsHeld:
    """The number of rows; the most that it can be unless it is `exact`."""

    rows: int
    exact: bool = True

    def describe(self, whose: str = "your") -> str:
        """The sentence that commands print; empty if there are no such rows."""
        most = "" if self.exact else "up to "
        return f"holds {most}{self.rows:,} of {whose} rows verbatim" if self.rows else ""


NO_ROWS = RowsHeld(0)


class RowCounter:
    """Counts the private rows in models. `public` are the rows that everyone has; None if they are unknown."""

    def __init__(self, public: Array | None) -> None:
        self._public = public

    def count(self, own: Iterable[Blob], mixed: Iterable[Blob] = ()) -> RowsHeld:
        """The rows that one party's models hold, each once: models of its own rows, and of its own and public rows.

        Of an ensemble, the rows of all its parties: two parties may have equal rows, which count twice. A model that
        cannot be read adds none.
        """
        found, members, exact = Counter[bytes](), 0, True
        for blob in own:
            found |= Counter(_keys(blob))
            for party in _members(blob):
                inside = self.count(*party)
                members, exact = members + inside.rows, exact and inside.exact
        for blob in mixed:
            keys = Counter(_keys(blob))
            exact = exact and (self._public is not None or not keys)
            found |= Counter({key: n for key, n in keys.items() if key not in self._public_keys})
        return RowsHeld(found.total() + members, exact)

    @cached_property
    def _public_keys(self) -> frozenset[bytes]:
        if self._public is None:
            return frozenset()
        return frozenset(key for block in dense_blocks(self._public) for key in row_keys(block))


def _keys(blob: Blob) -> list[bytes]:
    if blob.format not in plugins.names("formats"):
        return []
    try:
        rows = plugins.find("formats", blob.format).rows_held(blob.buffer)
        return row_keys(rows) if len(rows) else []
    except Exception:  # a damaged or hostile file, in any format
        return []


def _members(blob: Blob) -> Sequence[tuple[Sequence[Blob], Sequence[Blob]]]:
    if blob.format not in plugins.names("formats"):
        return ()
    try:
        members: Sequence[tuple[Sequence[Blob], Sequence[Blob]]] = plugins.find("formats", blob.format).members(
            blob.buffer
        )
        return members
    except Exception:  # the same
        return ()


def rows_held(contents: Contents, election: Election | None) -> RowsHeld:
    """The rows of its party that a ballot holds; of an unknown election, the most that it can be."""
    blobs = {name: content for name, content in contents.items() if isinstance(content, Blob)}
    if election is None:
        found = RowCounter(None).count(blobs.values())
        return RowsHeld(found.rows, exact=False)
    mixed = {name for name in blobs if name.partition(".")[0] in election.method.public_models}
    own = [blob for name, blob in blobs.items() if name not in mixed]
    return RowCounter(election.public).count(own, [blobs[name] for name in mixed])
