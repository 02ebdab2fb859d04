"""Arrays of a DOSFL ballot: distilled inputs in fewer bytes, and the digest of the initial weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from ...errors import Spoiled
from ...types import Array, Ballot, Contents


def digest(weights: Mapping[str, Array]) -> bytes:
    """SHA-256 of the weights' names, shapes and float32 values, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        value = np.ascontiguousarray(weights[name], dtype="<f4")
        sha.update(f"{name} {value.shape} ".encode() + value.tobytes())
    return sha.digest()


def write_inputs(inputs: Array, numbers: str) -> dict[str, Array]:
    """Encode inputs `(steps, …)`. uint8: 256 levels between each step's lowest and highest value, which are "ends"."""
    if numbers != "uint8":
        return {"inputs": inputs.astype(numbers)}
    flat = inputs.reshape(len(inputs), -1)
    ends = np.stack([flat.min(1), flat.max(1)], 1).astype(np.float32)
    unit = np.maximum(ends[:, 1:] - ends[:, :1], np.float32(1e-12)) / np.float32(255)
    levels = np.clip(np.rint((flat - ends[:, :1]) / unit), 0, 255).astype(np.uint8)
    return {"inputs": levels.reshape(inputs.shape), "ends": ends}


def read_inputs(contents: Ballot | Contents, shape: tuple[int, ...], numbers: str) -> Array:
    """Decode inputs to float32. Raise Spoiled if they have another shape or type, or if "ends" are not in order."""
    if not isinstance(contents, Ballot):
        contents = Ballot("", contents, "", None, b"")
    inputs = contents.array("inputs", numbers, shape)
    if numbers != "uint8":
        return np.asarray(inputs.astype(np.float32))
    ends = contents.array("ends", np.float32, (shape[0], 2))
    if not (np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()):
        raise Spoiled("its 'ends' must be finite, and the lowest input of a step not above the highest")
    low, high = (ends[:, i].reshape(-1, *[1] * (len(shape) - 1)) for i in (0, 1))
    return np.asarray(low + (high - low) * (inputs.astype(np.float32) / np.float32(255)))
