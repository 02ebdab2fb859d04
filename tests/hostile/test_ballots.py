"""A corpus of hostile ballots: each ends as a spoiled ballot with its reason, and the honest ones count."""

from __future__ import annotations

import io
import json
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oneballot as ob
from oneballot.casting import cast_together
from oneballot.core import Blob
from oneballot.errors import QuorumError, Spoiled
from oneballot.seal import ARRAYS, MANIFEST, seal, unseal, unzip, zip_up


@pytest.fixture(scope="module")
def honest(digits) -> tuple[ob.Election, list[bytes]]:
    from oneballot.simulation import divide

    election = ob.Election(
        classes=range(10), public=digits.public, method=ob.FedKT(open_vote="hard"),
        learner=ob.Sklearn("DecisionTreeClassifier", {"max_depth": 6}),
    )  # fmt: skip
    parties = divide(election.data(digits.X, digits.y), 3, "homogeneous", seed=1)
    return election, [b.sealed for b in cast_together(election, parties)]


def manifest_with(ballot: bytes, **changes: object) -> bytes:
    files = unzip(ballot)
    return zip_up(files | {MANIFEST: json.dumps(json.loads(files[MANIFEST]) | changes).encode()})


def flip_last_bit(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def zipped(*entries: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def lying_about_sizes(ballot: bytes) -> bytes:
    """The central directory claims that every entry is 4 GB."""
    data = bytearray(ballot)
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        struct.pack_into("<II", data, at + 20, 0xFFFFFFF0, 0xFFFFFFF0)
        at = data.find(b"PK\x01\x02", at + 4)
    return bytes(data)


CORPUS = {
    "empty": lambda b: b"",
    "random bytes": lambda b: bytes(range(256)) * 10,
    "truncated in the middle": lambda b: b[: len(b) // 2],
    "the last byte missing": lambda b: b[:-1],
    "a bit altered in the votes": lambda b: zip_up(unzip(b) | {ARRAYS: flip_last_bit(unzip(b)[ARRAYS])}),
    "no manifest": lambda b: zip_up({k: v for k, v in unzip(b).items() if k != MANIFEST}),
    "a manifest that is no JSON": lambda b: zip_up(unzip(b) | {MANIFEST: b"{"}),
    "a manifest that is deeply nested": lambda b: zip_up(unzip(b) | {MANIFEST: b"[" * 100_000}),
    "a manifest of another format": lambda b: manifest_with(b, format=99),
    "a party name that climbs out": lambda b: manifest_with(b, party="../../etc/passwd"),
    "a party name with a newline": lambda b: manifest_with(b, party="a\n"),
    "another election": lambda b: manifest_with(b, election="0" * 64),
    "another level of privacy": lambda b: manifest_with(b, privacy={"level": "L2"}),
    "a file too many": lambda b: zip_up({**unzip(b), "extra.skops": b""}),
    "a file that climbs out": lambda b: zipped((MANIFEST, unzip(b)[MANIFEST]), ("../../evil", b"x")),
    "an absolute path": lambda b: zipped((MANIFEST, unzip(b)[MANIFEST]), ("/tmp/evil", b"x")),
    "a zip bomb": lambda b: zipped((ARRAYS, bytes(50_000_000)), compression=zipfile.ZIP_DEFLATED),
    "sizes that lie": lying_about_sizes,
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
def test_contents_that_the_method_does_not_write_are_spoiled(name: str, honest) -> None:
    election, ballots = honest
    forged = seal(WRONG_CONTENTS[name], election, "forger").sealed
    outcome = ob.tally(election, [forged, *ballots])
    assert list(outcome.spoiled) == ["ballot 1"]
    assert len(outcome.voted) == 3


def test_a_ballot_over_the_limit_is_not_even_read(honest, tmp_path) -> None:
    election, ballots = honest
    for i, data in enumerate(ballots):
        (tmp_path / f"p{i}.ballot").write_bytes(data)
    with (tmp_path / "huge.ballot").open("wb") as huge:
        huge.truncate(10 * 2**40)  # sparse: reading it would end the process
    from oneballot.tallying import tally_box

    outcome = tally_box(election, ob.Folder(tmp_path))
    assert list(outcome.spoiled) == ["huge"]
    assert "allows" in outcome.spoiled["huge"]
    assert len(outcome.voted) == 3


def test_when_all_are_spoiled_the_error_tells_every_reason(honest) -> None:
    election, ballots = honest
    with pytest.raises(QuorumError, match=r"0 ballots count(.|\n)*ballot 1(.|\n)*ballot 2"):
        ob.tally(election, [ballots[0][:50], b"zip"])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_altered_byte_is_spoiled_or_harmless(honest, data) -> None:
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
