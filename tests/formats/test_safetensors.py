"""The safetensors reader accepts exactly what the upstream reader accepts, and constant models are checked."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load, save

from oneballot.errors import Spoiled
from oneballot.formats.safetensors import NUMBERS, ConstantModel, Safetensors, read_arrays


def test_a_constant_model_predicts_the_same_after_loading():
    model = ConstantModel(np.eye(4)[2])
    blob = model.dump()
    Safetensors.check(blob.data, classes=4, features=9)
    loaded = Safetensors.load(blob.data, classes=4)
    X = np.zeros((3, 9))
    np.testing.assert_array_equal(loaded.predict_proba(X), np.tile([0, 0, 1, 0], (3, 1)))
    np.testing.assert_array_equal(loaded.scores(X), model.scores(X))


@pytest.mark.parametrize(
    "values",
    [[0.5, 0.6], [1.5, -0.5], [np.nan, 1], [1.0], [[0.5, 0.5]], np.array([0, 1]), np.array([0, 1], dtype=np.float32)],
    ids=str,
)
def test_values_that_are_not_a_distribution_are_refused(values):
    data = save({"probabilities": np.asarray(values)}, metadata={"kind": "constant"})
    with pytest.raises(Spoiled, match="probabilities"):
        Safetensors.check(data, classes=2, features=1)


def test_other_files_and_arrays_are_refused():
    good = np.array([0.5, 0.5])
    for data in (
        save({"probabilities": good}),
        save({"probabilities": good}, metadata={"kind": "other"}),
        save({"probabilities": good, "more": good}, metadata={"kind": "constant"}),
        b"",
        b"\xff" * 100,
        b"\x02" + b"\0" * 7 + b"[]",
        ConstantModel(good).dump().data[:-1],
    ):
        with pytest.raises(Spoiled):
            Safetensors.check(data, classes=2, features=1)


def assert_same(ours, theirs) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in theirs.items():
        assert (ours[name].dtype, ours[name].shape) == (array.dtype, array.shape)
        assert ours[name].tobytes() == array.tobytes()


KINDS = st.sampled_from(sorted(NUMBERS.values())).map(np.dtype)
SHAPES = arrays_of.array_shapes(min_dims=0, min_side=0)


@given(st.dictionaries(st.text(max_size=5), arrays_of.arrays(KINDS, SHAPES), max_size=4), st.integers(0, 8))
def test_arrays_are_read_as_the_upstream_reader_reads_them(arrays, place: int) -> None:
    """At any offset, and always aligned."""
    file = save({name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}, metadata={"a": "b"})
    metadata, arrays_read = read_arrays(memoryview(bytes(place) + file)[place:])
    assert metadata == {"a": "b"}
    assert_same(arrays_read, load(file))
    assert all(array.flags.aligned for array in arrays_read.values())


FILE = save({"x": np.eye(3, dtype=np.float32), "b": np.array([True]), "e": np.zeros((0, 5)), "s": np.array(3.5)})
HEAD = 8 + struct.unpack("<Q", FILE[:8])[0]


@given(st.lists(st.tuples(st.integers(0, HEAD - 1), st.sampled_from(b'0123456789[]{},":FIUx \0\xff')), max_size=3))
def test_altered_headers_are_refused_exactly_if_the_upstream_reader_refuses_them(changes) -> None:
    data = bytearray(FILE)
    for at, byte in changes:
        data[at] = byte
    assert_agrees_with_upstream(bytes(data))


def assert_agrees_with_upstream(file: bytes) -> None:
    try:
        theirs = load(file)
    except Exception:
        theirs = None
    try:
        _, ours = read_arrays(file)
    except Spoiled:
        ours = None
    assert (ours is None) == (theirs is None)
    if theirs is not None:
        assert_same(ours, theirs)


PIECES = [
    "null", "[]", "{}", '""', "0", "-0", "1.0", "1e0", "true", '"\\ud800"', '"\\ud83d\\ude00"', "NaN", "1e999",
    "[0]", "[1]", "[0,1]", "[0,1,2]", "[1,1]", "[[1]]", '["1"]', "[-0,1]", "[0,1.0]", '{"a":"b"}', '{"a":null}', '"U8"',
    '"BOOL"', '"F4"', "18446744073709551616",
]  # fmt: skip
USUAL = {"dtype": '"U8"', "shape": "[1]", "data_offsets": "[0,1]"}


@given(
    st.dictionaries(st.sampled_from([*USUAL, "more"]), st.sampled_from(PIECES), max_size=2),
    st.sampled_from(["x", "", "\\ud800", "\\u0000", "__metadata__"]),
    st.sampled_from(["", *(f'"__metadata__":{piece},' for piece in PIECES)]),
)
def test_unusual_headers_are_read_as_the_upstream_reader_reads_them(changes, name: str, about: str) -> None:
    entry = ",".join(f'"{key}":{piece}' for key, piece in (USUAL | changes).items())
    header = f'{{{about}"{name}":{{{entry}}}}}'.encode()
    assert_agrees_with_upstream(struct.pack("<Q", len(header)) + header + b"?")


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [2**62, 4]}, {"shape": [-1, -8]}, {"shape": [8.0]}, {"shape": [True, 8]}, {"shape": [1] * 33 + [8]},
        {"shape": ["8"]}, {"shape": [10**4000] * 30}, {"dtype": "BF16"}, {"dtype": []}, {"data_offsets": [1, 9]},
        {"data_offsets": [0, 2**64]}, {"data_offsets": [0]}, {"data_offsets": None}, {"data_offsets": [0, 7]},
        {"data_offsets": [0, 7], "shape": [7]}, {"more": float("nan")}, {"more": "\ud800"},
    ],
    ids=lambda entry: str(entry)[:40],
)  # fmt: skip
def test_impossible_headers_are_refused(entry) -> None:
    header = json.dumps({"x": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]} | entry}).encode()
    with pytest.raises(Spoiled, match="not a safetensors file"):
        read_arrays(struct.pack("<Q", len(header)) + header + bytes(8))


ONE = '{"dtype": "U8", "shape": [], "data_offsets": [0, 1]}'
LISTLESS = (ONE.replace("[]", "{}"), ONE.replace("[]", '""'), ONE.replace("[0, 1]", '{"0": 1, "1": 1}'))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("[" * 10**5, "recursion"), ("[]", "not an object"), ("null", "not an object"), ('"x"', "not an object"),
        *((f'{{"__metadata__": {text}}}', "not text") for text in ('{"kind": []}', "[]", '""', "0", "false")),
        *((f'{{"x": {entry}}}', "offsets of 'x'") for entry in ("1", "{}", "null", '["U8", [], [0, 1]]', *LISTLESS)),
        (f'{{"\\ud800": {ONE}}}', "surrogates"), (f'{{"x": {ONE}, "__metadata__": {{"\\udfff": ""}}}}', "surrogates"),
    ],
)  # fmt: skip
def test_malformed_headers_are_refused(header: str, message: str) -> None:
    with pytest.raises(Spoiled, match=f"not a safetensors file: .*({message})"):
        read_arrays(struct.pack("<Q", len(header)) + header.encode() + b"?")


@pytest.mark.parametrize("metadata_text", ["null", "{}"])
def test_empty_metadata_is_accepted(metadata_text: str) -> None:
    header = f'{{"__metadata__": {metadata_text}, "x": {ONE}}}'
    file = struct.pack("<Q", len(header)) + header.encode() + b"?"
    metadata, arrays = read_arrays(file)
    assert metadata == {}
    assert_same(arrays, load(file))


def test_large_arrays_are_not_copied() -> None:
    file = save({"votes": np.zeros(10**6, np.uint8)})
    _, arrays = read_arrays(file)
    assert np.shares_memory(arrays["votes"], np.frombuffer(file, np.uint8))
    with pytest.raises(ValueError, match="read-only"):
        arrays["votes"][0] = 1
