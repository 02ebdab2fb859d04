"""A count as the contents of a file, and back."""

from __future__ import annotations

from collections.abc import Sequence

from ..ballot.archive import pack_parts, unpack
from ..types import Array, Blob, Contents, Count

MANY_PARTIES = 1_000
"""With more parties their arrays share one file."""


def pack_count(count: Count) -> Blob:
    """A count as one file: a file for each party in it, but of thousands of parties all arrays are in one file.

    Large models are read from the disk one after the other.
    """
    many = len(count.by_party) > MANY_PARTIES
    arrays: dict[str, Array] = {f"sum.{name}": value for name, value in count.sums.items()}
    parts: dict[str, Contents] = {}
    for i, kept in enumerate(count.by_party.values()):
        plain = {name: value for name, value in kept.items() if not isinstance(value, Blob)}
        if many and kept and len(plain) == len(kept):
            arrays |= {f"arrays.{i}.{name}": value for name, value in plain.items()}
        else:
            parts[f"roll.{i}"] = kept
    return pack_parts(arrays, parts)


def unflatten(flat: Contents, parties: Sequence[str]) -> Count:
    count = Count(by_party={party: {} for party in parties})
    for name, value in flat.items():
        part, _, rest = name.partition(".")
        if isinstance(value, Blob) and part == "roll":
            count.by_party[parties[int(rest)]] = unpack(value.data)
        elif not isinstance(value, Blob) and part == "sum":
            count.sums[rest] = value
        elif not isinstance(value, Blob) and part == "arrays":
            number, _, own = rest.partition(".")
            party = parties[int(number)]
            count.by_party[party] = {**count.by_party[party], own: value}
    return count
