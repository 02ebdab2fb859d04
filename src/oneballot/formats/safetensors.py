"""Models that are nothing but arrays, as safetensors: inert, because the arrays are poured into our own code.

A kind of array model is one entry of KINDS. Its class says what its arrays must be, and makes itself of them.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import numpy as np

from ..errors import Spoiled
from ..interfaces import Model
from ..types import Array, Blob

Arrays = Mapping[str, Array]
HEADER_BYTES = 1 << 20
MOST_AXES = 32
NUMBERS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
"""What safetensors calls the kinds of numbers that numpy has."""


class ArrayModel(Protocol):
    @staticmethod
    def check(arrays: Arrays, *, classes: int, features: int) -> None: ...
    @classmethod
    def pour(cls, arrays: Arrays) -> Model: ...


class ConstantModel:
    """Says the same of every row: what a subset of a single class teaches. Probabilities are `(classes,)`."""

    def __init__(self, probabilities: Array) -> None:
        self.probabilities = np.asarray(probabilities, dtype=np.float64)

    def predict_proba(self, X: Array) -> Array:
        return np.tile(self.probabilities, (len(X), 1))

    def scores(self, X: Array) -> Array:
        logs: Array = np.log(np.clip(self.predict_proba(X), 1e-12, 1))
        return logs

    def dump(self) -> Blob:
        from safetensors.numpy import save

        return Blob(Safetensors.name, save({"probabilities": self.probabilities}, metadata={"kind": "constant"}))

    @staticmethod
    def check(arrays: Arrays, *, classes: int, features: int) -> None:
        if arrays.keys() != {"probabilities"}:
            raise Spoiled("a constant model has other arrays than 'probabilities'")
        values = arrays["probabilities"]
        if values.shape != (classes,) or values.dtype != np.float64:
            raise Spoiled(f"probabilities are {values.dtype} {values.shape}: expected float64 {(classes,)}")
        if not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1) > 1e-6:
            raise Spoiled("probabilities are not finite, not positive or do not add up to 1")

    @classmethod
    def pour(cls, arrays: Arrays) -> ConstantModel:
        return cls(arrays["probabilities"])


KINDS: dict[str, type[ArrayModel]] = {"constant": ConstantModel}


class Safetensors:
    name: ClassVar[str] = "safetensors"
    inert: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        kind, arrays = _open(data)
        kind.check(arrays, classes=classes, features=features)

    @staticmethod
    def load(data: bytes, *, classes: int) -> Model:
        kind, arrays = _open(data)
        return kind.pour(arrays)


def read_arrays(data: bytes | memoryview) -> tuple[Mapping[str, str], Arrays]:
    """What a header says of the file, and its arrays. Raises Spoiled for anything that is no safetensors file.

    Unlike safetensors' own reader this one does not copy: arrays lie in the data, and are not to be written to. Those
    of numbers that lie across the machine's words are the exception.
    """
    view = memoryview(data)
    if len(view) < 8 or not 2 <= (size := struct.unpack("<Q", view[:8])[0]) <= min(HEADER_BYTES, len(view) - 8):
        raise Spoiled("not a safetensors file: the length of its header is impossible")
    try:
        header = json.loads(str(view[8 : 8 + size], "utf-8"), parse_int=_whole)
        json.dumps(header, allow_nan=False, ensure_ascii=False).encode()  # Python also reads NaN, and lone surrogates
        if type(header) is not dict:
            raise ValueError("its header is no table")
        metadata = header.pop("__metadata__", None)
        metadata = {} if metadata is None else metadata
        if type(metadata) is not dict or not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError("what its header says of the file is no text")
        return metadata, _arrays(header, view[8 + size :])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Spoiled(f"not a safetensors file: {error}") from None


def _whole(digits: str) -> int | float:
    """A number without a fraction; -0 has a sign that no whole number has."""
    return -0.0 if digits == "-0" else int(digits)


def _arrays(header: Mapping[str, Any], body: memoryview) -> Arrays:
    """One after the other, without gaps, to the last byte."""
    for name, entry in header.items():
        if type(entry) is not dict or any(type(entry.get(key)) is not list for key in ("shape", "data_offsets")):
            raise ValueError(f"its header does not say where {name[:80]!r} lies, and in which shape")
    arrays, at = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape = entry["data_offsets"], tuple(entry["shape"])
        kind = np.dtype(NUMBERS[entry["dtype"]])
        if len(shape) > MOST_AXES or any(type(n) is not int or not 0 <= n < 2**63 for n in (start, stop, *shape)):
            raise ValueError(f"the shape of {name[:80]!r} is impossible")
        if start != at or stop > len(body) or math.prod(shape) * kind.itemsize != stop - start:
            raise ValueError(f"the place of {name[:80]!r} is not that of its shape")
        arrays[name] = np.require(np.frombuffer(body[start:stop], kind).reshape(shape), requirements="A")
        at = stop
    if at != len(body):
        raise ValueError("it holds bytes that belong to no array")
    return arrays


def _open(data: bytes) -> tuple[type[ArrayModel], Arrays]:
    metadata, arrays = read_arrays(data)
    kind = metadata.get("kind")
    if kind not in KINDS:
        raise Spoiled(f"{str(kind)[:40]!r} is not a kind of array model: expected {', '.join(sorted(KINDS))}")
    return KINDS[kind], arrays


plugin = Safetensors
