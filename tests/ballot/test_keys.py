"""Secret keys are files that only their owner can read; public keys are one line of text."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oneballot.ballot.keys import (
    SMALL_ORDER,
    check_keys,
    fingerprint,
    new_key,
    new_server_key,
    public_text,
    read_any_key,
    read_key,
    read_server_key,
)
from oneballot.errors import ElectionError, KeyFileError


@pytest.mark.parametrize(("make", "prefix"), [(new_key, "ed25519:"), (new_server_key, "x25519:")])
def test_a_new_key_is_readable_only_by_its_owner_and_can_be_read_back(make, prefix: str, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        public = make(tmp_path / "in" / "a.key")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "in" / "a.key").stat().st_mode) == 0o600
    assert public.startswith(prefix)
    assert public_text(read_any_key(tmp_path / "in" / "a.key")) == public
    with pytest.raises(KeyFileError, match="never overwritten"):
        make(tmp_path / "in" / "a.key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o666, 0o620])
def test_a_key_that_others_can_read_is_rejected_until_its_mode_is_fixed(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    new_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*chmod 600 {path}"):
        read_key(path)
    path.chmod(0o400)
    read_key(path)


def test_a_key_of_the_wrong_type_is_reported(tmp_path: Path) -> None:
    new_key(tmp_path / "a.key")
    new_server_key(tmp_path / "server.key")
    with pytest.raises(KeyFileError, match=r"a\.key is a party's key"):
        read_server_key(tmp_path / "a.key")
    with pytest.raises(KeyFileError, match=r"server\.key is a server's key"):
        read_key(tmp_path / "server.key")
    unsupported = rsa.generate_private_key(65537, 2048)
    (tmp_path / "rsa.key").write_bytes(unsupported.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(KeyFileError, match="not an Ed25519 or X25519 key"):
        read_any_key(tmp_path / "rsa.key")


def test_a_fingerprint_is_the_beginning_of_a_hash_in_groups_of_four(tmp_path: Path) -> None:
    public = new_key(tmp_path / "a.key")
    assert fingerprint(public).replace(" ", "") == hashlib.sha256(public.encode()).hexdigest()[:32]
    assert [len(group) for group in fingerprint(public).split(" ")] == [4] * 8


def test_a_key_has_one_spelling_so_that_no_revoked_key_is_missed(tmp_path: Path) -> None:
    """32 bytes in base64 leave two unused bits, so there are four spellings; only the printed one is accepted."""
    text = new_key(tmp_path / "a.key")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = text[:-2] + letters[letters.index(text[-2]) ^ 1] + "="
    check_keys({"a": (text,)}, {}, None)
    for roster, revoked in (({"a": (other,)}, {}), ({"a": (text,)}, {other: "stolen"})):
        with pytest.raises(KeyFileError, match="expected the line that `oneballot keys new` prints"):
            check_keys(roster, revoked, None)


@pytest.mark.parametrize("y", sorted(SMALL_ORDER))
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_a_key_of_small_order_is_rejected(y: int, sign: int) -> None:
    raw = (y | sign).to_bytes(32, "little")
    with pytest.raises((KeyFileError, ElectionError)):
        check_keys({"a": ("ed25519:" + base64.b64encode(raw).decode(),)}, {}, None)


def test_the_listed_points_have_small_order(tmp_path: Path) -> None:
    """On the curve −x² + y² = 1 + d·x²·y², each point doubled three times is the neutral point."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime

    def double(x: int, y: int) -> tuple[int, int]:
        product = d * x * x * y * y % prime
        return (2 * x * y * pow(1 + product, -1, prime) % prime, (y * y + x * x) * pow(1 - product, -1, prime) % prime)

    for y in SMALL_ORDER:
        square = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
        x = pow(square, (prime + 3) // 8, prime)
        x = x if x * x % prime == square else x * pow(2, (prime - 1) // 4, prime) % prime
        assert x * x % prime == square
        assert double(*double(*double(x, y))) == (0, 1)
