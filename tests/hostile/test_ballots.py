"""A corpus of hostile ballots: each is spoiled with a reason, and the honest ones count."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oneballot as ob
from oneballot.ballot.archive import ARRAYS, unzip, zip_up
from oneballot.ballot.seal import MANIFEST, seal, unseal
from oneballot.errors import QuorumError, Spoiled
from oneballot.party.cast import cast_together
from oneballot.types import Blob


@pytest.fixture(scope="module")
def honest(digits) -> tuple[ob.Election, list[bytes]]:
    from oneballot.simulation import divide

    election = ob.Election(
        classes=range(10),
        public=digits.public,
        method=ob.FedKT(open_vote="hard"),
        learner=ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6}),
    )
    parties = divide(election.data(digits.X, digits.y), 3, "homogeneous", seed=1)
    return election, [b.sealed for b in cast_together(election, parties)]


def manifest_with(ballot: bytes, **changes: object) -> bytes:
    files = unzip(ballot)
    return zip_up(files | {MANIFEST: json.dumps(json.loads(bytes(files[MANIFEST])) | changes).encode()})


def flip_last_bit(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def zipped(*entries: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def with_wrong_sizes(ballot: bytes) -> bytes:
    """The central directory claims that every entry is 4 GB."""
    data = bytearray(ballot)
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        struct.pack_into("<II", data, at + 20, 0xFFFFFFF0, 0xFFFFFFF0)
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(data)


def with_zip64_offset(ballot: bytes) -> bytes:
    """An entry whose offset is beyond any file, for which zipfile raises OverflowError."""
    name = b"manifest.json"
    extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
    entry = struct.pack(
        "<4s6H3I5H2I", b"PK\x01\x02", 45, 45, 0, 0, 0, 0, 0, 5, 5, len(name), len(extra), 0, 0, 0, 0, 2**32 - 1
    )
    directory = entry + name + extra
    return directory + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 0, 0)


def flood(ballot: bytes) -> bytes:
    """A directory with very many entries, of which only the end may be read."""
    return bytes(5_000_000) + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 65_000, 65_000, 5_000_000, 0, 0)


def second_directory(ballot: bytes) -> bytes:
    """An end record with one entry, after a zip64 locator, which zipfile would follow instead."""
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, 0, 1)
    return bytes(100) + locator + struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, 50, 0, 0)


def with_array_named(name: str):
    from safetensors.numpy import save

    return lambda ballot: reseal(ballot, {ARRAYS: save({name: np.zeros(3, np.uint8)})})


def reseal(ballot: bytes, files: dict[str, bytes]) -> bytes:
    """Replace the contents and correct the hashes."""
    manifest = json.loads(bytes(unzip(ballot)[MANIFEST]))
    manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return zip_up({MANIFEST: json.dumps(manifest).encode(), **files})


CORPUS = {
    "empty": lambda b: b"",
    "random bytes": lambda b: bytes(range(256)) * 10,
    "truncated in the middle": lambda b: b[: len(b) // 2],
    "the last byte missing": lambda b: b[:-1],
    "a bit altered in the votes": lambda b: zip_up(unzip(b) | {ARRAYS: flip_last_bit(bytes(unzip(b)[ARRAYS]))}),
    "no manifest": lambda b: zip_up({k: v for k, v in unzip(b).items() if k != MANIFEST}),
    "a manifest that is not JSON": lambda b: zip_up(unzip(b) | {MANIFEST: b"{"}),
    "a manifest that is deeply nested": lambda b: zip_up(unzip(b) | {MANIFEST: b"[" * 100_000}),
    "a manifest of another format": lambda b: manifest_with(b, format=99),
    "a party name with a path": lambda b: manifest_with(b, party="../../etc/passwd"),
    "a party name with a newline": lambda b: manifest_with(b, party="a\n"),
    "another election": lambda b: manifest_with(b, election="0" * 64),
    "another level of privacy": lambda b: manifest_with(b, privacy={"level": "L2"}),
    "an extra file": lambda b: zip_up({**unzip(b), "extra.skops": b""}),
    "a file with a relative path": lambda b: zipped((MANIFEST, unzip(b)[MANIFEST]), ("../../evil", b"x")),
    "an absolute path": lambda b: zipped((MANIFEST, unzip(b)[MANIFEST]), ("/tmp/evil", b"x")),
    "a zip bomb": lambda b: zipped((ARRAYS, bytes(50_000_000)), compression=zipfile.ZIP_DEFLATED),
    "wrong sizes": with_wrong_sizes,
    "an offset beyond any file": with_zip64_offset,
    "a flood of entries": flood,
    "a second directory": second_directory,
    "an array with an escape in its name": with_array_named("\x1b[2Jvotes"),
    "arrays with a huge header": lambda b: reseal(b, {ARRAYS: struct.pack("<Q", 2**40) + b"{}"}),
    "ten thousand files": lambda b: zipped(*((f"f{i}.skops", b"") for i in range(10_000))),
    "a name twice": lambda b: zipped_twice(b),
}


def zipped_twice(ballot: bytes) -> bytes:
    files = unzip(ballot)
    with pytest.warns(UserWarning, match="Duplicate name"):
        return zipped(*files.items(), (ARRAYS, files[ARRAYS]))


@pytest.mark.parametrize("name", CORPUS)
def test_a_hostile_ballot_is_spoiled_and_the_others_count(name: str, honest) -> None:
    election, ballots = honest
    outcome = ob.tally(election, [CORPUS[name](ballots[0]), *ballots[1:]])
    assert list(outcome.spoiled) == ["ballot 1"]
    assert len(outcome.spoiled["ballot 1"]) > 10
    assert len(outcome.voted) == 2


WRONG_CONTENTS = {
    "no votes": {},
    "votes that are a model": {"votes": Blob("skops", b"x")},
    "too few votes": {"votes": np.zeros(3, dtype=np.uint8)},
    "votes of another type": {"votes": np.zeros(150, dtype=np.float32)},
    "votes for class 15": {"votes": np.full(150, 255, dtype=np.uint8)},
}


@pytest.mark.parametrize("name", WRONG_CONTENTS)
def test_contents_that_the_method_does_not_expect_are_spoiled(name: str, honest) -> None:
    election, ballots = honest
    forged = seal(WRONG_CONTENTS[name], election, "forger").sealed
    outcome = ob.tally(election, [forged, *ballots])
    assert list(outcome.spoiled) == ["ballot 1"]
    assert len(outcome.voted) == 3


@pytest.mark.slow
def test_altered_models_spoil_their_ballots_and_the_others_count(digits) -> None:
    """One wrong index in a tree of each library; the honest ballot still counts."""
    from oneballot.simulation import divide

    tree = ob.Sklearn("DecisionTreeClassifier")
    learners = {"tree": tree, "xgboost": ob.XGBoost(rounds=3), "lightgbm": ob.LightGBM(rounds=3)}
    method = ob.FedKT(open_vote="off", ballot="models")
    election = ob.Election(classes=range(10), public=digits.public, method=method, learner=tree)
    parties = divide(election.data(digits.X, digits.y), 4, "homogeneous", seed=1)
    ballots = []
    for (party, data), (name, learner) in zip(parties.items(), [*learners.items(), ("tree", None)], strict=True):
        own = {"teacher": learner} if learner else None
        blob = ob.cast(election, data.X, data.y, party=party, learners=own).contents["model.0"]
        assert isinstance(blob, Blob)
        altered = {"tree": _alter_skops, "xgboost": _alter_ubjson, "lightgbm": _alter_text}[name](blob.data)
        content = blob if learner is None else Blob(blob.format, altered)
        ballots.append(seal({"model.0": content}, election, party))
    outcome = ob.tally(election, ballots)
    assert list(outcome.voted) == ["party-4"]
    assert len(outcome.spoiled) == 3


def _alter_skops(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".npy") and (nodes := np.load(io.BytesIO(content))).dtype.names:
                nodes["left_child"][0] = 10**6
                buffer = io.BytesIO()
                np.save(buffer, nodes)
                content = buffer.getvalue()
            new.writestr(name, content)
    return out.getvalue()


def _alter_ubjson(data: bytes) -> bytes:
    at = data.index(b"left_children") + len(b"left_children[$l#L") + 8
    return data[:at] + struct.pack(">i", 10**6) + data[at + 4 :]


def _alter_text(data: bytes) -> bytes:
    return data.replace(b"left_child=", b"left_child=9", 1)


def test_a_ballot_over_the_size_limit_is_not_read(honest, tmp_path) -> None:
    election, ballots = honest
    for i, data in enumerate(ballots):
        (tmp_path / f"p{i}.ballot").write_bytes(data)
    with (tmp_path / "huge.ballot").open("wb") as huge:
        huge.truncate(10 * 2**40)  # sparse; reading it would exhaust the memory
    from oneballot.server.tally import tally_box

    outcome = tally_box(election, ob.Folder(tmp_path))
    assert list(outcome.spoiled) == ["huge"]
    assert "allows" in outcome.spoiled["huge"]
    assert len(outcome.voted) == 3


def test_the_error_lists_every_reason_if_all_ballots_are_spoiled(honest) -> None:
    election, ballots = honest
    with pytest.raises(QuorumError, match=r"0 ballots count(.|\n)*ballot 1(.|\n)*ballot 2"):
        ob.tally(election, [ballots[0][:50], b"zip"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_altered_byte_spoils_a_ballot_or_changes_nothing(honest, data) -> None:
    election, ballots = honest
    raw = bytearray(ballots[0])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        opened = unseal(bytes(raw), election)
    except Spoiled:
        return
    assert opened.digest == unseal(ballots[0], election).digest


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=400) | st.binary(max_size=300).map(lambda b: b"PK\x03\x04" + b))
def test_arbitrary_bytes_are_spoiled(honest, raw: bytes) -> None:
    with pytest.raises(Spoiled):
        unseal(raw, honest[0])


CASTS = {
    "fedkt": (ob.FedKT(), ob.Sklearn("DecisionTreeClassifier")),
    "fedkd": (ob.FedKD(temperature=0.0), ob.Sklearn("DecisionTreeClassifier")),
    "analytic": (ob.Analytic(), ob.Sklearn("DecisionTreeClassifier")),
    "neighbours": (ob.Neighbours(), ob.Sklearn("DecisionTreeClassifier")),
    "ensemble": (ob.Ensemble(), ob.Kernel()),
    "decoder": (ob.Decoder(steps=2, hidden=4, latent=2), ob.Sklearn("DecisionTreeClassifier")),
    "dense": (
        ob.Dense(epochs=1, generator_steps=1, batch=4),
        ob.Torch("mlp", {"hidden": [2]}, epochs=1, device="cpu"),
    ),
    "dosfl": (ob.DOSFL(steps=1, epochs=1, batch=2, local_epochs=1), ob.Torch("mlp", {"hidden": [2]}, device="cpu")),
}


@pytest.mark.parametrize("name", CASTS)
def test_unexpected_contents_spoil_a_ballot(name: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    method, learner = CASTS[name]
    election = ob.Election(classes=range(2), public=X[:20], method=method, learner=learner)
    honest = ob.cast(election, X[20:], y[20:], party="a")
    stuffed = seal({**honest.contents, "extra": np.zeros(9, np.uint8)}, election, "b")
    absent = seal({"votes": np.zeros(3)}, election, "c", reason="it has no rows")
    outcome = ob.tally(election, [honest, stuffed, absent])
    assert list(outcome.voted) == ["a"]
    assert "unexpected contents extra; expected only" in outcome.spoiled["ballot 2"]
    assert "unexpected contents votes; expected only nothing" in outcome.spoiled["ballot 3"]


def test_a_second_zip_directory_is_refused_before_it_is_read() -> None:
    with pytest.raises(Spoiled, match="zip64 directory"):
        unzip(second_directory(b""))
