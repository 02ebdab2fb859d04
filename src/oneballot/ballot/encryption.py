"""Encryption of ballots to the server's key, so that whoever hosts the box, or carries a ballot, reads nothing.

An envelope is a head in the clear, a fresh content key that is encrypted to the server (HPKE, RFC 9180, base mode:
X25519, HKDF-SHA256, ChaCha20-Poly1305), and the sealed ballot in chunks of ChaCha20-Poly1305 under that key (the STREAM
construction: a chunk's nonce is its number and whether it is the last, so none can be left out, moved or cut off).
The head is bound to the content key as HPKE's `info`. Who sent the ballot is inside, signed: HPKE's authenticated mode
would not do, since whoever has the server's secret key could send in any party's name (RFC 9180, section 9.1.1).
"""

from __future__ import annotations

import base64
import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..election.election import Election
from ..errors import ElectionError, KeyFileError, Spoiled
from .keys import READING, fingerprint, public_text, read_server_key, server_public_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

MAGIC = b"OneBallot envelope 1\n"
"""Raise the number when an older version would read an envelope wrongly; it then says that it knows no such file."""
HEAD = struct.Struct(">21s32s32sQ")  # the magic, the election's digest, the server's public key, the bytes inside
WRAPPED = 32 + 32 + 16  # HPKE's ephemeral public key, the content key, the tag
CHUNK = 1 << 20
TAG = 16


@dataclass(frozen=True)
class Envelope:
    """What can be seen of an encrypted ballot without the server's key."""

    election: str
    server_key: str
    length: int


def is_envelope(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC


def lock(clear: bytes, server_key: str, election: str) -> bytes:
    """Encrypt a sealed ballot of an election, named by its digest, to the server."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    public = server_public_key(server_key)
    head = HEAD.pack(MAGIC, bytes.fromhex(election), public.public_bytes_raw(), len(clear))
    content_key = os.urandom(32)
    cipher = ChaCha20Poly1305(content_key)
    out = io.BytesIO()
    out.write(head)
    out.write(_suite().encrypt(content_key, public, info=head))
    view = memoryview(clear)
    for start, stop, nonce in _chunks(len(clear)):
        out.write(cipher.encrypt(nonce, view[start:stop], None))
    return out.getvalue()


def look(data: bytes) -> Envelope:
    """The head of an envelope that is whole as far as its size tells. Nothing in it is proved to be true."""
    if len(data) < HEAD.size or not is_envelope(data):
        raise Spoiled("it is not an encrypted ballot, or only the beginning of one")
    _, election, server, length = HEAD.unpack_from(data)
    expected = HEAD.size + WRAPPED + length + TAG * -(-length // CHUNK)
    if len(data) != expected or not length:
        raise Spoiled(f"it is not whole: it has {len(data):,} bytes and should have {expected:,}; deliver it again")
    return Envelope(election.hex(), READING + base64.b64encode(server).decode(), length)


def unlock(data: bytes, key: X25519PrivateKey) -> bytes:
    """The sealed ballot inside. Raises Spoiled if it is for another key, or not as it was when it was encrypted."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    seen = look(data)
    if seen.server_key != public_text(key):
        raise Spoiled(
            f"it is encrypted to another key, fingerprint {fingerprint(seen.server_key)}; "
            f"this one is {fingerprint(public_text(key))}"
        )
    view, body, out = memoryview(data), HEAD.size + WRAPPED, io.BytesIO()
    try:
        content_key = _suite().decrypt(view[HEAD.size : body], key, info=view[: HEAD.size])
        cipher = ChaCha20Poly1305(content_key)
        for number, (start, stop, nonce) in enumerate(_chunks(seen.length)):
            at = body + number * TAG
            out.write(cipher.decrypt(nonce, view[at + start : at + stop + TAG], None))
    except (InvalidTag, ValueError):
        raise Spoiled("it was altered after it was encrypted, or encrypted wrongly; deliver it again") from None
    return out.getvalue()


def _chunks(length: int) -> Iterator[tuple[int, int, bytes]]:
    """Where each chunk begins and ends, and its nonce: its number, and whether it is the last."""
    for number, start in enumerate(range(0, length, CHUNK)):
        stop = min(start + CHUNK, length)
        yield start, stop, number.to_bytes(11, "big") + bytes([stop == length])


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def check_readers(election: Election) -> None:
    """Before a party trains: at L1 a ballot holds raw votes, and the election must say who may read them."""
    if election.level == "L1" and election.server_key is None:
        raise ElectionError(
            "at L1 a ballot holds raw votes, and this election does not say to whom they are encrypted. At the server "
            'run `oneballot keys new server --for-server`, put the line that it prints, server_key = "x25519:…", above '
            'the first [section] of the election, and hand it out again. Or say server_key = "none", if whoever hosts '
            "the box may read every vote."
        )


def check_opener(election: Election, key: X25519PrivateKey | None) -> None:
    """Before any ballot is read: are they encrypted, and is this the key that opens them?"""
    if not election.encrypted:
        if key is not None:
            raise KeyFileError("ballots of this election are not encrypted: it has no server_key; tally without a key")
        return
    told = f"ballots of this election are encrypted to the key with fingerprint {fingerprint(str(election.server_key))}"
    if key is None:
        raise KeyFileError(f"{told}: give the server's secret key (--key server.key; in Python key=)")
    if public_text(key) != election.server_key:
        raise KeyFileError(f"{told}; the key that was given is another, {fingerprint(public_text(key))}")


def find_server_key(election: Election, given: Path | None, beside: Path) -> X25519PrivateKey | None:
    """The key that was given, or server.key here or beside the election; none if ballots are not encrypted."""
    places = [given] if given is not None else [Path("server.key"), beside / "server.key"] * election.encrypted
    found = next((path for path in places if path.is_file()), given)
    key = None if found is None else read_server_key(found)
    check_opener(election, key)
    return key
