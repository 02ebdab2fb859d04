"""Decoders as files: a safetensors file with two layers of weights, each number's quantiles, and nothing else.

Weights are integers of 8 bits with a scale for each row of the matrix, or floats. Biases, scales, quantiles and spreads
are float32. They are data for the matrix products of `draw.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Literal, NoReturn

import numpy as np

from ...errors import Spoiled
from ...formats.safetensors import Arrays, read_arrays
from ...interfaces import Format
from ...types import Array, Blob
from .layout import KNOTS

Weights = Literal["int8", "float16", "float32"]
KNOWN: Mapping[str, Weights] = {"int8": "int8", "float16": "float16", "float32": "float32"}
LAYERS = ("hidden", "made")
PLAIN = ("centres", "shapes", "spread", "knots")
LARGEST = 1e4
"""The largest weight, bias and scale, in size. Those of honest decoders are far below 100."""
LARGEST_NUMBER = 1e9
"""The largest number in a row, in size."""
WIDEST = 10.0
"""The largest spread of a score."""
MOST_HIDDEN, MOST_LATENT = 8192, 1024
MOST_OUTPUTS = 2
"""Outputs for each feature, at most: a column of one category that may be blank has two."""
FLOOR = 1e-9


@dataclass(frozen=True)
class Expected:
    """The numbers that decide how large a decoder is."""

    latent: int
    hidden: int
    classes: int
    outputs: int
    numbers: int
    weights: Weights

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        shapes: dict[str, tuple[int, ...]] = {
            "hidden": (self.hidden, self.latent + self.classes),
            "hidden.bias": (self.hidden,),
            "made": (self.outputs, self.hidden),
            "made.bias": (self.outputs,),
            "centres": (self.classes, self.latent),
            "shapes": (self.classes, self.latent, self.latent),
            "knots": (self.numbers, KNOTS),
            "spread": (self.numbers,),
        }
        scales = {f"{name}.scale": shapes[name][:1] for name in LAYERS}
        return {**shapes, **scales} if self.weights == "int8" else shapes

    @property
    def bytes(self) -> int:
        """The exact size of the file."""
        return _file_size(self)


@dataclass(frozen=True, eq=False)
class DecoderWeights:
    """hidden `(hidden, latent + classes)` and made `(outputs, hidden)` with their biases, float32.

    centres `(classes, latent)`, shapes `(classes, latent, latent)`: the distribution of what rows of a class are made
    of: normal, with this mean and this triangular root of its covariance.
    spread `(numbers,)`: the standard deviation of each number's score. knots `(numbers, KNOTS)`: its quantiles.
    """

    hidden: Array
    hidden_bias: Array
    made: Array
    made_bias: Array
    centres: Array
    shapes: Array
    spread: Array
    knots: Array

    def dump(self, weights: Weights) -> Blob:
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in PLAIN}
        matrices = {"hidden": (self.hidden, self.hidden_bias), "made": (self.made, self.made_bias)}
        for name, (matrix, bias) in matrices.items():
            arrays[f"{name}.bias"] = bias
            arrays[name] = matrix
            if weights == "int8":
                arrays[f"{name}.scale"] = scale = np.maximum(np.abs(matrix).max(axis=1), FLOOR) / 127
                arrays[name] = np.rint(matrix / scale[:, None])
        types = {name: weights if name in LAYERS else "<f4" for name in arrays}
        stored = {name: np.ascontiguousarray(array, dtype=types[name]) for name, array in arrays.items()}
        return Blob(DecoderFormat.name, save(stored, metadata={"weights": weights}))

    def with_knots(self, knots: Array) -> DecoderWeights:
        return replace(self, knots=knots)

    @classmethod
    def read(cls, blob: Blob, expected: Expected) -> DecoderWeights:
        """Raises Spoiled unless it is a decoder of exactly this size, whose numbers are within their limits."""
        if blob.format != DecoderFormat.name:
            raise Spoiled(f"its model has the format {blob.format[:40]!r}; expected {DecoderFormat.name}")
        if blob.size != expected.bytes:  # before anything is read
            raise Spoiled(f"its decoder has {blob.size:,} bytes; expected {expected.bytes:,}")
        weights, arrays = _read(blob.buffer)
        if weights != expected.weights:
            raise Spoiled(f"its weights are {weights}; expected {expected.weights}")
        _check_shapes(arrays, expected)
        layers = (each for name in LAYERS for each in (_floats(name, arrays), arrays[f"{name}.bias"]))
        return cls(*layers, *(arrays[name] for name in PLAIN))


class DecoderFormat(Format):
    name: ClassVar[str] = "decoder"
    inert: ClassVar[bool] = True
    predicts: ClassVar[bool] = False

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        weights, arrays = _read(data)
        if arrays.keys() < {"hidden", "made", "knots"} or any(arrays[n].ndim != 2 for n in ("hidden", "made", "knots")):
            raise Spoiled("not a decoder: expected the matrices hidden, made and knots")
        (hidden, inputs), outputs, numbers = arrays["hidden"].shape, len(arrays["made"]), len(arrays["knots"])
        if not (0 < hidden <= MOST_HIDDEN and 0 < inputs - classes <= MOST_LATENT):
            raise Spoiled(f"{hidden} hidden units of {inputs} inputs: the limits are {MOST_HIDDEN} and {MOST_LATENT}")
        if not (0 < outputs <= MOST_OUTPUTS * features and numbers <= features):
            raise Spoiled(f"{outputs} outputs and {numbers} numbers for rows of {features} features")
        _check_shapes(arrays, Expected(inputs - classes, hidden, classes, outputs, numbers, weights))

    @staticmethod
    def load(data: bytes, *, classes: int) -> NoReturn:
        raise Spoiled("a decoder makes rows; it does not predict")


plugin = DecoderFormat


def _read(data: bytes | memoryview) -> tuple[Weights, Arrays]:
    metadata, arrays = read_arrays(data)
    if metadata.keys() != {"weights"} or (weights := KNOWN.get(metadata["weights"])) is None:
        raise Spoiled(f"not a decoder: expected weights = {', '.join(KNOWN)}")
    return weights, arrays


def _check_shapes(arrays: Arrays, expected: Expected) -> None:
    """Raise Spoiled unless the arrays have the expected shapes, types and ranges. NaN is in no range."""
    if arrays.keys() != expected.shapes.keys():
        found, wanted = (", ".join(sorted(names))[:200] for names in (arrays, expected.shapes))
        raise Spoiled(f"its decoder has the arrays {found}; expected {wanted}")
    for name, shape in expected.shapes.items():
        array, dtype = arrays[name], np.dtype(expected.weights if name in LAYERS else np.float32)
        if array.shape != shape or array.dtype != dtype:
            raise Spoiled(f"its decoder's {name} is {array.dtype} {array.shape}; expected {dtype} {shape}")
        low, high = -LARGEST, LARGEST
        if name == "knots":
            low, high = -LARGEST_NUMBER, LARGEST_NUMBER
        elif name == "spread" or name.endswith(".scale"):
            low, high = 0.0, WIDEST if name == "spread" else LARGEST
        if dtype != np.int8 and not ((array >= low) & (array <= high)).all():
            raise Spoiled(f"its decoder's {name} must be from {low:g} to {high:g}")
    if (arrays["knots"][:, 1:] < arrays["knots"][:, :-1]).any():
        raise Spoiled("its decoder's knots must be in ascending order")


def _floats(name: str, arrays: Arrays) -> Array:
    """The weights of a layer as float32."""
    weights = arrays[name].astype(np.float32)
    return weights * arrays[f"{name}.scale"][:, None] if arrays[name].dtype == np.int8 else weights


@cache
def _file_size(expected: Expected) -> int:
    names = (*(name for layer in LAYERS for name in (layer, f"{layer}.bias")), *PLAIN)
    zeros = (np.zeros(expected.shapes[name], dtype=np.float32) for name in names)
    return DecoderWeights(*zeros).dump(expected.weights).size
