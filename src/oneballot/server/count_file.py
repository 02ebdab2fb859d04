"""A count as the contents of a file, and back."""

from __future__ import annotations

from collections.abc import Sequence

from ..ballot.archive import pack, unpack
from ..types import Array, Blob, Contents, Count

MANY_PARTIES = 1_000
"""With more parties their arrays share one file."""


def flatten(count: Count) -> dict[str, Array | Blob]:
    """A count as arrays and files: one for each party, but of thousands of parties all arrays are in one file."""
    many = len(count.by_party) > MANY_PARTIES
    flat: dict[str, Array | Blob] = {f"sum.{name}": value for name, value in count.sums.items()}
    for i, kept in enumerate(count.by_party.values()):
        if many and kept and not any(isinstance(value, Blob) for value in kept.values()):
            flat |= {f"arrays.{i}.{name}": value for name, value in kept.items()}
        else:
            flat[f"roll.{i}"] = Blob("zip", pack(kept))
    return flat


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
