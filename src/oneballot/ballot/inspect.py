"""Describe a ballot: its contents, and whether an election would accept it. No model is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .. import plugins
from ..election.election import Election
from ..errors import BallotError, Spoiled
from ..types import Array, Blob, Contents
from .encryption import decrypt, is_encrypted, read_header
from .keys import fingerprint
from .manifest import OpenBallot, open_ballot
from .rows_held import rows_held
from .seal import check_ballot, decrypt_for
from .sealed_shares import SHARE_FORMAT


def describe_ballot(
    path: Path, election: Election | None, key: X25519PrivateKey | None = None, *, own_copy: bool = False
) -> dict[str, Any]:
    """Describe a ballot file. For an encrypted ballot, this is only the header unless the server's key is given.

    own_copy: accept PARTY.ballot.open, the party's copy before encryption.
    """
    data = _read(path, election)
    try:
        header = _describe_header(path, data)
        if header["encrypted_to"] and key is None:
            return header | _verdict_without_key(header["election"], election)
        opened = open_ballot(decrypt(data, key) if key is not None and header["encrypted_to"] else data)
        contents = opened.contents()
    except Spoiled as reason:
        raise Spoiled(f"{path} would be spoiled: {reason}") from None
    manifest = opened.manifest
    return header | {
        "party": manifest.party,
        "election": manifest.election,
        "digest": opened.digest,
        "method": manifest.method,
        "abstained": manifest.abstained,
        "privacy": manifest.privacy.model_dump(mode="json"),
        "ledger": manifest.privacy.describe(),
        **_verdict(opened, data, election, key, own_copy),
        **_rows_held(contents, election),
        "versions": ", ".join(f"{k} {v}" for k, v in manifest.versions.items()),
        "contents": [[name, *_describe_content(c)] for name, c in sorted(contents.items())],
    }


def _rows_held(contents: Contents, election: Election | None) -> dict[str, Any]:
    """The party's rows that the ballot holds as they are, and the sentence about them."""
    held = rows_held(contents, election)
    more = "" if held.exact else " (give --election for the exact number)"
    return {"rows_held": held.rows, "beware": f"it {held.describe()}{more}" if held.rows else ""}


def _read(path: Path, election: Election | None) -> bytes:
    limit = (Election.max_ballot_mb if election is None else election.max_ballot_mb) * 2**20
    try:
        if (size := path.stat().st_size) > limit:
            whose = "this election" if election else "an election by default; give --election"
            raise BallotError(f"{path} has {size:,} bytes and was not read: max_ballot_mb of {whose} allows {limit:,}")
        return path.read_bytes()
    except OSError as error:
        raise BallotError(f"cannot read {path}: {error.strerror}") from None


def _verdict(
    opened: OpenBallot, data: bytes, election: Election | None, key: X25519PrivateKey | None, own_copy: bool
) -> dict[str, Any]:
    """Whether the signature is valid, and whether the election would accept the ballot."""
    signature = "none" if opened.signature is None else "present, not checked (give --election)"
    if election is None:
        return {"signature": signature, "verdict": "", "valid": True}
    try:
        if is_encrypted(data) or not own_copy:
            decrypt_for(election, data, key)
        check_ballot(opened, election)
    except Spoiled as reason:
        return {"signature": signature, "verdict": f"it would be spoiled: {reason}", "valid": False}
    if election.roster:
        signature = f"valid, of {opened.manifest.party}"
    elif opened.signature is not None:
        signature = "present, not checked: the election's roster is empty, so that anyone may vote"
    verdict = "it is a ballot of this election; the tally checks its contents"
    return {"signature": signature, "verdict": verdict, "valid": True}


def _describe_header(path: Path, data: bytes) -> dict[str, Any]:
    """What can be read without a key."""
    facts: dict[str, Any] = {"file": str(path), "bytes": len(data), "encrypted_to": None}
    if is_encrypted(data):
        header = read_header(data)
        facts["encrypted_to"] = f"{header.server_key}, fingerprint {fingerprint(header.server_key)}"
        facts["election"] = header.election
    return facts


def _verdict_without_key(digest: str, election: Election | None) -> dict[str, Any]:
    if election is not None and election.digest != digest:
        return {"verdict": "it would be spoiled: it is a ballot of another election", "valid": False}
    return {"verdict": "its party and contents can only be seen with the server's key (--key)", "valid": True}


def _describe_content(content: Array | Blob) -> tuple[str, int]:
    if isinstance(content, Blob) and content.format == SHARE_FORMAT:
        return "a share for one server, encrypted and random on its own", len(content.data)
    if isinstance(content, Blob):
        known = content.format in plugins.names("formats")
        return f"a model, {content.format}{'' if known else ' (unknown format)'}", len(content.data)
    return f"numbers, {content.dtype} {content.shape}", content.nbytes
