"""The list of ballots that a server would count: a small file that the other server compares with its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...ballot.manifest import Digest, PartyName
from ...election.election import Election
from ...election.tallies import Side
from ...errors import BallotError
from ...runtime.files import write_atomic
from ..outcome import CountedBallot
from .signing import TRAILER, check_signer, sign, verify

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_BYTES = 2**24
MOST_BALLOTS = 10**5

Ballots = frozenset[tuple[str, str]]
"""The party and the digest of each ballot that has numbers."""


class Listed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    party: PartyName
    digest: Digest
    abstained: bool = False


class Roll(BaseModel):
    """What one server would count. Every server checks what it counts, whatever the other's list says.

    signature: the server's public key and its signature, in hexadecimal digits; None if it is not signed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal[1] = 1
    election: Digest
    side: Side
    ballots: Annotated[tuple[Listed, ...], Field(max_length=MOST_BALLOTS)]
    signature: Annotated[str, Field(pattern=rf"^[0-9a-f]{{{2 * TRAILER}}}$")] | None = None

    def signed(self, key: Ed25519PrivateKey | None) -> Self:
        """The same list, signed with this key; unsigned without one."""
        return self.model_copy(update={"signature": None if key is None else sign(self._content(), key).hex()})

    def _content(self) -> bytes:
        return json.dumps(self.model_dump(exclude={"signature"}), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def of(cls, election: Election, side: Side, voted: Mapping[str, CountedBallot]) -> Self:
        listed = (Listed(party=p, digest=b.digest, abstained=b.abstained is not None) for p, b in sorted(voted.items()))
        return cls(election=election.digest, side=side, ballots=tuple(listed))

    @classmethod
    def read(cls, path: Path, election: Election, side: Side) -> Self:
        """The other server's list. Raises BallotError unless it is a list of that server for this election."""
        expected = (
            f"expected the list of server {side}, ballots-{side}.json, which `oneballot tally --share {side}` writes"
        )
        try:
            if path.stat().st_size > MOST_BYTES:
                raise BallotError(f"{path} is too large for a list of ballots; {expected}")
            roll = cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise BallotError(f"{path} cannot be read: {error.strerror}; {expected}") from None
        except ValidationError as error:
            raise BallotError(f"{path} is not a list of ballots ({error.errors()[0]['msg']}); {expected}") from None
        if roll.side != side:
            raise BallotError(f"{path} is the list of server {roll.side}; {expected}")
        if roll.election != election.digest:
            raise BallotError(f"{path} is of another election ({roll.election[:12]}…, not {election.digest[:12]}…)")
        if len({each.party for each in roll.ballots}) < len(roll.ballots):
            raise BallotError(f"{path} lists a party twice; ask server {side} for a new list")
        signer = verify(roll._content(), bytes.fromhex(roll.signature), path) if roll.signature else ""
        check_signer(election, side, signer, path)
        return roll

    def write(self, path: Path) -> None:
        write_atomic(path, f"{self.model_dump_json(indent=1, exclude_none=True)}\n".encode(), 0o600)

    @property
    def every(self) -> frozenset[tuple[str, str, bool]]:
        return frozenset((each.party, each.digest, each.abstained) for each in self.ballots)


def with_numbers(ballots: Iterable[tuple[str, str, bool]]) -> Ballots:
    """Those that do not abstain."""
    return frozenset((party, digest) for party, digest, abstained in ballots if not abstained)


def differences(own: Roll, other: Roll) -> list[str]:
    """Sentences about ballots that only one of the servers lists, so that they do not count."""
    mine, theirs = ({each.party: each for each in roll.ballots} for roll in (own, other))
    sentences = []
    for party in sorted(mine.keys() | theirs.keys()):
        if party not in theirs or party not in mine:
            has, lacks = (own, other) if party in mine else (other, own)
            sentences.append(f"the ballot of {party} is listed by server {has.side}, not by server {lacks.side}")
        elif mine[party] != theirs[party]:
            sentences.append(f"the servers list different ballots of {party}")
    return sentences
