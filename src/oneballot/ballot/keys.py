"""Keys: a party signs its ballots with Ed25519, and ballots are encrypted to the server's X25519 key.

Secret keys are PEM files that only their owner may read. Public keys are one line of text, as an election lists them.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)  # fmt: skip

from ..errors import ElectionError, KeyFileError

SecretKey = Ed25519PrivateKey | X25519PrivateKey

SIGNATURE_PREFIX, ENCRYPTION_PREFIX = "ed25519:", "x25519:"
"""Prefixes of public keys: a party's, which verifies its signatures, and the server's, which encrypts ballots."""
PRIME = 2**255 - 19
_EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
SMALL_ORDER = {0, 1, PRIME - 1, _EIGHTH, PRIME - _EIGHTH}
"""The y-coordinates of the eight Ed25519 points of small order. With such a key one signature fits every message."""


def new_key(path: Path) -> str:
    """Write a new secret key for a party. Returns the public key as the roster lists it."""
    return _write(path, Ed25519PrivateKey.generate())


def new_server_key(path: Path) -> str:
    """Write a new secret key for the server. Returns the public key as an election's `server_key`."""
    return _write(path, X25519PrivateKey.generate())


def _write(path: Path, key: SecretKey) -> str:
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except FileExistsError:
        raise KeyFileError(f"{path} exists, and a key is never overwritten. Move it, or choose another name.") from None
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
        file.flush()
        os.fsync(file.fileno())
    return public_text(key)


def read_key(path: Path) -> Ed25519PrivateKey:
    """A party's secret key."""
    key = read_any_key(path)
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(
            f"{path} is a server's key, but a party signs with its own. `oneballot keys new PARTY` makes one"
        )
    return key


def read_server_key(path: Path) -> X25519PrivateKey:
    """The server's secret key."""
    key = read_any_key(path)
    if not isinstance(key, X25519PrivateKey):
        raise KeyFileError(
            f"{path} is a party's key, but only the server's key decrypts ballots. Give the file that "
            "`oneballot keys new server --for-server` wrote for this election"
        )
    return key


def read_any_key(path: Path) -> SecretKey:
    """The secret key of a party or of the server. Like ssh, refuse a file that other users can read."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            pem = file.read(10_000)
        key = load_pem_private_key(pem, password=None)
    except OSError as error:
        raise KeyFileError(f"cannot read key {path}: {error.strerror}. Make one: `oneballot keys new NAME`.") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(f"{path} is not a private key that `oneballot keys new` wrote") from None
    if not isinstance(key, Ed25519PrivateKey | X25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 or X25519 key; make one with `oneballot keys new`")
    if os.name == "posix" and mode & 0o077:
        raise KeyFileError(
            f"{path} is a secret key that other users of this machine can read (mode {mode:04o}). Run chmod 600 "
            f"{path}; if someone may have read it, make a new key and have this one revoked."
        )
    return key


def public_text(key: SecretKey) -> str:
    """The public key of a secret key, as elections list it."""
    prefix = SIGNATURE_PREFIX if isinstance(key, Ed25519PrivateKey) else ENCRYPTION_PREFIX
    return prefix + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def signing_text(raw: bytes) -> str:
    """The text of a public key that verifies signatures, given its 32 bytes."""
    return SIGNATURE_PREFIX + base64.b64encode(raw).decode()


def fingerprint(text: str) -> str:
    """128 bits of a public key's hash, for people to compare."""
    digits = hashlib.sha256(text.encode()).hexdigest()[:32]
    return " ".join(digits[i : i + 4] for i in range(0, 32, 4))


def public_key(text: str, party: str) -> Ed25519PublicKey:
    try:
        raw = _raw(text, SIGNATURE_PREFIX)
        if (int.from_bytes(raw, "little") & (2**255 - 1)) % PRIME in SMALL_ORDER:
            raise ValueError
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError:
        raise KeyFileError(
            f"roster: the key of {party} is {text!r}; expected the line that `oneballot keys new` prints: ed25519:…"
        ) from None


def server_public_key(text: str) -> X25519PublicKey:
    try:
        key = X25519PublicKey.from_public_bytes(_raw(text, ENCRYPTION_PREFIX))
        X25519PrivateKey.generate().exchange(key)  # rejects points of low order
        return key
    except ValueError:
        raise KeyFileError(
            f"server_key is {text!r}; expected what `oneballot keys new server --for-server` prints: x25519:…"
        ) from None


def _raw(text: str, prefix: str) -> bytes:
    """The bytes of a key. Only the canonical text is accepted, so that equal keys are equal texts."""
    raw = base64.b64decode(text.removeprefix(prefix), validate=True)
    if len(raw) != 32 or text != prefix + base64.b64encode(raw).decode():
        raise ValueError
    return raw


def check_keys(roster: Mapping[str, Sequence[str]], revoked: Mapping[str, str], server_key: str | None) -> None:
    """Raise ElectionError or KeyFileError for a key that is invalid or listed twice."""
    for party, keys in roster.items():
        if not keys:
            raise ElectionError(f"roster: {party} has no key; list one, or remove the party")
        for key in keys:
            public_key(key, party)
    every = [key for keys in roster.values() for key in keys]
    if len(set(every)) < len(every):
        raise ElectionError("roster: a key is listed twice; every party needs its own")
    for key in revoked:
        public_key(key, "[revoked]")
    if server_key is not None and server_key != "none":
        server_public_key(server_key)
