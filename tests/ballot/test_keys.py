"""Secret keys are files for one pair of eyes; public keys are one line of text."""

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
def test_a_new_key_is_its_owners_alone_and_comes_back(make, prefix: str, tmp_path: Path) -> None:
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
def test_a_key_that_others_may_read_is_refused_until_it_is_closed(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    new_key(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*chmod 600 {path}"):
        read_key(path)
    path.chmod(0o400)
    read_key(path)


def test_a_key_of_the_other_kind_is_named(tmp_path: Path) -> None:
    new_key(tmp_path / "a.key")
    new_server_key(tmp_path / "server.key")
    with pytest.raises(KeyFileError, match=r"a\.key is a party's key"):
        read_server_key(tmp_path / "a.key")
    with pytest.raises(KeyFileError, match=r"server\.key is a server's key"):
        read_key(tmp_path / "server.key")
    strange = rsa.generate_private_key(65537, 2048)
    (tmp_path / "rsa.key").write_bytes(strange.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(KeyFileError, match="not an Ed25519 or X25519 key"):
        read_any_key(tmp_path / "rsa.key")


def test_a_fingerprint_is_the_beginning_of_a_hash_in_groups_of_four(tmp_path: Path) -> None:
    public = new_key(tmp_path / "a.key")
    assert fingerprint(public).replace(" ", "") == hashlib.sha256(public.encode()).hexdigest()[:32]
    assert [len(group) for group in fingerprint(public).split(" ")] == [4] * 8


def test_a_key_has_one_spelling_so_that_a_revoked_one_is_found(tmp_path: Path) -> None:
    """32 bytes in base64 leave two bits over, which say nothing: four spellings, of which one is printed."""
    text = new_key(tmp_path / "a.key")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = text[:-2] + letters[letters.index(text[-2]) ^ 1] + "="
    check_keys({"a": (text,)}, {}, None)
    for roster, revoked in (({"a": (other,)}, {}), ({"a": (text,)}, {other: "stolen"})):
        with pytest.raises(KeyFileError, match="expected the line that `oneballot keys new` prints"):
            check_keys(roster, revoked, None)


@pytest.mark.parametrize("height", sorted(SMALL_ORDER))
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_a_key_with_which_one_signature_does_for_all_is_refused(height: int, sign: int) -> None:
    raw = (height | sign).to_bytes(32, "little")
    with pytest.raises((KeyFileError, ElectionError)):
        check_keys({"a": ("ed25519:" + base64.b64encode(raw).decode(),)}, {}, None)


def test_points_of_small_order_are_those(tmp_path: Path) -> None:
    """By the curve −x² + y² = 1 + d·x²·y²: doubled three times each is the neutral point."""
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime

    def double(x: int, y: int) -> tuple[int, int]:
        bend = d * x * x * y * y % prime
        return (2 * x * y * pow(1 + bend, -1, prime) % prime, (y * y + x * x) * pow(1 - bend, -1, prime) % prime)

    for height in SMALL_ORDER:
        square = (height * height - 1) * pow(d * height * height + 1, -1, prime) % prime
        x = pow(square, (prime + 3) // 8, prime)
        x = x if x * x % prime == square else x * pow(2, (prime - 1) // 4, prime) % prime
        assert x * x % prime == square
        assert double(*double(*double(x, height))) == (0, 1)
