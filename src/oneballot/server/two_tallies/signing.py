"""Signatures of the two servers on their partials and lists of ballots, by the key that also signs their logs.

A key to which shares are encrypted cannot sign. An election may name the signing keys (`a_signs` and `b_signs` under
`[tallies]`): then nothing else is accepted. Without them a signature shows damage, not who has written a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature

from ...ballot.keys import fingerprint, public_key, public_text, signing_text
from ...election.election import Election
from ...election.tallies import Side
from ...errors import BallotError, KeyFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from .partial import Partial

PURPOSE = b"oneballot two tallies 1\n"
KEY_BYTES, SIGNATURE_BYTES = 32, 64
TRAILER = KEY_BYTES + SIGNATURE_BYTES


def sign(data: bytes, key: Ed25519PrivateKey) -> bytes:
    """The public key and the signature of these bytes."""
    return key.public_key().public_bytes_raw() + key.sign(PURPOSE + data)


def verify(data: bytes, trailer: bytes, where: Path | str) -> str:
    """The public key that has signed these bytes. Raises BallotError if they were changed since."""
    signer = signing_text(trailer[:KEY_BYTES])
    try:
        public_key(signer, str(where)).verify(trailer[KEY_BYTES:], PURPOSE + data)
    except (InvalidSignature, KeyFileError):
        raise BallotError(f"{where} was changed after it was signed; copy it again from its server") from None
    return signer


def check_signer(election: Election, side: Side, signer: str, what: Path | str) -> None:
    """Raise BallotError if the election names the signing key of this server, and another one or none has signed."""
    assert election.tallies is not None
    expected = election.tallies.signer_of(side)
    if expected is None or signer == expected:
        return
    how = f"is signed with another key, fingerprint {fingerprint(signer)}" if signer else "is not signed"
    raise BallotError(
        f"{what} {how}, but the election names the key of server {side}: fingerprint {fingerprint(expected)} "
        f"({side}_signs). Get the file from server {side} itself"
    )


def check_own_key(election: Election, side: Side, key: Ed25519PrivateKey | None) -> None:
    """Raise KeyFileError, before anything is counted, if this server cannot sign as the election says."""
    assert election.tallies is not None
    expected, own = election.tallies.signer_of(side), None if key is None else public_text(key)
    if expected is not None and own != expected:
        has = "there is none" if own is None else f"this machine's has fingerprint {fingerprint(own)}"
        raise KeyFileError(
            f"the election names the key with fingerprint {fingerprint(expected)} for the signatures of server {side} "
            f"({side}_signs), but {has}. Set ONEBALLOT_LOG_KEY to the file of the right key"
        )


def describe_signers(election: Election, *partials: Partial) -> str:
    """Who has signed the partials, and whether that proves anything, in a sentence."""
    assert election.tallies is not None
    unnamed = [partial for partial in partials if election.tallies.signer_of(partial.side) is None]
    if not unnamed:
        return "Both partials are signed with the servers' keys that the election names."
    found = [
        f"that of server {partial.side} "
        + (f"is signed, fingerprint {fingerprint(partial.signer)}" if partial.signer else "is not signed")
        for partial in unnamed
    ]
    return (
        f"Nothing proves which server wrote a partial: {'; '.join(found)}. The election can name the keys (a_signs and "
        "b_signs under [tallies])."
    )
