"""A partial: one server's share of the total with its noise. Two partials of the same ballots open the total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from ...ballot.keys import signing_text
from ...ballot.manifest import Digest, PartyName, ReceiptCode, Text
from ...ballot.sealed_shares import Shape, SumName
from ...ballot.shares import MOST_NUMBERS, Layout, Width
from ...election.tallies import Side
from ...errors import BallotError, printable
from ...types import Array
from ..outcome import CountedBallot
from .roll import MOST_BALLOTS, Ballots
from .signing import KEY_BYTES, TRAILER, sign, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MAGIC = b"OneBallot partial 1\n"
MOST_HEADER = 2**26


MOST_BYTES = MOST_HEADER + 8 * MOST_NUMBERS + TRAILER
MOST_NAME, MOST_REASON = 500, 3000


class _Voted(BaseModel):
    """`CountedBallot`, as another server has written it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    name: Text
    digest: Digest
    bytes: NonNegativeInt
    abstained: Text | None = None
    casts: PositiveInt = 1
    code: ReceiptCode | None = None


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    election: Digest
    side: Side
    opening: Annotated[int, Field(ge=1, le=10**6)]
    bits: Width
    sums: Annotated[tuple[tuple[SumName, Shape], ...], Field(min_length=1, max_length=100)]
    voted: Annotated[dict[PartyName, _Voted], Field(max_length=MOST_BALLOTS)]
    spoiled: dict[Text, Annotated[str, Field(max_length=MOST_REASON)]] = {}
    without: tuple[PartyName, ...] = ()


@dataclass(frozen=True)
class Partial:
    """numbers: unsigned, modulo 2^bits. opening: how often this server has opened this election's total, with this.

    trailer: the public key of the server that signed it, and its signature; empty if it is not signed.
    """

    election: str
    side: Side
    opening: int
    layout: Layout
    numbers: Array
    voted: Mapping[str, CountedBallot]
    spoiled: Mapping[str, str]
    without: tuple[str, ...] = ()
    trailer: bytes = b""

    @property
    def signer(self) -> str:
        """The public key that has signed it; empty if none has."""
        return signing_text(self.trailer[:KEY_BYTES]) if self.trailer else ""

    def signed(self, key: Ed25519PrivateKey | None) -> Partial:
        """The same partial, signed with this key; unsigned without one."""
        bare = replace(self, trailer=b"")
        return bare if key is None else replace(bare, trailer=sign(bare.dump(), key))

    @property
    def ballots(self) -> Ballots:
        """The ballots whose shares are in the numbers."""
        return frozenset((party, each.digest) for party, each in self.voted.items() if each.abstained is None)

    def dump(self) -> bytes:
        voted = {p: each.describe() | {"name": printable(each.name, MOST_NAME)} for p, each in self.voted.items()}
        header = _Header(
            election=self.election, side=self.side, opening=self.opening, bits=self.layout.bits, sums=self.layout.sums,
            voted={party: _Voted(**voted[party]) for party in sorted(voted)},
            spoiled={name[:MOST_NAME]: reason[:MOST_REASON] for name, reason in self.spoiled.items()},
            without=self.without,
        )  # fmt: skip
        numbers = np.ascontiguousarray(self.numbers).tobytes()
        return MAGIC + header.model_dump_json().encode() + b"\n" + numbers + self.trailer

    @classmethod
    def parse(cls, data: bytes, where: Path | str) -> Partial:
        """Raises BallotError unless it is a partial."""
        end = data.find(b"\n", len(MAGIC), MOST_HEADER)
        if not data.startswith(MAGIC) or end < 0:
            raise BallotError(f"{where} is not a partial; expected the file that `oneballot tally --share` wrote")
        try:
            header = _Header.model_validate_json(data[len(MAGIC) : end])
        except ValidationError as error:
            raise BallotError(
                f"{where} is damaged: its header is malformed ({str(error)[:200]}); copy it again"
            ) from None
        voted = {party: CountedBallot(**dict(each)) for party, each in header.voted.items()}
        layout, body = Layout(header.sums, header.bits), data[end + 1 :]
        if list(layout.sums) != sorted(dict(layout.sums).items()):
            raise BallotError(f"{where} is damaged: its sums are listed twice, or not in order; copy it again")
        if layout.numbers > MOST_NUMBERS or len(body) not in (layout.bytes, layout.bytes + TRAILER):
            raise BallotError(
                f"{where} is incomplete: it has {len(body):,} bytes of numbers, expected {layout.bytes:,}"
            )
        numbers, trailer = np.frombuffer(body[: layout.bytes], dtype=f"<u{header.bits // 8}"), body[layout.bytes :]
        if trailer:
            verify(data[: -len(trailer)], trailer, where)
        return cls(
            header.election,
            header.side,
            header.opening,
            layout,
            numbers,
            voted,
            header.spoiled,
            header.without,
            trailer,
        )

    @classmethod
    def read(cls, path: Path) -> Partial:
        try:
            if path.stat().st_size > MOST_BYTES:
                raise BallotError(f"{path} is too large for a partial; expected what `oneballot tally --share` wrote")
            return cls.parse(path.read_bytes(), path)
        except OSError as error:
            raise BallotError(f"{path} cannot be read: {error.strerror}; expected a partial") from None
