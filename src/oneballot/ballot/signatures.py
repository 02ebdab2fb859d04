"""Check who signed a ballot. A party's valid keys are those on the roster that are not revoked."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ..election.election import Election
from ..errors import ElectionError, KeyFileError, Spoiled
from .keys import fingerprint, public_key, public_text


def check_signer(election: Election, party: str, key: Ed25519PrivateKey | None) -> None:
    """Raise an error, before any training, if a ballot of this party signed with this key would be rejected."""
    if not election.roster:
        return
    if party not in election.roster:
        listed = ", ".join(election.roster)
        raise ElectionError(f"{party} is not on the roster of this election ({listed}), so its ballot would not count")
    if key is None:
        raise KeyFileError(f"the election requires {party} to sign its ballot: give its secret key (`{party}.key`)")
    if (public := public_text(key)) in election.revoked:
        raise KeyFileError(
            f"this key of {party} was revoked{_reason(election, public)}; make a new one with "
            f"`oneballot keys new {party}`, and have it listed in the roster"
        )
    if public not in election.roster[party]:
        raise KeyFileError(f"the roster lists another key for {party}; cast with the listed key")


def check_signature(election: Election, party: str, signed: bytes, signature: bytes | None) -> None:
    """Raise Spoiled, with the reason, unless a valid key of this party signed these bytes."""
    if not election.roster:
        return
    if party not in election.roster:
        raise Spoiled(f"{party} is not on the roster of this election")
    if signature is None:
        raise Spoiled(f"it names {party} as its party but is not signed; the roster requires a signature")
    if any(_is_by(key, party, signed, signature) for key in election.roster[party] if key not in election.revoked):
        return
    for key in election.revoked:
        if _is_by(key, party, signed, signature):
            raise Spoiled(
                f"it names {party} as its party but is signed with a revoked key{_reason(election, key)} "
                f"(fingerprint {fingerprint(key)}); ask {party} to sign it again with its new key"
            )
    raise Spoiled(f"it names {party} as its party, but the signature is not theirs")


def _is_by(key: str, party: str, signed: bytes, signature: bytes) -> bool:
    try:
        public_key(key, party).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def _reason(election: Election, key: str) -> str:
    reason = election.revoked[key]
    return f" ({reason})" if reason else ""
