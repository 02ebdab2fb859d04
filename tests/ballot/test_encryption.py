"""Only the server can decrypt a ballot, and any change to it is detected. One test repeats RFC 9180 step by step."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

import oneballot as ob
from oneballot.ballot import encryption
from oneballot.ballot.encryption import (
    CHUNK,
    HEAD,
    MAGIC,
    TAG,
    WRAPPED,
    Header,
    decrypt,
    encrypt,
    is_encrypted,
    read_header,
)
from oneballot.ballot.keys import new_key, new_server_key, public_text, read_key, read_server_key
from oneballot.ballot.seal import decrypt_for, encrypt_for, seal, unseal
from oneballot.errors import ElectionError, KeyFileError, Spoiled

SECRET = X25519PrivateKey.generate()
SERVER = public_text(SECRET)
DIGEST = hashlib.sha256(b"an election").hexdigest()
BODY = HEAD.size + WRAPPED


@pytest.fixture
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(encryption, "CHUNK", 64)


@given(st.integers(1, 300), st.randoms())
def test_decryption_inverts_encryption(length: int, random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encryption, "CHUNK", 64)
        clear = random.randbytes(length)
        encrypted = encrypt(clear, SERVER, DIGEST)
        assert decrypt(encrypted, SECRET) == clear
        assert len(encrypted) == BODY + length + TAG * -(-length // 64)
        assert read_header(encrypted) == Header(DIGEST, SERVER, length)


@pytest.mark.parametrize("length", [CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_ballots_around_the_real_chunk_size_are_decrypted(length: int) -> None:
    clear = bytes(range(256)) * (length // 256) + b"x" * (length % 256)
    assert decrypt(encrypt(clear, SERVER, DIGEST), SECRET) == clear


def test_encrypting_twice_gives_different_bytes() -> None:
    assert encrypt(b"votes", SERVER, DIGEST)[HEAD.size :] != encrypt(b"votes", SERVER, DIGEST)[HEAD.size :]


def decrypt_by_rfc(encrypted: bytes, secret: X25519PrivateKey, chunk: int) -> bytes:
    """RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20-Poly1305; then the chunks."""

    def extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
        return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")

    def expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
        return hmac.digest(key, length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info + b"\x01", "sha256")[
            :length
        ]

    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x03"
    head, sent, wrapped = encrypted[:93], encrypted[93:125], encrypted[125:173]
    shared = secret.exchange(X25519PublicKey.from_public_bytes(sent))
    context = sent + secret.public_key().public_bytes_raw()
    agreed = expand(kem, extract(kem, b"", b"eae_prk", shared), b"shared_secret", context, 32)
    schedule = b"\x00" + extract(suite, b"", b"psk_id_hash", b"") + extract(suite, b"", b"info_hash", head)
    secret_of = extract(suite, agreed, b"secret", b"")
    key, nonce = expand(suite, secret_of, b"key", schedule, 32), expand(suite, secret_of, b"base_nonce", schedule, 12)
    cipher = ChaCha20Poly1305(ChaCha20Poly1305(key).decrypt(nonce, wrapped, b""))
    pieces = [encrypted[i : i + chunk + 16] for i in range(173, len(encrypted), chunk + 16)]
    numbers = [i.to_bytes(11, "big") + (b"\x01" if i == len(pieces) - 1 else b"\x00") for i in range(len(pieces))]
    return b"".join(cipher.decrypt(n, piece, None) for n, piece in zip(numbers, pieces, strict=True))


@pytest.mark.parametrize("length", [1, 64, 65, 300])
@pytest.mark.usefixtures("small_chunks")
def test_encryption_follows_rfc_9180_step_by_step(length: int) -> None:
    clear = bytes(i % 251 for i in range(length))
    assert decrypt_by_rfc(encrypt(clear, SERVER, DIGEST), SECRET, 64) == clear


@pytest.mark.usefixtures("small_chunks")
class TestAltered:
    clear = bytes(range(200))

    @pytest.fixture
    def encrypted(self, small_chunks) -> bytes:
        return encrypt(self.clear, SERVER, DIGEST)

    def test_any_flipped_bit_is_detected(self, encrypted: bytes) -> None:
        for i in range(len(encrypted)):
            for bit in (1, 128):
                altered = bytearray(encrypted)
                altered[i] ^= bit
                with pytest.raises(Spoiled):
                    decrypt(bytes(altered), SECRET)

    def test_any_truncation_is_detected(self, encrypted: bytes) -> None:
        for length in range(len(encrypted)):
            with pytest.raises(Spoiled, match=r"incomplete|only the beginning"):
                decrypt(encrypted[:length], SECRET)
        with pytest.raises(Spoiled, match="incomplete"):
            decrypt(encrypted + b"\0", SECRET)

    def test_moved_repeated_or_missing_chunks_are_detected_with_any_header(self, encrypted: bytes) -> None:
        size = 64 + TAG
        one, two, three, last = (encrypted[BODY + i * size : BODY + (i + 1) * size] for i in range(4))
        for order in ([two, one, three, last], [one, one, three, last], [one, two, three], [one, two, last], [last]):
            body = b"".join(order)
            length = len(body) - TAG * len(order)
            head = HEAD.pack(MAGIC, bytes.fromhex(DIGEST), base64.b64decode(SERVER.partition(":")[2]), length)
            for first in (encrypted[: HEAD.size], head):
                with pytest.raises(Spoiled):
                    decrypt(first + encrypted[HEAD.size : BODY] + body, SECRET)

    def test_parts_of_two_encrypted_ballots_cannot_be_combined(self, encrypted: bytes) -> None:
        other = encrypt(self.clear, SERVER, hashlib.sha256(b"another").hexdigest())
        for cut in (HEAD.size, BODY):
            with pytest.raises(Spoiled, match="altered"):
                decrypt(other[:cut] + encrypted[cut:], SECRET)


HEADS = st.binary(max_size=400) | st.builds(
    lambda election, length, rest: HEAD.pack(MAGIC, election, SECRET.public_key().public_bytes_raw(), length) + rest,
    st.binary(min_size=32, max_size=32),
    st.integers(0, 2**64 - 1) | st.integers(0, 300),
    st.binary(max_size=400),
)


@given(HEADS, st.booleans())
def test_arbitrary_bytes_are_spoiled_and_raise_no_other_error(data: bytes, magic: bool) -> None:
    with pytest.raises(Spoiled):
        decrypt(MAGIC + data if magic else data, SECRET)


@given(st.binary(min_size=1, max_size=200))
def test_arbitrary_bytes_of_the_right_length_are_spoiled(rest: bytes) -> None:
    head = HEAD.pack(MAGIC, bytes(32), SECRET.public_key().public_bytes_raw(), len(rest))
    for key in (bytes(WRAPPED), bytes(range(WRAPPED))):  # an ephemeral key of small order, and an arbitrary one
        with pytest.raises(Spoiled, match="altered"):
            decrypt(head + key + rest + bytes(TAG), SECRET)


def test_a_ballot_for_another_key_is_spoiled_with_both_fingerprints() -> None:
    with pytest.raises(Spoiled, match=r"encrypted to another key, fingerprint ([0-9a-f]{4} ){7}[0-9a-f]{4}; this key"):
        decrypt(encrypt(b"votes", SERVER, DIGEST), X25519PrivateKey.generate())


@pytest.mark.parametrize("raw", [bytes(32), b"\x01" + bytes(31), b"short"])
def test_a_weak_or_malformed_server_key_is_rejected(raw: bytes, make_election) -> None:
    text = "x25519:" + base64.b64encode(raw).decode()
    with pytest.raises(KeyFileError, match="server_key is"):
        make_election(server_key=text)
    with pytest.raises(KeyFileError, match="server_key is"):
        make_election(server_key="ed25519:" + SERVER.partition(":")[2])


class TestElection:
    @pytest.fixture
    def keys(self, tmp_path: Path):
        public = {name: new_key(tmp_path / f"{name}.key") for name in "ab"}
        server = new_server_key(tmp_path / "server.key")
        secret = {name: read_key(tmp_path / f"{name}.key") for name in "ab"}
        return public, server, secret, read_server_key(tmp_path / "server.key")

    def test_cast_and_tally_in_python(self, keys, make_election, parties, digits) -> None:
        _, server, _, secret = keys
        election, plain = make_election(server_key=server), make_election()
        ballots = [ob.cast(election, d.X, d.y, party=p) for p, d in parties.items()]
        assert all(is_encrypted(b.sealed) for b in ballots)
        assert not any(party.encode() in b.sealed for b, party in zip(ballots, parties, strict=True))
        outcome = ob.tally(election, ballots, key=secret)
        assert list(outcome.voted) == sorted(parties)
        fewer = ob.tally(election, ballots, key=secret, previous=outcome, without=["party-2"])
        again = ob.tally(election, [b for b in ballots if b.party != "party-2"], key=secret)
        assert (fewer.count.sums["votes"] == again.count.sums["votes"]).all()
        with pytest.raises(KeyFileError, match="give the server's secret key"):
            ob.tally(election, ballots)
        with pytest.raises(KeyFileError, match="the given key has fingerprint"):
            ob.tally(election, ballots, key=X25519PrivateKey.generate())
        with pytest.raises(KeyFileError, match="not encrypted"):
            ob.tally(plain, [], key=secret)

    def test_a_simulation_needs_no_keys_and_casts_what_parties_would(self, keys, make_election, parties) -> None:
        from oneballot.simulation import simulate_parties

        _, server, _, secret = keys
        election = make_election(server_key=server, privacy=ob.L1(2.0), method=ob.FedKT())
        simulated = simulate_parties(election, parties)
        assert simulated.outcome.election == election.digest
        party, data = next(iter(parties.items()))
        ballot = ob.cast(election, data.X, data.y, party=party)
        assert ballot.digest == simulated.ballots[0].digest
        assert decrypt(ballot.sealed, secret) == simulated.ballots[0].sealed

    def test_an_l1_cast_requires_a_server_key_or_an_explicit_none(self, make_election, digits) -> None:
        settings = {"privacy": ob.L1(2.0), "method": ob.FedKT()}
        with pytest.raises(ElectionError, match=r"raw votes.*keys new server --for-server.*server_key = \"none\""):
            ob.cast(make_election(**settings), digits.X, digits.y, party="a")
        unencrypted = ob.cast(make_election(**settings, server_key="none"), digits.X, digits.y, party="a")
        assert not is_encrypted(unencrypted.sealed)

    def test_the_server_key_is_part_of_the_digest(self, make_election) -> None:
        default = make_election()
        digests = {make_election(server_key=k).digest for k in (None, "none", SERVER)}
        assert default.digest in digests
        assert len(digests) == 3

    def test_a_ballot_signed_for_one_server_is_spoiled_at_another(self, keys, make_election) -> None:
        """A server cannot forward a decrypted ballot in the party's name (surreptitious forwarding)."""
        public, server, secret, opener = keys
        other = X25519PrivateKey.generate()
        mine = make_election(roster=public, server_key=server)
        theirs = make_election(roster=public, server_key=public_text(other))
        signed = decrypt_for(mine, seal({}, mine, "a", key=secret["a"], reason="-").sealed, opener)
        for forwarded in (encrypt_for(theirs, signed), encrypt(signed, str(theirs.server_key), mine.digest)):
            with pytest.raises(Spoiled, match="another election"):
                unseal(forwarded, theirs, other)

    def test_an_unencrypted_ballot_is_spoiled_if_encryption_is_required(self, keys, make_election) -> None:
        _, server, _, opener = keys
        election = make_election(server_key=server)
        ballot = seal({}, election, "a", reason="-")
        with pytest.raises(Spoiled, match="not encrypted"):
            unseal(ballot.clear, election, opener)
        assert unseal(ballot.sealed, election, opener).digest == ballot.digest

    def test_an_encrypted_ballot_is_spoiled_if_the_election_has_no_server_key(self, make_election) -> None:
        election = make_election()
        with pytest.raises(Spoiled, match="no server_key"):
            unseal(encrypt(b"x", SERVER, election.digest), election)

    def test_an_encrypted_ballot_with_invalid_contents_is_spoiled(self, make_election) -> None:
        election = make_election(server_key=SERVER)
        for inside in (b"PK", b"\0" * 5000, encrypt(b"x", SERVER, election.digest)):
            with pytest.raises(Spoiled):
                unseal(encrypt(inside, SERVER, election.digest), election, SECRET)

    def test_any_flipped_byte_of_a_real_ballot_spoils_it_and_the_others_count(self, keys, make_election, parties):
        public, server, secret, opener = keys
        election = make_election(server_key=server, roster={**public})
        data = next(iter(parties.values()))
        one, two = (ob.cast(election, data.X, data.y, party=p, key=secret[p]) for p in "ab")
        raw = one.sealed
        for i in [*range(0, BODY + 40), *range(BODY + 40, len(raw), 41), len(raw) - 1]:
            altered = raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :]
            with pytest.raises(Spoiled):
                unseal(altered, election, opener)
        outcome = ob.tally(election, [altered, two], key=opener)
        assert list(outcome.voted) == ["b"]
        assert len(outcome.spoiled) == 1
