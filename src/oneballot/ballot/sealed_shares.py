"""The two parts of a ballot under two tallies: each is one share of its sums, encrypted to one server.

A part states its election, party, server and layout, and all of that is encrypted with it. So a part of another
election or party, or the other server's, is recognised, also in the ballot of another party.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..election.election import Election
from ..election.tallies import SIDES, Side
from ..errors import Spoiled
from ..types import Array, Ballot, Blob, Contents
from .encryption import HEAD, WRAPPED, decrypt, encrypt
from .manifest import Digest, PartyName
from .shares import MOST_NUMBERS, SEED_BYTES, Layout, Width, expand, subtract_share

SHARE_FORMAT = "share"
MAGIC = b"OneBallot share 1\n"
MOST_HEADER = 2**16
NAMES = {"a": "for-a", "b": "for-b"}
"""The names of the two parts in a ballot."""

SumName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]
Shape = Annotated[tuple[Annotated[int, Field(ge=0, le=MOST_NUMBERS)], ...], Field(max_length=8)]


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    election: Digest
    party: PartyName
    side: Side
    bits: Width
    sums: Annotated[tuple[tuple[SumName, Shape], ...], Field(min_length=1, max_length=100)]


def seal_shares(numbers: Array, layout: Layout, election: Election, party: str, seed: bytes | None = None) -> Contents:
    """The contents of a ballot with these sums, joined as the layout says. The seed is for tests.

    The first server gets the seed, the second the difference.
    """
    assert election.tallies is not None
    seed = os.urandom(SEED_BYTES) if seed is None else seed
    bodies: Mapping[Side, bytes] = {"a": seed, "b": subtract_share(numbers, seed, layout.bits).tobytes()}
    return {NAMES[side]: _seal(side, bodies[side], layout, election, party) for side in SIDES}


def _seal(side: Side, body: bytes, layout: Layout, election: Election, party: str) -> Blob:
    assert election.tallies is not None
    header = _Header(election=election.digest, party=party, side=side, bits=layout.bits, sums=layout.sums)
    clear = MAGIC + header.model_dump_json().encode() + b"\n" + body
    return Blob(SHARE_FORMAT, encrypt(clear, election.tallies.key_of(side), election.digest))


def open_share(ballot: Ballot, side: Side, election: Election, key: X25519PrivateKey) -> tuple[Layout, Array]:
    """The layout and the numbers of one server's share, unsigned. Raises Spoiled if it is not a share for it.

    The other part is only looked at from outside: only the other server can open it.
    """
    parts = {each: ballot.blob(NAMES[each]) for each in SIDES}
    if wrong := [each for each in SIDES if parts[each].format != SHARE_FORMAT]:
        raise Spoiled(f"its part for server {wrong[0]} is not a share")
    try:
        clear = decrypt(parts[side].data, key)
    except Spoiled as reason:
        raise Spoiled(f"its part for server {side} cannot be opened: {reason}") from None
    header, body = _parse(clear, side)
    if header.election != election.digest:
        raise Spoiled(f"its part for server {side} is of another election")
    if header.party != ballot.party:
        raise Spoiled(f"its part for server {side} was made by {header.party}, not by {ballot.party}")
    if header.side != side:
        raise Spoiled(f"its part for server {side} is the part for server {header.side}")
    layout = Layout(header.sums, header.bits)
    if list(layout.sums) != sorted(dict(layout.sums).items()) or layout.numbers > MOST_NUMBERS:
        raise Spoiled("its sums are listed twice, out of order, or are too many")
    expected = SEED_BYTES if side == "a" else layout.bytes
    if len(body) != expected:
        raise Spoiled(f"its part for server {side} has {len(body):,} bytes of share, expected {expected:,}")
    return layout, _read(body, side, layout)


def _read(body: bytes, side: Side, layout: Layout) -> Array:
    if side == "a":
        return expand(body, layout.numbers, layout.bits)
    return np.frombuffer(body, dtype=f"<u{layout.bits // 8}")


def _parse(clear: bytes, side: Side) -> tuple[_Header, bytes]:
    end = clear.find(b"\n", len(MAGIC), MOST_HEADER)
    if not clear.startswith(MAGIC) or end < 0:
        raise Spoiled(f"its part for server {side} is not a share that `oneballot cast` writes")
    try:
        return _Header.model_validate_json(clear[len(MAGIC) : end]), clear[end + 1 :]
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise Spoiled(f"the header of its part for server {side} is malformed: {place}: {first['msg']}") from None


def sealed_size(layout: Layout) -> int:
    """About how many bytes the two parts take."""
    names = sum(len(name) + 20 for name, _ in layout.sums)
    return layout.bytes + layout.bytes // 2**16 + SEED_BYTES + 2 * (HEAD.size + WRAPPED + len(MAGIC) + 300 + names)
