"""Reads arrays from safetensors files, and the format of the constant model: inert, as only our own code sees arrays.

The reader is our own, because it validates the whole header of an untrusted file before any library sees it and then
returns views instead of copies. The upstream reader may crash on hostile files or allocate memory by their sizes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import Spoiled
from ..interfaces import Format, Model
from ..types import Array, Blob

if TYPE_CHECKING:
    from torch import nn

Arrays = Mapping[str, Array]
HEADER_BYTES = 1 << 20
MAX_AXES = 32
NUMBERS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8",
}  # fmt: skip
"""The types of safetensors that numpy has."""


class ConstantModel(Model):
    """Predicts the same probabilities `(classes,)` for every row: what a subset of a single class teaches."""

    def __init__(self, probabilities: Array) -> None:
        self.probabilities = np.asarray(probabilities, dtype=np.float64)

    def predict_proba(self, X: Array) -> Array:
        return np.tile(self.probabilities, (len(X), 1))

    def scores(self, X: Array) -> Array:
        return np.asarray(np.log(np.clip(self.predict_proba(X), 1e-12, 1)))

    def dump(self) -> Blob:
        from safetensors.numpy import save

        return Blob(Safetensors.name, save({"probabilities": self.probabilities}, metadata={"kind": "constant"}))


class Safetensors(Format):
    name: ClassVar[str] = "safetensors"
    inert: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ()
    sparse: ClassVar[bool] = True

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        metadata, arrays = read_arrays(data)
        if metadata.get("kind") != "constant" or arrays.keys() != {"probabilities"}:
            raise Spoiled("not a constant model; expected kind = constant and one array, probabilities")
        values = arrays["probabilities"]
        if values.shape != (classes,) or values.dtype != np.float64:
            raise Spoiled(f"probabilities are {values.dtype} {values.shape}; expected float64 {(classes,)}")
        if not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1) > 1e-6:
            raise Spoiled("probabilities are negative, not finite or do not sum to 1")

    @staticmethod
    def load(data: bytes, *, classes: int) -> ConstantModel:
        return ConstantModel(read_arrays(data)[1]["probabilities"])

    @classmethod
    def open(cls, data: bytes) -> nn.Module:
        """A module that returns the same logits for every row."""
        import torch
        from torch import nn

        logits = torch.from_numpy(cls.load(data, classes=0).scores(np.zeros((1, 1))).astype(np.float32))

        class Constant(nn.Module):
            def forward(self, rows: torch.Tensor) -> torch.Tensor:
                return logits.to(rows.device) + 0 * rows.flatten(1).sum(dim=1, keepdim=True)

        return Constant()


def read_arrays(data: bytes | memoryview) -> tuple[Mapping[str, str], Arrays]:
    """Return the header's metadata and the arrays. Raises Spoiled if the data is not a valid safetensors file.

    Arrays are read-only views of the data; only unaligned ones are copied.
    """
    view = memoryview(data)
    if len(view) < 8 or not 2 <= (size := struct.unpack("<Q", view[:8])[0]) <= min(HEADER_BYTES, len(view) - 8):
        raise Spoiled("not a safetensors file: impossible header length")
    try:
        header = json.loads(str(view[8 : 8 + size], "utf-8"), parse_int=_parse_int)
        json.dumps(header, allow_nan=False, ensure_ascii=False).encode()  # rejects NaN and lone surrogates
        if type(header) is not dict:
            raise ValueError("the header is not an object")
        metadata = header.pop("__metadata__", None)
        metadata = {} if metadata is None else metadata
        if type(metadata) is not dict or not all(isinstance(text, str) for text in metadata.values()):
            raise ValueError("the metadata is not text")
        return metadata, _views(header, view[8 + size :])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Spoiled(f"not a safetensors file: {error}") from None


def _parse_int(digits: str) -> int | float:
    """Parse an integer; -0 is a float, as no array has a negative size."""
    return -0.0 if digits == "-0" else int(digits)


def _views(header: Mapping[str, Any], body: memoryview) -> Arrays:
    """Return the arrays, which must fill the body in order and without gaps."""
    for name, entry in header.items():
        if type(entry) is not dict or any(type(entry.get(key)) is not list for key in ("shape", "data_offsets")):
            raise ValueError(f"the header does not give the shape and offsets of {name[:80]!r}")
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        (start, stop), shape = entry["data_offsets"], tuple(entry["shape"])
        dtype = np.dtype(NUMBERS[entry["dtype"]])
        if len(shape) > MAX_AXES or any(type(n) is not int or not 0 <= n < 2**63 for n in (start, stop, *shape)):
            raise ValueError(f"the shape of {name[:80]!r} is impossible")
        if start != end or stop > len(body) or math.prod(shape) * dtype.itemsize != stop - start:
            raise ValueError(f"the offsets of {name[:80]!r} do not match its shape")
        arrays[name] = np.require(np.frombuffer(body[start:stop], dtype).reshape(shape), requirements="A")
        end = stop
    if end != len(body):
        raise ValueError("some bytes belong to no array")
    return arrays


plugin = Safetensors
