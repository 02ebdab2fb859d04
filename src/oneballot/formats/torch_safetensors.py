"""Networks of the built-in architectures as safetensors: weights for our own modules.

The header names the architecture and its settings. `check` validates both, and every array must have the name, shape
and type that the network has. A small file can name a network that takes hours and gigabytes to evaluate, so untrusted
ones run in the sandbox. A network of a custom module cannot be written, because other programs cannot build it.
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
from ..interfaces import Format, Model
from ..types import Array, Blob
from .safetensors import read_arrays

if TYPE_CHECKING:
    from torch import nn

    from ..fleet.models.inputs import Takes

LARGEST = 1e12
"""The largest weight: sums of products with ordinary rows stay finite."""
ROWS_AT_ONCE, NUMBERS_AT_ONCE = 512, 1 << 24
"""The most rows in a batch, and the most activations in the network's widest layer for a batch."""
MAX_FEATURES = 224 * 224 * 3


@dataclass(frozen=True)
class Description:
    """shape: that of a row as the network sees it. output: "softmax", or "sigmoid" for multi-label networks."""

    architecture: str
    settings: Mapping[str, Any]
    shape: tuple[int, ...]
    classes: int
    output: str = "softmax"


class TorchModel(Model):
    """A trained network, whose module is built at the first prediction. device: where it predicts."""

    def __init__(self, description: Description, arrays: Mapping[str, Array], device: str = "cpu") -> None:
        self.description, self.arrays, self.device = description, arrays, device

    def __getstate__(self) -> dict[str, Any]:
        """A copy predicts on any machine."""
        if self.device != "cpu" and "module" in vars(self):
            self.module.to("cpu")
        return {**vars(self), "device": "cpu"}

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
        """Return the number of rows in a batch."""
        from ..fleet.models.architectures import widest

        about = self.description
        return max(1, min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // widest(about.architecture, about.settings, about.shape)))

    def scores(self, X: Array) -> Array:
        """Return the logits."""
        import torch

        from ..fleet.models.inputs import as_tensor, check_tokens, scaled
        from ..fleet.train.devices import find_device

        about, size = self.description, self.at_once()
        if X.size != len(X) * math.prod(about.shape):
            raise DataError(f"rows of shape {X.shape[1:]}; the network was trained on rows of shape {about.shape}")
        if "vocabulary" in about.settings:
            check_tokens(X, about.settings["vocabulary"])
        place = find_device(self.device)
        rows = as_tensor(X.reshape(len(X), *about.shape), place, self.takes)
        module, out = self.module.to(place), np.empty((len(X), about.classes))
        with torch.no_grad():
            for i in range(0, len(X), size):
                batch = rows[i : i + size].clone()  # the module may change its input
                out[i : i + size] = module(scaled(batch, torch.float32)).cpu().numpy()
        return out

    def predict_proba(self, X: Array) -> Array:
        return probabilities(self.scores(X), self.description.output)

    def dump(self) -> Blob:
        from safetensors.numpy import save

        arrays = {key: np.ascontiguousarray(value) for key, value in self.arrays.items()}
        description = json.dumps(asdict(self.description), sort_keys=True, separators=(",", ":"))
        return Blob(TorchSafetensors.name, save(arrays, metadata={"network": description}))


def probabilities(logits: Array, output: str) -> Array:
    out = logits.astype(np.float64)
    if output == "sigmoid":
        return np.asarray(0.5 * (1 + np.tanh(out / 2)))
    out -= np.ascontiguousarray(logits.T).max(axis=0)[:, None]  # reducing long columns is faster than short rows
    np.exp(out, out=out)
    out /= out.sum(axis=1, keepdims=True)
    return np.asarray(out)


class TorchSafetensors(Format):
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
            raise Spoiled(f"the network is for {about.classes} classes; expected {classes}")
        if math.prod(about.shape) != features or features > MAX_FEATURES:
            raise Spoiled(f"the network is for rows of shape {about.shape}; expected {features} numbers")
        wanted = expected(about.architecture, about.settings, about.shape, about.classes)
        if arrays.keys() != wanted.keys():
            odd = ", ".join(sorted(arrays.keys() ^ wanted.keys()))[:200]
            raise Spoiled(f"missing or unexpected arrays in a {about.architecture}: {odd}")
        for key, shape in wanted.items():
            value = arrays[key]
            if value.dtype != np.float32 or value.shape != shape:
                raise Spoiled(f"{key} is {value.dtype} {value.shape}; expected float32 {shape}")
            if not (np.abs(value) <= LARGEST).all():  # false for NaN
                raise Spoiled(f"{key} has a number that is NaN or beyond {LARGEST:g}")
            if key.endswith("running_var") and (value < 0).any():
                raise Spoiled(f"{key} has a negative variance")

    @staticmethod
    def load(data: bytes, *, classes: int) -> TorchModel:
        TorchSafetensors.prepare()
        return TorchModel(*read_network(data))

    @classmethod
    def open(cls, data: bytes) -> nn.Module:
        model = cls.load(data, classes=0)
        shape = model.description.shape
        model.module.register_forward_pre_hook(lambda _, rows: (rows[0].reshape(len(rows[0]), *shape),))
        return model.module


def read_network(data: bytes) -> tuple[Description, Mapping[str, Array]]:
    """Return the description in the header, and the arrays. Raises Spoiled if either is invalid."""
    metadata, arrays = read_arrays(data)
    try:
        return _describe(json.loads(metadata["network"])), arrays
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Spoiled(f"not a network: {type(error).__name__} {error}") from None


def _describe(about: Any) -> Description:
    """Check the types and bounds in a header."""
    from ..fleet.models.architectures import check_classes, check_settings, shape_of

    if not isinstance(about, dict) or about.keys() != Description.__dataclass_fields__.keys():
        raise Spoiled("the header does not describe a network: architecture, settings, shape, classes and output")
    shape, name = about["shape"], about["architecture"]
    valid = isinstance(shape, list) and 1 <= len(shape) <= 3 and all(type(n) is int and n > 0 for n in shape)
    if not valid or type(about["classes"]) is not int or not isinstance(name, str):
        raise Spoiled("the header does not describe a network: a name, a shape of integers and the number of classes")
    if about["output"] not in ("softmax", "sigmoid"):
        raise Spoiled("the header does not describe a network: output is neither softmax nor sigmoid")
    try:
        settings = check_settings(name, about["settings"])
        if shape_of(name, {"shape": shape, **settings}, tuple(shape)) != tuple(shape):
            raise ElectionError(f"{name}: rows of shape {tuple(shape)}")
        check_classes(name, settings, about["classes"])
    except ElectionError as error:
        raise Spoiled(f"no such network: {error}") from None
    return Description(name, settings, tuple(shape), about["classes"], about["output"])


plugin = TorchSafetensors
