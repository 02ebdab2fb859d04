"""A look into a ballot: what it says of itself, and whether an election would take it. Loads no model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plugins
from ..election.election import Election
from ..errors import BallotError, Spoiled
from ..types import Array, Blob
from .encryption import is_envelope, look, unlock
from .keys import fingerprint
from .seal import check_ballot, decrypt, open_ballot

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


def describe_ballot(path: Path, election: Election | None, key: X25519PrivateKey | None = None) -> dict[str, Any]:
    """What is in a ballot file. Of an encrypted one only the head is seen, unless the server's key is given."""
    limit = (Election.max_ballot_mb if election is None else election.max_ballot_mb) * 2**20
    try:
        if (size := path.stat().st_size) > limit:
            raise BallotError(
                f"{path} has {size:,} bytes, and {limit:,} are allowed by max_ballot_mb of "
                f"{'the election' if election else 'elections that do not say; give --election'}; it was not read"
            )
        data = path.read_bytes()
    except OSError as error:
        raise BallotError(f"cannot read {path}: {error.strerror}") from None
    try:
        outside = _outside(path, data)
        if outside["encrypted_to"] and key is None:
            return outside | _without_key(outside["election"], election)
        opened = open_ballot(data if key is None or not outside["encrypted_to"] else unlock(data, key))
        contents = opened.contents()
    except Spoiled as reason:
        raise Spoiled(f"{path} would be spoiled: {reason}") from None
    signature, verdict = "none" if opened.signature is None else "present, not checked (give --election)", ""
    if election is not None:
        try:
            decrypt(data, election, key)
            check_ballot(opened, election)
            verdict = "it is a ballot of this election; what it carries is checked by the tally"
            if election.roster:
                signature = f"valid, of {opened.manifest.party}"
        except Spoiled as reason:
            verdict = f"it would be spoiled: {reason}"
    manifest = opened.manifest
    return outside | {
        "party": manifest.party,
        "election": manifest.election,
        "digest": opened.digest,
        "method": manifest.method,
        "abstained": manifest.abstained,
        "privacy": manifest.privacy.model_dump(mode="json"),
        "ledger": manifest.privacy.describe(),
        "signature": signature,
        "verdict": verdict,
        "valid": not verdict.startswith("it would be spoiled"),
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
        "contents": [[name, *_describe_content(c)] for name, c in sorted(contents.items())],
    }


def _outside(path: Path, data: bytes) -> dict[str, Any]:
    """What whoever has the file can see: all of it, or the head of its envelope."""
    seen = look(data) if is_envelope(data) else None
    return {
        "file": str(path),
        "bytes": len(data),
        "encrypted_to": None if seen is None else f"{seen.server_key}, fingerprint {fingerprint(seen.server_key)}",
        **({} if seen is None else {"election": seen.election}),
    }


def _without_key(digest: str, election: Election | None) -> dict[str, Any]:
    verdict = "whose it is, and what it says, can be seen with the server's key alone (--key)"
    mine = election is None or election.digest == digest
    return {"verdict": verdict if mine else "it would be spoiled: it is a ballot of another election", "valid": mine}


def _describe_content(content: Array | Blob) -> tuple[str, int]:
    if isinstance(content, Blob):
        known = content.format in plugins.names("formats")
        return f"a model, {content.format}{'' if known else ' (a format that is not known here)'}", len(content.data)
    return f"numbers, {content.dtype} {content.shape}", content.nbytes
