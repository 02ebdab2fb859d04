"""Seal a party's contents into a ballot, and unseal a ballot of an election.

A sealed ballot is a zip of the manifest, a signature of the manifest, and the contents in safe formats. It is read as
untrusted input: first sizes, then names, hashes, the signature, and only then contents.
If the election has a server key, the ballot is signed first and then encrypted to that key. The signature covers the
election's digest, and the digest covers the server key, so another server cannot use the ballot.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from importlib.metadata import version

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .. import plugins
from ..election.election import Election
from ..errors import BallotError, KeyFileError, PrivacyError, Spoiled, printable
from ..privacy.ledger import MAX_CASTS, Ledger
from ..types import Array, Ballot, Blob, Contents
from .archive import MAX_FILES, as_files, zip_up
from .encryption import decrypt, encrypt, is_encrypted, read_header
from .manifest import FORMAT, MANIFEST, SIGNATURE, Manifest, OpenBallot, open_ballot
from .receipts import make_code
from .signatures import check_signature


def seal(
    contents: Contents,
    election: Election,
    party: str,
    *,
    key: Ed25519PrivateKey | None = None,
    reason: str | None = None,
    casts: int = 1,
    noised: tuple[tuple[Array, int], ...] = (),
) -> Ballot:
    """The ballot of a party; an abstention if a reason is given.

    At L2 its ledger includes all `casts` of the party, because each one drew noise on the same rows.
    """
    files = as_files(contents)
    manifest = Manifest(
        format=FORMAT,
        election=election.digest,
        party=party,
        method=election.method.name,
        privacy=_ledger(election, casts),
        abstained=None if reason is None else printable(reason, 500),
        versions=_versions(contents),
        files={name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        code=None if key is None else make_code(election.digest, party, key),
    )
    signed = manifest.model_dump_json(exclude={"code"} if key is None else None).encode()
    parts = {MANIFEST: signed} | ({SIGNATURE: key.sign(signed)} if key else {}) | files
    clear = zip_up(parts)
    sealed = encrypt_for(election, clear)
    check_size(election, party, len(sealed), len(parts))
    digest = hashlib.sha256(signed).hexdigest()
    ledger, code = manifest.privacy, manifest.code
    return Ballot(party, contents, digest, manifest.abstained, sealed, ledger, clear, noised, code=code)


def check_size(election: Election, party: str, size: int, files: int = 1) -> None:
    """Raise BallotError for a ballot, sealed or planned, that the tally would reject as too large."""
    limit = election.max_ballot_mb * 2**20
    if size > limit:
        raise BallotError(
            f"the ballot of {party} has {size:,} bytes, but the election allows {limit:,} (max_ballot_mb). Send votes, "
            "or smaller or fewer models, or agree on a larger max_ballot_mb."
        )
    if files > MAX_FILES:
        raise BallotError(
            f"the ballot of {party} has {files} files, but at most {MAX_FILES} files are allowed. Send votes, or "
            "fewer models."
        )


def unseal(data: bytes, election: Election, key: X25519PrivateKey | None = None) -> Ballot:
    """The ballot in these bytes. Raises Spoiled, with the reason, unless it is a valid ballot of this election.

    `key` is the server's secret key, needed if ballots are encrypted.
    """
    opened = open_ballot(decrypt_for(election, data, key))
    check_ballot(opened, election)
    return as_ballot(opened, data)


def as_ballot(opened: OpenBallot, sealed: bytes, clear: bytes | None = None) -> Ballot:
    manifest = opened.manifest
    contents, abstained, ledger = opened.contents(), manifest.abstained, manifest.privacy
    return Ballot(manifest.party, contents, opened.digest, abstained, sealed, ledger, clear, code=manifest.code)


def check_ballot(opened: OpenBallot, election: Election) -> None:
    """Raise Spoiled unless it belongs to this election, its party may vote, and its ledger is the agreed one."""
    manifest = opened.manifest
    _check_election(manifest.election, election)
    check_signature(election, manifest.party, opened.signed, opened.signature)
    if not manifest.privacy.agrees_with(election.ballot_ledger):
        raise Spoiled(
            f"its ledger is not the election's: {manifest.privacy.describe()[0]}; "
            f"the election: {election.ballot_ledger.describe()[0]}"
        )


def encrypt_for(election: Election, clear: bytes) -> bytes:
    """The bytes to deliver: encrypted if the election has a server key."""
    return encrypt(clear, str(election.server_key), election.digest) if election.encrypted else clear


def decrypt_for(election: Election, data: bytes, key: X25519PrivateKey | None) -> bytes:
    """The sealed ballot in the delivered bytes. Raises Spoiled if it should be encrypted but is not, or vice versa."""
    if not is_encrypted(data):
        if election.encrypted:
            raise Spoiled(
                "it is not encrypted, but the election requires it; deliver PARTY.ballot, which `oneballot cast` "
                "wrote, not the party's own copy PARTY.ballot.open"
            )
        return data
    _check_election(read_header(data).election, election)
    if not election.encrypted:
        raise Spoiled("it is encrypted, but the election has no server_key")
    if key is None:
        raise KeyFileError("this ballot is encrypted: the server's secret key is needed to open it")
    return decrypt(data, key)


def sign_again(clear: bytes, key: Ed25519PrivateKey) -> bytes:
    """The same ballot, with the same digest, signed with another key. Nothing is trained and no noise is drawn."""
    opened = open_ballot(clear)
    return zip_up({MANIFEST: opened.signed, SIGNATURE: key.sign(opened.signed), **opened.files})


def _check_election(digest: str, election: Election) -> None:
    if digest != election.digest:
        raise Spoiled(f"it is a ballot of another election ({digest[:12]}…, not {election.digest[:12]}…)")


def _ledger(election: Election, casts: int) -> Ledger:
    if not 1 <= casts <= MAX_CASTS:
        raise PrivacyError(f"this is cast number {casts}; a tally accepts ballots of at most {MAX_CASTS} casts")
    return election.ballot_ledger.times(casts) if election.level == "L2" else election.ballot_ledger


@cache
def _own_version() -> str:
    """Cached: it takes a millisecond, and there may be thousands of ballots."""
    return version("oneballot")


def _versions(contents: Contents) -> dict[str, str]:
    """The versions of Python, OneBallot, and the libraries that its formats use."""
    formats = {c.format for c in contents.values() if isinstance(c, Blob)}
    known = [name for name in formats if name in plugins.names("formats")]
    used = sorted({"numpy"}.union(*(plugins.find("formats", name).libraries for name in known)))
    found = {name: str(getattr(sys.modules.get(name), "__version__", "unknown")) for name in used}
    return {"python": platform.python_version(), "oneballot": _own_version(), **found}
