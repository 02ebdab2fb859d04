"""The manifest of a ballot, and opening a ballot without trusting anything in it.

The manifest lists the SHA-256 of every other file. So a signature of the manifest signs the whole ballot, and the
digest of the manifest identifies the ballot.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, StringConstraints, ValidationError

from ..election.names import check_party_name
from ..errors import ElectionError, Spoiled
from ..privacy.ledger import Ledger
from ..types import Contents
from .archive import as_contents, unzip

FORMAT: Literal[1] = 1
"""Increase it when an older ballot would be misread; `Manifest` then rejects the old number."""

MANIFEST, SIGNATURE = "manifest.json", "signature"
MAX_MANIFEST_BYTES = 1 << 20

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]*$")]
"""Untrusted text that will be printed: without control characters."""


ReceiptCode = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]
"""See `ballot.receipts`."""


def _check_party(name: str) -> str:
    try:
        if check_party_name(name) != name:
            raise ValueError("party name: its characters are not in Unicode's composed form")
    except ElectionError as error:
        raise ValueError(str(error)) from None
    return name


PartyName = Annotated[str, AfterValidator(_check_party)]


class Manifest(BaseModel):
    """What a ballot states about itself."""

    format: Literal[1]
    election: Digest
    party: PartyName
    method: Text
    privacy: Ledger
    abstained: Text | None = None
    files: dict[str, Digest]
    versions: dict[Text, Text]
    code: ReceiptCode | None = None


@dataclass(frozen=True)
class OpenBallot:
    """A ballot whose manifest is well formed and whose files have the listed hashes. Nothing else was checked."""

    manifest: Manifest
    digest: str
    files: Mapping[str, memoryview]
    signed: bytes
    signature: bytes | None

    def contents(self) -> Contents:
        return as_contents(self.files)


def open_ballot(data: bytes) -> OpenBallot:
    """Open a ballot of any election. Raises Spoiled if it is malformed or was altered."""
    files = unzip(data)
    if MANIFEST not in files or len(files[MANIFEST]) > MAX_MANIFEST_BYTES:
        raise Spoiled("its manifest is missing or too long")
    signed = bytes(files.pop(MANIFEST))
    signature = bytes(files.pop(SIGNATURE)) if SIGNATURE in files else None
    try:
        manifest = Manifest.model_validate_json(signed)
    except ValidationError as error:
        first = error.errors()[0]
        raise Spoiled(f"its manifest is malformed: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    if files.keys() != manifest.files.keys():
        differing = sorted(files.keys() ^ manifest.files.keys())
        raise Spoiled(f"its files are not those of its manifest: {', '.join(differing[:5])}")
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != manifest.files[name]:
            raise Spoiled(f"its file {name} was altered: its hash is not the one in the manifest")
    return OpenBallot(manifest, hashlib.sha256(signed).hexdigest(), files, signed, signature)
