"""Models that are nothing but arrays, as safetensors: inert, because the arrays are poured into our own code.

A kind of array model is one entry of KINDS. Its class says what its arrays must be, and makes itself of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np

from ..core import Array, Blob
from ..errors import Spoiled
from ..protocols import Model

Arrays = Mapping[str, Array]
HEADER_BYTES = 1 << 20


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


def read_arrays(data: bytes) -> tuple[Mapping[str, str], Arrays]:
    """What a header says of the file, and its arrays. Raises Spoiled for anything that is no safetensors file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if len(data) < 8 or not 2 <= (size := struct.unpack("<Q", data[:8])[0]) <= min(HEADER_BYTES, len(data) - 8):
        raise Spoiled("not a safetensors file: the length of its header is impossible")
    try:
        arrays = load(data)  # first: it makes sure that the header is an object
        return json.loads(data[8 : 8 + size]).get("__metadata__") or {}, arrays
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise Spoiled(f"not a safetensors file: {error}") from None


def _open(data: bytes) -> tuple[type[ArrayModel], Arrays]:
    metadata, arrays = read_arrays(data)
    kind = metadata.get("kind")
    if kind not in KINDS:
        raise Spoiled(f"{str(kind)[:40]!r} is not a kind of array model: expected {', '.join(sorted(KINDS))}")
    return KINDS[kind], arrays


offers = Safetensors
