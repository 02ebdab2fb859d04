"""Encryption of ballots to the server's key, so that the host of a box cannot read them.

An encrypted ballot has three parts: a clear header; a fresh content key, encrypted to the server (HPKE, RFC 9180, base
mode: X25519, HKDF-SHA256, ChaCha20-Poly1305); and the sealed ballot in chunks of ChaCha20-Poly1305 under that key.
The nonce of a chunk is its number and whether it is the last (STREAM), so no chunk can be dropped, moved or truncated.
The header is bound to the content key as HPKE's `info`. The party signs the ballot inside instead of using HPKE's
authenticated mode, in which the owner of the server's secret key could forge any party's ballot (RFC 9180, 9.1.1).
"""

from __future__ import annotations

import base64
import io
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ..election.election import Election
from ..errors import ElectionError, KeyFileError, Spoiled
from .keys import ENCRYPTION_PREFIX, fingerprint, public_text, read_server_key, server_public_key

MAGIC = b"OneBallot envelope 1\n"
"""Increase the number when an older version would misread a file; that version then rejects it."""
HEAD = struct.Struct(">21s32s32sQ")  # magic, digest of the election, the server's public key, length of the contents
WRAPPED = 32 + 32 + 16  # HPKE's ephemeral public key, the content key, the tag
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
CHUNK = 1 << 20
TAG = 16


@dataclass(frozen=True)
class Header:
    """What can be read of an encrypted ballot without the server's key."""

    election: str
    server_key: str
    length: int


def is_encrypted(data: bytes) -> bool:
    return data[: len(MAGIC)] == MAGIC


def encrypt(clear: bytes, server_key: str, election: str) -> bytes:
    """Encrypt a sealed ballot of the election with this digest to the server."""
    public = server_public_key(server_key)
    head = HEAD.pack(MAGIC, bytes.fromhex(election), public.public_bytes_raw(), len(clear))
    content_key = os.urandom(32)
    cipher = ChaCha20Poly1305(content_key)
    out = io.BytesIO()
    out.write(head)
    out.write(SUITE.encrypt(content_key, public, info=head))
    view = memoryview(clear)
    for start, stop, nonce in _chunks(len(clear)):
        out.write(cipher.encrypt(nonce, view[start:stop], None))
    return out.getvalue()


def read_header(data: bytes) -> Header:
    """The header of an encrypted ballot, which is not authenticated. Raises Spoiled if the ballot is incomplete."""
    if len(data) < HEAD.size or not is_encrypted(data):
        raise Spoiled("it is not an encrypted ballot, or only the beginning of one")
    _, election, server, length = HEAD.unpack_from(data)
    expected = HEAD.size + WRAPPED + length + TAG * -(-length // CHUNK)
    if len(data) != expected or not length:
        raise Spoiled(f"it is incomplete: it has {len(data):,} bytes, expected {expected:,}; deliver it again")
    return Header(election.hex(), ENCRYPTION_PREFIX + base64.b64encode(server).decode(), length)


def decrypt(data: bytes, key: X25519PrivateKey) -> bytes:
    """The sealed ballot inside. Raises Spoiled if it is encrypted to another key or was altered."""
    header = read_header(data)
    if header.server_key != public_text(key):
        raise Spoiled(
            f"it is encrypted to another key, fingerprint {fingerprint(header.server_key)}; "
            f"this key is {fingerprint(public_text(key))}"
        )
    view, body, out = memoryview(data), HEAD.size + WRAPPED, io.BytesIO()
    try:
        content_key = SUITE.decrypt(view[HEAD.size : body], key, info=view[: HEAD.size])
        cipher = ChaCha20Poly1305(content_key)
        for number, (start, stop, nonce) in enumerate(_chunks(header.length)):
            at = body + number * TAG
            out.write(cipher.decrypt(nonce, view[at + start : at + stop + TAG], None))
    except (InvalidTag, ValueError):
        raise Spoiled("it was altered after encryption, or encrypted incorrectly; deliver it again") from None
    return out.getvalue()


def _chunks(length: int) -> Iterator[tuple[int, int, bytes]]:
    """Start, end and nonce of each chunk."""
    for number, start in enumerate(range(0, length, CHUNK)):
        stop = min(start + CHUNK, length)
        yield start, stop, number.to_bytes(11, "big") + bytes([stop == length])


def require_server_key(election: Election) -> None:
    """Raise ElectionError, before any training, if an L1 election does not say whether its raw votes are encrypted."""
    if election.level == "L1" and election.server_key is None and election.tallies is None:
        raise ElectionError(
            "at L1 a ballot holds raw votes, and this election has no server_key to encrypt them to. Run `oneballot "
            "keys new server --for-server` at the server, put the printed line above the first [section] of the "
            'election, and distribute it again. Or set server_key = "none" if the host of the box may read every vote.'
        )


def find_server_key(election: Election, given: Path | None, beside: Path) -> X25519PrivateKey | None:
    """The given key, or server.key in this folder or beside the election; None if ballots are not encrypted."""
    places = [given] if given is not None else [Path("server.key"), beside / "server.key"] * election.encrypted
    found = next((path for path in places if path.is_file()), given)
    return None if found is None else read_server_key(found)


def find_share_key(given: Path | None, beside: Path) -> X25519PrivateKey | None:
    """One of two servers' secret key: the given file, or server.key here or beside the election."""
    places = [given] if given is not None else [Path("server.key"), beside / "server.key"]
    found = next((path for path in places if path.is_file()), given)
    return None if found is None else read_server_key(found)


def check_server_key(election: Election, key: X25519PrivateKey | None) -> None:
    """Raise KeyFileError, before any ballot is read, unless this key decrypts the election's ballots."""
    if not election.encrypted:
        if key is not None:
            raise KeyFileError("this election has no server_key, so its ballots are not encrypted; remove the key")
        return
    expected = f"the ballots are encrypted to the key with fingerprint {fingerprint(str(election.server_key))}"
    if key is None:
        raise KeyFileError(f"{expected}: give the server's secret key (--key server.key; in Python key=)")
    if public_text(key) != election.server_key:
        raise KeyFileError(f"{expected}; the given key has fingerprint {fingerprint(public_text(key))}")
