"""Decoders as bytes: the size is known beforehand, a round trip loses little, and nothing else is accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from oneballot.errors import Spoiled
from oneballot.methods.decoder.format import DecoderFormat, DecoderWeights, Expected
from oneballot.methods.decoder.layout import KNOTS
from oneballot.types import Blob

EXPECTED = Expected(latent=3, hidden=5, classes=2, outputs=4, numbers=1, weights="int8")


def honest(expected: Expected = EXPECTED) -> DecoderWeights:
    rng = np.random.default_rng(0)
    shapes = [(5, 5), (5,), (4, 5), (4,), (2, 3), (2, 3, 3), (1,), (1, KNOTS)]
    arrays = [rng.random(shape).astype(np.float32) for shape in shapes]
    return DecoderWeights(*arrays[:-1], np.sort(arrays[-1]))


@pytest.mark.parametrize("weights", ["int8", "float16", "float32"])
def test_a_round_trip_loses_less_than_half_of_a_step(weights: Any) -> None:
    expected, decoder = replace(EXPECTED, weights=weights), honest()
    blob = decoder.dump(weights)
    assert blob.size == expected.bytes
    DecoderFormat.check(blob.data, classes=2, features=4)
    read = DecoderWeights.read(blob, expected)
    tolerance = {"int8": 0.5 / 127, "float16": 1e-3, "float32": 0}[weights]
    np.testing.assert_allclose(read.hidden, decoder.hidden, atol=tolerance)
    np.testing.assert_allclose(read.made, decoder.made, atol=tolerance)
    np.testing.assert_array_equal(read.knots, decoder.knots)
    np.testing.assert_array_equal(read.centres, decoder.centres)


def test_equal_decoders_have_equal_bytes() -> None:
    assert honest().dump("int8") == honest().dump("int8")


def changed(name: str, change: Any) -> Blob:
    arrays = dict(load(honest().dump("int8").data))
    arrays[name] = np.ascontiguousarray(change(arrays[name].copy()))
    return Blob("decoder", save(arrays, metadata={"weights": "int8"}))


def filled(value: float) -> Any:
    return lambda array: np.full_like(array, value)


HOSTILE = {
    "NaN as a bias": ("made.bias", filled(np.nan)),
    "an infinite scale": ("hidden.scale", filled(np.inf)),
    "a huge scale": ("made.scale", filled(1e30)),
    "a negative scale": ("made.scale", filled(-1)),
    "a huge root of a covariance": ("shapes", filled(3e38)),
    "a spread below 0": ("spread", filled(-1)),
    "infinite knots": ("knots", filled(np.inf)),
    "knots in descending order": ("knots", lambda knots: knots[:, ::-1]),
    "another shape with as many numbers": ("made", lambda made: made.reshape(5, 4)),
    "another type of as many bytes": ("hidden", lambda hidden: hidden.view(np.uint8)),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_decoders_are_spoiled(what: str) -> None:
    blob = changed(*HOSTILE[what])
    with pytest.raises(Spoiled):
        DecoderWeights.read(blob, EXPECTED)
    with pytest.raises(Spoiled):
        DecoderFormat.check(blob.data, classes=2, features=4)


def test_the_size_is_checked_before_anything_is_read() -> None:
    with pytest.raises(Spoiled, match=r"has 1,000,000 bytes; expected [\d,]+$"):
        DecoderWeights.read(Blob("decoder", bytes(1_000_000)), EXPECTED)
    with pytest.raises(Spoiled, match="has the format 'skops'; expected decoder"):
        DecoderWeights.read(Blob("skops", honest().dump("int8").data), EXPECTED)


def test_weights_of_another_type_than_the_elections_are_spoiled() -> None:
    with pytest.raises(Spoiled, match="bytes; expected"):
        DecoderWeights.read(honest().dump("float32"), EXPECTED)


@pytest.mark.parametrize(("classes", "features"), [(5, 4), (6, 4), (2, 1)])
def test_a_decoder_for_other_rows_is_refused(classes: int, features: int) -> None:
    with pytest.raises(Spoiled):
        DecoderFormat.check(honest().dump("int8").data, classes=classes, features=features)


def test_a_decoder_predicts_nothing() -> None:
    with pytest.raises(Spoiled, match="a decoder makes rows; it does not predict"):
        DecoderFormat.load(honest().dump("int8").data, classes=2)
