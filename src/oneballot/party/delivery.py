"""Deliver a party's ballot to a box. The name of an encrypted ballot does not reveal its party."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from ..ballot.encryption import read_header
from ..ballot.seal import unseal
from ..election.election import Election
from ..election.names import file_name
from ..errors import NotFound, Spoiled
from ..interfaces import Box

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Slot = Literal["free", "own", "foreign"]


def box_name(election: Election, party: str, key: Ed25519PrivateKey | None, sealed: bytes = b"") -> str:
    """The name of a ballot in the box: the party's name or, if ballots are encrypted, a hash.

    The hash is keyed with the party's secret key, so it reveals nothing, and a second ballot of the party has the same
    name. Without a key it is a hash of the ballot.
    """
    if not election.encrypted:
        return file_name(party)
    if key is None:
        return hashlib.sha256(sealed).hexdigest()[:16]
    text = f"oneballot name {election.digest} {party}".encode()
    return hashlib.blake2b(text, key=key.private_bytes_raw(), digest_size=8).hexdigest()


def look_up(election: Election, box: Box, name: str, party: str) -> Slot:
    """Whether this name in the box is free, holds a ballot of this party, or a foreign file."""
    try:
        with box.open(name) as file:
            data = file.read(election.max_ballot_mb * 2**20)
        if election.encrypted:
            own = read_header(data).election == election.digest
        else:
            own = unseal(data, election).party == party
    except NotFound:  # it may exist but not be visible; then the box rejects the delivery
        return "free"
    except Spoiled:
        return "foreign"
    return "own" if own else "foreign"


def deliver(
    election: Election,
    box: Box,
    name: str,
    party: str,
    sealed: bytes,
    slot: Slot | None = None,
    *,
    secret: bool = False,
) -> str:
    """Deliver a ballot and return its name in the box, with a suffix if a foreign file has its name.

    `slot` is the result of `look_up`, if it was called before. `secret`: the ballot holds rows in the clear. The tally
    ignores the names of ballots.
    """
    if (slot or look_up(election, box, name, party)) == "foreign":
        name = f"{name}.{hashlib.sha256(sealed).hexdigest()[:8]}"
    (box.deliver_secret if secret else box.deliver)(name, sealed)
    return name
