"""Receipts: what a party keeps of a cast, to show later whether an outcome has counted its ballot.

A signed ballot carries a code: the party's signature of the election and its own name. It is the same for every ballot
of the party's key, and only the party and those who can open the ballot know it. A published outcome holds salted
hashes of the codes and digests of its ballots, which mean nothing to anyone without a code (docs/log.md).
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from ..election.election import Election
from ..errors import BallotError, KeyFileError
from ..types import Ballot
from .keys import public_key, public_text
from .manifest import Digest, PartyName, ReceiptCode, Text

PURPOSE = b"oneballot receipt 1\n"


class Receipt(BaseModel):
    """The content of PARTY.receipt.json. `signature` is by `key`, the party's; both are missing if it has no key."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    format: Literal[1] = 1
    election: Digest
    name: Text
    """The name of the election."""
    party: PartyName
    ballot: Digest
    time: Text
    """When the receipt was written, by the party's clock."""
    abstained: Text | None = None
    code: ReceiptCode | None = None
    key: Text | None = None
    signature: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")] | None = None

    def signed(self) -> bytes:
        body = self.model_dump(exclude={"signature"})
        return PURPOSE + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def make_receipt(election: Election, ballot: Ballot, key: Ed25519PrivateKey | None) -> Receipt:
    receipt = Receipt(
        election=election.digest,
        name=election.name[:500],
        party=ballot.party,
        ballot=ballot.digest,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        abstained=ballot.abstained,
        code=ballot.code,
        key=None if key is None else public_text(key),
    )
    return receipt if key is None else receipt.model_copy(update={"signature": key.sign(receipt.signed()).hex()})


def read_receipt(path: Path) -> Receipt:
    """Raises BallotError if the file is no receipt, or was changed after the party signed it."""
    try:
        receipt = Receipt.model_validate_json(path.read_bytes())
        if receipt.key is not None:
            public_key(receipt.key, receipt.party).verify(bytes.fromhex(receipt.signature or ""), receipt.signed())
    except OSError as error:
        raise BallotError(f"cannot read {path}: {error.strerror}; expected the PARTY.receipt.json of a cast") from None
    except ValidationError:
        raise BallotError(f"{path} is not a receipt; expected the PARTY.receipt.json that a cast wrote") from None
    except (InvalidSignature, KeyFileError):
        raise BallotError(
            f"{path} was changed after {receipt.party} signed it; use the file that the cast wrote"
        ) from None
    return receipt


def make_code(election: str, party: str, key: Ed25519PrivateKey) -> str:
    """The code of a party's ballots in the election with this digest. Ed25519 signatures are deterministic."""
    return key.sign(_message(election, party)).hex()


def own_code(election: Election, party: str, code: str | None) -> str | None:
    """The code, if a key of this party has signed it; None for a code that was copied from another party's ballot."""
    if code is None or not election.roster:
        return code
    for key in (*election.roster.get(party, ()), *election.revoked):  # a ballot that was signed again keeps its code
        try:
            public_key(key, party).verify(bytes.fromhex(code), _message(election.digest, party))
        except InvalidSignature:
            continue
        return code
    return None


def hash_code(salt: str, code: str) -> str:
    """Shows that a ballot with this code was counted, to those who know the code."""
    return _hash(salt, "code", code)


def hash_ballot(salt: str, code: str | None, digest: str) -> str:
    """Shows which ballot was counted, to those who know its code; without a code, to those who know its digest."""
    return _hash(salt, "ballot", code or "", digest)


def _message(election: str, party: str) -> bytes:
    return PURPOSE + json.dumps(["code", election, party]).encode()


def _hash(*parts: str) -> str:
    return hashlib.sha256(PURPOSE + json.dumps(parts).encode()).hexdigest()
