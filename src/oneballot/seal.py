"""Ballot <-> bytes: a zip of a manifest, a signature over the manifest, and the contents in safe formats.

The manifest holds the sha256 of every other file, so signing its bytes signs the ballot, and its digest names it.
Entries are stored, never compressed: what a ballot unpacks to is no larger than the ballot.
A ballot is read as a stranger's: sizes first, then names, hashes, the signature, and only then contents.
"""

from __future__ import annotations

import hashlib
import io
import platform
import re
import struct
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import BaseModel, StringConstraints, ValidationError

from . import catalog
from .checks import PARTY_NAME
from .core import Array, Ballot, Blob, Contents
from .election import Election
from .errors import BallotError, ElectionError, KeyFileError, PrivacyError, Spoiled, printable
from .keys import public_key, public_text
from .privacy.ledger import MOST_CASTS, Ledger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Literal[1] = 1
"""Raise it when a ballot of an older version would be read wrongly; `Manifest` then refuses the old number."""

MANIFEST, SIGNATURE, ARRAYS = "manifest.json", "signature", "arrays.safetensors"
FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,99}")
ARRAY_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
MOST_FILES = 4_000
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
class Opened:
    """A ballot taken apart: its manifest is well formed and its files have the hashes that it lists."""

    manifest: Manifest
    digest: str
    files: Mapping[str, bytes]
    signed: bytes
    signature: bytes | None

    def contents(self) -> Contents:
        return _contents(self.files)


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
    files = _files(contents)
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
    sealed = zip_up(parts)
    limit = election.max_ballot_mb * 2**20
    if len(sealed) > limit or len(parts) > MOST_FILES:
        raise BallotError(
            f"the ballot of {party} has {len(sealed):,} bytes and {len(parts)} files, and would be refused: more than "
            f"{limit:,} bytes (max_ballot_mb) or {MOST_FILES} files. Send votes, or smaller or fewer models."
        )
    return Ballot(party, contents, hashlib.sha256(signed).hexdigest(), manifest.abstained, sealed, casts)


def unseal(data: bytes, election: Election) -> Ballot:
    """The ballot in these bytes, if it is one of this election. Raises Spoiled with the reason if not."""
    opened = take_apart(data)
    manifest = opened.manifest
    if manifest.election != election.digest:
        raise Spoiled(f"it is a ballot of another election ({manifest.election[:12]}…, not {election.digest[:12]}…)")
    check_signature(opened, election)
    if not manifest.privacy.agrees_with(election.ballot_ledger):
        raise Spoiled(
            f"its ledger is not what the election asks for: {manifest.privacy.words()[0]}; "
            f"the election: {election.ballot_ledger.words()[0]}"
        )
    return Ballot(manifest.party, opened.contents(), opened.digest, manifest.abstained, data, manifest.privacy.drawn)


def _ledger(election: Election, casts: int) -> Ledger:
    if not 1 <= casts <= MOST_CASTS:
        raise PrivacyError(f"this is cast number {casts}, and a tally takes ballots of at most {MOST_CASTS} casts")
    return election.ballot_ledger.times(casts) if election.level == "L2" else election.ballot_ledger


def check_signer(election: Election, party: str, key: Ed25519PrivateKey | None) -> None:
    """Before any training: would a ballot of this party, signed with this key, be taken?"""
    if not election.roster:
        return
    if party not in election.roster:
        listed = ", ".join(election.roster)
        raise ElectionError(f"{party} is not on the roster of this election, which lists {listed}; it would not count")
    if key is None:
        raise KeyFileError(f"the election asks {party} to sign its ballot; give its secret key (`{party}.key`)")
    if public_text(key) != election.roster[party]:
        raise KeyFileError(
            f"this key is not the one that the roster lists for {party}; cast with the key that is listed"
        )


def take_apart(data: bytes) -> Opened:
    """Open a ballot whatever election it is of, trusting nothing in it."""
    files = unzip(data)
    signed = files.pop(MANIFEST, None)
    signature = files.pop(SIGNATURE, None)
    if signed is None or len(signed) > MOST_MANIFEST:
        raise Spoiled("it has no manifest, or one that is too long")
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
    return Opened(manifest, hashlib.sha256(signed).hexdigest(), files, signed, signature)


def check_signature(opened: Opened, election: Election) -> None:
    from cryptography.exceptions import InvalidSignature

    if not election.roster:
        return
    party = opened.manifest.party
    if party not in election.roster:
        raise Spoiled(f"{party} is not on the roster of this election")
    if opened.signature is None:
        raise Spoiled(f"it says that it is of {party}, and is not signed; the roster asks for a signature")
    try:
        public_key(election.roster[party], party).verify(opened.signature, opened.signed)
    except InvalidSignature:
        raise Spoiled(f"it says that it is of {party}, but the signature is not theirs") from None


def zip_up(files: Mapping[str, bytes]) -> bytes:
    """The same bytes for the same files, always."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def unzip(data: bytes, most: int = MOST_FILES) -> dict[str, bytes]:
    """The files of a stranger's zip, of which nothing is believed."""
    try:
        _check_directory(data, most)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            names = [e.filename for e in entries]
            if len(names) > most or len(set(names)) < len(names):
                raise Spoiled(f"it holds {len(names)} files, or one name twice; at most {most} are allowed")
            if wrong := [n for n in names if not FILE_NAME.fullmatch(n)]:
                raise Spoiled(f"it holds a file with a name that is not allowed: {wrong[0][:80]!r}")
            if any(e.compress_type != zipfile.ZIP_STORED or e.file_size != e.compress_size for e in entries):
                raise Spoiled("it holds compressed files; a ballot's files are stored as they are")
            if sum(e.file_size for e in entries) > len(data):
                raise Spoiled("its files would unpack to more than the ballot's own size")
            return {name: archive.read(name) for name in names}
    except Spoiled:
        raise
    except Exception as error:  # zipfile raises whatever a stranger's numbers lead it to
        raise Spoiled(f"it is not a whole ballot: {error}") from None


def _check_directory(data: bytes, most: int) -> None:
    """Look at the end of the zip alone: a directory of millions of entries is refused before it is read."""
    at = data.rfind(b"PK\x05\x06", max(0, len(data) - 66_000))
    if at < 0 or len(data) - at < 22:
        raise Spoiled("it is not a whole ballot: the end of the zip is missing")
    entries, size = struct.unpack_from("<HI", data, at + 10)
    if entries > min(most, 0xFFFE) or size > most * 300:
        raise Spoiled(f"its directory is of {entries} files and {size} bytes; at most {most} files are allowed")


def pack(contents: Contents) -> bytes:
    """Arrays and blobs in one file without a manifest: how a server keeps its own count."""
    return zip_up(_files(contents))


def unpack(data: bytes) -> Contents:
    return _contents(unzip(data, most=0xFFFE))


def _files(contents: Contents) -> dict[str, bytes]:
    from safetensors.numpy import save

    files = {f"{name}.{c.format}": c.data for name, c in contents.items() if isinstance(c, Blob)}
    if wrong := [name for name in files if not FILE_NAME.fullmatch(name) or name == ARRAYS]:
        raise ValueError(f"a ballot cannot hold a model as {wrong[0]!r}: lower-case letters, digits, '.' and '-' alone")
    arrays = {name: np.ascontiguousarray(c) for name, c in contents.items() if not isinstance(c, Blob)}
    return ({ARRAYS: save(arrays)} if arrays else {}) | files


def _contents(files: Mapping[str, bytes]) -> Contents:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    contents: dict[str, Array | Blob] = {}
    for file, data in files.items():
        name, _, kind = file.rpartition(".")
        if file == ARRAYS:
            try:
                if int.from_bytes(data[:8], "little") > MOST_MANIFEST:
                    raise Spoiled("the header of its arrays is too long")
                contents |= load(data)
                if wrong := [n for n in contents if not ARRAY_NAME.fullmatch(n)]:
                    raise Spoiled(f"it holds an array with a name that is not allowed: {wrong[0][:80]!r}")
            except (SafetensorError, ValueError, KeyError, TypeError) as error:
                raise Spoiled(f"its arrays cannot be read: {error}") from None
        elif not name or name in contents:
            raise Spoiled(f"its file {file} has no name, or one that is taken")
        else:
            contents[name] = Blob(kind, data)
    return contents


@cache
def _our_version() -> str:
    """Looked up once: it is a millisecond, and there may be thousands of ballots."""
    return version("oneballot")


def _versions(contents: Contents) -> dict[str, str]:
    """Of what wrote the ballot; of the libraries those that its formats name."""
    kinds = {c.format for c in contents.values() if isinstance(c, Blob)} & set(catalog.names("formats"))
    used = sorted({"numpy"}.union(*(getattr(catalog.find("formats", kind), "libraries", ()) for kind in kinds)))
    found = {name: str(getattr(sys.modules.get(name), "__version__", "unknown")) for name in used}
    return {"python": platform.python_version(), "oneballot": _our_version(), **found}
