"""Ballots are sealed to bytes, and opened only after all checks."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oneballot as ob
from oneballot.ballot.archive import pack, unpack, unzip, zip_up
from oneballot.ballot.keys import new_key, public_text, read_key
from oneballot.ballot.manifest import MANIFEST, SIGNATURE, open_ballot
from oneballot.ballot.seal import seal, unseal
from oneballot.ballot.signatures import check_signer
from oneballot.errors import BallotError, ElectionError, KeyFileError, Spoiled
from oneballot.types import Blob

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.uint8, np.int64, np.float32]),
    shape=hnp.array_shapes(max_dims=3, max_side=5, min_side=0),
    elements={"allow_nan": False},
)
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,10}", fullmatch=True).filter(lambda n: n != "arrays")
CONTENTS = st.dictionaries(
    NAMES, ARRAYS | st.builds(Blob, st.sampled_from(["skops", "ubjson"]), st.binary(max_size=50))
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONTENTS)
def test_unsealing_inverts_sealing(election: ob.Election, contents: dict[str, object]) -> None:
    ballot = seal(contents, election, "clinic-a")
    opened = unseal(ballot.sealed, election)
    assert (opened.party, opened.digest, opened.abstained) == ("clinic-a", ballot.digest, None)
    assert opened.contents.keys() == contents.keys()
    for name, value in contents.items():
        got = opened.contents[name]
        if isinstance(value, Blob):
            assert got == value
        else:
            assert got.dtype == value.dtype
            assert np.array_equal(got, value)


def test_sealing_twice_gives_the_same_bytes(election: ob.Election) -> None:
    contents = {"votes": np.arange(5, dtype=np.uint8), "model.0": Blob("skops", b"x")}
    assert seal(contents, election, "a").sealed == seal(contents, election, "a").sealed


def test_an_abstention_is_a_ballot_with_a_reason_and_nothing_else(election: ob.Election) -> None:
    opened = unseal(seal({}, election, "a", reason="it has no rows").sealed, election)
    assert opened.abstained == "it has no rows"
    assert not opened.contents


def test_a_ballot_of_another_election_is_spoiled(make_election) -> None:
    ballot = seal({}, make_election(seed=1), "a", reason="none")
    with pytest.raises(Spoiled, match="another election"):
        unseal(ballot.sealed, make_election(seed=2))


class TestSignatures:
    @pytest.fixture
    def signed(self, tmp_path: Path, make_election):
        public = {name: new_key(tmp_path / f"{name}.key") for name in ("a", "b")}
        election = make_election(roster=public)
        return election, {name: read_key(tmp_path / f"{name}.key") for name in public}

    def test_a_ballot_signed_by_its_party_is_accepted(self, signed) -> None:
        election, keys = signed
        assert unseal(seal({}, election, "a", key=keys["a"], reason="-").sealed, election).party == "a"

    def test_an_unsigned_ballot_is_spoiled_if_the_election_has_a_roster(self, signed, make_election) -> None:
        election, _ = signed
        with pytest.raises(Spoiled, match="not signed"):
            unseal(seal({}, make_election(), "a", reason="-").sealed, election)

    def test_signing_without_a_key_is_rejected_if_the_election_has_a_roster(self, signed) -> None:
        with pytest.raises(KeyFileError, match="requires a to sign"):
            check_signer(signed[0], "a", None)

    def test_a_ballot_signed_by_another_party_is_spoiled(self, signed, make_election) -> None:
        election, keys = signed
        forged = seal({}, make_election(), "a", key=keys["b"], reason="-").sealed
        with pytest.raises(Spoiled, match="signature is not theirs"):
            unseal(forged, election)

    def test_a_ballot_of_an_unlisted_party_is_spoiled(self, signed, make_election) -> None:
        election, keys = signed
        with pytest.raises(Spoiled, match="not on the roster"):
            unseal(seal({}, make_election(), "c", key=keys["a"], reason="-").sealed, election)

    def test_a_manifest_changed_after_signing_is_spoiled(self, signed) -> None:
        election, keys = signed
        files = unzip(seal({}, election, "a", key=keys["a"], reason="-").sealed)
        changed = json.loads(bytes(files[MANIFEST])) | {"abstained": "another reason"}
        with pytest.raises(Spoiled, match="signature is not theirs"):
            unseal(zip_up(files | {MANIFEST: json.dumps(changed).encode()}), election)

    def test_a_signature_moved_to_another_ballot_is_spoiled(self, signed) -> None:
        election, keys = signed
        one = unzip(seal({}, election, "a", key=keys["a"], reason="one").sealed)
        two = unzip(seal({}, election, "a", key=keys["a"], reason="two").sealed)
        with pytest.raises(Spoiled, match="signature is not theirs"):
            unseal(zip_up(one | {SIGNATURE: two[SIGNATURE]}), election)

    def test_signing_with_an_unlisted_key_is_rejected(self, signed) -> None:
        election, keys = signed
        with pytest.raises(KeyFileError, match="the roster lists another key"):
            check_signer(election, "a", keys["b"])

    def test_a_private_key_is_readable_by_its_owner_alone_and_never_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "keys" / "a.key"
        new_key(path)
        assert path.stat().st_mode & 0o777 == 0o600
        before = path.read_bytes()
        with pytest.raises(KeyFileError, match="never overwritten"):
            new_key(path)
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
    )
    def test_an_invalid_key_file_is_reported(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a.key").write_bytes(content)
        with pytest.raises(KeyFileError, match=r"a\.key is not a private key"):
            read_key(tmp_path / "a.key")

    def test_a_malformed_key_in_the_roster_is_reported_with_its_party(self, make_election) -> None:
        with pytest.raises(KeyFileError, match="the key of a is"):
            make_election(roster={"a": "ed25519:short"})

    def test_two_parties_cannot_share_a_key(self, make_election, signed) -> None:
        key = signed[0].roster["a"]
        with pytest.raises(ElectionError, match="a key is listed twice"):
            make_election(roster={"a": key, "b": key})


def test_a_count_is_stored_in_the_same_archive_format() -> None:
    contents = {"sum.votes": np.arange(6).reshape(2, 3), "roll.61": Blob("zip", pack({"x": np.ones(2)}))}
    back = unpack(pack(contents))
    assert np.array_equal(back["sum.votes"], contents["sum.votes"])
    assert np.array_equal(unpack(back["roll.61"].data)["x"], np.ones(2))


def test_a_ballot_can_be_opened_without_its_election(election: ob.Election) -> None:
    opened = open_ballot(seal({"votes": np.zeros(3, dtype=np.uint8)}, election, "a").sealed)
    assert opened.manifest.party == "a"
    assert opened.manifest.election == election.digest


@pytest.mark.parametrize("name", ["Model_1", "a b", "../x", "arrays"])
def test_an_invalid_model_name_is_rejected_at_the_party(name: str, election: ob.Election) -> None:
    with pytest.raises(ValueError, match="a model cannot be stored as"):
        seal({name: Blob("safetensors", b"")}, election, "a")


def test_control_characters_in_a_manifest_are_spoiled(election: ob.Election) -> None:
    files = unzip(seal({}, election, "a", reason="-").sealed)
    for key, value in {
        "abstained": "\x1b[2J",
        "method": "a\nb",
        "versions": {"\x07": "1"},
        "abstained ": "x" * 501,
    }.items():
        changed = json.loads(bytes(files[MANIFEST])) | {key.strip(): value}
        with pytest.raises(Spoiled, match="malformed") as reason:
            unseal(zip_up(files | {MANIFEST: json.dumps(changed).encode()}), election)
        assert str(reason.value).isprintable()


def test_a_ballot_that_is_too_large_is_rejected_at_the_party(make_election) -> None:
    with pytest.raises(BallotError, match="the election allows"):
        seal({"x": np.zeros(2**21, np.uint8)}, make_election(max_ballot_mb=1), "a")
    with pytest.raises(BallotError, match="4000 files"):
        seal({f"model.{i}": Blob("skops", b"") for i in range(4001)}, make_election(), "a")


@pytest.mark.parametrize("encrypted", [False, True])
def test_opening_a_large_ballot_does_not_copy_it(encrypted: bool, make_election) -> None:
    """Only an encrypted ballot needs a second, decrypted copy in memory; measured with tracemalloc."""
    key = X25519PrivateKey.generate()
    election = make_election(server_key=public_text(key) if encrypted else "none")
    sealed = seal({"votes": np.arange(2**25, dtype=np.uint8)}, election, "a").sealed
    tracemalloc.start()
    try:
        ballot = unseal(sealed, election, key if encrypted else None)
        peak = tracemalloc.get_traced_memory()[1] / len(sealed)
    finally:
        tracemalloc.stop()
    assert ballot.contents["votes"][257] == 1
    assert peak < (1.2 if encrypted else 0.1)
