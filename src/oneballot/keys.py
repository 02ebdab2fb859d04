"""Ed25519 keys: a party signs its ballots with a private key, and the roster lists the public one."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import KeyFileError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PREFIX = "ed25519:"


def new_key(path: Path) -> str:
    """Write a new private key, readable by its owner alone, and return the public key as the roster lists it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise KeyFileError(
            f"{path} exists: a key is never overwritten. Move it away, or choose another name."
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(pem)
    return public_text(key)


def read_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise KeyFileError(f"cannot read key {path}: {error.strerror}. `oneballot keys new NAME` makes one.") from None
    except (ValueError, TypeError):
        raise KeyFileError(f"{path} is not a private key that `oneballot keys new` wrote") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{path} is not an Ed25519 key; `oneballot keys new` makes one")
    return key


def public_text(key: Ed25519PrivateKey) -> str:
    return PREFIX + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def public_key(text: str, party: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        if not text.startswith(PREFIX):
            raise ValueError
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text.removeprefix(PREFIX), validate=True))
    except ValueError:
        raise KeyFileError(
            f"roster: the key of {party} is {text!r}, expected what `oneballot keys new` prints: {PREFIX}…"
        ) from None
