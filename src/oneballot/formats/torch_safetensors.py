"""Networks of the built-in architectures, as safetensors: arrays that are poured into our own modules.

The header names the architecture and its settings; both are checked, and every array must have the name, shape and type
that such a network has. Small files can name networks that take hours and gigabytes to answer, so a stranger's is asked
in the room. A network of a user's own module cannot travel: nobody else could build it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..errors import DataError, ElectionError, MissingExtra, Spoiled
from ..types import Array, Blob
from .safetensors import read_arrays

if TYPE_CHECKING:
    from torch import nn

    from ..fleet.models.inputs import Takes

LARGEST = 1e12
"""Of a number in a network: sums of products with ordinary rows stay finite."""
ROWS_AT_ONCE, NUMBERS_AT_ONCE = 512, 1 << 24
"""In a block of rows that are asked together: so many numbers at the widest place of the network."""
MOST_PIXELS = 224 * 224 * 3


@dataclass(frozen=True)
class Description:
    """shape: of a row as the network sees it. output: "softmax", or "sigmoid" of a network for many labels a row."""

    architecture: str
    settings: Mapping[str, Any]
    shape: tuple[int, ...]
    classes: int
    output: str = "softmax"

    def write(self) -> str:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


class TorchModel:
    """A trained network. Its module is built when it is first asked. device: where it answers."""

    def __init__(self, description: Description, arrays: Mapping[str, Array], device: str = "cpu") -> None:
        self.description, self.arrays, self.device = description, arrays, device

    @cached_property
    def module(self) -> nn.Module:
        from ..fleet.models.architectures import build
        from ..fleet.models.network import pour

        about = self.description
        module = build(about.architecture, about.settings, about.shape, about.classes)
        pour(self.arrays, module)
        return module.eval()

    @property
    def takes(self) -> Takes:
        from ..fleet.models.architectures import ARCHITECTURES

        return ARCHITECTURES[self.description.architecture].takes

    def at_once(self) -> int:
        """How many rows are asked together."""
        from ..fleet.models.architectures import widest

        about = self.description
        return max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // widest(about.architecture, about.settings, about.shape)))

    def scores(self, X: Array) -> Array:
        """The logits."""
        import torch

        from ..fleet.models.inputs import as_tensor, check_tokens, scaled
        from ..fleet.train.devices import find_device

        about, size = self.description, self.at_once()
        if X.size != len(X) * math.prod(about.shape):
            raise DataError(f"rows of shape {X.shape[1:]}: the network was trained on rows of shape {about.shape}")
        if "vocabulary" in about.settings:
            check_tokens(X, about.settings["vocabulary"])
        place = find_device(self.device)
        rows = as_tensor(X.reshape(len(X), *about.shape), place, self.takes)
        module, out = self.module.to(place), np.empty((len(X), about.classes))
        with torch.no_grad():
            for i in range(0, len(X), size):
                part = slice(i, i + size)
                out[part] = module(scaled(rows[part].clone(), torch.float32)).cpu().numpy()  # which it may write over
        return out

    def predict_proba(self, X: Array) -> Array:
        return probabilities(self.scores(X), self.description.output)

    def dump(self) -> Blob:
        from safetensors.numpy import save

        arrays = {key: np.ascontiguousarray(value) for key, value in self.arrays.items()}
        return Blob(TorchSafetensors.name, save(arrays, metadata={"network": self.description.write()}))


def probabilities(logits: Array, output: str) -> Array:
    out = logits.astype(np.float64)
    if output == "sigmoid":
        return np.asarray(0.5 * (1 + np.tanh(out / 2)))
    out -= np.ascontiguousarray(logits.T).max(axis=0)[:, None]  # long columns: faster than short rows
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return np.asarray(out)


class TorchSafetensors:
    name: ClassVar[str] = "torch-safetensors"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ("torch",)

    @staticmethod
    def prepare() -> Any:
        try:
            import torch

            from ..fleet.models import network  # noqa: F401
        except ImportError:
            raise MissingExtra("Training or loading networks", "torch") from None
        return torch

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        TorchSafetensors.prepare()
        from ..fleet.models.architectures import expected

        about, arrays = read_network(data)
        if about.classes != classes:
            raise Spoiled(f"the network is for {about.classes} classes: expected {classes}")
        if math.prod(about.shape) != features or features > MOST_PIXELS:
            raise Spoiled(f"the network is for rows of shape {about.shape}: expected {features} numbers")
        wanted = expected(about.architecture, about.settings, about.shape, about.classes)
        if arrays.keys() != wanted.keys():
            odd = sorted(arrays.keys() ^ wanted.keys())
            raise Spoiled(f"the arrays of a {about.architecture} are others than these: {', '.join(odd)[:200]}")
        for key, shape in wanted.items():
            value = arrays[key]
            if value.dtype != np.float32 or value.shape != shape:
                raise Spoiled(f"{key} is {value.dtype} {value.shape}: expected float32 {shape}")
            if not (np.abs(value) <= LARGEST).all():  # NaN is not either
                raise Spoiled(f"{key} has a number that is NaN or beyond {LARGEST:g}")
            if key.endswith("running_var") and (value < 0).any():
                raise Spoiled(f"{key} has a variance below 0")

    @staticmethod
    def load(data: bytes, *, classes: int) -> TorchModel:
        TorchSafetensors.prepare()
        return TorchModel(*read_network(data))


def read_network(data: bytes) -> tuple[Description, Mapping[str, Array]]:
    """What the header describes, and the arrays. Raises Spoiled for anything else."""
    metadata, arrays = read_arrays(data)
    try:
        return _describe(json.loads(metadata["network"])), arrays
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Spoiled(f"not a network as safetensors: {type(error).__name__} {error}") from None


def _describe(about: Any) -> Description:
    """What the header says, in types and bounds that can be."""
    from ..fleet.models.architectures import check_settings, shape_of

    if not isinstance(about, dict) or about.keys() != Description.__dataclass_fields__.keys():
        raise Spoiled("the header does not describe a network: architecture, settings, shape, classes and output")
    shape, name = about["shape"], about["architecture"]
    good = isinstance(shape, list) and 1 <= len(shape) <= 3 and all(type(n) is int and n > 0 for n in shape)
    if not good or type(about["classes"]) is not int or not isinstance(name, str):
        raise Spoiled("the header does not describe a network: a name, a shape of whole numbers, and how many classes")
    if about["output"] not in ("softmax", "sigmoid"):
        raise Spoiled("the header does not describe a network: output is neither softmax nor sigmoid")
    try:
        settings = check_settings(name, about["settings"])
        if shape_of(name, {"shape": shape, **settings}, tuple(shape)) != tuple(shape):
            raise ElectionError(f"{name}: rows of shape {tuple(shape)}")
    except ElectionError as error:
        raise Spoiled(f"no such network: {error}") from None
    return Description(name, settings, tuple(shape), about["classes"], about["output"])


plugin = TorchSafetensors
