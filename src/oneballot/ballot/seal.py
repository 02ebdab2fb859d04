"""Ballot <-> bytes: a zip of a manifest, a signature over the manifest, and the contents in safe formats.

The manifest holds the sha256 of every other file, so signing its bytes signs the ballot, and its digest names it.
A ballot is read as a stranger's: sizes first, then names, hashes, the signature, and only then contents.
Where the election has a server's key, the zip travels in an envelope that only the server opens: signed, then
encrypted. The signature covers the election's digest and that covers the server's key, so what a party has signed for
one server is nothing that another would take.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, StringConstraints, ValidationError

from .. import plugins
from ..election.checks import PARTY_NAME
from ..election.election import Election
from ..errors import BallotError, KeyFileError, PrivacyError, Spoiled, printable
from ..privacy.ledger import MAX_CASTS, Ledger
from ..types import Ballot, Blob, Contents
from .archive import MOST_FILES, as_contents, as_files, unzip, zip_up
from .encryption import is_envelope, lock, look, unlock
from .signatures import check_signature, check_signer

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FORMAT: Literal[1] = 1
"""Raise it when a ballot of an older version would be read wrongly; `Manifest` then refuses the old number."""

MANIFEST, SIGNATURE = "manifest.json", "signature"
MOST_MANIFEST = 1 << 20

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Words = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]*$")]
"""A stranger's text that is shown to people: no control characters."""


class Manifest(BaseModel):
    """What a ballot says of itself."""

    format: Literal[1]
    election: Digest
    party: Annotated[str, StringConstraints(pattern=f"^{PARTY_NAME.pattern}$")]
    method: Words
    privacy: Ledger
    abstained: Words | None = None
    files: dict[str, Digest]
    versions: dict[Words, Words]


@dataclass(frozen=True)
class OpenBallot:
    """A ballot taken apart: its manifest is well formed and its files have the hashes that it lists."""

    manifest: Manifest
    digest: str
    files: Mapping[str, memoryview]
    signed: bytes
    signature: bytes | None

    def contents(self) -> Contents:
        return as_contents(self.files)


def seal(
    contents: Contents,
    election: Election,
    party: str,
    *,
    key: Ed25519PrivateKey | None = None,
    reason: str | None = None,
    casts: int = 1,
) -> Ballot:
    """The ballot of a party, with the bytes to deliver in `sealed`. A reason makes it an abstention.

    At L2 the ledger tells how often the party has cast: each cast has drawn noise on the same rows.
    """
    check_signer(election, party, key)
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
    )
    signed = manifest.model_dump_json().encode()
    parts = {MANIFEST: signed} | ({SIGNATURE: key.sign(signed)} if key else {}) | files
    clear = zip_up(parts)
    sealed = encrypt(clear, election)
    check_size(election, party, len(sealed), len(parts))
    return Ballot(party, contents, hashlib.sha256(signed).hexdigest(), manifest.abstained, sealed, casts, clear)


def check_size(election: Election, party: str, size: int, files: int = 1) -> None:
    """Of a ballot, as it is or as it is planned: one that is too large would be trained for in vain."""
    limit = election.max_ballot_mb * 2**20
    if size > limit:
        raise BallotError(
            f"the ballot of {party} has {size:,} bytes, of {limit:,} (max_ballot_mb), and would be refused. Send "
            "votes, or smaller or fewer models, or agree on a larger max_ballot_mb."
        )
    if files > MOST_FILES:
        raise BallotError(
            f"the ballot of {party} has {files} files, and more than {MOST_FILES} files would be refused. Send votes, "
            "or fewer models."
        )


def encrypt(clear: bytes, election: Election) -> bytes:
    """What is delivered of a sealed ballot: an envelope where the election has a server's key."""
    return lock(clear, str(election.server_key), election.digest) if election.encrypted else clear


def unseal(data: bytes, election: Election, key: X25519PrivateKey | None = None) -> Ballot:
    """The ballot in these bytes, if it is one of this election. Raises Spoiled with the reason if not.

    The server's key opens it where the election's ballots are encrypted.
    """
    opened = open_ballot(decrypt(data, election, key))
    check_ballot(opened, election)
    manifest = opened.manifest
    return Ballot(manifest.party, opened.contents(), opened.digest, manifest.abstained, data, manifest.privacy.drawn)


def decrypt(data: bytes, election: Election, key: X25519PrivateKey | None) -> bytes:
    """The sealed ballot in what was delivered. Raises Spoiled unless it is encrypted as the election asks."""
    if not is_envelope(data):
        if election.encrypted:
            raise Spoiled(
                "it is not encrypted, and the election asks for it; deliver what `oneballot cast` has written as "
                "PARTY.ballot, not PARTY.ballot.open, the party's own copy"
            )
        return data
    _check_election(look(data).election, election)
    if not election.encrypted:
        raise Spoiled("it is encrypted, and the election has no server_key")
    if key is None:
        raise KeyFileError("this ballot is encrypted to the server's key, and can only be opened with it")
    return unlock(data, key)


def check_ballot(opened: OpenBallot, election: Election) -> None:
    """Raise Spoiled unless it is of this election, of a party that may vote, and costs what was agreed."""
    manifest = opened.manifest
    _check_election(manifest.election, election)
    check_signature(election, manifest.party, opened.signed, opened.signature)
    if not manifest.privacy.agrees_with(election.ballot_ledger):
        raise Spoiled(
            f"its ledger is not what the election asks for: {manifest.privacy.describe()[0]}; "
            f"the election: {election.ballot_ledger.describe()[0]}"
        )


def sign_again(clear: bytes, key: Ed25519PrivateKey) -> bytes:
    """The same sealed ballot, by its digest, with the signature of another key: no training, no noise."""
    opened = open_ballot(clear)
    return zip_up({MANIFEST: opened.signed, SIGNATURE: key.sign(opened.signed), **opened.files})


def _check_election(digest: str, election: Election) -> None:
    if digest != election.digest:
        raise Spoiled(f"it is a ballot of another election ({digest[:12]}…, not {election.digest[:12]}…)")


def _ledger(election: Election, casts: int) -> Ledger:
    if not 1 <= casts <= MAX_CASTS:
        raise PrivacyError(f"this is cast number {casts}, and a tally takes ballots of at most {MAX_CASTS} casts")
    return election.ballot_ledger.times(casts) if election.level == "L2" else election.ballot_ledger


def open_ballot(data: bytes) -> OpenBallot:
    """Open a ballot whatever election it is of, trusting nothing in it."""
    files = unzip(data)
    if MANIFEST not in files or len(files[MANIFEST]) > MOST_MANIFEST:
        raise Spoiled("it has no manifest, or one that is too long")
    signed = bytes(files.pop(MANIFEST))
    signature = bytes(files.pop(SIGNATURE)) if SIGNATURE in files else None
    try:
        manifest = Manifest.model_validate_json(signed)
    except ValidationError as error:
        first = error.errors()[0]
        raise Spoiled(f"its manifest is malformed: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if files.keys() != manifest.files.keys():
        odd = sorted(files.keys() ^ manifest.files.keys())
        raise Spoiled(f"its files are not those of its manifest: {', '.join(odd[:5])}")
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != manifest.files[name]:
            raise Spoiled(f"its file {name} was altered: the hash in the manifest is another")
    return OpenBallot(manifest, hashlib.sha256(signed).hexdigest(), files, signed, signature)


@cache
def _our_version() -> str:
    """Looked up once: it is a millisecond, and there may be thousands of ballots."""
    return version("oneballot")


def _versions(contents: Contents) -> dict[str, str]:
    """Of what wrote the ballot; of the libraries those that its formats name."""
    formats = {c.format for c in contents.values() if isinstance(c, Blob)}
    kinds = [kind for kind in formats if kind in plugins.names("formats")]  # votes need not look for any
    used = sorted({"numpy"}.union(*(getattr(plugins.find("formats", kind), "libraries", ()) for kind in kinds)))
    found = {name: str(getattr(sys.modules.get(name), "__version__", "unknown")) for name in used}
    return {"python": platform.python_version(), "oneballot": _our_version(), **found}
