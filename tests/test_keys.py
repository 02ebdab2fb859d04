"""Secret keys are files for one pair of eyes; public keys are one line of text."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from oneballot.errors import KeyFileError
from oneballot.keys import fingerprint, new_key, new_server_key, public_text, read_any_key, read_key, read_server_key


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
