"""Who may sign for whom: the roster's keys, of which a party may have several, less those that were revoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..election.election import Election
from ..errors import ElectionError, KeyFileError, Spoiled
from .keys import fingerprint, public_key, public_text

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def check_signer(election: Election, party: str, key: Ed25519PrivateKey | None) -> None:
    """Before any training: would a ballot of this party, signed with this key, be taken?"""
    if not election.roster:
        return
    if party not in election.roster:
        listed = ", ".join(election.roster)
        raise ElectionError(f"{party} is not on the roster of this election, which lists {listed}; it would not count")
    if key is None:
        raise KeyFileError(f"the election asks {party} to sign its ballot; give its secret key (`{party}.key`)")
    if (public := public_text(key)) in election.revoked:
        raise KeyFileError(
            f"this key of {party} was revoked{_because(election, public)}; make a new one with "
            f"`oneballot keys new {party}`, and have it listed in the roster"
        )
    if public not in election.roster[party]:
        raise KeyFileError(
            f"this key is not the one that the roster lists for {party}; cast with the key that is listed"
        )


def check_signature(election: Election, party: str, signed: bytes, signature: bytes | None) -> None:
    """Raise Spoiled, with the reason, unless a key that counts for this party has signed these bytes."""
    if not election.roster:
        return
    if party not in election.roster:
        raise Spoiled(f"{party} is not on the roster of this election")
    if signature is None:
        raise Spoiled(f"it says that it is of {party}, and is not signed; the roster asks for a signature")
    if any(_is_by(key, party, signed, signature) for key in election.roster[party] if key not in election.revoked):
        return
    for key in election.revoked:
        if _is_by(key, party, signed, signature):
            raise Spoiled(
                f"it says that it is of {party}, and is signed with a key that was revoked{_because(election, key)} "
                f"(fingerprint {fingerprint(key)}); ask {party} to sign it again with its new key"
            )
    raise Spoiled(f"it says that it is of {party}, but the signature is not theirs")


def _is_by(key: str, party: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        public_key(key, party).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _because(election: Election, key: str) -> str:
    reason = election.revoked[key]
    return f" ({reason})" if reason else ""
